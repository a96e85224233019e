//! Acquires a lease, once or until a worker id is free.

use std::mem;
use std::process;
use std::thread;
use std::time::Duration;

use uidring::adapter::{Deadline, log, starts_are_interrupted};
use uidring::clock::{Clock, SystemClock};
use uidring::worker::Lease;
use uidring::{Error, Layout, Timestamp, WorkerRequest};

use super::options::LeaseOptions;
use super::rows::{Horizon, LeasedRow, RowLease, RowStore};
use crate::fitting::{Fitting, Shortage};
use crate::{IsLeased, NodeIdentity, TableError, WorkerRange, WorkerUsage, announce_end};

/// What a start asks of a store.
pub struct AcquireRequest {
    /// The layout of the uids.
    pub layout: Layout,
    /// The layout as the table writes it.
    pub fingerprint: String,
    /// The node that a new row of `WORKER_NODE` names.
    pub node: NodeIdentity,
    /// Unique for each acquire, so that a retry recognizes a row whose reply was lost.
    pub owner: String,
    /// How long the lease lasts.
    pub lasts: Duration,
    /// Rows that were used beyond this tick are skipped.
    pub last_tick: u64,
}

/// Rows that were used ahead of the clock by more than this part of the limit are left for later.
const NEAR: u32 = 10;

impl AcquireRequest {
    /// Returns the row that was taken: its token, what earlier holders may have issued (`before`), and the number of
    /// its server.
    pub fn taken(
        &self,
        worker_id: u64,
        token: i64,
        before: Option<Horizon>,
        server: Option<u64>,
    ) -> LeasedRow {
        let (layout, owner) = (self.layout, self.owner.clone());
        let (confirmed, range) = (None, None);
        LeasedRow { worker_id, layout, owner, token, before, confirmed, server, range }
    }
}

/// The row that was taken, or why none was.
pub type Acquired = Result<LeasedRow, Denial>;

/// Why there is no worker id.
pub enum Denial {
    /// The leases are for this other layout.
    Foreign(String),
    /// All worker ids are held, used up, or too far ahead of the clock.
    Short(Shortage),
    /// This worker id, which `reuse` should add, cannot be leased.
    Unusable {
        /// The worker id.
        worker_id: u64,
        /// Why not.
        why: &'static str,
    },
}

/// How many characters of an owner's name are kept, without the suffix.
const NAME_CHARS: usize = 200;

/// Pauses between attempts. Short, since a worker id may be released at any time.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_millis(250);

/// A start that waits longer logs why.
const SILENCE: Duration = Duration::from_secs(1);

/// A store that rows are taken from. It keeps its connection open between attempts.
pub trait LeaseStore {
    /// Renews and releases the row.
    type Rows: RowStore;

    /// Returns what errors call the store.
    fn location(&self) -> String;

    /// Returns how many worker ids are used, and how fast.
    ///
    /// # Errors
    ///
    /// The store's error.
    fn usage(&mut self) -> Result<WorkerUsage, Error>;

    /// Takes a free row, or adds one.
    ///
    /// # Errors
    ///
    /// The store's error.
    fn acquire(&mut self, request: &AcquireRequest) -> Result<Acquired, Error>;

    /// Returns what will renew and release the row that was taken.
    fn hold(self) -> Self::Rows;
}

/// Acquires a lease. Retries until a worker id is free or the options' time limit is reached.
///
/// # Errors
///
/// As [`LeaseTable::lease`](crate::LeaseTable::lease).
pub fn acquire(
    mut store: impl LeaseStore,
    request: &WorkerRequest,
    options: &LeaseOptions,
) -> Result<Lease, Error> {
    let layout = &request.layout;
    let terms = options.terms()?;
    let max_ahead = request.max_used_ahead(&terms);
    let node = NodeIdentity::from_env()?;
    let name = options.owner.clone().unwrap_or_else(|| format!("{}:{}", node.host, node.port));
    let mut request = AcquireRequest {
        layout: *layout,
        fingerprint: layout.to_string(),
        node,
        owner: owner(&name),
        lasts: options.lasts,
        last_tick: 0,
    };
    let deadline = Deadline::after(Some(options.wait_for));
    let (mut pause, mut may_try_again) = (FIRST_PAUSE, true);
    let mut silence = Some(Deadline::after(Some(SILENCE)));
    loop {
        let now = SystemClock.now();
        let present = layout.tick_at(now)?;
        let tick = |ahead| {
            let tick = layout.tick_at(now.saturating_add(ahead));
            tick.unwrap_or(layout.max_tick()).max(present)
        };
        let taken = take(&mut store, &mut request, tick(max_ahead / NEAR), tick(max_ahead));
        let shortage = match taken? {
            Ok(row) => {
                let (worker_id, after, range) = (row.worker_id, row.after(), row.range);
                let location = store.location();
                let is_new = row.token == 1 && row.before.is_none();
                if is_new {
                    let usage = || store.usage();
                    announce_end(&location, layout, range, worker_id, IsLeased::Yes, usage);
                }
                let lease = RowLease::new(store.hold(), row, location);
                return Lease::new(*layout, worker_id, after?, terms, lease);
            }
            Err(Denial::Short(shortage)) => shortage,
            Err(denial) => return Err(denial.error(store.location(), layout)),
        };
        // Without a deadline it waits forever.
        let left = deadline.remaining().unwrap_or(Duration::MAX);
        if left.is_zero() {
            // A row that nobody holds was either given back meanwhile or is unusable. Try once more to find out.
            if shortage.held < shortage.leased && mem::take(&mut may_try_again) {
                continue;
            }
            return Err(match shortage.ahead {
                Some((worker_id, tick)) => {
                    let (until, why) = (layout.time_of(tick), "earlier holders of its lease");
                    Error::UsedAhead { worker_id, until, why, now, limit: max_ahead }
                }
                None => Denial::Short(shortage).error(store.location(), layout),
            });
        }
        if starts_are_interrupted() {
            return Err(Error::Interrupted);
        }
        if silence.take_if(|silence| silence.remaining() == Some(Duration::ZERO)).is_some() {
            announce(&shortage, &store.location(), now, left);
        }
        // Jitter, so that starts that wait together do not retry together.
        let next = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        let ends = shortage.ends_in.unwrap_or(next);
        thread::sleep(next.min(ends.max(FIRST_PAUSE)).min(left));
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// Takes a row that was used up to the tick `near`, or a new one. If there is none, takes the one that was used least far
/// ahead, up to the tick `limit`: its generator can borrow less.
fn take(
    store: &mut impl LeaseStore,
    request: &mut AcquireRequest,
    near: u64,
    limit: u64,
) -> Result<Acquired, Error> {
    request.last_tick = near;
    let acquired = store.acquire(request);
    let further = match &acquired {
        Ok(Err(Denial::Short(shortage))) => shortage.ahead.map(|(_, tick)| tick),
        // The store may have refused a new row, and have a free one.
        Err(Error::Store(error)) if !error.kind().may_pass() => Some(limit),
        _ => None,
    };
    let Some(tick) = further.filter(|tick| *tick <= limit) else { return acquired };
    request.last_tick = tick;
    match (acquired, store.acquire(request)) {
        (Err(error), Ok(Err(_)) | Err(_)) => Err(error),
        (_, acquired) => acquired,
    }
}

impl Denial {
    /// Refuses to lease the worker ids from `first` to `last` if one of them is outside the range, was never had by a
    /// start, or is leased already. `newest` is the greatest of all starts, `leased` the lowest of these with a lease.
    ///
    /// # Errors
    ///
    /// [`Unusable`](Self::Unusable) names the first such worker id.
    pub fn check_reuse(
        first: u64,
        last: u64,
        newest: Option<u64>,
        leased: Option<u64>,
        range: Option<WorkerRange>,
    ) -> Result<(), Self> {
        let is_outside = |id: &u64| range.is_some_and(|range| !range.contains(*id));
        let never = if first == 0 { 0 } else { (newest.unwrap_or(0) + 1).max(first) };
        let (worker_id, why) = match ([first, last].into_iter().find(is_outside), leased) {
            (Some(id), _) => {
                (id, "it is outside the range of this store; see `uidring worker list`")
            }
            _ if never <= last => (never, "no start has had it, and one may get it yet"),
            (_, Some(id)) => (id, "it is leased already"),
            _ => return Ok(()),
        };
        Err(Self::Unusable { worker_id, why })
    }

    /// Returns the error for callers.
    pub fn error(self, place: String, layout: &Layout) -> Error {
        let max = layout.max_worker_id();
        Error::from(match self {
            Self::Foreign(found) => {
                TableError::LeaseTableLayout { place, found, layout: layout.to_string() }
            }
            Self::Unusable { worker_id, why } => TableError::NotReusable { place, worker_id, why },
            Self::Short(shortage) => {
                let fitting = Fitting { max, range: shortage.range };
                if fitting.count() == 0 {
                    return fitting.error(place, fitting.first());
                }
                TableError::NoFreeWorkerId { place, max, shortage }
            }
        })
    }
}

/// Logs what a start waits for, and how long.
fn announce(shortage: &Shortage, place: &str, now: Timestamp, left: Duration) {
    let (until, held) = (now.saturating_add(left), shortage.held);
    let why = match (shortage.ahead, shortage.ends_in) {
        (Some((worker_id, _)), _) => {
            format!("{worker_id} is free, and was used too far ahead of the clock")
        }
        (None, Some(ends_in)) => {
            let first = now.saturating_add(ends_in);
            format!("{held} held, the first until {first:.0} unless its holder renews it")
        }
        (None, None) => format!("{held} held"),
    };
    log!(warn, "{place}: waiting for a worker id until {until:.0}: {why}");
}

/// Returns the owner's name in printable ASCII, shortened, with a suffix that is unique to this acquire.
fn owner(name: &str) -> String {
    let plain = |letter| if matches!(letter, ' '..='~') { letter } else { '?' };
    let name: String = name.chars().take(NAME_CHARS).map(plain).collect();
    format!("{name}/{}-{:08x}", process::id(), fastrand::u32(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_plain_and_differ() {
        let [one, two] = [owner("h\u{f4}te:80"), owner("h\u{f4}te:80")];
        assert!(one.starts_with("h?te:80/") && one != two, "{one} {two}");
        assert!(owner(&"x".repeat(300)).len() <= 255);
    }
}
