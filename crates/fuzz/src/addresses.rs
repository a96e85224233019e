//! Addresses of servers: URLs, endpoints, hosts. `PW` in an input stands for a secret. No error may show it, except as
//! the name of a file. A value may not show it where it is a password.

use std::error::Error;
use std::fmt::{Debug, Display};
use std::path::Path;

use uidring::adapter::on_one_line;
use uidring_etcd::EtcdStore;
use uidring_mysql::MySqlStore;
use uidring_postgres::PostgresStore;
use uidring_store::TableError;
use uidring_zookeeper::{Instance, LeafZooKeeper, ZooKeeperServers};

/// With a digit: errors name URL parameters, and those have none.
const SECRET: &str = "s3cretpw";

/// A URL of any engine, with generator options.
pub fn url(bytes: &[u8]) {
    is_silent(bytes, |url| {
        let options = uidring_any::Options::from_url(url)?;
        // A fixed worker id has no store.
        Ok(options.store().map(|store| store.to_string()).unwrap_or_default())
    });
}

pub fn mysql(bytes: &[u8]) {
    is_silent(bytes, MySqlStore::from_url);
}

pub fn postgres(bytes: &[u8]) {
    is_silent(bytes, PostgresStore::from_url);
}

pub fn etcd(bytes: &[u8]) {
    is_silent(bytes, EtcdStore::from_url);
    let Some(store) = is_silent(bytes, EtcdStore::new) else { return };
    let (hosts, prefix) = store.rsplit_once(' ').expect("a prefix");
    assert_eq!(prefix, "/uidring/");
    let hosts = hosts.split(',').map(|host| host.trim_start_matches("https://"));
    hosts.for_each(check_host);
    // The displayed text names the same servers.
    let again = EtcdStore::new(store.split(' ').next().unwrap_or_default());
    assert_eq!(again.expect("its own text").to_string(), store);
}

pub fn zookeeper(bytes: &[u8]) {
    let instance = || Instance::new("web_0").expect("a name");
    is_silent(bytes, |url| Ok(format!("{:?}", LeafZooKeeper::from_url(url, instance())?)));
    let Some(shown) = is_silent(bytes, ZooKeeperServers::new) else { return };
    assert!(
        !shown.chars().any(|letter| letter.is_whitespace() || letter.is_control()),
        "{shown:?}"
    );
    let hosts = shown.split('/').next().unwrap_or_default();
    hosts.split(',').for_each(check_host);
}

/// `HOST` or `HOST:PORT`.
fn check_host(text: &str) {
    let host = text.rfind(']').map_or(text, |end| &text[end..]);
    if let Some((_, port)) = host.rsplit_once(':') {
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        let in_range = port.parse::<u16>().is_ok_and(|port| port > 0);
        assert!(is_number && in_range, "the port of {text:?}");
    }
    assert!(!text.is_empty() && !text.starts_with(':') && !text.contains('@'), "{text:?}");
}

/// Reads a text, and returns what is displayed of the result.
fn is_silent<T: Debug + Display>(
    bytes: &[u8],
    read: impl Fn(&str) -> Result<T, uidring::Error>,
) -> Option<String> {
    let text = str::from_utf8(bytes).ok()?.replace("PW", SECRET);
    match read(&text) {
        Ok(found) => {
            let shown = found.to_string();
            if has_password(&text) {
                let all = format!("{shown} {found:?}");
                assert!(!all.contains(SECRET), "{text:?} is shown as {all}");
            }
            Some(shown)
        }
        Err(error) => {
            let mut all = format!("{error} {error:?}");
            let mut cause = error.source();
            while let Some(error) = cause {
                all.push_str(&format!(" {error} {error:?}"));
                cause = error.source();
            }
            if let Some(file) = file_of(&error) {
                let name = file.display().to_string();
                // In the forms that errors use: quoted, readable, unchanged.
                for text in [format!("{file:?}"), on_one_line(&name), name] {
                    all = all.replace(&text, "");
                }
            }
            assert!(!all.contains(SECRET), "{text:?}: {all}");
            None
        }
    }
}

/// Returns the file that an error names.
fn file_of(error: &uidring::Error) -> Option<&Path> {
    let uidring::Error::Store(error) = error else { return None };
    match error.downcast_ref() {
        Some(TableError::DatabaseFile { path, .. }) => Some(path),
        _ => None,
    }
}

/// Whether the secret is only in the password.
fn has_password(text: &str) -> bool {
    let parts = text.split_once("://").and_then(|(_, rest)| rest.split_once('@'));
    let Some((login, rest)) = parts else { return false };
    let password = login.split_once(':').is_some_and(|(user, password)| {
        !user.contains(SECRET) && password.contains(SECRET) && !login.contains(['/', '?', '#'])
    });
    password && !rest.contains(SECRET)
}
