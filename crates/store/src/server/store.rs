//! A database server and a database in it, of any engine.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use uidring::adapter::log;
use uidring::{Error, StoreErrorKind};

use super::engine::{Connector, Engine};
use super::error::database;
use super::settings::{Inspected, Settings};
use super::url;
use crate::StoreKind;
use crate::options::{Given, Tls, TlsMode};
use crate::pem::{Authorities, ClientIdentity};
use crate::plain::{SOCKET_WITH_TLS, TLS_OFF, TLS_ON};
use crate::url::Url;

/// A database server and a database in it. No text of this type or its errors shows the URL or the password.
#[derive(Clone)]
pub struct ServerStore<E> {
    /// The engine, with the driver's options.
    pub engine: E,
    /// The options common to all servers.
    pub settings: Settings,
}

impl<E: Engine> ServerStore<E> {
    /// How URLs name its stores, and how to open them.
    pub const KIND: StoreKind = StoreKind {
        options: E::OPTIONS,
        schemes: E::URL.schemes,
        form: E::URL.form,
        is_file: false,
        has_own_workers: false,
        open: |url, given| {
            let store = Self::from_parts(url, given)?;
            match store.server().refusal() {
                Some(problem) => Err(E::URL.wrong(problem)),
                None => Ok(Box::new(store)),
            }
        },
    };

    /// Reads a URL. Does not connect.
    ///
    /// # Errors
    ///
    /// [`ServerError::Address`](crate::ServerError::Address), which does not repeat the URL; errors of the files that
    /// the URL names.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        let wrong = |problem| E::URL.wrong(problem);
        let url = Url::split(url, E::URL.schemes).map_err(wrong)?;
        let given = Given::read(&E::OPTIONS.into(), &url.parameters).map_err(wrong)?;
        Self::from_parts(&url, &given)
    }

    fn from_parts(url: &Url, given: &Given) -> Result<Self, Error> {
        let wrong = |problem| E::URL.wrong(problem);
        let engine = E::new(url, given).map_err(wrong)?;
        if !given.harmless().is_empty() {
            let names = given.harmless().join(", ");
            log!(debug, "{engine}: these parameters of its URL change nothing: {names}");
        }
        let mut store = Self { engine, settings: Settings::of(given) };
        let tls = Tls::of(given).map_err(wrong)?;
        match tls.mode {
            None | Some(TlsMode::Off) => {}
            Some(TlsMode::Verify) => store = store.require_tls(),
            Some(TlsMode::Unverified) => store.engine.accept_any_certificate().map_err(wrong)?,
        }
        if let Some(path) = tls.authority {
            store = store.tls_authority(path)?;
        }
        if let Some((certificate, key)) = tls.identity {
            store = store.tls_certificate(certificate, key)?;
        }
        Ok(store)
    }

    /// Reads the URL in the first line of a file, which keeps it out of the list of processes.
    ///
    /// # Errors
    ///
    /// [`TableError::DatabaseFile`](crate::TableError::DatabaseFile) if the file cannot be read;
    /// [`TableError::UrlForPath`](crate::TableError::UrlForPath) if the path is the URL itself; errors of
    /// [`from_url`](Self::from_url).
    pub fn from_url_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        url::in_file(path.as_ref(), &E::URL, Self::from_url)
    }

    /// Requires TLS, with a certificate signed by an authority in this PEM file and by no other.
    ///
    /// # Errors
    ///
    /// [`TableError::DatabaseFile`](crate::TableError::DatabaseFile) if the file cannot be read, holds no certificate,
    /// or a broken one; [`TableError::UrlForPath`](crate::TableError::UrlForPath).
    pub fn tls_authority(mut self, path: impl AsRef<Path>) -> Result<Self, Error> {
        self.engine.trust(Authorities::read(path.as_ref())?);
        Ok(self.require_tls())
    }

    /// Requires TLS, and shows the server this certificate and those that sign it. Both files are PEM files.
    ///
    /// # Errors
    ///
    /// [`TableError::DatabaseFile`](crate::TableError::DatabaseFile) if a file cannot be read or holds nothing of the
    /// kind, if the key belongs to another certificate, or if others may read it (its mode may be 600, or 640 if root
    /// owns it); [`TableError::UrlForPath`](crate::TableError::UrlForPath).
    pub fn tls_certificate(
        mut self,
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Result<Self, Error> {
        self.engine.show(ClientIdentity::read(certificate.as_ref(), key.as_ref())?);
        Ok(self.require_tls())
    }

    /// Requires TLS, with a certificate of an authority that the driver trusts, or of the one that
    /// [`tls_authority`](Self::tls_authority) names.
    #[must_use]
    pub fn require_tls(mut self) -> Self {
        self.engine.require_tls();
        self
    }

    /// Sets how long one attempt to connect may take, including name lookup and login; 5 s if not set.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.limits.connect = timeout;
        self
    }

    /// Sets how long an operation may take, including retries; 10 s if not set.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.settings.limits.deadline = deadline;
        self
    }

    /// Refuses a server that may lose committed changes when its machine crashes. If not set, it logs one warning.
    /// Starts, renewals and loads check the server's settings and tables whenever they connect.
    ///
    /// It also refuses segments from any but the first server, unless this is a
    /// [`synchronous_cluster`](Self::synchronous_cluster).
    #[must_use]
    pub fn require_durability(mut self) -> Self {
        self.settings.requires_durability = true;
        self
    }

    /// Declares a cluster with synchronous replication: any server that answers has every commit that another
    /// confirmed. If not set, a lease is lost, and a load warns, when a different or newly promoted server answers: it
    /// may be a replica that lags behind.
    #[must_use]
    pub fn synchronous_cluster(mut self) -> Self {
        self.settings.is_cluster = true;
        self
    }

    /// Returns the server without its engine's type.
    pub fn server(&self) -> Server {
        Server { engine: Arc::new(self.engine.clone()), settings: self.settings.clone() }
    }
}

/// A server as clients see it, whatever its engine.
#[derive(Clone)]
pub struct Server {
    /// The driver, with its options.
    pub(super) engine: Arc<dyn Connector>,
    pub(super) settings: Settings,
}

impl Server {
    pub(super) fn inspected(&self) -> Inspected<'_> {
        Inspected { place: self, settings: &self.settings }
    }

    /// Checks the options before an operation.
    pub(super) fn check(&self) -> Result<(), Error> {
        match self.refusal() {
            Some(problem) => Err(database(self, StoreErrorKind::Invalid, problem, None)),
            None => Ok(()),
        }
    }

    /// Returns what is wrong with the options.
    pub fn refusal(&self) -> Option<String> {
        let login = self.engine.login();
        match login.has_tls && login.has_socket {
            // The driver would silently go without TLS.
            true => Some(SOCKET_WITH_TLS.into()),
            false => self.engine.refusal().or_else(|| login.refusal(TLS_ON, TLS_OFF)),
        }
    }

    /// Returns what to warn of before each connection, if others can get the password.
    pub fn warning(&self) -> Option<String> {
        self.engine.warning().or_else(|| self.engine.login().warning())
    }
}

/// Displays hosts, ports and database.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.engine, f)
    }
}

/// Debug output of the driver's options would show the user or the password.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("server", &format_args!("{self}"))
            .field("tls", &self.engine.login().has_tls)
            .field("connect_timeout", &self.settings.limits.connect)
            .field("deadline", &self.settings.limits.deadline)
            .finish_non_exhaustive()
    }
}

/// Displays hosts, ports and database.
impl<E: Engine> fmt::Display for ServerStore<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.engine, f)
    }
}

impl<E: Engine> fmt::Debug for ServerStore<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.server(), f)
    }
}
