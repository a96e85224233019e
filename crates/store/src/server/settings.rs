//! What a store on a server is given: its URL, and what holds of every server.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use uidring::Error;

use super::error::ServerError;
use crate::read_secret;
use crate::warn_once;

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// One attempt to connect, name look-up and login included.
    pub connect: Duration,
    /// An operation with all its attempts.
    pub deadline: Duration,
}

/// The options that every server has.
#[derive(Clone)]
pub struct Settings {
    /// How long things may take.
    pub limits: Limits,
    /// Whether servers that may lose commits are refused.
    pub requires_durability: bool,
    /// Whether any server that answers is a good one.
    pub is_cluster: bool,
    /// Which risks of the server were reported.
    reported: Arc<[OnceLock<()>; Settings::RISKS]>,
}

impl Default for Settings {
    fn default() -> Self {
        let (connect, deadline) = (Duration::from_secs(5), Duration::from_secs(10));
        Self {
            limits: Limits { connect, deadline },
            requires_durability: false,
            is_cluster: false,
            reported: Arc::default(),
        }
    }
}

impl Settings {
    /// How many risks a store may number.
    const RISKS: usize = 5;

    /// Warns of a risk of this server once, or refuses it, as the options say.
    ///
    /// # Errors
    ///
    /// The explanation.
    pub fn report(
        &self,
        server: &impl fmt::Display,
        risk: usize,
        explain: impl Fn() -> String,
    ) -> Result<(), String> {
        if self.requires_durability {
            return Err(explain());
        }
        if self.reported[risk].set(()).is_ok() {
            warn_once(format!("{server}: {}", explain()));
        }
        Ok(())
    }

    /// Writes what may be known of a store: its driver's options would print the user or the password.
    ///
    /// # Errors
    ///
    /// The formatter's.
    pub fn debug(
        &self,
        f: &mut fmt::Formatter<'_>,
        store: &'static str,
        server: &impl fmt::Display,
        tls: bool,
    ) -> fmt::Result {
        f.debug_struct(store)
            .field("server", &format_args!("{server}"))
            .field("tls", &tls)
            .field("connect_timeout", &self.limits.connect)
            .field("deadline", &self.limits.deadline)
            .finish_non_exhaustive()
    }
}

/// How the URL of a kind of server is written, and where it is found.
#[derive(Clone, Copy, Debug)]
pub struct ServerUrl {
    /// How it is written.
    pub form: &'static str,
    /// The environment variable with a server's URL.
    pub variable: &'static str,
    /// How errors call that place.
    pub in_variable: &'static str,
}

impl ServerUrl {
    /// Returns the error for a URL that a program gave.
    pub fn wrong(&self, problem: String) -> Error {
        self.wrong_in("as given", problem)
    }

    /// Returns the store whose URL is the first line of this file.
    ///
    /// # Errors
    ///
    /// [`TableError::DatabaseFile`](crate::TableError::DatabaseFile),
    /// [`TableError::UrlForPath`](crate::TableError::UrlForPath), and those of `from_url`.
    pub fn in_file<S>(
        &self,
        path: &Path,
        from_url: impl FnOnce(&str) -> Result<S, Error>,
    ) -> Result<S, Error> {
        let place = format!("in the file {}", path.display());
        let text = read_secret("the URL of the database", path)?;
        if text.trim().is_empty() {
            return Err(self.wrong_in(&place, "the file is empty".into()));
        }
        let url = text.lines().next().unwrap_or_default().trim();
        from_url(url).map_err(|error| self.found(error, &place))
    }

    /// Returns the store whose URL is in the environment variable; `None` where it is not set.
    ///
    /// # Errors
    ///
    /// Those of `from_url`.
    pub fn in_env<S>(
        &self,
        from_url: impl FnOnce(&str) -> Result<S, Error>,
    ) -> Result<Option<S>, Error> {
        let Some(url) = std::env::var_os(self.variable) else {
            return Ok(None);
        };
        from_url(url.to_string_lossy().trim())
            .map(Some)
            .map_err(|error| self.found(error, self.in_variable))
    }

    fn wrong_in(&self, place: &str, problem: String) -> Error {
        let place = place.into();
        ServerError::DatabaseUrl { place, form: self.form, problem }.into()
    }

    /// Says where a wrong URL was found.
    fn found(&self, error: Error, place: &str) -> Error {
        match error.store() {
            Some(ServerError::DatabaseUrl { problem, .. }) => self.wrong_in(place, problem.clone()),
            _ => error,
        }
    }
}
