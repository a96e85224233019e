//! The caller's function that opens a file, and the checks of its connection.

use std::error::Error as _;
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

use super::create::identity;
use super::format::{Problem, unusable};

/// The caller's function that opens a file.
#[derive(Clone)]
pub struct Opener(pub Arc<Open>);

type Open = dyn Fn(&Path) -> rusqlite::Result<Connection> + Send + Sync;

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opener")
    }
}

/// Refuses a connection to another file than the path leads to. SQLite follows links by their text, so it reads
/// `/proc/PID/root`, the root of another mount namespace, as `/`.
pub fn check_is_at(connection: &Connection, path: &Path) -> Result<(), Problem> {
    match connection.path().map(Path::new) {
        Some(opened) if identity(fs::metadata(opened)) != identity(fs::metadata(path)) => {
            Err(Problem::Denied(format!(
                "SQLite has opened another file, {}, by this path, which leads to another mount namespace, or \
                 whose file was replaced just now: name the file by a path of this namespace",
                opened.display()
            )))
        }
        _ => Ok(()),
    }
}

impl Opener {
    /// Opens the file. Refuses a connection to anything else, or within a transaction.
    pub fn open(&self, path: &Path) -> Result<Connection, Problem> {
        // An opener must not create a file, or ids would start anew.
        let found = identity(fs::metadata(path));
        if found.is_none() {
            return unusable("there is no such file");
        }
        // The error's text may repeat the statement, with a key in it.
        let connection = (self.0)(path).map_err(|error| {
            let source = error.source().and_then(|source| source.downcast_ref());
            match error.sqlite_error().or(source) {
                Some(code) => rusqlite::Error::SqliteFailure(*code, None),
                None => error,
            }
        })?;
        let opened = connection.path().and_then(|opened| fs::canonicalize(opened).ok());
        let is_same = opened.is_some() && opened == fs::canonicalize(path).ok();
        if !is_same || identity(fs::metadata(path)) != found {
            unusable("it was opened as another file: open the path that was asked for")
        } else if !connection.is_autocommit() {
            unusable("it was opened with a transaction begun: leave that to the store")
        } else {
            Ok(connection)
        }
    }
}
