//! Tables in a SQLite file.

use std::path::Path;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use uidring_sqlite::SqliteStore;
use uidring_store::{AnyStore, check_path};

use crate::failure::Failure;

/// The file with this path, or the user's own files in the data directory.
pub fn open(path: Option<&Path>) -> Result<Box<dyn AnyStore>, Failure> {
    Ok(Box::new(match path {
        Some(path) => named(path)?,
        None => SqliteStore::in_data_directory()?,
    }))
}

/// The file with this path, after which options may follow as in a URL: `a.db?mode=rwc`. They begin at the last
/// question mark.
fn named(text: &Path) -> Result<SqliteStore, Failure> {
    check_path("the file of --sqlite", text).map_err(Failure::usage)?;
    let Some((path, options)) = text.to_str().and_then(|text| text.rsplit_once('?')) else {
        return Ok(SqliteStore::new(text));
    };
    let path = utf8_percent_encode(path, NON_ALPHANUMERIC);
    SqliteStore::from_url(&format!("sqlite:{path}?{options}")).map_err(|error| {
        Failure::Usage(format!(
            "--sqlite: {error}. If the path has a question mark itself, write another one after it"
        ))
    })
}
