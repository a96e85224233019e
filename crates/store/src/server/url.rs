//! The URLs of an engine.

use std::path::Path;

use uidring::Error;

use crate::{ServerError, read_secret};

/// The form of an engine's URLs.
#[derive(Clone, Copy, Debug)]
pub struct ServerUrl {
    /// The form, for errors.
    pub form: &'static str,
    /// What comes before `://`.
    pub schemes: &'static [&'static str],
}

impl ServerUrl {
    /// Returns the error for a wrong URL.
    pub fn wrong(&self, problem: String) -> Error {
        self.wrong_in("as given", problem)
    }

    fn wrong_in(&self, place: &str, problem: String) -> Error {
        let place = place.into();
        ServerError::Address { what: "the URL of the database", place, form: self.form, problem }
            .into()
    }

    /// Adds where a wrong URL was found.
    fn found(&self, error: Error, place: &str) -> Error {
        match error.store() {
            Some(ServerError::Address { problem, .. }) => self.wrong_in(place, problem.clone()),
            _ => error,
        }
    }
}

/// Reads the URL in the first line of this file.
pub(super) fn in_file<S>(
    path: &Path,
    form: &ServerUrl,
    from_url: impl FnOnce(&str) -> Result<S, Error>,
) -> Result<S, Error> {
    let place = format!("in the file {}", path.display());
    let text = read_secret("the URL of the database", path)?;
    if text.trim().is_empty() {
        return Err(form.wrong_in(&place, "the file is empty".into()));
    }
    let url = text.lines().next().unwrap_or_default().trim();
    from_url(url).map_err(|error| form.found(error, &place))
}
