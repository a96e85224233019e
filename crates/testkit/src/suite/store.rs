//! What the suite needs to know of a store.

use std::time::Duration;

use uidring::segment::{SegmentStore, SegmentTag};
use uidring::worker::Lease;
use uidring::{Error, WorkerRequest, WorkerSource};

/// A kind of store, and how a process opens one. What a store does not have stays as it is here; the
/// [macro](crate::suite!) says why.
///
/// The suite calls it from many threads, and from processes that get nothing but a [`Place`].
pub trait Store: Sync {
    /// Starts a store of its own, empty and with all tables, whose files are in the temporary folder.
    fn start(&self) -> Box<dyn Site>;

    /// Makes an empty store that may be on a server that other tests use at the same time.
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

    /// What an error of an [attack](crate::attack!) comes of; `None` for one that nothing explains.
    fn cause(&self, error: &str) -> Option<Cause> {
        let _ = error;
        None
    }
}

/// Where a start is, and what tells it from others.
#[derive(Clone, Debug)]
pub struct Place {
    /// What [`Site::address`] has returned.
    pub address: String,
    /// Stands for the host: no two processes with one slot live at the same time.
    pub slot: usize,
    /// No other start has it.
    pub unique: String,
    /// How long an operation may take, where the store lets its users say so.
    pub deadline: Duration,
}

/// How a worker id is leased.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// How long the lease lasts unless it is renewed. A store may shorten it to what it allows.
    pub lasts: Duration,
    /// How long the start waits for a worker id when all are held.
    pub wait_for: Duration,
}

/// A store that has been started, and all of its files. It ends when this is dropped.
pub trait Site: Send + Sync {
    /// Tells processes where it is. `round` is the number of starts before: worker ids may come again at
    /// another address.
    fn address(&self, round: usize) -> String;

    /// Removes what can be removed of the starts that had disposable worker ids.
    fn prune(&self) {
        unreachable!("nothing is pruned")
    }

    /// Records the range of worker ids, of starts and of leases.
    ///
    /// # Errors
    ///
    /// One of the kind [`Conflict`](uidring::StoreErrorKind::Conflict) if the store has recorded another range, or has
    /// handed out other worker ids.
    fn record_range(&self, first: u64, last: u64) -> Result<(), Error> {
        unreachable!("no range is recorded, nor is {first} to {last}")
    }

    /// What the store holds of leases.
    fn rows(&self) -> &dyn Rows {
        unreachable!("rows are not to be seen")
    }

    /// The rows of tags.
    fn tags(&self) -> &dyn Tags {
        unreachable!("there are no tags")
    }

    /// The server that may be killed and frozen, if [`Store::start`] has started one.
    fn server(&self) -> Option<&dyn Server> {
        None
    }

    /// The server's port of 127.0.0.1.
    fn port(&self) -> Option<u16> {
        None
    }

    /// The address of the same store by another port of 127.0.0.1: a proxy's.
    fn address_at(&self, port: u16) -> String {
        unreachable!("there is no server, nor one at port {port}")
    }
}

/// What a store holds of leases, as a person sees and changes it.
pub trait Rows {
    /// Returns what it holds of a worker id.
    fn row(&self, worker_id: u64) -> Option<Row>;

    /// Changes it, whoever holds the worker id.
    fn change(&self, worker_id: u64, change: Change);
}

/// What a store holds of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What tells a holder from the others: its token, owner, or version.
    pub holder: String,
    /// Whether it is held, by the store's clock.
    pub is_held: bool,
    /// The last tick that may have been issued.
    pub horizon: Option<u64>,
}

/// A change by somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The token grows: the lease was fenced.
    Fenced,
    /// Another owner with the next token.
    Taken,
    /// Another owner with the same token, as after the store was set back to an earlier state.
    Twin,
    /// The row is gone.
    Removed,
    /// The horizon is a tick lower, as after a failover that lost commits.
    SetBack,
}

/// The rows of tags, as a person changes them.
pub trait Tags: Sync {
    /// Adds a tag, or replaces it.
    fn put(&self, tag: &SegmentTag);

    /// Changes the step alone, while others load.
    fn set_step(&self, tag: &str, step: i64);
}

/// A server that may be ill-treated.
pub trait Server: Sync {
    /// Ends it in the midst of whatever it does, and waits.
    fn kill(&self);
    /// Starts it again with the same files at the same address, and waits until it answers.
    fn start_again(&self);
    /// Lets it stand still: it takes connections, and answers nothing.
    fn freeze(&self);
    /// Lets it go on.
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

/// What may explain an error under attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// All worker ids are held, or used up.
    NoneFree,
    /// A lease was not renewed in time.
    Lost,
    /// For half of the time or more, a process was stopped, which may have held a lock, or the machine
    /// stalled.
    Locked,
    /// The server or a process was stopped, or the machine stalled, shortly before or meanwhile.
    Away,
}
