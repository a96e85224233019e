//! Operations on a table of leases, for generators and for administration.

use std::fmt::Display;
use std::ops::RangeInclusive;

use uidring::adapter::log;
use uidring::worker::Lease;
use uidring::{Error, Layout, Timestamp, WorkerRequest, WorkerSource};

use super::flaw::flaw;
use super::options::LeaseOptions;
use super::rows::{Horizon, LeasedRow};
use crate::TableError;

/// A table `UIDRING_LEASE`, from which worker ids are leased. docs/leases.md has its columns and the protocol.
///
/// New worker ids come from the counter of `WORKER_NODE`, so leased and disposable ones never coincide.
///
/// The methods block, and work within an async runtime.
pub trait LeaseTable: WorkerSource {
    /// Creates this table and `WORKER_NODE` if they do not exist.
    ///
    /// # Errors
    ///
    /// The store's error: `SqliteError::File`, `ServerError::Server`.
    fn create(&self) -> Result<(), Error>;

    /// Leases the lowest free worker id, or another free one if many start at once, or a new one if none is free.
    ///
    /// # Errors
    ///
    /// [`TableError::NoFreeWorkerId`] if no worker id of the layout is free after [`wait_for`](LeaseOptions::wait_for),
    /// or [`Error::UsedAhead`] if all that are free were used too far ahead of this host's clock;
    /// [`TableError::LeaseTableLayout`] if the table is for another layout; [`Error::OptionOutOfRange`];
    /// [`TableError::Invalid`] if the environment names only half a node; [`Error::ClockBeforeEpoch`];
    /// [`Error::LayoutExhausted`]; the store's error.
    fn lease(&self, request: &WorkerRequest, options: &LeaseOptions) -> Result<Lease, Error>;

    /// Returns all rows, by worker id. A damaged row is left out, and the log says what is wrong with it.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    fn list(&self) -> Result<Vec<LeaseRow>, Error>;

    /// Ends a lease, whoever holds it. The holder stops at its next renewal. Others may get the worker id at once, and
    /// start above all that the holder may issue until then.
    ///
    /// # Errors
    ///
    /// [`TableError::NoSuchLease`]; otherwise as [`create`](Self::create).
    fn fence(&self, worker_id: u64) -> Result<LeaseRow, Error>;

    /// Frees a worker id whose lease has expired or was fenced.
    ///
    /// # Errors
    ///
    /// [`TableError::LeaseHeld`] if it is still held; [`TableError::NoSuchLease`]; otherwise as
    /// [`create`](Self::create).
    fn release(&self, worker_id: u64) -> Result<LeaseRow, Error>;

    /// Adds free rows for worker ids from `WORKER_NODE` whose starts have all ended. None of them may have issued a uid
    /// of a tick after that of `used_until`.
    ///
    /// # Errors
    ///
    /// [`TableError::NotReusable`] if one of them was never handed out or is already leased, and then no row is added;
    /// [`TableError::LeaseTableLayout`]; otherwise as [`create`](Self::create).
    fn reuse(
        &self,
        worker_ids: RangeInclusive<u64>,
        layout: &Layout,
        used_until: Timestamp,
    ) -> Result<(), Error>;
}

/// A row of `UIDRING_LEASE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRow {
    /// The worker id.
    pub worker_id: u64,
    /// The present or last holder.
    pub owner: String,
    /// The fencing token, which grows when the holder changes.
    pub token: i64,
    /// Whether it is held, by the store's clock.
    pub state: LeaseState,
    /// The last tick and sequence number that may have been issued.
    pub horizon: Option<(u64, u64)>,
    /// The layout, such as `28/22/13 in s since 2026-01-01T00:00:00Z`.
    pub layout: String,
    /// When the row was added.
    pub created: Timestamp,
    /// When the row was last changed.
    pub renewed: Timestamp,
}

/// Whether a worker id is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// Given back, or never held.
    Free,
    /// Held until this time, or longer if renewed.
    Held(Timestamp),
    /// The lease expired or was fenced at this time, and anybody may take the worker id.
    Expired(Timestamp),
}

impl LeaseRow {
    /// Returns why a process no longer holds this row, after a change for its owner, token and horizon matched none.
    ///
    /// # Errors
    ///
    /// The row is still its own, so something else prevents the change.
    pub fn loss(row: Option<&Self>, held: &LeasedRow) -> Result<String, String> {
        let present = row.map(|row| (&*row.owner, row.token, row.horizon.map(|h| h.0)));
        held.loss(present).ok_or_else(|| {
            format!(
                "the row of worker id {} in UIDRING_LEASE is this holder's, and a change of it changes nothing: see the \
                 table's triggers, rules and policies",
                held.worker_id
            )
        })
    }

    /// Returns the time of the horizon's tick; `None` if nothing was issued.
    pub fn used_until(&self) -> Option<Timestamp> {
        let (tick, _) = self.horizon?;
        Some(self.layout.parse::<Layout>().ok()?.time_of(tick))
    }

    /// Sets the horizon from its columns, if the row is sound.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it.
    #[doc(hidden)]
    pub fn with_horizon(self, tick: Option<i64>, sequence: Option<i64>) -> Result<Self, String> {
        let names = ["WORKER_ID", "TOKEN", "HORIZON_TICK", "HORIZON_SEQUENCE"];
        let worker_id = self.worker_id;
        if let Some(flaw) = flaw(&self.layout, worker_id, self.token, (tick, sequence), names) {
            return Err(format!("UIDRING_LEASE, row with WORKER_ID {worker_id}: {flaw}"));
        }
        let sequence = sequence.unwrap_or_default().cast_unsigned();
        Ok(Self { horizon: tick.map(|tick| (tick.cast_unsigned(), sequence)), ..self })
    }
}

impl LeaseState {
    /// Returns the state of a lease with this end; `is_over` is by the store's clock.
    #[doc(hidden)]
    pub fn of(end: Option<Timestamp>, is_over: bool) -> Self {
        match end {
            None => Self::Free,
            Some(end) if is_over => Self::Expired(end),
            Some(end) => Self::Held(end),
        }
    }
}

/// Returns the row after a release or fence, which changed it if `is_done`.
///
/// # Errors
///
/// [`TableError::LeaseHeld`] if a release found the row still held; [`TableError::NoSuchLease`] if there is no row.
pub fn changed_row(
    row: Option<LeaseRow>,
    is_done: bool,
    worker_id: u64,
    place: String,
) -> Result<LeaseRow, Error> {
    match row {
        None => Err(TableError::NoSuchLease { place, worker_id }.into()),
        Some(LeaseRow { state: LeaseState::Held(until), owner, .. }) if !is_done => {
            Err(TableError::LeaseHeld { place, worker_id, owner, until }.into())
        }
        Some(row) => Ok(row),
    }
}

/// Returns the horizon for worker ids of starts that have ended.
///
/// # Errors
///
/// [`Error::WorkerIdOutOfRange`], [`Error::ClockBeforeEpoch`], [`Error::LayoutExhausted`].
pub fn issued_until(
    layout: &Layout,
    ids: &RangeInclusive<u64>,
    until: Timestamp,
) -> Result<Horizon, Error> {
    layout.check_worker_id(*ids.end())?;
    Ok(Horizon { tick: layout.tick_at(until)?, sequence: layout.max_sequence() })
}

/// Returns what is wrong with a row that is not [sound](super::is_sound).
pub fn flaw_of(row: Result<LeaseRow, String>) -> String {
    let outside = |row: LeaseRow| {
        format!(
            "UIDRING_LEASE, row with WORKER_ID {}: it is outside the range of this store; remove the row",
            row.worker_id
        )
    };
    row.map_or_else(|flaw| flaw, outside)
}

/// Returns the readable rows, and logs what is wrong with the others.
pub fn readable(
    rows: Vec<Result<LeaseRow, String>>,
    place: &(impl Display + ?Sized),
) -> Vec<LeaseRow> {
    let report = |flaw: &String| log!(warn, "{place}: {flaw}; it is not listed");
    rows.into_iter().filter_map(|row| row.inspect_err(report).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_horizon_is_read_by_the_rows_own_layout() {
        let mut row = LeaseRow {
            worker_id: 1,
            owner: String::new(),
            token: 1,
            state: LeaseState::Free,
            horizon: Some((60, 0)),
            layout: Layout::UID_GENERATOR.to_string(),
            created: Timestamp::default(),
            renewed: Timestamp::default(),
        };
        let text = row.used_until().map(|time| time.to_string());
        assert_eq!(text.as_deref(), Some("2026-01-01T00:01:00Z"));
        for layout in [Layout::SNOWFLAKE, Layout::JAVASCRIPT_SAFE] {
            row.layout = layout.to_string();
            assert_eq!(row.used_until(), Some(layout.time_of(60)));
        }
        row.layout = "28/22/13".into();
        assert_eq!(row.used_until(), None);
    }
}
