//! What the stores of uidring share: tables `WORKER_NODE`, where every start inserts a row and has its
//! worker id; tables `UIDRING_LEASE`, from which worker ids are leased; tables `leaf_alloc`, from which
//! segments are loaded; and how a node is named in them.
//!
//! Programs use the crate of a store, which re-exports what they need of this one.

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
pub use self::small_file::{read_private_file, read_small_file};
pub use self::store_kind::StoreKind;
pub use self::table::{Pruned, WorkerNode, WorkerTable, age_in_seconds};
pub use self::tags::{MOST_TOGETHER, NewSegmentTag, SegmentTable, check_step, end_of, no_such_tag};
#[cfg(feature = "tls")]
pub use self::tls::{tls_advice, tls_error, tls_failed};
pub use self::usage::{Counts, IsLeased, WorkerUsage, announce_end};
pub use self::warn_once::warn_once;

/// Refuses a path that is empty, or a URL, whose password would be in every text about the file.
pub fn check_path(what: &'static str, path: &Path) -> Result<(), Error> {
    if path.as_os_str().is_empty() {
        return Err(Error::from(TableError::EmptyPath { what }));
    }
    if may_have_url(&path.to_string_lossy()) {
        return Err(Error::from(TableError::UrlForPath { what }));
    }
    Ok(())
}

/// Returns a path or another word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:,@%+=".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Reads a file of secrets. No error repeats anything of it.
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
    // Some editors begin a text with a byte order mark.
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}
