//! What goes wrong with a server, with the values and what to do.

use std::fmt::Display;
use std::time::Duration;

use uidring::adapter::{Chain, error_traits};
use uidring::{Error, StoreError, StoreErrorKind, Timestamp};

/// Why a database server could not be used.
///
/// It is the cause of a [`StoreError`]; [`Error::store`] gets it back. The crates of MySQL and PostgreSQL
/// call it by names of their own.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The URL of a database is not one. It is not repeated here: it may hold a password.
    #[error("the URL of the database, {place}, is wrong: {problem}; write {form}")]
    DatabaseUrl {
        /// Where it was found.
        place: String,
        /// How such a URL is written.
        form: &'static str,
        /// What is wrong with it.
        problem: String,
    },

    /// A database could not be reached, refused, or gave what must not be used.
    #[error("database {server}: {problem}")]
    Database {
        /// Its host, port and name; of several hosts, each.
        server: String,
        /// What to do about it, and what went wrong unless `source` says it.
        problem: String,
        /// What kind of thing went wrong.
        kind: StoreErrorKind,
        /// What the driver, the server or the system said: an error of the driver's crate,
        /// [`io::Error`](std::io::Error), ….
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },

    /// A database's clock and this host's are further apart than is allowed.
    #[error(
        "database {server}: its clock says {theirs}, this host's says {ours}: {:?} apart, where \
         {limit:?} is allowed; set the wrong one right, or allow more",
        theirs.saturating_since(*ours).max(ours.saturating_since(*theirs))
    )]
    ClockDiffers {
        /// Host, port and name of the database.
        server: String,
        /// What this host's clock said.
        ours: Timestamp,
        /// What the server's clock said meanwhile.
        theirs: Timestamp,
        /// How far they may be apart.
        limit: Duration,
    },
}

error_traits!(ServerError);

impl ServerError {
    /// Returns an error of a store's own.
    pub fn refusal(
        server: &impl Display,
        kind: StoreErrorKind,
        problem: impl Into<String>,
    ) -> Error {
        let (server, problem) = (server.to_string(), problem.into());
        Self::Database { server, problem, kind, source: None }.into()
    }

    fn kind(&self) -> StoreErrorKind {
        match self {
            Self::DatabaseUrl { .. } => StoreErrorKind::Invalid,
            Self::Database { kind, .. } => *kind,
            Self::ClockDiffers { .. } => StoreErrorKind::Clock,
        }
    }
}

impl From<ServerError> for Error {
    fn from(error: ServerError) -> Self {
        StoreError::new(error.kind(), error).into()
    }
}

/// Adds to what an error says of the server.
pub(super) fn with_note(error: Error, note: &str) -> Error {
    let Error::Store(error) = error else { return error };
    match error.downcast::<ServerError>() {
        Ok(ServerError::Database { server, mut problem, kind, source }) => {
            problem.push_str(note);
            ServerError::Database { server, problem, kind, source }.into()
        }
        Ok(other) => other.into(),
        Err(error) => error.into(),
    }
}

/// Returns the kind and the text of an error of a server, with its cause.
pub(super) fn described(error: &Error) -> Option<(StoreErrorKind, String)> {
    let Some(ServerError::Database { kind, problem, source, .. }) = error.store() else {
        return None;
    };
    let cause = source.as_ref().map(|cause| format!(": {}", Chain(&**cause)));
    Some((*kind, format!("{problem}{}", cause.unwrap_or_default())))
}
