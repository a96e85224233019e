//! Keeping a row that is held, whatever the store.

use std::process;

use uidring::worker::{LeaseBackend, RenewError};
use uidring::{Error, Layout, Uid};

/// A tick and a sequence number: the greatest that may have been issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The tick.
    pub tick: u64,
    /// The sequence number in it.
    pub sequence: u64,
}

/// A row that is held.
#[derive(Clone, Debug)]
pub struct Held {
    /// The worker id.
    pub worker_id: u64,
    /// The layout of the uids.
    pub layout: Layout,
    /// The holder, as the row names it.
    pub owner: String,
    /// The fencing token.
    pub token: i64,
    /// What earlier holders may have issued.
    pub before: Option<Place>,
    /// The tick of the last horizon that the store has confirmed to this holder. A row that has less
    /// was taken back, by whatever: a failover, or an older state that was put back.
    pub confirmed: Option<u64>,
    /// A number of the server that the row was taken from, where it tells one.
    pub server: Option<u64>,
}

/// Why a row is not ours any more.
#[derive(Debug)]
pub enum Loss {
    /// It is gone.
    Gone,
    /// Another owner, or another token, has it.
    Taken {
        /// The present owner.
        owner: String,
        /// The present token.
        token: i64,
    },
    /// It is ours, and has not what was confirmed.
    Forgotten {
        /// The tick that the store confirmed.
        confirmed: u64,
        /// The tick that the row has.
        found: Option<u64>,
    },
    /// Another server has answered.
    OtherServer,
}

impl Loss {
    /// Of a row whose owner and token, if it is there, are not ours.
    pub fn of(present: Option<(String, i64)>) -> Self {
        present.map_or(Self::Gone, |(owner, token)| Self::Taken { owner, token })
    }
}

/// The store's side of a row. It acts only as long as owner and token are those of `held`, and says
/// otherwise why not. A renewal demands also that the row has what was confirmed.
pub trait HeldRow: Send + 'static {
    /// The lease ends as long from now as it lasts, and the horizon is not below this any more.
    ///
    /// # Errors
    ///
    /// What the store says; it may be tried again.
    fn renew(&mut self, held: &Held, horizon: Place) -> Result<Result<(), Loss>, Error>;

    /// The row is free, with this for its horizon.
    ///
    /// # Errors
    ///
    /// What the store says.
    fn release(&mut self, held: &Held, last: Option<Place>) -> Result<Result<(), Loss>, Error>;
}

/// Stands for the last sequence number of a tick.
const WHOLE_TICK: i64 = i64::MAX;

impl Held {
    /// Reads the columns of a horizon. Without a sequence it is the whole tick, as after an
    /// operator has raised the tick of a row that was never used.
    pub fn place(tick: Option<i64>, sequence: Option<i64>) -> Option<Place> {
        let [tick, sequence] = [tick?, sequence.unwrap_or(WHOLE_TICK)].map(i64::cast_unsigned);
        Some(Place { tick, sequence })
    }

    /// The greatest uid that earlier holders may have issued.
    ///
    /// # Errors
    ///
    /// [`Error::FieldOutOfRange`] where the row has a sequence number that the layout does not.
    pub fn after(&self) -> Result<Option<Uid>, Error> {
        let compose = |place: Place| {
            // Any other number that does not fit is damage, and refused.
            let whole = place.sequence == WHOLE_TICK.cast_unsigned();
            let sequence = if whole { self.layout.max_sequence() } else { place.sequence };
            self.layout.compose(place.tick, self.worker_id, sequence)
        };
        self.before.map(compose).transpose()
    }
}

/// What to do after a store has lost commits.
const AFTER_LOSS: &str = "see \"After commits were lost\" in docs/worker-ids.md";

/// Keeps a row for a generator.
pub struct Keeper<R: HeldRow> {
    row: R,
    held: Held,
    /// What errors call the store.
    place: String,
    /// In another process than this, a forked child, nothing of it may be touched.
    process: u32,
    /// A renewal has succeeded: from then on uids may be issued.
    in_use: bool,
    is_over: bool,
}

impl<R: HeldRow> Keeper<R> {
    /// Keeps this row of the store at `place`.
    pub fn new(row: R, held: Held, place: String) -> Self {
        Self { row, held, place, process: process::id(), in_use: false, is_over: false }
    }

    fn lost(&self, why: String) -> Error {
        Error::LeaseLost { worker_id: self.held.worker_id, place: self.place.clone(), why }
    }

    fn check_process(&self) -> Result<(), Error> {
        if process::id() == self.process {
            return Ok(());
        }
        Err(self.lost("this process was forked from the one that holds it".into()))
    }

    fn explain(&self, loss: Loss) -> Error {
        let Held { owner: ours, token, .. } = &self.held;
        self.lost(match loss {
            Loss::Gone => "its row is gone".into(),
            Loss::Taken { owner, token: now } if owner == *ours => {
                format!("it was fenced or released (token {now}, and not {token} any more)")
            }
            Loss::Taken { owner, token: now } => {
                format!("{owner} has it (token {now}, and not {token} any more)")
            }
            Loss::Forgotten { confirmed, found } => {
                let found = found.map_or_else(|| "none".into(), |tick| tick.to_string());
                format!(
                    "its horizon was confirmed up to tick {confirmed} and now reads {found}: the \
                     store has lost commits, as by a failover to a replica that lags behind or by an \
                     older state that was put back; {AFTER_LOSS}"
                )
            }
            Loss::OtherServer => format!(
                "another server answers than the one that it was taken from: that may be a failover \
                 which has lost commits; {AFTER_LOSS}"
            ),
        })
    }
}

impl<R: HeldRow> LeaseBackend for Keeper<R> {
    fn renew(&mut self, horizon: u64) -> Result<(), RenewError> {
        self.check_process().map_err(RenewError::Lost)?;
        let layout = &self.held.layout;
        // Above the last tick there is nothing to be issued.
        let (tick, sequence) = (horizon.min(layout.max_tick()), layout.max_sequence());
        match self.row.renew(&self.held, Place { tick, sequence }) {
            Ok(Ok(())) => {
                self.in_use = true;
                self.held.confirmed = self.held.confirmed.max(Some(tick));
                Ok(())
            }
            Ok(Err(loss)) => Err(RenewError::Lost(self.explain(loss))),
            Err(error) => Err(RenewError::Failed(error)),
        }
    }

    fn release(&mut self, last: Option<Uid>) -> Result<(), Error> {
        self.check_process()?;
        self.is_over = true;
        let last = match last {
            Some(uid) => {
                let uid = self.held.layout.decode(uid)?;
                Some(Place { tick: uid.tick, sequence: uid.sequence })
            }
            None => None,
        };
        // Not below what earlier holders may have issued.
        let last = last.max(self.held.before);
        self.row.release(&self.held, last)?.map_err(|loss| self.explain(loss))
    }
}

/// A row that no generator came to use is given back: a start that fails again and again would hold
/// one row after another.
impl<R: HeldRow> Drop for Keeper<R> {
    fn drop(&mut self) {
        if !self.in_use && !self.is_over && process::id() == self.process {
            // If that fails it runs out by itself.
            let _ = self.release(None);
        }
    }
}
