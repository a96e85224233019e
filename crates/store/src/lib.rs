//! Shared code of uidring's stores: the tables `WORKER_NODE` (a row for each start), `UIDRING_LEASE` (leased worker
//! ids) and `leaf_alloc` (segments), and the names of nodes in them.
//!
//! Programs use the crate of a store, which re-exports what they need.

mod any_store;
mod credentials;
#[cfg(feature = "tls")]
mod cryptography;
mod error;
pub mod files;
mod finding;
mod fitting;
mod identity;
mod leaf_node;
pub mod leases;
pub mod options;
#[cfg(feature = "tls")]
pub mod pem;
pub mod plain;
mod range;
#[cfg(feature = "server")]
pub mod server;
mod server_error;
mod small_file;
pub mod sql;
mod store_kind;
mod table;
mod tags;
#[cfg(feature = "tls")]
mod tls;
pub mod url;
mod usage;
pub mod values;
mod warn_once;

use std::path::Path;

use uidring::Error;
use uidring::adapter::may_have_url;

pub use self::any_store::AnyStore;
pub use self::credentials::Credentials;
#[cfg(feature = "tls")]
pub use self::cryptography::choose_cryptography;
pub use self::error::TableError;
pub use self::finding::{Finding, Findings, StoreUse, Verdict};
pub use self::fitting::Fitting;
pub use self::identity::{NodeIdentity, NodeKind};
pub use self::leaf_node::LeafNode;
pub use self::leases::{LeaseOptions, LeaseRow, LeaseState, LeaseTable};
pub use self::range::{NoWorkerRange, RangeRefusal, WorkerRange};
pub use self::server_error::ServerError;
pub use self::small_file::{read_private_file, read_small_file, warn_if_exposed};
pub use self::store_kind::StoreKind;
pub use self::table::{Pruned, WorkerNode, WorkerTable, age_in_seconds};
pub use self::tags::{
    MOST_TOGETHER, NewSegmentTag, SegmentTable, check_no_url, check_step, end_of, no_such_tag,
};
#[cfg(feature = "tls")]
pub use self::tls::{tls_advice, tls_error, tls_failed};
pub use self::usage::{IsLeased, WorkerUsage, announce_end};
pub use self::warn_once::warn_once;

/// Refuses an empty path, and a URL, whose password would appear in errors.
pub fn check_path(what: &'static str, path: &Path) -> Result<(), Error> {
    if path.as_os_str().is_empty() {
        let problem = "was to be named by its path, and the path is empty; name a file";
        return Err(TableError::Invalid { problem: format!("{what} {problem}") }.into());
    }
    if may_have_url(&path.to_string_lossy()) {
        return Err(Error::from(TableError::UrlForPath { what }));
    }
    Ok(())
}

/// Quotes a path or another word for a shell.
pub fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:,@%+=".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Reads a file of secrets. Errors repeat nothing of it.
pub fn read_secret(what: &'static str, path: &Path) -> Result<String, Error> {
    check_path(what, path)?;
    let text = read_small_file(path).and_then(|bytes| {
        String::from_utf8(bytes).map_err(|_| std::io::Error::other("it is no UTF-8 text"))
    });
    let text = text.map_err(|error| TableError::DatabaseFile {
        what,
        path: path.to_owned(),
        source: error.into(),
    })?;
    // Some editors begin a file with a byte order mark.
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}
