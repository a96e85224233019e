//! The environment variable with the URL, and those that it replaces.

use std::env;

use uidring::Error;

use crate::engines::FORM;

/// The environment variable with the URL.
pub const VARIABLE: &str = "UIDRING_URL";

/// Variables that named a store or worker id before `UIDRING_URL`.
const REPLACED: [(&str, &str); 6] = [
    ("UIDRING_MYSQL_URL", "set UIDRING_URL to the same URL"),
    ("UIDRING_POSTGRES_URL", "set UIDRING_URL to the same URL"),
    ("UIDRING_ETCD", "set UIDRING_URL to etcd://HOST:PORT,HOST:PORT/PREFIX"),
    (
        "UIDRING_ETCD_AUTH",
        "write the user and the password into the URL: etcd://USER:PASSWORD@HOST",
    ),
    (
        "UIDRING_ZOOKEEPER_AUTH",
        "write the user and the password into the URL: zookeeper://USER:PASSWORD@HOST?name=NAME",
    ),
    ("UIDRING_WORKER_ID", "set UIDRING_URL to worker:N"),
];

pub fn url() -> Result<Option<String>, Error> {
    let is_set = |name: &str| env::var_os(name).is_some();
    if let Some((name, advice)) = REPLACED.iter().find(|(name, _)| is_set(name)) {
        return Err(wrong(format!("{name} is not read any more; {advice}")));
    }
    let Some(url) = env::var_os(VARIABLE) else { return Ok(None) };
    let not_utf8 = |_| wrong(format!("{VARIABLE} is not UTF-8; set it to {FORM}"));
    url.into_string().map_err(not_utf8).map(Some)
}

/// Returns the error if [`VARIABLE`] is not set.
pub fn not_set() -> Error {
    wrong(format!("{VARIABLE} is not set; set it to {FORM}"))
}

fn wrong(problem: String) -> Error {
    Error::Environment { problem: format!("the environment variable {problem}") }
}
