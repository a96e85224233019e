//! Shared code of uidring's stores: the tables `WORKER_NODE` (a row for each start), `UIDRING_LEASE` (leased worker
//! ids) and `leaf_alloc` (segments), and the names of nodes in them.
//!
//! Programs use the crate of a store, which re-exports what they need.

mod any_store;
mod error;
pub mod files;
mod finding;
mod fitting;
mod identity;
pub mod leases;
pub mod options;
#[cfg(feature = "tls")]
pub mod pem;
pub mod plain;
mod range;
#[cfg(feature = "server")]
pub mod server;
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

pub use self::any_store::{AnyStore, LeafNode};
pub use self::error::{ServerError, TableError};
pub use self::finding::{Finding, Findings, StoreUse, Verdict};
pub use self::fitting::{Fitting, Shortage};
pub use self::identity::{NodeIdentity, NodeKind};
pub use self::leases::{LeaseOptions, LeaseRow, LeaseState, LeaseTable};
pub use self::range::{NoWorkerRange, RangeRefusal, WorkerRange};
pub use self::small_file::{
    check_path, read_private_file, read_secret, read_small_file, warn_if_exposed,
};
pub use self::store_kind::StoreKind;
pub use self::table::{Pruned, WorkerNode, WorkerTable, age_in_seconds};
pub use self::tags::{
    MOST_TOGETHER, NewSegmentTag, SegmentTable, check_no_url, check_step, end_of, no_such_tag,
};
#[cfg(feature = "tls")]
pub use self::tls::{choose_cryptography, tls_advice, tls_error, tls_failed};
pub use self::url::Credentials;
pub use self::usage::{IsLeased, WorkerUsage, announce_end};
pub use self::warn_once::warn_once;

/// Quotes a path or another word for a shell.
pub fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:,@%+=".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
