//! The options in URLs of MySQL and MariaDB.

use uidring_store::options::{
    AUTHORITY, Alias, CERTIFICATE, CLUSTER, CONNECT_TIMEOUT, DEADLINE, DURABILITY, KEY, Kind,
    MAX_CLOCK_DIFFERENCE, Owner, Row, TLS,
};

pub static SOCKET: Row = Row::new(
    "socket",
    Kind::Path,
    "The Unix socket of a server on this machine, instead of host and port",
)
.aliases(&[Alias::same("unix_socket")]);

pub static CLEARTEXT: Row = Row::new(
    "cleartext-password",
    Kind::Words(&["no", "yes"]),
    "`yes` sends the password in the clear if the server asks for that, as with PAM and LDAP; needs TLS or a socket",
)
.default("no")
.aliases(&[Alias { name: "enable_cleartext_plugin", read: |value| match value {
    "true" => Ok("yes".into()),
    "false" => Ok("no".into()),
    _ => Err("write true or false"),
} }]);

pub static OWNER: Owner = Owner {
    name: "MySQL",
    rows: &[
        &TLS,
        &AUTHORITY,
        &CERTIFICATE,
        &KEY,
        &SOCKET,
        &CLEARTEXT,
        &CONNECT_TIMEOUT,
        &DEADLINE,
        &DURABILITY,
        &CLUSTER,
        &MAX_CLOCK_DIFFERENCE,
    ],
    harmless: &[
        "charset",
        "checkout_timeout",
        "client_found_rows",
        "collation",
        "conn_max_age",
        "connection_limit",
        "encoding",
        "max_allowed_packet",
        "parseTime",
        "pool",
        "pool_max",
        "pool_min",
        "pool_timeout",
        "reconnect",
        "serverTimezone",
        "statement-cache-capacity",
        "stmt_cache_size",
        "tcp_keepalive",
        "tcp_nodelay",
        "timezone",
        "wait_timeout",
    ],
    refused: &[
        ("init_command", "it would change what transactions rely on"),
        ("sslidentity", "name the certificate with `cert`, and its key with `key`"),
        ("password", "write it before the host: mysql://USER:PASSWORD@HOST/DATABASE"),
        ("user", "write it before the host: mysql://USER:PASSWORD@HOST/DATABASE"),
        ("verify_ca", "write tls=verify, or tls=unverified to accept any certificate"),
        ("verify_identity", "the host's name in the certificate is always checked with tls=verify"),
    ],
};
