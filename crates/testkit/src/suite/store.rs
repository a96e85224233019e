//! What the suite must know about a store.

use std::time::Duration;

use uidring::segment::{SegmentStore, SegmentTag};
use uidring::worker::Lease;
use uidring::{Error, WorkerRequest, WorkerSource};

/// A kind of store, and how a process opens it. Leave the defaults for what a store lacks; the [macro](crate::suite!)
/// states why.
///
/// The suite calls it from many threads, and from processes that only get a [`Place`].
pub trait Store: Sync {
    /// Starts an empty store of its own with all tables. Its files are in the temporary folder.
    fn start(&self) -> Box<dyn Site>;

    /// Creates an empty store, maybe on a server that other tests use at the same time.
    fn share(&self) -> Box<dyn Site> {
        self.start()
    }

    /// Opens a source of disposable worker ids.
    fn worker_ids(&self, place: &Place) -> Result<Box<dyn WorkerSource>, Error> {
        unreachable!("{place:?} has no disposable worker ids")
    }

    /// Leases a worker id.
    fn lease(&self, place: &Place, request: &WorkerRequest, terms: &Terms) -> Result<Lease, Error> {
        unreachable!("{place:?} has no leases: {request:?}, {terms:?}")
    }

    /// Opens the table of tags.
    fn segments(&self, place: &Place) -> Result<Box<dyn SegmentStore>, Error> {
        unreachable!("{place:?} has no segments")
    }

    /// Returns the cause of an error in an [attack](crate::attack!), or `None` if nothing explains it.
    fn cause(&self, error: &str) -> Option<Cause> {
        let _ = error;
        None
    }
}

/// Where a start runs, and what distinguishes it.
#[derive(Clone, Debug)]
pub struct Place {
    /// The result of [`Site::address`].
    pub address: String,
    /// Stands for the host. No two live processes have the same slot.
    pub slot: usize,
    /// Unique to this start.
    pub unique: String,
    /// The limit of an operation, for stores that let users set it.
    pub deadline: Duration,
}

/// The terms of a lease.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// How long the lease lasts unless renewed. A store may shorten it to its maximum.
    pub lasts: Duration,
    /// How long a start waits if all worker ids are held.
    pub wait_for: Duration,
}

/// A started store with all its files. It ends on drop.
pub trait Site: Send + Sync {
    /// Returns the address for processes. `round` is the number of starts before: at another address, worker ids may
    /// repeat.
    fn address(&self, round: usize) -> String;

    /// Removes what can be removed of ended starts with disposable worker ids.
    fn prune(&self) {
        unreachable!("nothing is pruned")
    }

    /// Records the range of worker ids, for starts and for leases.
    ///
    /// # Errors
    ///
    /// The kind [`Conflict`](uidring::StoreErrorKind::Conflict) if the store has recorded another range or handed out
    /// other worker ids.
    fn record_range(&self, first: u64, last: u64) -> Result<(), Error> {
        unreachable!("no range is recorded, nor is {first} to {last}")
    }

    /// Returns the stored leases.
    fn rows(&self) -> &dyn Rows {
        unreachable!("rows are not to be seen")
    }

    /// Returns the rows of tags.
    fn tags(&self) -> &dyn Tags {
        unreachable!("there are no tags")
    }

    /// Returns the server to kill and freeze, if [`Store::start`] started one.
    fn server(&self) -> Option<&dyn Server> {
        None
    }

    /// Returns the server's port on 127.0.0.1.
    fn port(&self) -> Option<u16> {
        None
    }

    /// Returns the store's address over another port of 127.0.0.1, a proxy's.
    fn address_at(&self, port: u16) -> String {
        unreachable!("there is no server, nor one at port {port}")
    }
}

/// Stored leases, as a person sees and changes them.
pub trait Rows {
    /// Returns the stored lease of a worker id.
    fn row(&self, worker_id: u64) -> Option<Row>;

    /// Changes it, even while the worker id is held.
    fn change(&self, worker_id: u64, change: Change);
}

/// A stored lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What distinguishes holders: token, owner or version.
    pub holder: String,
    /// Whether it is held, by the store's clock.
    pub is_held: bool,
    /// The last tick that may be in use.
    pub horizon: Option<u64>,
}

/// A change by somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The token grows, as by a fence.
    Fenced,
    /// Another owner, with the next token.
    Taken,
    /// Another owner with the same token, as after a restore.
    Twin,
    /// The row is deleted.
    Removed,
    /// The horizon is a tick lower, as after a failover that lost commits.
    SetBack,
}

/// Rows of tags, as a person changes them.
pub trait Tags: Sync {
    /// Adds or replaces a tag.
    fn put(&self, tag: &SegmentTag);

    /// Changes only the step, while others load.
    fn set_step(&self, tag: &str, step: i64);
}

/// A server that a test can kill and freeze.
pub trait Server: Sync {
    /// Kills it, whatever it does, and waits.
    fn kill(&self);
    /// Restarts it with its files and address, and waits until it answers.
    fn start_again(&self);
    /// Freezes it: it accepts connections, but answers nothing.
    fn freeze(&self);
    /// Continues it.
    fn thaw(&self);
}

#[cfg(any(feature = "etcd", feature = "mariadb", feature = "postgres", feature = "zookeeper"))]
impl<K: crate::server::Kind> Server for crate::server::Server<K> {
    fn kill(&self) {
        Self::kill(self);
    }

    fn start_again(&self) {
        Self::start_again(self);
    }

    fn freeze(&self) {
        Self::freeze(self);
    }

    fn thaw(&self) {
        Self::thaw(self);
    }
}

/// A possible cause of an error in an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// All worker ids are held or used up.
    NoneFree,
    /// A lease was not renewed in time.
    Lost,
    /// At least half of the time, a process that may have held a lock was stopped, or the machine stalled.
    Locked,
    /// Shortly before or meanwhile, the server or a process was stopped, or the machine stalled.
    Away,
}
