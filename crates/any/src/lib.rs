//! Opens any generator of uidring by its URL.
//!
//! ```no_run
//! let generator = uidring_any::open("postgres://app@localhost/ids?layout=snowflake")?;
//! let uid = generator.next_uid()?;
//! println!("{uid}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The URL says where worker ids come from, and how the generator behaves:
//!
//! | URL | worker ids | segments | feature |
//! |---|---|---|---|
//! | `sqlite:PATH` | from a file, for the processes of one host | yes | `sqlite`, on by default |
//! | `mysql://USER:PASSWORD@HOST/DATABASE` | from MySQL or MariaDB | yes | `mysql` |
//! | `postgres://USER:PASSWORD@HOST/DATABASE` | from PostgreSQL | yes | `postgres` |
//! | `etcd://USER:PASSWORD@HOST/PREFIX` | from etcd | no | `etcd` |
//! | `zookeeper://USER:PASSWORD@HOST/CHROOT?name=NAME` | from a registry of Leaf | no | `zookeeper`, `zookeeper-tls` |
//! | `worker:N` | you choose | no | |
//!
//! Options follow a `?`, as `NAME=VALUE` separated by `&`.
//! [The page of options](https://docs.rs/crate/uidring/latest/source/docs/options.md) lists them.
//!
//! By default, a layout with fewer than 100,000 worker ids leases one and gives it back when the generator is dropped.
//! With more, each start uses up a worker id. `worker=lease` and `worker=disposable` choose.
//!
//! If you need one engine and no URL, use its crate alone, such as `uidring-postgres`.

mod engines;
mod environment;
mod error;
mod examine;
mod generator;
mod layout;
mod options;
mod prepared;
mod rows;
mod worker;

pub use uidring;
pub use uidring_store::{
    AnyStore, Finding, LeafNode, LeaseOptions, LeaseRow, LeaseState, LeaseTable, NewSegmentTag,
    Pruned, RangeRefusal, SegmentTable, ServerError, Shortage, StoreUse, TableError, Verdict,
    WorkerNode, WorkerRange, WorkerTable, WorkerUsage,
};

pub use self::error::{AnyFillError, AnyTakeError};
pub use self::examine::Examined;
pub use self::generator::{AnyGenerator, AnyStats, OtherGenerator, TagGenerator};
pub use self::options::Options;
pub use self::prepared::{Prepared, PreparedTag};
pub use self::worker::WorkerKind;

use uidring::Error;

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/options.md")]
mod docs_options {}

/// The tables behind flags and the page of options. Exempt from semantic versioning.
#[doc(hidden)]
pub mod table {
    pub use crate::engines::kinds;
    pub use crate::layout::read as read_layout;
    pub use crate::rows::{FLAGS, GENERATORS, WORKERS};
}

/// Opens the generator of this URL. Blocks until the store has answered.
///
/// ```
/// let generator = uidring_any::open("worker:7?layout=snowflake")?;
/// assert!(generator.next_uid()? < generator.next_uid()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// As [`Options::from_url`] and [`Options::open`].
pub fn open(url: &str) -> Result<AnyGenerator, Error> {
    Options::from_url(url)?.open()
}

/// Async [`open`]. The blocking work runs in its own thread.
///
/// # Errors
///
/// As [`open`]. Also [`Error::Thread`] if no thread can be started.
pub async fn open_async(url: &str) -> Result<AnyGenerator, Error> {
    Options::from_url(url)?.open_async().await
}
