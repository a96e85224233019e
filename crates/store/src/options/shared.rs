//! Options of several engines.

use std::time::Duration;

use super::{Alias, Kind, Row};

/// How long an operation may take.
pub static DEADLINE: Row = Row::new(
    "deadline",
    Kind::Time(Duration::from_secs(1)..=Duration::from_secs(3_600)),
    "How long an operation may take with all its attempts",
)
.default("10s");

/// How long an attempt to connect may take.
pub static CONNECT_TIMEOUT: Row = Row::new(
    "connect-timeout",
    Kind::Time(Duration::from_millis(100)..=Duration::from_secs(3_600)),
    "How long one attempt to connect may take, with name look-up and login",
)
.default("5s")
.aliases(&[Alias::same("connect_timeout")]);

/// How far the clocks of server and host may differ at a start.
pub static MAX_CLOCK_DIFFERENCE: Row = Row::new(
    "max-clock-difference",
    Kind::Time(Duration::ZERO..=Duration::from_secs(86_400)),
    "Refuses to start with a disposable worker id if this host's clock and the server's differ by more than this",
)
.default("they are not compared");

/// Whether connections have TLS.
pub static TLS: Row = Row::new(
    "tls",
    Kind::Words(&["off", "verify", "unverified"]),
    "`verify`: TLS, with a certificate that names the host and is signed by a trusted authority. `off`: none. \
     `unverified`, which only MySQL accepts: TLS with any certificate, which does not protect against a server in the \
     middle",
)
.default("`verify` with `ca` or `cert`; otherwise off, and an error if there is a password for another machine")
.aliases(&[
    Alias { name: "sslmode", read: by_mode },
    Alias { name: "ssl-mode", read: by_mode },
    Alias { name: "ssl_mode", read: by_mode },
    Alias { name: "ssl", read: by_mode },
    Alias { name: "require_ssl", read: by_mode },
    Alias {
        name: "sslaccept",
        read: |value| match value {
            "strict" => Ok("verify".into()),
            "accept_invalid_certs" => Ok("unverified".into()),
            _ => Err("write tls=verify or tls=unverified"),
        },
    },
]);

/// Who signs the servers' certificates.
pub static AUTHORITY: Row = Row::new(
    "ca",
    Kind::Path,
    "Requires TLS, with a certificate that is signed by an authority in this PEM file",
)
.default("public authorities: those that the system trusts or a built-in list, as the engine's page says")
.aliases(&[Alias::same("sslrootcert"), Alias::same("ssl-ca"), Alias::same("ssl_ca")]);

/// The client's certificate.
pub static CERTIFICATE: Row = Row::new(
    "cert",
    Kind::Path,
    "Requires TLS, and shows the server the certificate in this PEM file; needs `key`",
)
.aliases(&[Alias::same("sslcert"), Alias::same("ssl-cert"), Alias::same("ssl_cert")]);

/// The private key of [`CERTIFICATE`].
pub static KEY: Row =
    Row::new("key", Kind::Path, "The private key of `cert`, a PEM file that others may not read")
        .aliases(&[Alias::same("sslkey"), Alias::same("ssl-key"), Alias::same("ssl_key")]);

/// Whether to refuse servers that may lose commits.
pub static DURABILITY: Row = Row::new(
    "durability",
    Kind::Words(&["warn", "require"]),
    "What to do with a server that may lose confirmed commits when its machine crashes: a warning in the log, or \
     `require` to refuse it",
)
.default("warn");

/// Whether every server that answers has all commits.
pub static CLUSTER: Row = Row::new(
    "cluster",
    Kind::Words(&["no", "synchronous"]),
    "`synchronous`: each server that may answer has every commit that another one has confirmed, so a change of the \
     server loses nothing",
)
.default("no");

/// Translates the values of `sslmode` in PostgreSQL's clients, and of similar options in MySQL's.
fn by_mode(mode: &str) -> Result<String, &'static str> {
    match &*mode.to_ascii_lowercase().replace('_', "-") {
        "disable" | "disabled" | "false" => Ok("off".into()),
        "require" | "required" | "true" | "verify-ca" | "verify-full" | "verify-identity" => {
            Ok("verify".into())
        }
        "allow" | "prefer" | "preferred" => Err(
            "with that value a server in the middle can turn TLS off: write tls=verify or tls=off",
        ),
        _ => Err("write tls=verify or tls=off"),
    }
}
