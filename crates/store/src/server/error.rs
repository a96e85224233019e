//! Errors of database servers.

use std::fmt::Display;

use uidring::{Error, StoreErrorKind};

use super::problem::Cause;
use crate::ServerError;

pub(super) fn database(
    server: &impl Display,
    kind: StoreErrorKind,
    problem: impl Into<String>,
    source: Option<Cause>,
) -> Error {
    let (server, problem) = (server.to_string(), problem.into());
    ServerError::Server { engine: "database", server, problem, kind, source }.into()
}

/// Adds a note to a server's error.
pub(super) fn with_note(error: Error, note: &str) -> Error {
    let Error::Store(error) = error else { return error };
    match error.downcast::<ServerError>() {
        Ok(ServerError::Server { engine, server, mut problem, kind, source }) => {
            problem.push_str(note);
            ServerError::Server { engine, server, problem, kind, source }.into()
        }
        Ok(other) => other.into(),
        Err(error) => error.into(),
    }
}
