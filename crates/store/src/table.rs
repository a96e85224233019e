//! What people and generators do with a table of starts, in any database.

use std::time::Duration;

use uidring::{Error, Layout, WorkerSource};

use super::{TableError, WorkerRange, WorkerUsage};

/// A table `WORKER_NODE`, from which each start gets a worker id of its own, for good.
///
/// Its methods block, and work within an async runtime too.
pub trait WorkerTable: WorkerSource {
    /// Inserts a row, commits it, and returns its key: a worker id that no other start gets.
    ///
    /// # Errors
    ///
    /// [`TableError::WorkerIdsUsedUp`], [`TableError::OutsideRange`], [`TableError::NodeIdentity`], and what the
    /// store says.
    fn assign(&self, layout: &Layout) -> Result<u64, Error>;

    /// Creates the table if it does not exist.
    ///
    /// # Errors
    ///
    /// What the store says: `SqliteError::File`, `ServerError::Server`.
    fn create(&self) -> Result<(), Error>;

    /// Returns the worker ids that this store hands out, leased ones too, if they were recorded.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create).
    fn range(&self) -> Result<Option<WorkerRange>, Error> {
        Ok(None)
    }

    /// Records the worker ids that this store hands out from now on: those of starts begin at the first and end with an
    /// error at the last, and leases have no others. To record the same range again changes nothing.
    ///
    /// # Errors
    ///
    /// [`TableError::OtherRange`] if the store has recorded another range; [`TableError::RangeInUse`] if it has handed
    /// out other worker ids; [`TableError::Lacks`]; else as for [`create`](Self::create).
    fn record_range(&self, range: WorkerRange) -> Result<(), Error> {
        let (place, has) = (format!("the store for {range}"), "worker ids");
        Err(TableError::Lacks { place, has, what: "range of them" }.into())
    }

    /// Returns all rows, by id.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create).
    fn list(&self) -> Result<Vec<WorkerNode>, Error>;

    /// Returns how many worker ids are used, and how fast.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create).
    fn usage(&self) -> Result<WorkerUsage, Error>;

    /// Removes the rows of starts longer ago than this, 100 years at most, by the store's clock.
    /// The newest row stays whatever its age, so that no server starts counting below it. Pruning a row
    /// never makes its worker id available again.
    ///
    /// A server removes many rows a part at a time, of which each gets the server's whole deadline.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create). A server's text says how many rows were removed before.
    fn prune(&self, older_than: Duration) -> Result<Pruned, Error>;
}

/// A row of `WORKER_NODE`, whose columns are those of the original.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerNode {
    /// The worker id.
    pub id: u64,
    /// Host name or address of the node.
    pub host_name: String,
    /// Its port, or what made it unique.
    pub port: String,
    /// 1 for a container, 2 for a machine.
    pub kind: i64,
    /// The day of the start, in UTC.
    pub launch_date: String,
    /// Last change of the row, in UTC.
    pub modified: String,
    /// Time of the start, in UTC.
    pub created: String,
}

/// What [`WorkerTable::prune`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruned {
    /// Rows that were removed.
    pub removed: u64,
    /// The newest row's id; `None` in an empty table.
    pub newest: Option<u64>,
}

/// Returns the age for [`WorkerTable::prune`] in seconds, limited to what databases can subtract from
/// their clocks.
pub fn age_in_seconds(older_than: Duration) -> u64 {
    const CENTURY: u64 = 36_525 * 86_400;
    older_than.as_secs().min(CENTURY)
}
