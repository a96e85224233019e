//! The options in URLs of PostgreSQL.

use std::net::IpAddr;

use uidring_store::options::{
    AUTHORITY, Alias, CERTIFICATE, CLUSTER, CONNECT_TIMEOUT, DEADLINE, DURABILITY, Given, KEY,
    Kind, MAX_CLOCK_DIFFERENCE, Owner, Row, TLS,
};
use uidring_store::url::{Url, check_host};

static HOST: Row = Row::new(
    "host",
    Kind::Text,
    "The folder of a Unix socket, or hosts separated by commas, instead of those before the database",
);

static PORT: Row =
    Row::new("port", Kind::Number(1..=65_535), "The port of these hosts").default("5432");

static ADDRESS: Row = Row::new(
    "hostaddr",
    Kind::Text,
    "The IP address to connect to, so that the name is not looked up. Certificates must still name the host",
);

pub static CHANNEL_BINDING: Row = Row::new(
    "channel-binding",
    Kind::Words(&["disable", "prefer", "require"]),
    "Whether the login is bound to the TLS connection",
)
.default("prefer")
.aliases(&[Alias::same("channel_binding")]);

static ATTRIBUTES: Row = Row::new(
    "target_session_attrs",
    Kind::Words(&["read-write", "primary", "any"]),
    "Has no effect: connections always go to a server that accepts writes",
);

const BEFORE_THE_HOST: &str = "write it before the host: postgres://USER:PASSWORD@HOST/DATABASE";

const OTHER_TABLES: &str =
    "with other tables worker ids would begin at 1 again; use a database of its own";

pub static OWNER: Owner = Owner {
    name: "PostgreSQL",
    rows: &[
        &TLS,
        &AUTHORITY,
        &CERTIFICATE,
        &KEY,
        &CHANNEL_BINDING,
        &HOST,
        &PORT,
        &ADDRESS,
        &ATTRIBUTES,
        &CONNECT_TIMEOUT,
        &DEADLINE,
        &DURABILITY,
        &CLUSTER,
        &MAX_CLOCK_DIFFERENCE,
    ],
    harmless: &[
        "application_name",
        "charset",
        "checkout_timeout",
        "client_encoding",
        "conn_max_age",
        "connection_limit",
        "encoding",
        "fallback_application_name",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "keepalives_retries",
        "pgbouncer",
        "pool",
        "pool_max_conns",
        "pool_min_conns",
        "pool_timeout",
        "prepared_statements",
        "statement-cache-capacity",
        "statement_cache_size",
        "tcp_user_timeout",
    ],
    refused: &[
        ("currentSchema", OTHER_TABLES),
        ("dbname", "write it after the host: postgres://USER:PASSWORD@HOST/DATABASE"),
        (
            "options",
            "it would change what transactions rely on; set it for the user: ALTER ROLE … SET …",
        ),
        ("passfile", "write the password into the URL, and the URL into a file"),
        ("password", BEFORE_THE_HOST),
        ("schema", OTHER_TABLES),
        ("schema_search_path", OTHER_TABLES),
        ("search_path", OTHER_TABLES),
        ("service", "write host, user and database into the URL"),
        ("sslidentity", "name the certificate with `cert`, and its key with `key`"),
        (
            "sslcrl",
            "lists of revoked certificates are not read; replace the authority of `ca` instead",
        ),
        ("user", BEFORE_THE_HOST),
    ],
};

/// A server, or the folder of a Unix socket.
pub struct HostAddress {
    pub name: String,
    pub port: u16,
    /// Used instead of looking up the name.
    pub address: Option<IpAddr>,
}

/// Returns the servers that a URL names. As in libpq, hosts in the options replace those before the database.
pub fn hosts(url: &Url, given: &Given) -> Result<Vec<HostAddress>, String> {
    let port = given.number(&PORT).and_then(|port| u16::try_from(port).ok());
    let mut hosts: Vec<_> = match given.text(&HOST) {
        Some(names) => names.split(',').map(|name| (name.to_owned(), None)).collect(),
        None => url.hosts.iter().map(|host| (host.name.clone(), host.port)).collect(),
    };
    let address = given.text(&ADDRESS).map(|text| {
        text.parse()
            .map_err(|_| "the value of `hostaddr` is no address: write one, such as 10.0.0.7")
    });
    let address = address.transpose()?;
    if address.is_some() && hosts.is_empty() {
        hosts.push((given.text(&ADDRESS).unwrap_or_default().into(), None));
    }
    match hosts.len() {
        0 => return Err("it names no host".into()),
        2.. if address.is_some() => {
            return Err("`hostaddr` is for one host, and it names several".into());
        }
        _ => {}
    }
    hosts.iter().try_for_each(|(name, _)| check_host(name))?;
    let host = |(name, own)| HostAddress { name, port: port.or(own).unwrap_or(5_432), address };
    Ok(hosts.into_iter().map(host).collect())
}
