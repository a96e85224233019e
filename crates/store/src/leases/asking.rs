//! Asking a store for a worker id, once or until there is one.

use std::process;
use std::thread;
use std::time::Duration;

use uidring::adapter::Deadline;
use uidring::clock::{Clock, SystemClock};
use uidring::worker::Lease;
use uidring::{Error, Layout, Timestamp, WorkerRequest};

use super::LeaseOptions;
use super::keeping::{Held, HeldRow, Keeper};
use crate::NodeIdentity;
use crate::TableError;

/// What a store is asked for.
pub struct Ask {
    /// The layout of the uids.
    pub layout: Layout,
    /// The layout as it stands in the table.
    pub fingerprint: String,
    /// Whom a new row of `WORKER_NODE` names.
    pub node: NodeIdentity,
    /// Unique for each acquire, so that a retry recognises a row whose reply was lost.
    pub owner: String,
    /// How long the lease lasts.
    pub lasts: Duration,
    /// Rows that were used beyond this tick are passed over.
    pub last_tick: u64,
}

/// What a store says to that.
pub type Answer = Result<Held, Denial>;

/// Why there is no worker id.
pub enum Denial {
    /// A row of the table is for another layout.
    Foreign {
        /// The row's worker id.
        worker_id: i64,
        /// Its layout.
        layout: String,
    },
    /// All worker ids are held, or were used too far ahead of the clock.
    Short(Shortage),
    /// Worker ids that were to be leased cannot be.
    Unusable(Unusable),
}

/// A worker id of starts that cannot be leased.
pub struct Unusable {
    /// The worker id.
    pub worker_id: u64,
    /// Why not.
    pub why: &'static str,
}

impl Unusable {
    /// Of these worker ids the first that no start can have had; `newest` is the greatest that one
    /// had.
    pub fn never_handed_out(first: u64, last: u64, newest: Option<u64>) -> Option<Self> {
        let newest = newest.unwrap_or(0);
        let worker_id = if first == 0 { 0 } else { (newest + 1).max(first) };
        let why = "no start has had it, and one may get it yet";
        (worker_id <= last).then_some(Self { worker_id, why })
    }

    /// A worker id that is leased already.
    pub fn leased(worker_id: u64) -> Self {
        Self { worker_id, why: "it is leased already" }
    }
}

/// No worker id is to be had now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shortage {
    /// How many are held.
    pub held: u64,
    /// When the first of those leases ends, in milliseconds from now.
    pub ends_in: Option<u64>,
    /// The worker id and horizon's tick of the row that was used the least far ahead of the clock, of
    /// those that nobody holds.
    pub ahead: Option<(i64, i64)>,
}

/// Characters of an owner's name, before what is added.
const NAME_CHARS: usize = 200;

/// The pauses between two tries: worker ids may be given back at any time.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_millis(250);

/// A store that is asked for a worker id, with what it keeps open meanwhile.
pub trait Asker {
    /// What keeps the row afterwards.
    type Row: HeldRow;

    /// The store's name in errors.
    fn place(&self) -> String;

    /// Takes a free row, or makes a new one.
    ///
    /// # Errors
    ///
    /// What the store says.
    fn ask(&mut self, ask: &Ask) -> Result<Answer, Error>;

    /// Begins to keep the row that was taken.
    fn keep(self) -> Self::Row;
}

/// Asks until there is a worker id, or the time for it is over.
///
/// # Errors
///
/// As for [`LeaseTable::lease`](crate::LeaseTable::lease).
pub fn acquire(
    mut asker: impl Asker,
    request: &WorkerRequest,
    options: &LeaseOptions,
) -> Result<Lease, Error> {
    let layout = &request.layout;
    // The generator may be so far ahead, or wait for so long.
    let max_ahead = request.max_ahead.max(options.max_start_wait);
    let terms = options.terms()?;
    let node = NodeIdentity::from_env()?;
    let name = options.owner.clone().unwrap_or_else(|| format!("{}:{}", node.host, node.port));
    let mut question = Ask {
        layout: *layout,
        fingerprint: layout.to_string(),
        node,
        owner: owner(&name),
        lasts: options.lasts,
        last_tick: 0,
    };
    let deadline = Deadline::after(Some(options.wait_for));
    let mut pause = FIRST_PAUSE;
    loop {
        let now = SystemClock.now();
        let present = layout.tick_at(now)?;
        let limit = layout.tick_at(now.saturating_add(max_ahead));
        question.last_tick = limit.unwrap_or(layout.max_tick()).max(present);
        let shortage = match asker.ask(&question)? {
            Ok(held) => {
                let (worker_id, after) = (held.worker_id, held.after());
                let place = asker.place();
                let keeper = Keeper::new(asker.keep(), held, place);
                return Lease::new(*layout, worker_id, after?, terms, keeper);
            }
            Err(Denial::Short(shortage)) => shortage,
            Err(denial) => return Err(denial.error(asker.place(), &question.fingerprint)),
        };
        let left = deadline.remaining().unwrap_or_default();
        if left.is_zero() {
            return Err(shortage.error(asker.place(), layout, now, max_ahead));
        }
        // Those who wait together should not come back together.
        let next = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        let ends = shortage.ends_in.map_or(next, Duration::from_millis);
        thread::sleep(next.min(ends.max(FIRST_PAUSE)).min(left));
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

impl Denial {
    /// The error for callers.
    pub fn error(self, place: String, fingerprint: &str) -> Error {
        match self {
            Self::Foreign { worker_id, layout: found } => {
                Error::from(TableError::LeaseTableLayout {
                    place,
                    worker_id,
                    found,
                    layout: fingerprint.into(),
                })
            }
            Self::Unusable(Unusable { worker_id, why }) => {
                Error::from(TableError::NotReusable { place, worker_id, why })
            }
            Self::Short(Shortage { held, ends_in, .. }) => {
                let ends_in = ends_in.map(Duration::from_millis);
                Error::from(TableError::LeasesHeld { place, held, ends_in })
            }
        }
    }
}

impl Shortage {
    fn error(self, place: String, layout: &Layout, now: Timestamp, limit: Duration) -> Error {
        match self.ahead {
            Some((worker_id, tick)) => {
                let [worker_id, tick] = [worker_id, tick].map(i64::unsigned_abs);
                Error::UsedAhead { worker_id, until: layout.time_of(tick), now, limit }
            }
            None => Denial::Short(self).error(place, ""),
        }
    }
}

/// Plain and short, whatever the column's letters; with what makes it this acquire's.
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
