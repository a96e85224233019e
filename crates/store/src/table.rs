//! Operations on a table of starts, for generators and for administration.

use std::time::Duration;

use uidring::{Error, Layout, WorkerSource};

use super::{WorkerRange, WorkerUsage};
use crate::values::CENTURY;

/// A table `WORKER_NODE`, from which each start gets a worker id of its own, for good.
///
/// The methods block, and work within an async runtime.
pub trait WorkerTable: WorkerSource {
    /// Inserts a row, commits it, and returns its key: a worker id that no other start gets.
    ///
    /// # Errors
    ///
    /// [`NoneFits`](crate::TableError::NoneFits); [`Invalid`](crate::TableError::Invalid) if the environment names half
    /// a node; or the store's error.
    fn assign(&self, layout: &Layout) -> Result<u64, Error>;

    /// Creates the table if it does not exist.
    ///
    /// # Errors
    ///
    /// The store's error: `SqliteError::File`, `ServerError::Server`.
    fn create(&self) -> Result<(), Error>;

    /// Returns the worker ids that this store hands out, leased ones included, if a range is recorded.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    fn range(&self) -> Result<Option<WorkerRange>, Error>;

    /// Records the worker ids that this store hands out from now on: starts count through them and fail after the last,
    /// and leases get no others. Recording the same range again changes nothing.
    ///
    /// # Errors
    ///
    /// [`RangeRefused`](crate::TableError::RangeRefused) if another range is recorded, or the store has handed out other
    /// worker ids; otherwise as [`create`](Self::create).
    fn record_range(&self, range: WorkerRange) -> Result<(), Error>;

    /// Returns all rows, by id.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    fn list(&self) -> Result<Vec<WorkerNode>, Error>;

    /// Returns how many worker ids are used, and how fast.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    fn usage(&self) -> Result<WorkerUsage, Error>;

    /// Removes the rows of starts older than this, 100 years at most, by the store's clock. The newest row always
    /// stays, so that no server counts from below it. Pruned worker ids never become available again.
    ///
    /// A server removes many rows in parts, each with the whole deadline.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create). A server's error says how many rows were removed before it.
    fn prune(&self, older_than: Duration) -> Result<Pruned, Error>;
}

/// A row of `WORKER_NODE`, with the original's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerNode {
    /// The worker id.
    pub id: u64,
    /// The node's host name or address.
    pub host_name: String,
    /// The node's port, or what made it unique.
    pub port: String,
    /// 1 for a container, 2 for a machine.
    pub kind: i64,
    /// The day of the start, in UTC.
    pub launch_date: String,
    /// The last change of the row, in UTC.
    pub modified: String,
    /// The time of the start, in UTC.
    pub created: String,
}

/// The result of [`WorkerTable::prune`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruned {
    /// Rows that were removed.
    pub removed: u64,
    /// The newest row's id; `None` in an empty table.
    pub newest: Option<u64>,
}

/// Returns the age for [`WorkerTable::prune`] in seconds, limited to what databases can subtract from their clocks.
pub fn age_in_seconds(older_than: Duration) -> u64 {
    older_than.min(CENTURY).as_secs()
}
