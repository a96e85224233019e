//! Disposable worker ids from a table of a server: what is done with it, whatever the server.

use std::time::Duration;

use uidring::{Error, Layout, Timestamp, Worker, WorkerRequest, WorkerSource};

use super::Server;
use super::client::Client;
use super::connection::Operation;
use super::error::with_note;
use crate::{
    IsLeased, NodeIdentity, Pruned, WorkerNode, WorkerTable, WorkerUsage, age_in_seconds,
    announce_end,
};

/// Creates the table if it does not exist.
pub struct CreateNodes;

/// Inserts a row, whose key is the worker id.
pub struct Assign {
    /// Which node the row names.
    pub node: NodeIdentity,
    /// What the key has to fit into.
    pub layout: Layout,
    /// Whether a missing table is made.
    pub create_table: bool,
    /// How far the clocks may be apart.
    pub max_clock_difference: Option<Duration>,
}

/// Returns all rows.
pub struct ListNodes;

/// Returns how many worker ids are used.
pub struct Usage;

/// Returns the greatest worker id so far.
pub struct Newest;

/// Removes up to [`ROWS`](Self::ROWS) old rows with ids below the newest, and returns how many.
pub struct PrunePart {
    /// The newest id.
    pub newest: u64,
    /// In seconds.
    pub age: u64,
}

impl PrunePart {
    /// Rows that one statement removes: few enough that starts do not notice its locks.
    pub const ROWS: u64 = 10_000;
}

/// The table `WORKER_NODE` of a server. Every assignment inserts a row, whose generated key is the worker
/// id: used by one start, and never again.
///
/// The connection is closed after the assignment: the generator does not need the server any more.
///
/// An assignment blocks. It has a runtime of its own, and may be called within another one, whose thread
/// it blocks meanwhile: there, build generators in `tokio::task::spawn_blocking`.
#[derive(Clone, Debug)]
pub struct ServerWorkerNodes<S> {
    store: S,
    create_table_if_missing: bool,
    max_clock_difference: Option<Duration>,
}

impl<S> ServerWorkerNodes<S> {
    /// The table of this server.
    pub fn new(store: S) -> Self {
        Self { store, create_table_if_missing: false, max_clock_difference: None }
    }

    /// Whether an assignment makes the table if it is missing; by default it is an error. Only where
    /// it is missing does the account need the right to create it.
    #[must_use]
    pub fn create_table_if_missing(mut self, create: bool) -> Self {
        self.create_table_if_missing = create;
        self
    }

    /// How far this host's clock and the server's may be apart; not checked by default. An
    /// assignment that finds more is refused before it costs a worker id.
    ///
    /// When they start, the clocks of hosts that all compare theirs with the server's differ by twice
    /// this at most, and what the network takes. Worker ids are distinct in any case: this is for
    /// those who want uids of several hosts to be roughly in the order of time.
    #[must_use]
    pub fn max_clock_difference(mut self, limit: Duration) -> Self {
        self.max_clock_difference = Some(limit);
        self
    }

    /// Where the table is.
    pub fn store(&self) -> &S {
        &self.store
    }
}

impl<S: Server> ServerWorkerNodes<S> {
    /// Does the work in a connection of its own.
    fn run<W: Operation<S>>(&self, work: &W) -> Result<W::Done, Error> {
        Client::new(&self.store).run(work)
    }
}

impl<S> WorkerSource for ServerWorkerNodes<S>
where
    Self: WorkerTable,
{
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        self.assign(&request.layout).map(Worker::from)
    }
}

impl<S> WorkerTable for ServerWorkerNodes<S>
where
    S: Server,
    Assign: Operation<S, Done = u64>,
    CreateNodes: Operation<S, Done = ()>,
    ListNodes: Operation<S, Done = Vec<WorkerNode>>,
    Usage: Operation<S, Done = WorkerUsage>,
    Newest: Operation<S, Done = Option<u64>>,
    PrunePart: Operation<S, Done = u64>,
{
    /// What may pass (no connection, a server that is starting, a deadlock) is tried again until
    /// the server's deadline. If the connection breaks while the row is being inserted, another row is
    /// inserted: the first one's key is spent without being used.
    fn assign(&self, layout: &Layout) -> Result<u64, Error> {
        let assign = Assign {
            node: NodeIdentity::from_env()?,
            layout: *layout,
            create_table: self.create_table_if_missing,
            max_clock_difference: self.max_clock_difference,
        };
        let worker_id = self.run(&assign)?;
        announce_end(&self.store.to_string(), layout, worker_id, IsLeased::No, || self.usage());
        Ok(worker_id)
    }

    fn create(&self) -> Result<(), Error> {
        self.run(&CreateNodes)
    }

    fn list(&self) -> Result<Vec<WorkerNode>, Error> {
        self.run(&ListNodes)
    }

    fn usage(&self) -> Result<WorkerUsage, Error> {
        self.run(&Usage)
    }

    /// Removes part by part, each with the server's whole deadline.
    fn prune(&self, older_than: Duration) -> Result<Pruned, Error> {
        let newest = self.run(&Newest)?;
        let mut removed = 0;
        while let Some(newest) = newest {
            let part = PrunePart { newest, age: age_in_seconds(older_than) };
            let rows = self.run(&part).map_err(|error| match removed {
                0 => error,
                _ => with_note(error, &format!("; rows removed before: {removed}")),
            })?;
            removed += rows;
            if rows < PrunePart::ROWS {
                break;
            }
        }
        Ok(Pruned { removed, newest })
    }
}

/// Characters that `HOST_NAME` and `PORT` hold.
const NAME_CHARS: usize = 64;

/// Returns host, port and type of a node as the columns hold them.
pub fn node_columns(node: &NodeIdentity) -> (String, String, i64) {
    (shortened(&node.host), shortened(&node.port), node.kind as i64)
}

/// A name as far as the column holds it. It tells people who has the worker id; a start must not
/// fail over its length or its letters, nor a lenient server cut it for us.
fn shortened(name: &str) -> String {
    // A column may be ASCII only.
    let plain = |letter| if matches!(letter, ' '..='~') { letter } else { '?' };
    name.chars().take(NAME_CHARS).map(plain).collect()
}

/// A server's clock and ours, too far apart.
#[derive(Clone, Copy, Debug)]
pub struct ClockDifference {
    /// What ours said.
    pub ours: Timestamp,
    /// What the server's said.
    pub theirs: Timestamp,
    /// How far they may be apart.
    pub limit: Duration,
}

/// Compares the server's clock with ours, read `before` and `after` the server read its own; the best time
/// in between counts, in favour of both clocks.
///
/// # Errors
///
/// They are further apart than the limit.
pub fn clock_difference(
    [before, after]: [Timestamp; 2],
    theirs: Timestamp,
    limit: Duration,
) -> Result<(), ClockDifference> {
    let ours = theirs.max(before).min(after);
    match ours.saturating_since(theirs).max(theirs.saturating_since(ours)) > limit {
        true => Err(ClockDifference { ours, theirs, limit }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_short() {
        assert_eq!(shortened("db-1.example"), "db-1.example");
        assert_eq!(shortened("h\u{f4}te\u{7}\n\u{202e}~ x\u{7f}"), "h?te???~ x?");
        assert_eq!(shortened(&"\u{e9}".repeat(70)), "?".repeat(64));
    }
}
