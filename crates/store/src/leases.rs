//! Tables `UIDRING_LEASE`, a row for each worker id that is leased: what can be done with them, and
//! what the stores of them share.

mod asking;
mod keeping;

use std::ops::RangeInclusive;
use std::time::Duration;

use uidring::adapter::check_millis;
use uidring::worker::{Lease, LeaseTerms};
use uidring::{Error, Layout, Timestamp, WorkerRequest, WorkerSource};

pub use self::asking::{Answer, Ask, Asker, Denial, Shortage, Unusable, acquire};
pub use self::keeping::{Held, HeldRow, Loss, Place};
use crate::TableError;

/// A table `UIDRING_LEASE`, from which worker ids are leased. docs/worker-ids.md has its columns and
/// the protocol.
///
/// New worker ids come from the counter of the table `WORKER_NODE` beside it, so that those that are
/// leased and those that are used by one start never meet.
///
/// Its methods block, and work within an async runtime too.
pub trait LeaseTable: WorkerSource {
    /// Makes this table and `WORKER_NODE`, unless they are there.
    ///
    /// # Errors
    ///
    /// What the store says: `SqliteError::File`, `MySqlError::Database`.
    fn create(&self) -> Result<(), Error>;

    /// Leases a worker id that nobody holds, the lowest unless many start at once; else a new one.
    ///
    /// # Errors
    ///
    /// [`TableError::LeasesHeld`] where all of the layout's worker
    /// ids are held, and [`Error::UsedAhead`] where the only ones that are not were used too far
    /// ahead of this host's clock, when [`wait_for`](LeaseOptions::wait_for) is over;
    /// [`TableError::LeaseTableLayout`] where the table is for
    /// another layout; [`Error::OptionOutOfRange`];
    /// [`TableError::NodeIdentity`]; [`Error::ClockBeforeEpoch`]
    /// and [`Error::LayoutExhausted`]; and what the store says.
    fn lease(&self, request: &WorkerRequest, options: &LeaseOptions) -> Result<Lease, Error>;

    /// All rows, by worker id.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create).
    fn list(&self) -> Result<Vec<LeaseRow>, Error>;

    /// Ends a lease whoever holds it: its holder stops at its next renewal, and others may have the
    /// worker id at once. They start above all that the holder may issue until then.
    ///
    /// # Errors
    ///
    /// [`TableError::NoSuchLease`]; else as for [`create`](Self::create).
    fn fence(&self, worker_id: u64) -> Result<LeaseRow, Error>;

    /// Frees a worker id whose lease has run out or was fenced.
    ///
    /// # Errors
    ///
    /// [`TableError::LeaseHeld`] where it has not;
    /// [`TableError::NoSuchLease`]; else as for
    /// [`create`](Self::create).
    fn release(&self, worker_id: u64) -> Result<LeaseRow, Error>;

    /// Adds free rows for worker ids from `WORKER_NODE` whose starts have all ended: none of them
    /// issued a uid of a later tick than that of `used_until`, and none will.
    ///
    /// # Errors
    ///
    /// [`TableError::NotReusable`] where one of them was never
    /// handed out, or is leased already, and then nothing is added;
    /// [`TableError::LeaseTableLayout`]; else as for
    /// [`create`](Self::create).
    fn reuse(
        &self,
        worker_ids: RangeInclusive<u64>,
        layout: &Layout,
        used_until: Timestamp,
    ) -> Result<(), Error>;
}

/// How a worker id is leased.
///
/// ```
/// use std::time::Duration;
/// use uidring_store::LeaseOptions;
///
/// let options = LeaseOptions::default().lasts(Duration::from_secs(10)).owner("orders-7");
/// ```
#[derive(Clone, Debug)]
pub struct LeaseOptions {
    owner: Option<String>,
    lasts: Duration,
    margin: Option<Duration>,
    max_start_wait: Duration,
    wait_for: Duration,
}

/// 30 s, of which 3 s are margin; renewed every 10 s.
impl Default for LeaseOptions {
    fn default() -> Self {
        Self {
            owner: None,
            lasts: Duration::from_secs(30),
            margin: None,
            max_start_wait: Duration::from_secs(10),
            wait_for: Duration::ZERO,
        }
    }
}

impl LeaseOptions {
    /// Who holds the lease, for people who look at the table; the node as in
    /// [`NodeIdentity::from_env`](crate::NodeIdentity::from_env) if not set. The number of the
    /// process and a random one are added.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// How long the lease lasts unless it is renewed, 1 s to 1 h; 30 s if not set. It is renewed
    /// three times as often.
    ///
    /// So long does a worker id stay unused after its holder crashed; and so long, less the margin,
    /// may the store be away.
    #[must_use]
    pub fn lasts(mut self, lasts: Duration) -> Self {
        self.lasts = lasts;
        self
    }

    /// How much earlier than the store the holder takes the lease for over, half of it at most;
    /// a tenth of it if not set. It makes up for a holder's clock that runs slower than the store's;
    /// uniqueness does not hang on it.
    #[must_use]
    pub fn margin(mut self, margin: Duration) -> Self {
        self.margin = Some(margin);
        self
    }

    /// How long the start of a generator waits for the clock to pass what was issued before, if it
    /// may not be ahead of it; 10 s if not set.
    ///
    /// A worker id that was used further ahead of this host's clock than this, and than the
    /// generator's [`max_borrow`](uidring::generator::CachedBuilder::max_borrow) allows for, is passed over.
    #[must_use]
    pub fn max_start_wait(mut self, limit: Duration) -> Self {
        self.max_start_wait = limit;
        self
    }

    /// How long to wait for a worker id when all are held; by default that is an error at once.
    #[must_use]
    pub fn wait_for(mut self, limit: Duration) -> Self {
        self.wait_for = limit;
        self
    }

    /// How long the lease lasts.
    pub fn length(&self) -> Duration {
        self.lasts
    }

    fn terms(&self) -> Result<LeaseTerms, Error> {
        let margin = self.margin.unwrap_or(self.lasts / 10);
        check_millis("lasts (ms)", self.lasts, 1_000..=3_600_000)?;
        check_millis("margin (ms)", margin, 0..=self.lasts.as_millis() as u64 / 2)?;
        let mut terms = LeaseTerms::default();
        terms.lasts = Some(self.lasts);
        terms.margin = margin;
        terms.renew_every = self.lasts / 3;
        terms.max_start_wait = self.max_start_wait;
        Ok(terms)
    }
}

/// A row of `UIDRING_LEASE`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseRow {
    /// The worker id.
    pub worker_id: i64,
    /// Who holds it, or was the last to.
    pub owner: String,
    /// The fencing token, which grows with every change of the holder.
    pub token: i64,
    /// By the store's clock.
    pub state: LeaseState,
    /// The last tick and sequence number that may have been issued.
    pub horizon: Option<(i64, i64)>,
    /// The layout, as in `28/22/13 in s since 2026-01-01T00:00:00Z`.
    pub layout: String,
    /// When the row was added.
    pub created: Timestamp,
    /// When it was changed last.
    pub renewed: Timestamp,
}

/// How it stands with a worker id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// It was given back, or never held.
    Free,
    /// Held until then, or longer if the lease is renewed.
    Held(Timestamp),
    /// The lease has run out, or was fenced: anybody may take it.
    Expired(Timestamp),
}

impl LeaseRow {
    /// The time of the horizon's tick; `None` where nothing was issued.
    pub fn used_until(&self) -> Option<Timestamp> {
        let tick = u64::try_from(self.horizon?.0).ok()?;
        Some(self.layout.parse::<Layout>().ok()?.time_of(tick))
    }

    /// Returns the row after a release or a fence, which changed it if `is_done`.
    ///
    /// # Errors
    ///
    /// [`TableError::LeaseHeld`] where the lease had to have run out
    /// and has not.
    pub fn ended(self, is_done: bool, place: String) -> Result<Self, Error> {
        match self.state {
            LeaseState::Held(until) if !is_done => {
                let worker_id = self.worker_id.unsigned_abs();
                Err(Error::from(TableError::LeaseHeld {
                    place,
                    worker_id,
                    owner: self.owner,
                    until,
                }))
            }
            _ => Ok(self),
        }
    }
}

/// Returns the horizon of rows for worker ids of starts that have ended.
///
/// # Errors
///
/// [`Error::WorkerIdOutOfRange`], [`Error::ClockBeforeEpoch`], [`Error::LayoutExhausted`].
pub fn used_until(
    layout: &Layout,
    ids: &RangeInclusive<u64>,
    until: Timestamp,
) -> Result<Place, Error> {
    layout.check_worker_id(*ids.end())?;
    Ok(Place { tick: layout.tick_at(until)?, sequence: layout.max_sequence() })
}

/// A row as it was read: times in milliseconds since 1970.
pub struct RawRow {
    /// Column `WORKER_ID`.
    pub worker_id: i64,
    /// Column `OWNER`.
    pub owner: String,
    /// Column `TOKEN`.
    pub token: i64,
    /// Column `LEASE_END`.
    pub lease_end: Option<i64>,
    /// Whether the lease has ended, by the store's clock.
    pub is_over: bool,
    /// Columns `HORIZON_TICK` and `HORIZON_SEQUENCE`.
    pub horizon: (Option<i64>, Option<i64>),
    /// Column `LAYOUT`.
    pub layout: String,
    /// Column `CREATED`.
    pub created: i64,
    /// Column `RENEWED`.
    pub renewed: i64,
}

impl From<RawRow> for LeaseRow {
    fn from(row: RawRow) -> Self {
        Self {
            worker_id: row.worker_id,
            owner: row.owner,
            token: row.token,
            state: match row.lease_end.map(Timestamp::from_millis) {
                None => LeaseState::Free,
                Some(end) if row.is_over => LeaseState::Expired(end),
                Some(end) => LeaseState::Held(end),
            },
            horizon: row.horizon.0.map(|tick| (tick, row.horizon.1.unwrap_or_default())),
            layout: row.layout,
            created: Timestamp::from_millis(row.created),
            renewed: Timestamp::from_millis(row.renewed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terms_follow_from_how_long_a_lease_lasts() {
        let seconds = Duration::from_secs;
        let terms = LeaseOptions::default().terms().expect("allowed");
        assert_eq!((terms.lasts, terms.margin), (Some(seconds(30)), seconds(3)));
        assert_eq!((terms.renew_every, terms.max_start_wait), (seconds(10), seconds(10)));
        let options = LeaseOptions::default();
        for wrong in [
            options.clone().lasts(Duration::from_millis(999)),
            options.clone().lasts(seconds(3_601)),
            options.clone().margin(seconds(16)),
        ] {
            assert!(matches!(wrong.terms(), Err(Error::OptionOutOfRange { .. })), "{wrong:?}");
        }
        assert!(options.lasts(seconds(1)).margin(Duration::ZERO).terms().is_ok());
    }

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
