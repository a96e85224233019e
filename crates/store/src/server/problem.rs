//! Why an attempt failed, and whether a retry may help.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::time::Duration;

use uidring::{StoreErrorKind, Timestamp};

use crate::Fitting;

/// An error of the driver, the server or the system.
pub type Cause = Box<dyn StdError + Send + Sync>;

/// Why an attempt failed.
#[derive(Debug)]
pub enum Problem {
    /// The driver's or the server's error.
    Driver(Failure),
    /// No connection within this time.
    NoConnection(Duration),
    /// Connected, but the work did not end within this time.
    NoEnd(Duration),
    /// The server confirmed a transaction that is, or may be, undone.
    Undone(String),
    /// Others have locked everything that could be used.
    Busy(String),
    /// The server is read-only: a standby, or set so.
    ReadOnly {
        /// Why, and what to do.
        why: String,
        /// Whether there are other servers to try.
        has_others: bool,
    },
    /// The server's result must not be used.
    Refused(String),
    /// A policy, trigger or rule of the table prevents it.
    Denied(String),
    /// Somebody else changed something at the same time.
    Conflict(String),
    /// A lease is lost.
    Lost {
        /// The worker id.
        worker_id: u64,
        /// Why it is lost.
        why: String,
    },
    /// The worker id is outside the layout or the range.
    Unfit {
        /// The generated key.
        row: u64,
        /// The worker ids that fit.
        fitting: Fitting,
    },
    /// The clocks of server and host differ too much.
    ClockDiffers {
        /// This host's clock.
        ours: Timestamp,
        /// The server's clock.
        theirs: Timestamp,
        /// How far they may differ.
        limit: Duration,
    },
}

/// A driver's error, as its engine classifies it by the server's codes.
#[derive(Debug)]
pub struct Failure {
    /// What it means.
    pub state: State,
    /// Whether the server answered. Then the connection is good, and only the statement failed.
    pub is_answer: bool,
    /// What to do, and what went wrong unless the cause says so. Has placeholders for the table and the login.
    pub advice: Cow<'static, str>,
    /// What the driver, the server or the system said.
    pub cause: Option<Cause>,
}

/// Placeholder in an advice for `Connector::login_advice`.
pub const LOGIN: &str = "{login}";

/// What a driver's error means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The table does not exist.
    NoTable,
    /// The database does not exist.
    NoDatabase,
    /// A table to create exists already.
    TableExists,
    /// A row with the key exists.
    Duplicate,
    /// Somebody else has locked a row.
    Locked,
    /// The server does not know a keyword.
    Syntax,
    /// A retry may succeed.
    MayPass,
    /// Passes later by itself: a server that accepts no writes may hand over to another.
    MayChange,
    /// It lasts until somebody acts.
    Lasting,
}

impl Problem {
    /// Returns what a driver's error means.
    pub fn state(&self) -> Option<State> {
        match self {
            Self::Driver(failure) => Some(failure.state),
            _ => None,
        }
    }

    /// Returns whether the connection is good, and only the statement failed.
    pub fn is_answered(&self) -> bool {
        match self {
            Self::Driver(failure) => failure.is_answer,
            Self::Refused(_) | Self::Denied(_) | Self::Conflict(_) | Self::Undone(_) => true,
            _ => false,
        }
    }

    /// Returns whether somebody else has locked a row.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Busy(_)) || self.state() == Some(State::Locked)
    }

    /// Returns whether a retry may succeed.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::NoConnection(_) | Self::NoEnd(_) | Self::Undone(_) | Self::Busy(_) => true,
            Self::ReadOnly { has_others, .. } => *has_others,
            _ => matches!(self.state(), Some(State::MayPass | State::Locked)),
        }
    }

    /// Returns whether it lasts until somebody acts.
    pub fn is_final(&self) -> bool {
        let may_change = matches!(self, Self::ReadOnly { .. } | Self::Conflict(_))
            || self.state() == Some(State::MayChange);
        !may_change && !self.may_pass()
    }

    /// Returns what an attempt was waiting for when its time was up.
    pub fn last_wait(&self) -> Option<&'static str> {
        match self {
            Self::NoConnection(_) => Some("connecting"),
            Self::NoEnd(_) => Some("waiting for a statement to end"),
            _ => None,
        }
    }

    /// Returns the kind of error for callers.
    pub fn kind(&self) -> StoreErrorKind {
        match self {
            Self::Unfit { .. } => StoreErrorKind::Exhausted,
            Self::Lost { .. } => StoreErrorKind::Held,
            Self::ClockDiffers { .. } => StoreErrorKind::Clock,
            Self::Refused(_) => StoreErrorKind::Corrupt,
            Self::Denied(_) | Self::ReadOnly { has_others: false, .. } => StoreErrorKind::Denied,
            // The caller retries these.
            Self::Conflict(_) | Self::NoEnd(_) | Self::Undone(_) | Self::Busy(_) => {
                StoreErrorKind::TimedOut
            }
            Self::NoConnection(_) | Self::ReadOnly { .. } => StoreErrorKind::Unreachable,
            Self::Driver(failure) => match failure.state {
                State::Locked => StoreErrorKind::TimedOut,
                State::NoTable | State::NoDatabase => StoreErrorKind::NotFound,
                State::MayPass => StoreErrorKind::Unreachable,
                _ if failure.is_answer => StoreErrorKind::Denied,
                _ => StoreErrorKind::Other,
            },
        }
    }
}
