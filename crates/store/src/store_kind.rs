//! What an engine's crate offers to the crate that opens URLs.

use uidring::Error;

use crate::options::{Given, Owner};
use crate::url::Url;
use crate::{AnyStore, ServerError};

/// Opens a store.
type Open = fn(&Url, &Given) -> Result<Box<dyn AnyStore>, Error>;

/// How URLs name an engine's stores, and how to open them.
#[derive(Debug)]
pub struct StoreKind {
    /// The options of its URLs.
    pub options: &'static Owner,
    /// The schemes of its URLs.
    pub schemes: &'static [&'static str],
    /// The form of its URLs, for errors.
    pub form: &'static str,
    /// Whether its URLs name a file, as in `sqlite:PATH`.
    pub is_file: bool,
    /// Whether it assigns worker ids in its own way, so that a URL cannot choose their kind.
    pub has_own_workers: bool,
    /// Checks the parts of a URL and returns the store. It does not connect.
    pub open: Open,
}

impl StoreKind {
    /// Splits a URL of this engine.
    ///
    /// # Errors
    ///
    /// Says what is wrong, without repeating possible secrets.
    pub fn split(&self, text: &str) -> Result<Url, String> {
        match self.is_file {
            true => Url::split_path(text, self.schemes[0]),
            false => Url::split(text, self.schemes),
        }
    }

    /// Splits a URL of this engine and reads its parameters as options.
    ///
    /// # Errors
    ///
    /// [`ServerError::Address`].
    pub fn read(&self, text: &str) -> Result<(Url, Given), Error> {
        let url = self.split(text).map_err(|problem| self.wrong(problem))?;
        let given = Given::read(&self.options.into(), &url.parameters);
        Ok((url, given.map_err(|problem| self.wrong(problem))?))
    }

    /// Returns the error for a wrong URL.
    pub fn wrong(&self, problem: impl Into<String>) -> Error {
        let (what, place) = ("the URL", "as given".into());
        ServerError::Address { what, place, form: self.form, problem: problem.into() }.into()
    }
}
