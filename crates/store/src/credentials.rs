//! User and password for stores whose addresses have none.

use std::path::Path;

use uidring::Error;

use crate::{TableError, read_secret, warn_if_exposed};

/// A user and a password. It implements neither `Debug` nor `Display`.
#[derive(Clone)]
pub struct Credentials {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}

impl Credentials {
    /// Reads `USER:PASSWORD` from the first line of a file.
    ///
    /// # Errors
    ///
    /// [`TableError::DatabaseFile`] if the file cannot be read; [`TableError::UrlForPath`];
    /// [`TableError::Invalid`], which does not repeat the file's text.
    pub fn from_file(what: &'static str, path: &Path) -> Result<Self, Error> {
        let text = read_secret(what, path)?;
        match text.lines().next().unwrap_or_default().trim().split_once(':') {
            Some((user, password)) if !user.is_empty() && !password.is_empty() => {
                warn_if_exposed(path);
                Ok(Self { user: user.into(), password: password.into() })
            }
            _ => Err(TableError::Invalid {
                problem: format!("{what}, in the file, are wrong; write USER:PASSWORD"),
            }
            .into()),
        }
    }
}
