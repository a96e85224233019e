//! The servers of a registry, and how to log in to them.

use std::fmt;
use std::path::Path;
#[cfg(feature = "tls")]
use std::sync::Arc;
use std::sync::LazyLock;
use std::time::Duration;

#[cfg(feature = "tls")]
use rustls::pki_types::ServerName;
use uidring::Error;
#[cfg(feature = "tls")]
use uidring_store::pem::{Authorities, ClientIdentity};
use uidring_store::plain::Login;
use uidring_store::url::{Host, host_and_port, without_brackets};
use uidring_store::{Credentials, ServerError};
use zookeeper_client::{Acl, Acls, AuthId, Client, Connector, Permission};

#[cfg(feature = "tls")]
use super::tls::Tls;

/// The prefix of a server with TLS.
pub const TLS: &str = "tls://";

/// The servers of a ZooKeeper ensemble, and the path that everything is below:
///
/// ```text
/// HOST:PORT,HOST:PORT/CHROOT
/// ```
///
/// The default port is 2181. The path is optional, but must exist. With `tls://` before each server, connections use
/// TLS, which needs the feature `tls`:
///
/// ```text
/// tls://HOST:PORT,tls://HOST:PORT/CHROOT
/// ```
///
/// User and password never appear in the texts of this type and its errors.
#[derive(Clone)]
pub struct ZooKeeperServers {
    /// The servers and the path, as given.
    pub(super) text: String,
    pub(super) hosts: Vec<Host>,
    pub(super) has_tls: bool,
    pub(super) auth: Option<Credentials>,
    pub(super) session_timeout: Duration,
    pub(super) connect_deadline: Duration,
    #[cfg(feature = "tls")]
    pub(super) tls: Tls,
}

impl ZooKeeperServers {
    /// Parses the servers.
    ///
    /// # Errors
    ///
    /// [`ServerError::Address`](uidring_store::ServerError::Address), which does not repeat the text.
    pub fn new(hosts: &str) -> Result<Self, Error> {
        let text = hosts.to_owned();
        let (hosts, has_tls) = parse(hosts).map_err(wrong)?;
        if has_tls && cfg!(not(feature = "tls")) {
            return Err(wrong(
                "it asks for TLS, which this build lacks for ZooKeeper: build with the feature `zookeeper-tls` (cargo build \
                 --features zookeeper-tls); of uidring-zookeeper it is `tls`",
            ));
        }
        // The client would panic at a name that no certificate can have.
        #[cfg(feature = "tls")]
        if has_tls && hosts.iter().any(|host| ServerName::try_from(&*host.name).is_err()) {
            return Err(wrong("a host is no name or address that a certificate can have"));
        }
        Ok(Self {
            text,
            hosts,
            has_tls,
            auth: None,
            session_timeout: Duration::from_secs(10),
            connect_deadline: Duration::from_secs(5),
            #[cfg(feature = "tls")]
            tls: Tls::default(),
        })
    }

    /// Logs in (scheme `digest`) with the `user:password` in the first line of a file. The nodes of a name are then
    /// created for this user alone, but others can still add names to `/snowflake`.
    ///
    /// # Errors
    ///
    /// [`TableError::DatabaseFile`](uidring_store::TableError::DatabaseFile) if the file cannot be read;
    /// [`TableError::Invalid`](uidring_store::TableError::Invalid), which does not repeat its contents;
    /// [`TableError::UrlForPath`](uidring_store::TableError::UrlForPath).
    pub fn auth_file(mut self, path: impl AsRef<Path>) -> Result<Self, Error> {
        let what = "user and password of the registry";
        self.auth = Some(Credentials::from_file(what, path.as_ref())?);
        Ok(self)
    }

    /// Accepts only certificates signed by an authority in this PEM file. If not set, the system's authorities are
    /// trusted.
    ///
    /// The file is read once; restart after changing it.
    ///
    /// # Errors
    ///
    /// [`TableError::DatabaseFile`](uidring_store::TableError::DatabaseFile) if the file cannot be read or has no
    /// certificate; [`ServerError::Address`](uidring_store::ServerError::Address) if the servers are without TLS;
    /// [`TableError::UrlForPath`](uidring_store::TableError::UrlForPath).
    #[cfg(feature = "tls")]
    pub fn tls_authority(mut self, path: impl AsRef<Path>) -> Result<Self, Error> {
        self.require_tls()?;
        self.tls.authorities = Some(Authorities::read(path.as_ref())?.certificates.into());
        Ok(self)
    }

    /// Presents a client certificate (a PEM file with its chain) with the private key in the other file.
    ///
    /// # Errors
    ///
    /// As for [`tls_authority`](Self::tls_authority); also if the key belongs to another certificate, or others may
    /// read it: its mode must be at most 600, or 640 if root owns it.
    #[cfg(feature = "tls")]
    pub fn tls_certificate(
        mut self,
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Result<Self, Error> {
        self.require_tls()?;
        let identity = ClientIdentity::read(certificate.as_ref(), key.as_ref())?;
        self.tls.identity = Some(Arc::new(identity));
        Ok(self)
    }

    #[cfg(feature = "tls")]
    fn require_tls(&self) -> Result<(), Error> {
        let problem = "certificates were given, and they are without TLS";
        self.has_tls.then_some(()).ok_or_else(|| wrong(problem))
    }

    /// Sets how long the servers keep a session without hearing from the instance, 10 s by default. They may grant
    /// another time, within their own bounds (by default 4 to 40 s).
    ///
    /// After a crash, the instance's name is free again after this time.
    #[must_use]
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// Sets how long to try to connect, and how long to wait for an answer, 5 s by default.
    #[must_use]
    pub fn connect_deadline(mut self, deadline: Duration) -> Self {
        self.connect_deadline = deadline;
        self
    }

    /// How long connecting may take. The client itself gives up after the session timeout.
    pub(super) fn connect_limit(&self) -> Duration {
        self.connect_deadline.min(self.session_timeout)
    }

    pub(super) fn connector(&self) -> Connector {
        // How long a server may be silent before the client tries another one. A quarter leaves time for three tries
        // before the lease ends, at nine tenths of the session; a busy server needs a second.
        let patience = (self.session_timeout / 4).max(Duration::from_secs(1));
        let connector = Client::connector()
            .with_session_timeout(self.session_timeout)
            .with_connection_timeout(patience);
        match &self.auth {
            Some(Credentials { user, password }) => {
                connector.with_auth("digest", format!("{user}:{password}").as_bytes())
            }
            None => connector,
        }
    }

    /// Returns how the password is sent. `says_tls` tells whether the caller chose TLS or no TLS.
    pub(super) fn password(&self, says_tls: bool) -> Login {
        Login {
            has_password: self.auth.is_some(),
            has_tls: self.has_tls,
            says_tls,
            has_socket: false,
            hosts: self.hosts.iter().map(|host| host.name.clone()).collect(),
        }
    }

    /// Returns the rights on a new folder of all names: everybody may add a name and look; only its maker may remove
    /// one or change these rights.
    pub(super) fn shared_acls(&self) -> Acls<'static> {
        static SHARED: LazyLock<[Acl; 2]> = LazyLock::new(|| {
            let everybody = Acl::new(Permission::CREATE | Permission::READ, AuthId::anyone());
            [everybody, Acl::new(Permission::ALL, AuthId::authed())]
        });
        if self.auth.is_some() { Acls::new(&*SHARED) } else { Acls::anyone_all() }
    }

    /// Returns the rights on new nodes of a name.
    pub(super) fn acls(&self) -> Acls<'static> {
        // Leaf's nodes are open to all, so that it can share them.
        if self.auth.is_some() { Acls::creator_all() } else { Acls::anyone_all() }
    }
}

/// Returns the servers of a text, and whether they use TLS: all must, or none.
fn parse(text: &str) -> Result<(Vec<Host>, bool), &'static str> {
    let has_tls = text.starts_with(TLS);
    let parts = text.split(',').map(|part| part.strip_prefix(TLS).unwrap_or(part));
    let plain = parts.collect::<Vec<_>>().join(",");
    let (servers, path) = match plain.split_once('/') {
        Some((servers, path)) => (servers, Some(path)),
        None => (&*plain, None),
    };
    let is_wrong = |path: &str| path.split('/').any(|part| matches!(part, "" | "." | ".."));
    Err(match &*plain {
        "" => "it is empty",
        _ if text.split(',').any(|part| part.starts_with(TLS) != has_tls) => {
            "TLS is for all servers or for none"
        }
        _ if plain.contains("://") => "it is a URL, of another scheme than tls",
        _ if plain.contains('@') => "a user has no place in it",
        _ if plain.contains(|c: char| c.is_whitespace() || c.is_control()) => "it holds a blank",
        _ if path.is_some_and(|path| path.contains(',')) => "a comma follows the path",
        _ if path.is_some_and(is_wrong) => "the path has an empty part, `.` or `..`",
        _ => {
            let host = |server| {
                let (name, port) = host_and_port(server)?;
                Ok(Host { name: without_brackets(name).unwrap_or(name).to_owned(), port })
            };
            let hosts = servers.split(',').map(host).collect::<Result<_, &str>>()?;
            return Ok((hosts, has_tls));
        }
    })
}

fn wrong(problem: &str) -> Error {
    let form = "HOST:PORT,HOST:PORT, with tls:// before each for TLS, and with /PATH at the end to use a path";
    let (what, place) = ("the address of the registry", "as given".into());
    ServerError::Address { what, place, form, problem: problem.into() }.into()
}

impl fmt::Display for ZooKeeperServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ZooKeeperServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ZooKeeperServers({self})")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn servers_have_tls_all_or_none() {
        let text = "tls://zk1:2281,tls://[::1]/ids/a";
        let host = |name: &str, port| Host { name: name.into(), port };
        let hosts = vec![host("zk1", Some(2_281)), host("::1", None)];
        assert_eq!(parse(text), Ok((hosts, true)));
        for text in ["tls://a,b", "a,tls://b"] {
            assert_eq!(parse(text), Err("TLS is for all servers or for none"), "{text}");
        }
        for wrong in
            ["tls://", "tls://a,", "tls://tls://a", "ssl://a", "a/tls://b", "a/b,c", "tls:a"]
        {
            parse(wrong).expect_err(wrong);
        }
    }

    #[test]
    fn texts_of_servers_are_checked_and_not_repeated() {
        for good in ["h", "h:2181", "a:1,b:2/ids", "a,b/c/d", "[::1]:2181", "[::1],h:80/x"] {
            assert_eq!(ZooKeeperServers::new(good).expect(good).to_string(), good);
        }
        let short = [
            "", ",", "h:", "h:0", "h:port", "h:70000", "h:+80", "::1:2181", "a,,b", "h/", "h/a//b",
        ];
        let long =
            ["h/../x", "h 1", "zk://s3cret@h", "zk://s3cret", "u:s3cret@h", "[::1]2181", "[]:1"];
        for wrong in short.into_iter().chain(long) {
            let error = ZooKeeperServers::new(wrong).expect_err(wrong);
            assert!(matches!(error.store(), Some(ServerError::Address { .. })), "{error:?}");
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
    }

    #[test]
    fn a_password_that_others_can_read_is_warned_of() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("auth");
        fs::write(&path, "ids:s3cret").expect("writes");
        let warning = |hosts| {
            let servers = ZooKeeperServers::new(hosts).expect(hosts);
            assert_eq!(servers.password(true).warning(), None, "no password");
            servers.auth_file(&path).expect("user and password").password(true).warning()
        };
        let text = warning("localhost,zk1:1,zk2/ids").expect("a warning");
        assert!(text.contains("a connection to zk1 has no TLS") && !text.contains("s3cret"));
        assert_eq!(warning("localhost,127.0.0.1:1,[::1]:2"), None);
        #[cfg(feature = "tls")]
        assert_eq!(warning("tls://zk1,tls://zk2"), None);
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
            assert!(servers.auth.as_ref().is_some_and(|auth| auth.user == "ids"));
            assert!(!format!("{servers} {servers:?}").contains("s3"), "{servers:?}");
        }
        for wrong in ["", "s3cret", ":s3cret", "s3cret:"] {
            let error = read(wrong).expect_err(wrong);
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
    }
}
