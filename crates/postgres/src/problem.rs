//! Why work in a connection failed, and whether it may succeed later.

use std::error::Error as _;
use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio_postgres::error::{DbError, SqlState};
use uidring::StoreErrorKind;
use uidring_store::server::{ClockDifference, Problem as _};
use uidring_store::tls_error;

/// Why an attempt failed.
#[derive(Debug)]
pub enum Problem {
    /// What the driver or the server said.
    Driver(tokio_postgres::Error),
    /// There was no connection within this time.
    NoConnection(Duration),
    /// There was one, and the work was not done within this time.
    NoEnd(Duration),
    /// The server has committed, with this warning.
    Unconfirmed(String),
    /// All that could be had is locked by others.
    Busy(String),
    /// The server takes no rows now: it is a standby, or was told to.
    ReadOnly {
        /// Why, and what to do.
        why: String,
        /// Whether there are other servers to be asked.
        has_others: bool,
    },
    /// What the server did is not to be used.
    Refused(String),
    /// A policy, trigger or rule of the table prevents it.
    Denied(String),
    /// Somebody else did something at the same time.
    Conflict(String),
    /// The worker id is over the layout's maximum.
    UsedUp {
        /// The generated key.
        row: u64,
        /// The layout's greatest worker id.
        max: u64,
    },
    /// The server's clock and ours are too far apart.
    ClockDiffers(ClockDifference),
}

impl From<tokio_postgres::Error> for Problem {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Driver(error)
    }
}

impl Problem {
    /// What the server said, if it refused.
    pub fn db_error(&self) -> Option<&DbError> {
        match self {
            Self::Driver(error) => error.as_db_error(),
            _ => None,
        }
    }

    /// The server's code, if it refused.
    pub fn code(&self) -> Option<&SqlState> {
        self.db_error().map(DbError::code)
    }

    /// Whether the connection is good, and what was done in it is what failed.
    pub fn is_answered(&self) -> bool {
        self.code().is_some()
            || matches!(
                self,
                Self::Refused(_) | Self::Denied(_) | Self::Conflict(_) | Self::Unconfirmed(_)
            )
    }

    /// Whether somebody else has a row locked.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Busy(_)) || self.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
    }

    /// Whether the table does not exist.
    pub fn is_no_table(&self) -> bool {
        self.code() == Some(&SqlState::UNDEFINED_TABLE)
    }

    /// Whether a table that was to be created exists.
    pub fn is_there(&self) -> bool {
        matches!(self.code(), Some(&(SqlState::DUPLICATE_TABLE | SqlState::DUPLICATE_OBJECT)))
    }

    /// Whether a row with this key exists.
    pub fn is_duplicate(&self) -> bool {
        self.code() == Some(&SqlState::UNIQUE_VIOLATION)
    }

    /// The kind of the error for callers.
    pub fn kind(&self) -> StoreErrorKind {
        match self {
            Self::UsedUp { .. } => StoreErrorKind::Exhausted,
            Self::ClockDiffers(_) => StoreErrorKind::Clock,
            Self::Refused(_) => StoreErrorKind::Corrupt,
            Self::ReadOnly { has_others: true, .. } => StoreErrorKind::Unreachable,
            Self::ReadOnly { .. } | Self::Denied(_) => StoreErrorKind::Denied,
            // The caller tries these again.
            Self::Conflict(_) | Self::NoEnd(_) | Self::Unconfirmed(_) => StoreErrorKind::TimedOut,
            _ if self.is_locked() => StoreErrorKind::TimedOut,
            _ => match self.code() {
                Some(&(SqlState::UNDEFINED_TABLE | SqlState::INVALID_CATALOG_NAME)) => {
                    StoreErrorKind::NotFound
                }
                _ if self.may_pass() => StoreErrorKind::Unreachable,
                Some(_) => StoreErrorKind::Denied,
                None => StoreErrorKind::Other,
            },
        }
    }
}

impl uidring_store::server::Problem for Problem {
    fn no_connection(limit: Duration) -> Self {
        Self::NoConnection(limit)
    }

    fn no_end(limit: Duration) -> Self {
        Self::NoEnd(limit)
    }

    fn may_pass(&self) -> bool {
        match self {
            Self::NoConnection(_) | Self::NoEnd(_) | Self::Unconfirmed(_) | Self::Busy(_) => true,
            Self::ReadOnly { has_others, .. } => *has_others,
            Self::Driver(error) => match error.as_db_error() {
                Some(error) => may_pass(error),
                None => error.is_closed() || io_error(error).is_some_and(is_of_the_network),
            },
            _ => false,
        }
    }

    fn is_final(&self) -> bool {
        // A server that takes no rows now may be one that hands over to another, and a disk is tidied up.
        let may_change = matches!(self, Self::ReadOnly { .. } | Self::Conflict(_))
            || matches!(
                self.code(),
                Some(&(SqlState::READ_ONLY_SQL_TRANSACTION | SqlState::DISK_FULL))
            );
        !may_change && !self.may_pass()
    }

    fn last_wait(&self) -> Option<&'static str> {
        match self {
            Self::NoConnection(_) => Some("connecting"),
            Self::NoEnd(_) => Some("waiting for a statement to end"),
            _ => None,
        }
    }
}

/// Whether what the server refused may succeed later.
fn may_pass(error: &DbError) -> bool {
    let code = error.code();
    // Connections that ended, or could not be had; a server that starts, ends or crashed.
    let is_away = code.code().starts_with("08")
        || matches!(
            *code,
            SqlState::TOO_MANY_CONNECTIONS
                | SqlState::ADMIN_SHUTDOWN
                | SqlState::CRASH_SHUTDOWN
                | SqlState::CANNOT_CONNECT_NOW
        );
    // Transactions that met another, or were ended by a limit of the server's or by somebody.
    let is_undone = matches!(
        *code,
        SqlState::T_R_SERIALIZATION_FAILURE
            | SqlState::T_R_DEADLOCK_DETECTED
            | SqlState::LOCK_NOT_AVAILABLE
            | SqlState::QUERY_CANCELED
            | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
    );
    (is_away && !is_pooler_refusal(error)) || is_undone
}

/// Whether PgBouncer refuses for good, with the code by which it says everything, in its only language.
pub fn is_pooler_refusal(error: &DbError) -> bool {
    let refusals = ["no such database", "no such user", "pooling mode", "password", "not allowed"];
    *error.code() == SqlState::PROTOCOL_VIOLATION
        && refusals.iter().any(|text| error.message().contains(text))
}

/// The system's error in one of the driver's.
pub fn io_error(error: &tokio_postgres::Error) -> Option<&io::Error> {
    error.source().and_then(|source| source.downcast_ref())
}

/// Whether the driver found no server that takes rows, of several: one may be promoted yet.
pub fn is_read_only(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_none()
}

fn is_of_the_network(error: &io::Error) -> bool {
    let is_tls = tls_error(error).is_some();
    let kinds = [ErrorKind::InvalidData, ErrorKind::InvalidInput, ErrorKind::PermissionDenied];
    is_read_only(error) || !is_tls && !kinds.contains(&error.kind())
}
