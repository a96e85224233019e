//! The address of an etcd cluster, and how to log in.

use std::error::Error as StdError;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use uidring::{Error, StoreErrorKind};
use uidring_store::pem::{Authorities, CertificateDer, ClientIdentity, KEY};
use uidring_store::plain;
use uidring_store::url::host_and_port;
use uidring_store::{Credentials, ServerError, TableError};
use ureq::tls::{Certificate, ClientCert, PrivateKey};

/// The parts of a key that come before a worker id. No prefix contains them.
pub const FOLDERS: [&str; 2] = ["nodes", "leases"];

/// An etcd cluster (3.4 or later), and a prefix of all keys, `/uidring/` by default. Each prefix has its own worker
/// ids.
///
/// It uses the cluster's JSON gateway, which etcd enables by default on the client port. All reads are linearizable.
///
/// User and password never appear in the texts of this type and its errors.
#[derive(Clone)]
pub struct EtcdStore {
    /// `scheme://host:port`.
    pub(crate) endpoints: Vec<String>,
    /// Whether all endpoints were given with their scheme.
    says_tls: bool,
    prefix: String,
    pub(crate) login: Option<Credentials>,
    pub(crate) authorities: Option<Vec<Certificate<'static>>>,
    pub(crate) client_certificate: Option<ClientCert>,
    pub(crate) attempt_timeout: Duration,
    pub(crate) deadline: Duration,
}

impl EtcdStore {
    /// Returns the cluster at these endpoints, separated by commas: `HOST:PORT` or `http://HOST:PORT`, or
    /// `https://HOST:PORT` for TLS. All must use TLS, or none. The default port is 2379.
    ///
    /// # Errors
    ///
    /// [`ServerError::Address`](crate::ServerError::Address), which does not repeat the endpoints.
    pub fn new(endpoints: &str) -> Result<Self, Error> {
        let says_tls = endpoints.split(',').all(|endpoint| endpoint.contains("://"));
        let endpoints: Result<Vec<_>, _> = endpoints.trim().split(',').map(endpoint).collect();
        let endpoints = endpoints.map_err(wrong)?;
        let has_tls = |endpoint: &String| endpoint.starts_with("https://");
        if endpoints.iter().any(|endpoint| has_tls(endpoint) != has_tls(&endpoints[0])) {
            // Otherwise failing over to an endpoint without TLS would send the password in plain text.
            let problem =
                "some have TLS and some have not: write https:// before each, or before none";
            return Err(wrong(problem));
        }
        Ok(Self {
            endpoints,
            says_tls,
            prefix: "/uidring/".into(),
            login: None,
            authorities: None,
            client_certificate: None,
            attempt_timeout: Duration::from_secs(5),
            deadline: Duration::from_secs(10),
        })
    }

    /// Sets the prefix of all keys. It must begin with a slash; a missing final slash is added.
    ///
    /// # Errors
    ///
    /// [`ServerError::Server`](crate::ServerError::Server).
    pub fn prefix(mut self, prefix: &str) -> Result<Self, Error> {
        let problem = if !prefix.starts_with('/') {
            "it does not begin with a slash"
        } else if prefix.contains(|letter: char| !matches!(letter, '!'..='~')) {
            "only printable ASCII without blanks is allowed"
        } else if prefix.split('/').any(|part| FOLDERS.contains(&part)) {
            "a part of it is `nodes` or `leases`, where stores keep their keys"
        } else {
            self.prefix = format!("{}/", prefix.trim_end_matches('/'));
            return Ok(self);
        };
        let problem = format!("`{prefix}` cannot be the prefix of its keys: {problem}");
        Err(self.error(StoreErrorKind::Invalid, problem, None))
    }

    /// Logs in with the `user:password` in the first line of a file.
    ///
    /// # Errors
    ///
    /// [`TableError::DatabaseFile`](uidring_store::TableError::DatabaseFile) if the file cannot be read;
    /// [`TableError::Invalid`](uidring_store::TableError::Invalid), which does not repeat its contents;
    /// [`TableError::UrlForPath`](uidring_store::TableError::UrlForPath).
    pub fn auth_file(mut self, path: impl AsRef<Path>) -> Result<Self, Error> {
        self.login = Some(Credentials::from_file("user and password of etcd", path.as_ref())?);
        Ok(self)
    }

    /// Accepts only certificates signed by an authority in this PEM file. If not set, public authorities are trusted.
    ///
    /// # Errors
    ///
    /// [`TableError::DatabaseFile`](uidring_store::TableError::DatabaseFile) if the file cannot be read or has no
    /// certificate; [`ServerError::Address`](crate::ServerError::Address) if an endpoint has no TLS;
    /// [`TableError::UrlForPath`](uidring_store::TableError::UrlForPath).
    pub fn tls_authority(mut self, path: impl AsRef<Path>) -> Result<Self, Error> {
        self.require_tls()?;
        self.authorities = Some(shared(&Authorities::read(path.as_ref())?.certificates));
        Ok(self)
    }

    /// Presents a client certificate (a PEM file with its chain) with the private key in the other file.
    ///
    /// # Errors
    ///
    /// As for [`tls_authority`](Self::tls_authority); also if the key belongs to another certificate, or others may
    /// read it: its mode must be at most 600, or 640 if root owns it.
    pub fn tls_client(
        mut self,
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Result<Self, Error> {
        self.require_tls()?;
        let identity = ClientIdentity::read(certificate.as_ref(), key.as_ref())?;
        // The parser's error might show part of the key.
        let wrong = |_| TableError::DatabaseFile {
            what: KEY,
            path: key.as_ref().to_owned(),
            source: "it holds no private key in PEM form".into(),
        };
        let key = PrivateKey::from_pem(&identity.key_pem).map_err(wrong)?;
        self.client_certificate = Some(ClientCert::new_with_certs(&shared(&identity.chain), key));
        Ok(self)
    }

    /// Sets how long one attempt on one endpoint may take, 5 s by default. It doubles after each round over all
    /// endpoints, up to the deadline divided by the number of endpoints, or 500 ms if that is more.
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = timeout;
        self
    }

    /// Sets how long an operation with all its attempts may take, 10 s by default.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Refuses to send a password to another machine in plain text, unless the endpoints ask for it.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let with = "tls=verify in the URL, or https:// before each endpoint in Rust";
        match self.password().refusal(with, "tls=off, or http:// in Rust") {
            Some(problem) => Err(self.error(StoreErrorKind::Invalid, problem, None)),
            None => Ok(()),
        }
    }

    pub(crate) fn password(&self) -> plain::Login {
        let plain = self.endpoints.iter().filter_map(|endpoint| endpoint.strip_prefix("http://"));
        let host = |endpoint: &str| endpoint.rsplit_once(':').unwrap_or((endpoint, "")).0.into();
        plain::Login {
            has_password: self.login.is_some(),
            has_tls: false,
            says_tls: self.says_tls,
            has_socket: false,
            hosts: plain.map(host).collect(),
        }
    }

    /// Returns a key (`counter`, `range`, or `layout`, which all leases share), or a folder (`nodes/`, `leases/`).
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The key of a start. Twenty digits, so that keys sort like their numbers.
    pub(crate) fn node(&self, worker_id: u64) -> String {
        format!("{}nodes/{worker_id:020}", self.prefix)
    }

    pub(crate) fn lease(&self, worker_id: u64) -> String {
        format!("{}leases/{worker_id:020}", self.prefix)
    }

    pub(crate) fn error(
        &self,
        kind: StoreErrorKind,
        problem: String,
        source: Option<Box<dyn StdError + Send + Sync>>,
    ) -> Error {
        let (engine, server) = ("etcd", self.to_string());
        ServerError::Server { engine, server, problem, kind, source }.into()
    }

    fn require_tls(&self) -> Result<(), Error> {
        if self.endpoints.iter().all(|endpoint| endpoint.starts_with("https://")) {
            return Ok(());
        }
        Err(wrong("certificates were given, but an endpoint does not use TLS"))
    }
}

fn wrong(problem: &str) -> Error {
    let form = "HOST:PORT,HOST:PORT, or https://HOST:PORT,https://HOST:PORT for TLS";
    let (what, place) = ("the address of etcd", "as given".into());
    ServerError::Address { what, place, form, problem: problem.into() }.into()
}

impl fmt::Display for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<_> =
            self.endpoints.iter().map(|e| e.trim_start_matches("http://")).collect();
        write!(f, "{} {}", hosts.join(","), self.prefix)
    }
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EtcdStore({self})")
    }
}

fn endpoint(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    let (scheme, server) = text.split_once("://").unwrap_or(("http", text));
    if !matches!(scheme, "http" | "https") {
        return Err("a scheme is not http or https");
    }
    let server = server.strip_suffix('/').unwrap_or(server);
    if server.contains('@') {
        return Err("endpoints must not name a user");
    }
    if server.contains(|c: char| c.is_whitespace() || c.is_control() || "/?#\\%".contains(c)) {
        return Err("one has a path, or a character that a host cannot have");
    }
    let (host, port) = host_and_port(server)?;
    Ok(format!("{scheme}://{host}:{}", port.unwrap_or(2379)))
}

/// Converts certificates to the driver's type.
fn shared(certificates: &[CertificateDer<'_>]) -> Vec<Certificate<'static>> {
    certificates.iter().map(|one| Certificate::from_der(one).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn endpoints_are_checked_and_not_repeated() {
        for (text, shown) in [
            ("h", "h:2379 /uidring/"),
            ("http://h:1,h2", "h:1,h2:2379 /uidring/"),
            ("https://[::1]:2379/", "https://[::1]:2379 /uidring/"),
        ] {
            assert_eq!(EtcdStore::new(text).expect(text).to_string(), shown);
        }
        for wrong in [
            "",
            ",",
            "h:",
            "h:0",
            "h:port",
            "h:+80",
            "::1:2379",
            "a,,b",
            "h/x",
            "ftp://h",
            "u:s3cret@h",
            "https://u:s3cret@h:1",
            "h 1",
            "[]:1",
            "https://a,http://b",
            "a,https://b",
            "https://a,b:1",
        ] {
            let error = EtcdStore::new(wrong).expect_err(wrong);
            assert!(matches!(error.store(), Some(ServerError::Address { .. })), "{error:?}");
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
    }

    #[test]
    fn user_and_password_are_not_shown() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("auth");
        let read = |text: &str| {
            fs::write(&path, text).expect("writes");
            EtcdStore::new("h").and_then(|store| store.auth_file(&path))
        };
        let store = read("ids:s3cret:x\nmore").expect("user and password");
        assert_eq!(store.login.as_ref().map(|login| &*login.password), Some("s3cret:x"));
        assert!(!format!("{store} {store:?} {:?}", store.leases()).contains("s3cret"));
        for wrong in ["", "s3cret", ":s3cret", "s3cret:"] {
            let error = read(wrong).expect_err(wrong);
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
    }

    #[test]
    fn a_password_goes_to_another_machine_with_tls_or_where_the_endpoints_say_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("auth");
        fs::write(&path, "u:p").expect("writes");
        for (endpoints, is_refused, is_plain) in [
            ("h", true, true),
            ("localhost,h:1", true, true),
            ("http://h", false, true),
            ("https://h", false, false),
            ("localhost,127.0.0.1:1,[::1]:2", false, false),
        ] {
            let store = EtcdStore::new(endpoints).expect("endpoints");
            assert!(store.check().is_ok() && store.password().warning().is_none(), "no password");
            let store = store.auth_file(&path).expect("user and password");
            assert_eq!(store.password().warning().is_some(), is_plain, "{endpoints}");
            let refused = store.check().err().map(|error| error.to_string());
            assert_eq!(refused.is_some(), is_refused, "{endpoints}: {refused:?}");
            assert!(refused.is_none_or(|text| text.contains("write tls=verify")), "{endpoints}");
        }
    }

    #[test]
    fn certificates_need_tls_and_prefixes_a_slash() {
        let error = EtcdStore::new("h").and_then(|s| s.tls_authority("ca.pem")).expect_err("none");
        assert!(error.to_string().contains("does not use TLS"), "{error}");
        for wrong in ["", "ids", "/a b", "/\u{e4}"] {
            let error = EtcdStore::new("h").and_then(|s| s.prefix(wrong)).expect_err(wrong);
            assert!(error.to_string().contains("cannot be the prefix"), "{error:?}");
        }
        let store = EtcdStore::new("h").and_then(|store| store.prefix("/a")).expect("a prefix");
        assert_eq!(store.key("counter"), "/a/counter");
    }
}
