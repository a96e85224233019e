//! The servers of a registry, and how to log in to them.

use std::env;
use std::fmt;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use uidring::Error;
use uidring_store::{is_port, read_secret};
use zookeeper_client::{Acl, Acls, AuthId, Client, Permission};

use super::error::ZooKeeperError;

/// The environment variable with user and password.
const AUTH_VARIABLE: &str = "UIDRING_ZOOKEEPER_AUTH";

/// The servers of a ZooKeeper ensemble, and the path in it that everything is below:
///
/// ```text
/// HOST:PORT,HOST:PORT/CHROOT
/// ```
///
/// Ports may be left out (2181), and so may the path, which must exist otherwise. The connection is
/// not encrypted.
///
/// User and password appear in no text of this type or of its errors.
#[derive(Clone)]
pub struct ZooKeeperServers {
    hosts: String,
    /// `user:password`.
    auth: Option<String>,
    pub(super) session_timeout: Duration,
    pub(super) connect_deadline: Duration,
}

impl ZooKeeperServers {
    /// Reads the servers from this text.
    ///
    /// # Errors
    ///
    /// [`ZooKeeperError::RegistryServers`](crate::ZooKeeperError::RegistryServers), which does not
    /// repeat the text.
    pub fn new(hosts: &str) -> Result<Self, Error> {
        check(hosts).map_err(|problem| ZooKeeperError::RegistryServers { problem })?;
        Ok(Self {
            hosts: hosts.into(),
            auth: None,
            session_timeout: Duration::from_secs(10),
            connect_deadline: Duration::from_secs(5),
        })
    }

    /// Logs in (scheme `digest`) with the `user:password` in the first line of this file. The nodes of a
    /// name are then made for this user alone; `/snowflake`, so that others can have names in it too.
    ///
    /// # Errors
    ///
    /// [`TableError::DatabaseFile`](uidring_store::TableError::DatabaseFile) if the file cannot be
    /// read; [`ZooKeeperError::RegistryAuth`](crate::ZooKeeperError::RegistryAuth), which does
    /// not repeat what it holds; [`TableError::UrlForPath`](uidring_store::TableError::UrlForPath).
    pub fn auth_file(mut self, path: impl AsRef<Path>) -> Result<Self, Error> {
        const WHAT: &str = "user and password of the registry";
        let text = read_secret(WHAT, path.as_ref())?;
        self.auth = Some(read_auth("in the file", text.lines().next().unwrap_or_default())?);
        Ok(self)
    }

    /// Logs in likewise by the environment variable `UIDRING_ZOOKEEPER_AUTH`, if it is set.
    ///
    /// # Errors
    ///
    /// [`ZooKeeperError::RegistryAuth`](crate::ZooKeeperError::RegistryAuth), for an empty variable too.
    pub fn auth_from_env(mut self) -> Result<Self, Error> {
        if let Some(auth) = env::var_os(AUTH_VARIABLE) {
            self.auth = Some(read_auth("in UIDRING_ZOOKEEPER_AUTH", &auth.to_string_lossy())?);
        }
        Ok(self)
    }

    /// Sets how long the servers keep the session of an instance that they do not hear from; 10 s by
    /// default. They may grant another time, within their own bounds (by default 4 to 40 s).
    ///
    /// After a crash, the instance's name is free again when this time has passed.
    #[must_use]
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// Sets how long to try to reach a server, and how long to wait for an answer; 5 s by default.
    #[must_use]
    pub fn connect_deadline(mut self, deadline: Duration) -> Self {
        self.connect_deadline = deadline;
        self
    }

    pub(super) async fn connect(&self) -> Result<Client, zookeeper_client::Error> {
        let mut connector = Client::connector().with_session_timeout(self.session_timeout);
        if let Some(auth) = &self.auth {
            connector = connector.with_auth("digest", auth.as_bytes());
        }
        connector.connect(&self.hosts).await
    }

    /// Returns who may do what with the folder of all names, if it is made: everybody may add a name
    /// and look, and only its maker may remove one, or change these rights.
    pub(super) fn shared_acls(&self) -> Acls<'static> {
        static SHARED: LazyLock<[Acl; 2]> = LazyLock::new(|| {
            let everybody = Acl::new(Permission::CREATE | Permission::READ, AuthId::anyone());
            [everybody, Acl::new(Permission::ALL, AuthId::authed())]
        });
        if self.auth.is_some() { Acls::new(&*SHARED) } else { Acls::anyone_all() }
    }

    /// Returns who may do what with the nodes that are made for a name.
    pub(super) fn acls(&self) -> Acls<'static> {
        // Leaf's are open to all, which it needs to share them.
        if self.auth.is_some() { Acls::creator_all() } else { Acls::anyone_all() }
    }
}

/// Hosts and path.
impl fmt::Display for ZooKeeperServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hosts)
    }
}

impl fmt::Debug for ZooKeeperServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeperServers")
            .field("hosts", &self.hosts)
            .field("auth", &self.auth.is_some())
            .field("session_timeout", &self.session_timeout)
            .field("connect_deadline", &self.connect_deadline)
            .finish()
    }
}

fn check(hosts: &str) -> Result<(), &'static str> {
    if hosts.is_empty() {
        return Err("it is empty");
    }
    if hosts.contains("://") {
        return Err("it is a URL");
    }
    if hosts.contains('@') {
        return Err("a user has no place in it");
    }
    if hosts.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("it holds a blank");
    }
    let mut parts = hosts.split('/');
    let servers = parts.next().unwrap_or_default();
    if parts.any(|part| matches!(part, "" | "." | "..")) {
        return Err("the path has an empty part, `.` or `..`");
    }
    for server in servers.split(',') {
        let (host, port) = match server.rsplit_once(':') {
            Some(parts) if !server.ends_with(']') => parts,
            _ => (server, "2181"),
        };
        let ipv6 = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if ipv6.unwrap_or(host).is_empty() {
            return Err("a host is empty");
        }
        if ipv6.is_none() && host.contains(['[', ']', ':']) || !is_port(port) {
            return Err("a port is wrong (write an IPv6 address in brackets)");
        }
    }
    Ok(())
}

fn read_auth(location: &'static str, text: &str) -> Result<String, Error> {
    let text = text.trim();
    match text.split_once(':') {
        Some((user, password)) if !user.is_empty() && !password.is_empty() => Ok(text.into()),
        _ => Err(Error::from(ZooKeeperError::RegistryAuth { location })),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn texts_of_servers_are_checked_and_not_repeated() {
        for good in ["h", "h:2181", "a:1,b:2/ids", "a,b/c/d", "[::1]:2181", "[::1],h:80/x"] {
            assert_eq!(ZooKeeperServers::new(good).expect(good).to_string(), good);
        }
        let short = [
            "", ",", "h:", "h:0", "h:port", "h:70000", "h:+80", "::1:2181", "a,,b", "h/", "h/a//b",
        ];
        let long = ["h/../x", "h 1", "zk://s3cret@h", "u:s3cret@h", "[::1]2181", "[]:1"];
        for wrong in short.into_iter().chain(long) {
            let error = ZooKeeperServers::new(wrong).expect_err(wrong);
            assert!(
                matches!(error.store(), Some(ZooKeeperError::RegistryServers { .. })),
                "{error:?}"
            );
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
    }

    #[test]
    fn user_and_password_are_not_shown() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("auth");
        let read = |text: &str| {
            fs::write(&path, text).expect("writes");
            ZooKeeperServers::new("h").and_then(|servers| servers.auth_file(&path))
        };
        for good in ["ids:s3cret", "\u{feff}ids:s3cret\r\nmore", " ids:s3:cret \n"] {
            let servers = read(good).expect("user and password");
            assert!(servers.auth.as_ref().is_some_and(|auth| auth.starts_with("ids:s3")));
            assert!(!format!("{servers} {servers:?}").contains("s3"), "{servers:?}");
        }
        for wrong in ["", "s3cret", ":s3cret", "s3cret:"] {
            let error = read(wrong).expect_err(wrong);
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
    }
}
