//! Where an etcd cluster is and how to get in.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use uidring::{Error, StoreErrorKind};
use uidring_store::pem::{Authorities, CertificateDer, ClientIdentity, KEY};
use uidring_store::plain;
use uidring_store::url::host_and_port;
use uidring_store::{Credentials, TableError};
use ureq::tls::{Certificate, ClientCert, PrivateKey};

use crate::error;

/// How errors call what it holds.
const CREDENTIALS: &str = "user and password of etcd";

const PREFIX: &str = "/uidring/";

/// An etcd cluster (3.4 or later), and a prefix that all keys begin with, `/uidring/` by default. Each
/// prefix has worker ids of its own.
///
/// It is used by its JSON gateway, which is on by default on the port for clients. All reads are
/// linearizable.
///
/// User and password appear in no text of this type or of its errors.
#[derive(Clone)]
pub struct EtcdStore {
    /// `scheme://host:port`.
    pub(crate) endpoints: Vec<String>,
    /// Whether each was written with its scheme.
    says_tls: bool,
    prefix: String,
    pub(crate) login: Option<Credentials>,
    pub(crate) authorities: Option<Vec<Certificate<'static>>>,
    pub(crate) client_certificate: Option<ClientCert>,
    pub(crate) attempt_timeout: Duration,
    pub(crate) deadline: Duration,
}

impl EtcdStore {
    /// The cluster at these endpoints, separated by commas: `HOST:PORT` or `http://HOST:PORT`, or
    /// `https://HOST:PORT` for TLS, which all have or none. Ports may be left out (2379).
    ///
    /// # Errors
    ///
    /// [`ServerError::Address`](crate::ServerError::Address), which does not repeat them.
    pub fn new(endpoints: &str) -> Result<Self, Error> {
        let says_tls = endpoints.split(',').all(|endpoint| endpoint.contains("://"));
        let endpoints: Result<Vec<_>, _> = endpoints.trim().split(',').map(endpoint).collect();
        let endpoints = endpoints.map_err(error::endpoints)?;
        let has_tls = |endpoint: &String| endpoint.starts_with("https://");
        if endpoints.iter().any(|endpoint| has_tls(endpoint) != has_tls(&endpoints[0])) {
            // A password would go in the clear to one as soon as another does not answer.
            let problem =
                "some have TLS and some have not: write https:// before each, or before none";
            return Err(error::endpoints(problem));
        }
        Ok(Self {
            endpoints,
            says_tls,
            prefix: PREFIX.into(),
            login: None,
            authorities: None,
            client_certificate: None,
            attempt_timeout: Duration::from_secs(5),
            deadline: Duration::from_secs(10),
        })
    }

    /// Sets the prefix of all keys. It begins with a slash, and ends with one that is added if it is
    /// missing.
    ///
    /// # Errors
    ///
    /// [`ServerError::Server`](crate::ServerError::Server).
    pub fn prefix(mut self, prefix: &str) -> Result<Self, Error> {
        let wrong = |problem: &str| {
            let problem = format!("`{prefix}` cannot be the prefix of its keys: {problem}");
            error::cluster(&self, StoreErrorKind::Invalid, problem, None)
        };
        if !prefix.starts_with('/') {
            return Err(wrong("it does not begin with a slash"));
        }
        if prefix.contains(|letter: char| !matches!(letter, '!'..='~')) {
            return Err(wrong("only printable ASCII without blanks is allowed"));
        }
        self.prefix = format!("{}/", prefix.trim_end_matches('/'));
        Ok(self)
    }

    /// Logs in with the `user:password` in the first line of this file.
    ///
    /// # Errors
    ///
    /// [`TableError::DatabaseFile`](uidring_store::TableError::DatabaseFile) if the file cannot be
    /// read; [`TableError::Credentials`](uidring_store::TableError::Credentials), which does not repeat what it
    /// holds; [`TableError::UrlForPath`](uidring_store::TableError::UrlForPath).
    pub fn auth_file(mut self, path: impl AsRef<Path>) -> Result<Self, Error> {
        self.login = Some(Credentials::from_file(CREDENTIALS, path.as_ref())?);
        Ok(self)
    }

    /// Accepts only certificates signed by an authority in this PEM file, for endpoints with `https`.
    /// Without it, they are those of public authorities.
    ///
    /// # Errors
    ///
    /// [`TableError::DatabaseFile`](uidring_store::TableError::DatabaseFile) if the file cannot be
    /// read, or holds no certificate; [`ServerError::Address`](crate::ServerError::Address) if an endpoint
    /// has no TLS; [`TableError::UrlForPath`](uidring_store::TableError::UrlForPath).
    pub fn tls_authority(mut self, path: impl AsRef<Path>) -> Result<Self, Error> {
        self.require_tls()?;
        self.authorities = Some(shared(&Authorities::read(path.as_ref())?.certificates));
        Ok(self)
    }

    /// Shows the servers this certificate (a PEM file, with those that it is signed by) and the private key
    /// in the other file.
    ///
    /// # Errors
    ///
    /// As for [`tls_authority`](Self::tls_authority); also if the key is that of another certificate, or
    /// others may read it: 600 is the most that its mode may allow, or 640 if it is root's.
    pub fn tls_client(
        mut self,
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Result<Self, Error> {
        self.require_tls()?;
        let identity = ClientIdentity::read(certificate.as_ref(), key.as_ref())?;
        let wrong = |_| TableError::DatabaseFile {
            what: KEY,
            path: key.as_ref().to_owned(),
            source: "it holds no private key in PEM form".into(),
        };
        let key = PrivateKey::from_pem(&identity.key_pem).map_err(wrong)?;
        self.client_certificate = Some(ClientCert::new_with_certs(&shared(&identity.chain), key));
        Ok(self)
    }

    /// Sets how long one attempt on one endpoint may take; 5 s by default, twice as long after each round over
    /// all endpoints, and never more than the deadline divided by the number of endpoints.
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = timeout;
        self
    }

    /// Sets how long an operation may take with all its attempts; 10 s by default.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Refuses to send a password to another machine in the clear, unless the endpoints say so.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.password().refusal(
            "tls=verify in the URL, or https:// before each endpoint in Rust",
            "tls=off, or http:// in Rust",
        ) {
            Some(problem) => Err(error::cluster(self, StoreErrorKind::Invalid, problem, None)),
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

    /// The key of the counter of worker ids.
    pub(crate) fn counter(&self) -> String {
        format!("{}counter", self.prefix)
    }

    /// The key of the range of worker ids.
    pub(crate) fn range(&self) -> String {
        format!("{}range", self.prefix)
    }

    /// What the keys of starts begin with.
    pub(crate) fn nodes(&self) -> String {
        format!("{}nodes/", self.prefix)
    }

    /// What the keys of leases begin with.
    pub(crate) fn lease_keys(&self) -> String {
        format!("{}leases/", self.prefix)
    }

    /// The key of the layout of all leases.
    pub(crate) fn layout(&self) -> String {
        format!("{}layout", self.prefix)
    }

    fn require_tls(&self) -> Result<(), Error> {
        if self.endpoints.iter().all(|endpoint| endpoint.starts_with("https://")) {
            return Ok(());
        }
        let problem = "certificates were given, and an endpoint is without TLS";
        Err(error::endpoints(problem))
    }
}

/// Endpoints and prefix.
impl fmt::Display for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<_> =
            self.endpoints.iter().map(|e| e.trim_start_matches("http://")).collect();
        write!(f, "{} {}", hosts.join(","), self.prefix)
    }
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdStore")
            .field("endpoints", &self.endpoints)
            .field("prefix", &self.prefix)
            .field("login", &self.login.is_some())
            .field("attempt_timeout", &self.attempt_timeout)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
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
        return Err("a user has no place in them");
    }
    if server.contains(|c: char| c.is_whitespace() || c.is_control() || "/?#\\%".contains(c)) {
        return Err("one has a path, or a character that no host has");
    }
    let (host, port) = host_and_port(server)?;
    Ok(format!("{scheme}://{host}:{}", port.unwrap_or(2379)))
}

/// As the driver has them.
fn shared(certificates: &[CertificateDer<'_>]) -> Vec<Certificate<'static>> {
    certificates.iter().map(|one| Certificate::from_der(one).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use uidring_store::ServerError;

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
        assert!(error.to_string().contains("without TLS"), "{error}");
        for wrong in ["", "ids", "/a b", "/\u{e4}"] {
            let error = EtcdStore::new("h").and_then(|s| s.prefix(wrong)).expect_err(wrong);
            assert!(error.to_string().contains("cannot be the prefix"), "{error:?}");
        }
        let store = EtcdStore::new("h").and_then(|store| store.prefix("/a")).expect("a prefix");
        assert_eq!(store.counter(), "/a/counter");
    }
}
