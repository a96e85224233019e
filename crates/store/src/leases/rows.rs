//! Rows that this process holds, in any store.

use std::process;

use uidring::worker::{LeaseBackend, RenewError};
use uidring::{Error, Fields, Layout, Uid};

use super::flaw::WHOLE_TICK;
use crate::WorkerRange;

/// The greatest tick and sequence number that may have been issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Horizon {
    /// The tick.
    pub tick: u64,
    /// The sequence number within it.
    pub sequence: u64,
}

/// A row as its holder took it.
#[derive(Clone, Debug)]
pub struct LeasedRow {
    /// The worker id.
    pub worker_id: u64,
    /// The layout of the uids.
    pub layout: Layout,
    /// The holder's name in the row.
    pub owner: String,
    /// The fencing token.
    pub token: i64,
    /// What earlier holders may have issued.
    pub before: Option<Horizon>,
    /// The tick of the last horizon that the store confirmed to this holder. If the row has less, the store lost
    /// commits: by a failover, or because an older state was restored.
    pub confirmed: Option<u64>,
    /// The number of the server that the row was taken from, if it has one.
    pub server: Option<u64>,
    /// The recorded range of the store, set only if the row is new.
    pub range: Option<WorkerRange>,
}

/// Changes a store's row for its holder.
///
/// The row changes only if it has the owner and token of `row`, and for a renewal also the confirmed horizon. Otherwise
/// the error is [`Error::LeaseLost`].
pub trait RowStore: Send + 'static {
    /// Extends the lease from now on, and raises the horizon to this one.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`]. After any other error, the caller may try again.
    fn renew(&mut self, row: &LeasedRow, horizon: Horizon) -> Result<(), Error>;

    /// Frees the row and sets its horizon to `last`.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`], or the store's error.
    fn release(&mut self, row: &LeasedRow, last: Option<Horizon>) -> Result<(), Error>;
}

impl LeasedRow {
    /// Reads the columns of a horizon. Without a sequence number, it is the whole tick, as after an operator has set
    /// the tick of a row that was never used.
    pub fn horizon(tick: Option<i64>, sequence: Option<i64>) -> Option<Horizon> {
        let [tick, sequence] = [tick?, sequence.unwrap_or(WHOLE_TICK)].map(i64::cast_unsigned);
        Some(Horizon { tick, sequence })
    }

    /// Returns the greatest uid that earlier holders may have issued.
    ///
    /// # Errors
    ///
    /// [`Error::FieldOutOfRange`] if the layout does not have the row's sequence number.
    pub fn after(&self) -> Result<Option<Uid>, Error> {
        let compose = |horizon: Horizon| {
            // Any other number that does not fit is damage, and refused.
            let whole = horizon.sequence == WHOLE_TICK.cast_unsigned();
            let sequence = if whole { self.layout.max_sequence() } else { horizon.sequence };
            self.layout.compose(Fields { tick: horizon.tick, worker_id: self.worker_id, sequence })
        };
        self.before.map(compose).transpose()
    }

    /// Returns why this process no longer holds the row, given the row's present owner, token and horizon tick; `None`
    /// if it still holds it.
    pub fn loss(&self, present: Option<(&str, i64, Option<u64>)>) -> Option<String> {
        let Some((owner, now, tick)) = present else { return Some("its row is gone".into()) };
        let token = self.token;
        if owner != self.owner {
            return Some(format!("{owner} has it (token {now}, and not {token} any more)"));
        }
        if now != token {
            return Some(format!(
                "it was fenced or released (token {now}, and not {token} any more)"
            ));
        }
        (tick < self.confirmed).then(|| self.lost_commits(tick))
    }

    /// Says that the row's horizon, at this tick, is below what the store confirmed.
    pub fn lost_commits(&self, found: Option<u64>) -> String {
        let confirmed = self.confirmed.unwrap_or(0);
        let found = found.map_or_else(|| "none".into(), |tick| tick.to_string());
        format!(
            "its horizon was confirmed up to tick {confirmed} and now reads {found}: the store has lost commits, as by \
             a failover to a replica that lags behind or by an older state that was put back; {AFTER_LOSS}"
        )
    }
}

/// Says why a row is lost that cannot be read.
pub fn unreadable(why: &str) -> String {
    format!("its row cannot be read: {why}")
}

/// Says that the lease is lost because another server answers.
pub fn other_server() -> String {
    format!(
        "another server answers than the one that it was taken from: that may be a failover which has lost commits; \
         {AFTER_LOSS}"
    )
}

/// What to do after a store has lost commits.
const AFTER_LOSS: &str = "see \"After commits were lost\" in docs/leases.md";

/// The backend of a generator's lease, which renews and releases this row.
pub struct RowLease<S: RowStore> {
    store: S,
    row: LeasedRow,
    /// What errors call the store.
    location: String,
    /// A forked child, which has another id, must not touch the store.
    process: u32,
    /// True until the first renewal, after which uids may have been issued, or the release.
    is_unused: bool,
}

impl<S: RowStore> RowLease<S> {
    /// Holds this row of the store at `location`.
    pub fn new(store: S, row: LeasedRow, location: String) -> Self {
        Self { store, row, location, process: process::id(), is_unused: true }
    }

    fn check_process(&self) -> Result<(), Error> {
        if process::id() == self.process {
            return Ok(());
        }
        let (worker_id, place) = (self.row.worker_id, self.location.clone());
        let why = "this process was forked from the one that holds it".into();
        Err(Error::LeaseLost { worker_id, place, why })
    }
}

impl<S: RowStore> LeaseBackend for RowLease<S> {
    fn renew(&mut self, horizon: u64) -> Result<(), RenewError> {
        self.check_process().map_err(RenewError::Lost)?;
        let layout = &self.row.layout;
        // Nothing is issued above the last tick.
        let (tick, sequence) = (horizon.min(layout.max_tick()), layout.max_sequence());
        match self.store.renew(&self.row, Horizon { tick, sequence }) {
            Ok(()) => {
                self.is_unused = false;
                self.row.confirmed = self.row.confirmed.max(Some(tick));
                Ok(())
            }
            Err(error @ Error::LeaseLost { .. }) => Err(RenewError::Lost(error)),
            Err(error) => Err(RenewError::Failed(error)),
        }
    }

    fn release(&mut self, last: Option<Uid>) -> Result<(), Error> {
        self.check_process()?;
        self.is_unused = false;
        let last = last.map(|uid| self.row.layout.decode(uid)).transpose()?;
        let last = last.map(|uid| Horizon { tick: uid.tick, sequence: uid.sequence });
        // Not below what earlier holders may have issued.
        let last = last.max(self.row.before);
        self.store.release(&self.row, last)
    }
}

/// Releases a row that no generator used. Otherwise a start that keeps failing would hold one row after another.
impl<S: RowStore> Drop for RowLease<S> {
    fn drop(&mut self) {
        if self.is_unused && process::id() == self.process {
            // If this fails, the lease expires by itself.
            let _ = self.release(None);
        }
    }
}
