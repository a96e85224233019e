//! A database server and a database in it, whatever the engine.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use uidring::adapter::log;
use uidring::{Error, StoreErrorKind};

use super::engine::Engine;
use super::error::database;
use super::settings::{Inspected, Settings};
use super::url;
use crate::StoreKind;
use crate::options::{Given, Tls, TlsMode};
use crate::pem::{Authorities, ClientIdentity};
use crate::plain::{SOCKET_WITH_TLS, TLS_OFF, TLS_ON};
use crate::url::Url;

/// A database server and a database in it. Neither URL nor password appear in any text of this type or of its
/// errors.
#[derive(Clone)]
pub struct ServerStore<E> {
    /// How the engine's driver connects.
    pub engine: E,
    /// The options that every server has.
    pub settings: Settings,
}

impl<E: Engine> ServerStore<E> {
    /// How its stores are named and opened.
    pub const KIND: StoreKind = StoreKind {
        options: E::OPTIONS,
        schemes: E::URL.schemes,
        form: E::URL.form,
        is_file: false,
        has_own_workers: false,
        open: |url, given| {
            let store = Self::from_parts(url, given)?;
            match store.refusal() {
                Some(problem) => Err(E::URL.wrong(problem)),
                None => Ok(Box::new(store)),
            }
        },
    };

    /// The server at this URL.
    ///
    /// # Errors
    ///
    /// [`ServerError::Address`](crate::ServerError::Address), which does not repeat the URL; those of the files that the URL names.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        let wrong = |problem| E::URL.wrong(problem);
        let url = Url::split(url, E::URL.schemes).map_err(wrong)?;
        let given = Given::read(&E::OPTIONS.into(), &url.parameters).map_err(wrong)?;
        Self::from_parts(&url, &given)
    }

    /// The server at the URL with these parts.
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

    /// The server whose URL is the first line of this file, which keeps it out of the list of processes.
    ///
    /// # Errors
    ///
    /// [`TableError::DatabaseFile`](crate::TableError::DatabaseFile) if the file cannot be read;
    /// [`TableError::UrlForPath`](crate::TableError::UrlForPath) if the path is the URL itself; those of
    /// [`from_url`](Self::from_url).
    pub fn from_url_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        url::in_file(path.as_ref(), &E::URL, Self::from_url)
    }

    /// Requires TLS with a certificate signed by an authority in this PEM file, and by no other.
    ///
    /// # Errors
    ///
    /// [`TableError::DatabaseFile`](crate::TableError::DatabaseFile) if the file cannot be read, holds no
    /// certificate, or a broken one; [`TableError::UrlForPath`](crate::TableError::UrlForPath).
    pub fn tls_authority(mut self, path: impl AsRef<Path>) -> Result<Self, Error> {
        self.engine.trust(Authorities::read(path.as_ref())?);
        Ok(self.require_tls())
    }

    /// Requires TLS, shows the server this certificate with those that sign it, and proves it by this private
    /// key; both are PEM files.
    ///
    /// # Errors
    ///
    /// [`TableError::DatabaseFile`](crate::TableError::DatabaseFile) if a file cannot be read or holds nothing
    /// of the kind, if the key is that of another certificate, or if others may read it: its mode may be 600, or
    /// 640 if it is root's; [`TableError::UrlForPath`](crate::TableError::UrlForPath).
    pub fn tls_certificate(
        mut self,
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Result<Self, Error> {
        self.engine.show(ClientIdentity::read(certificate.as_ref(), key.as_ref())?);
        Ok(self.require_tls())
    }

    /// Requires TLS, with a certificate of an authority that the engine's driver trusts unless
    /// [`tls_authority`](Self::tls_authority) names another.
    #[must_use]
    pub fn require_tls(mut self) -> Self {
        self.engine.require_tls();
        self
    }

    /// How long one attempt to connect, name look-up and login included, may take; 5 s by default.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.limits.connect = timeout;
        self
    }

    /// How long an operation may take with all its attempts; 10 s by default.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.settings.limits.deadline = deadline;
        self
    }

    /// Refuses a server that may lose confirmed commits when its machine crashes; by default it logs a warning
    /// once. A start, a renewal and a load each check the server's settings and tables when they connect.
    ///
    /// Segments are then also refused from another server than the one that the generator began with, unless
    /// this is a [`synchronous_cluster`](Self::synchronous_cluster).
    #[must_use]
    pub fn require_durability(mut self) -> Self {
        self.settings.requires_durability = true;
        self
    }

    /// Declares that whichever server answers has all that another one has confirmed: a cluster with synchronous
    /// replication, of which only a server that has every commit is ever promoted. By default a lease is lost,
    /// and a load of a segment warns, when another server answers than before, or one that was promoted
    /// meanwhile: it may be a replica that lags behind.
    #[must_use]
    pub fn synchronous_cluster(mut self) -> Self {
        self.settings.is_cluster = true;
        self
    }

    pub(super) fn inspected(&self) -> Inspected<'_> {
        Inspected { place: &self.engine, settings: &self.settings }
    }

    /// Checks the options before each operation.
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
            // The driver would go without TLS, and say nothing.
            true => Some(SOCKET_WITH_TLS.into()),
            false => self.engine.refusal().or_else(|| login.refusal(TLS_ON, TLS_OFF)),
        }
    }

    /// Returns what to know before each connection, if anybody else can get the password.
    pub fn warning(&self) -> Option<String> {
        self.engine.warning().or_else(|| self.engine.login().warning())
    }
}

/// Hosts, ports and database.
impl<E: Engine> fmt::Display for ServerStore<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.engine, f)
    }
}

/// The driver's options would print the user or the password.
impl<E: Engine> fmt::Debug for ServerStore<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerStore")
            .field("server", &format_args!("{self}"))
            .field("tls", &self.engine.login().has_tls)
            .field("connect_timeout", &self.settings.limits.connect)
            .field("deadline", &self.settings.limits.deadline)
            .finish_non_exhaustive()
    }
}
