//! Why an attempt on a connection failed, and whether another one may succeed.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use uidring::{StoreErrorKind, Timestamp};

use crate::Fitting;

/// An error of the driver, the server or the system.
pub type Cause = Box<dyn StdError + Send + Sync>;

/// Why an attempt failed.
#[derive(Debug)]
pub enum Problem<F> {
    /// What the driver or the server said.
    Driver(F),
    /// There was no connection within this time.
    NoConnection(Duration),
    /// There was one, and the work was not done within this time.
    NoEnd(Duration),
    /// A transaction was, or may be, undone although the server confirmed it.
    Undone(String),
    /// All that could be had is locked by others.
    Busy(String),
    /// The server is read-only now: it is a standby, or set to be.
    ReadOnly {
        /// Why, and what to do.
        why: String,
        /// Whether there are other servers to be asked.
        has_others: bool,
    },
    /// What the server did must not be used.
    Refused(String),
    /// A policy, trigger or rule of the table prevents it.
    Denied(String),
    /// Somebody else did something at the same time.
    Conflict(String),
    /// A lease is lost.
    Lost {
        /// The worker id.
        worker_id: u64,
        /// Why.
        why: String,
    },
    /// The worker id is none of the layout and the range.
    Unfit {
        /// The generated key.
        row: u64,
        /// Those that fit.
        fitting: Fitting,
    },
    /// The server's clock and ours are too far apart.
    ClockDiffers {
        /// What ours said.
        ours: Timestamp,
        /// What the server's said.
        theirs: Timestamp,
        /// How far they may be apart.
        limit: Duration,
    },
}

/// An error of a driver, which each engine reads by its server's codes.
pub trait Failure: fmt::Debug + Send + Sized {
    /// What it means.
    fn state(&self) -> State;

    /// Whether the server answered: the connection is good, and what was done in it is what failed.
    fn is_answer(&self) -> bool;

    /// Returns what the driver, the server or the system said.
    fn into_cause(self) -> Option<Cause>;
}

/// What an error of a driver means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The table does not exist.
    NoTable,
    /// The database does not exist.
    NoDatabase,
    /// A table that was to be created exists.
    TableExists,
    /// A row with the key exists.
    Duplicate,
    /// Somebody else has a row locked, after a wait or if the statement did not wait.
    Locked,
    /// The server does not know a word of the statement.
    Syntax,
    /// Another attempt may succeed without anybody doing anything.
    MayPass,
    /// It will not pass soon, but by itself: a server that takes no rows may hand over to another.
    MayChange,
    /// Anything else, until somebody does something.
    Lasting,
}

impl<F: Failure> Problem<F> {
    /// What an error of the driver means.
    pub fn state(&self) -> Option<State> {
        match self {
            Self::Driver(failure) => Some(failure.state()),
            _ => None,
        }
    }

    /// Whether the connection is good, and what was done in it is what failed.
    pub fn is_answered(&self) -> bool {
        match self {
            Self::Driver(failure) => failure.is_answer(),
            Self::Refused(_) | Self::Denied(_) | Self::Conflict(_) | Self::Undone(_) => true,
            _ => false,
        }
    }

    /// Whether somebody else has a row locked.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Busy(_)) || self.state() == Some(State::Locked)
    }

    /// Whether another attempt may succeed without anybody doing anything.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::NoConnection(_) | Self::NoEnd(_) | Self::Undone(_) | Self::Busy(_) => true,
            Self::ReadOnly { has_others, .. } => *has_others,
            _ => matches!(self.state(), Some(State::MayPass | State::Locked)),
        }
    }

    /// Whether it stays so until somebody does something.
    pub fn is_final(&self) -> bool {
        let may_change = matches!(self, Self::ReadOnly { .. } | Self::Conflict(_))
            || self.state() == Some(State::MayChange);
        !may_change && !self.may_pass()
    }

    /// What an attempt that ran out of time was waiting for.
    pub fn last_wait(&self) -> Option<&'static str> {
        match self {
            Self::NoConnection(_) => Some("connecting"),
            Self::NoEnd(_) => Some("waiting for a statement to end"),
            _ => None,
        }
    }

    /// What kind of error it is for callers.
    pub fn kind(&self) -> StoreErrorKind {
        match self {
            Self::Unfit { .. } => StoreErrorKind::Exhausted,
            Self::Lost { .. } => StoreErrorKind::Held,
            Self::ClockDiffers { .. } => StoreErrorKind::Clock,
            Self::Refused(_) => StoreErrorKind::Corrupt,
            Self::Denied(_) | Self::ReadOnly { has_others: false, .. } => StoreErrorKind::Denied,
            // The caller tries these again.
            Self::Conflict(_) | Self::NoEnd(_) | Self::Undone(_) | Self::Busy(_) => {
                StoreErrorKind::TimedOut
            }
            Self::NoConnection(_) | Self::ReadOnly { .. } => StoreErrorKind::Unreachable,
            Self::Driver(failure) => match failure.state() {
                State::Locked => StoreErrorKind::TimedOut,
                State::NoTable | State::NoDatabase => StoreErrorKind::NotFound,
                State::MayPass => StoreErrorKind::Unreachable,
                _ if failure.is_answer() => StoreErrorKind::Denied,
                _ => StoreErrorKind::Other,
            },
        }
    }
}
