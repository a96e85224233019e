//! Why work in a connection failed, and whether it may succeed later.

use std::io::{self, ErrorKind};
use std::time::Duration;

use mysql_async::{DriverError, Error as Failure, IoError};
use uidring::StoreErrorKind;
use uidring_store::server::{ClockDifference, Problem as _};

/// The server's code for a table that does not exist.
const NO_SUCH_TABLE: u16 = 1146;

/// The server's code for a key that exists.
const DUPLICATE_KEY: u16 = 1062;

/// Why an attempt failed.
#[derive(Debug)]
pub enum Problem {
    /// What the driver or the server said.
    Driver(mysql_async::Error),
    /// There was no connection within this time.
    NoConnection(Duration),
    /// There was one, and the work was not done within this time.
    NoEnd(Duration),
    /// What the server did is not to be used.
    Refused(String),
    /// Somebody else did something at the same time.
    Conflict(String),
    /// A transaction was rolled back, and no statement said so.
    Undone,
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

impl From<mysql_async::Error> for Problem {
    fn from(error: mysql_async::Error) -> Self {
        Self::Driver(error)
    }
}

impl Problem {
    /// The server's code, if the server refused.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Driver(Failure::Server(error)) => Some(error.code),
            _ => None,
        }
    }

    /// Whether the connection is good, and what was done in it is what failed.
    pub fn is_answered(&self) -> bool {
        self.code().is_some() || matches!(self, Self::Refused(_) | Self::Conflict(_) | Self::Undone)
    }

    /// Whether somebody else has a row locked, after a wait or if the statement did not wait.
    pub fn is_locked(&self) -> bool {
        matches!(self.code(), Some(1205 | 3572))
    }

    /// Whether the table does not exist.
    pub fn is_no_table(&self) -> bool {
        self.code() == Some(NO_SUCH_TABLE)
    }

    /// Whether a row with the key is there already.
    pub fn is_duplicate(&self) -> bool {
        self.code() == Some(DUPLICATE_KEY)
    }

    /// The kind of the error for callers.
    pub fn kind(&self) -> StoreErrorKind {
        match self {
            Self::UsedUp { .. } => StoreErrorKind::Exhausted,
            Self::ClockDiffers(_) => StoreErrorKind::Clock,
            Self::Refused(_) => StoreErrorKind::Corrupt,
            // The caller tries these again.
            Self::Conflict(_) | Self::NoEnd(_) | Self::Undone => StoreErrorKind::TimedOut,
            _ if self.is_locked() => StoreErrorKind::TimedOut,
            _ if matches!(self.code(), Some(1049 | NO_SUCH_TABLE)) => StoreErrorKind::NotFound,
            _ if self.may_pass() => StoreErrorKind::Unreachable,
            _ if self.code().is_some() => StoreErrorKind::Denied,
            _ => StoreErrorKind::Other,
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
            Self::NoConnection(_) | Self::NoEnd(_) | Self::Undone => true,
            Self::Driver(Failure::Io(IoError::Io(error))) => {
                // InvalidData is a handshake that failed: TLS, or no MySQL server.
                !matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::PermissionDenied)
                    && !is_gibberish(error)
            }
            Self::Driver(Failure::Driver(DriverError::ConnectionClosed)) => true,
            Self::Driver(Failure::Server(error)) => match error.code {
                // Too many connections, of all or of this user; shutting down, or out of service; a
                // connection that the server gave up.
                1040 | 1203 | 1053 | 3032 | 1158..=1161 | 4031
                // Lock wait, deadlock, a row that changed since it was read; a query or connection
                // that somebody killed. Galera also says 1213 or 1317 where another node's commit came
                // first, and 1205 where a read waits for other nodes.
                | 1205 | 1213 | 1020 | 1317 | 1927 | 3169
                // A node of Galera that is not ready, or that lost the majority during a commit.
                | 1047 | 1180
                // Group Replication: a hook at the commit failed, as without a majority; another
                // member's commit came first; a member that is joining, leaving, or waits for others.
                | 3100 | 3101 | 3796..=3799 => true,
                // Of the account's limits those of an hour outlast any start. The name of a limit is the same in
                // all languages.
                1226 => error.message.contains("max_user_connections"),
                _ => false,
            },
            _ => false,
        }
    }

    fn is_final(&self) -> bool {
        // A server that takes no rows now may be one that hands over to another.
        let is_read_only = matches!(self.code(), Some(1290 | 1792 | 1836));
        !is_read_only && !matches!(self, Self::Conflict(_)) && !self.may_pass()
    }

    fn last_wait(&self) -> Option<&'static str> {
        match self {
            Self::NoConnection(_) => Some("connecting"),
            Self::NoEnd(_) => Some("waiting for a statement to end"),
            _ => None,
        }
    }
}

/// Whether the other side speaks another protocol. The driver hides its type for that.
pub fn is_gibberish(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.to_string() == "Packets out of sync")
}

#[cfg(test)]
mod tests {
    use mysql_async::ServerError;

    use super::*;

    fn of_server(code: u16, message: &str) -> Problem {
        let (message, state) = (message.to_owned(), "HY000".to_owned());
        Problem::Driver(Failure::Server(ServerError { code, message, state }))
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let limit = Duration::from_secs(1);
        let other = |text: &str| Problem::Driver(io::Error::other(text).into());
        for problem in [
            Problem::NoConnection(limit),
            Problem::NoEnd(limit),
            of_server(1226, "exceeded the 'max_user_connections' resource"),
            of_server(1213, "Deadlock found when trying to get lock; try restarting transaction"),
            of_server(1047, "WSREP has not yet prepared node for application use"),
            of_server(1180, "provider status: Not connected to Primary Component"),
            of_server(1205, "Lock wait timeout exceeded; try restarting transaction"),
            of_server(1317, "Query execution was interrupted"),
            of_server(3100, "Error on observer while running replication hook 'before_commit'."),
            of_server(3101, "Plugin instructed the server to rollback the current transaction."),
            of_server(3797, "Error while waiting for group transactions commit"),
            of_server(3799, "The Group Replication plugin is stopping"),
            of_server(3032, "The server is currently in offline mode"),
            Problem::Undone,
            other("Connection reset by peer"),
        ] {
            assert!(problem.may_pass(), "{problem:?}");
        }
        for problem in [
            of_server(1226, "exceeded the 'max_connections_per_hour' resource"),
            of_server(1226, "exceeded the 'max_questions' resource"),
            of_server(1045, "Access denied"),
            other("Packets out of sync"),
        ] {
            assert!(!problem.may_pass(), "{problem:?}");
        }
    }

    /// A start says so at once; a renewal and a load come again by themselves.
    #[test]
    fn a_read_only_server_is_not_final() {
        for code in [1290, 1792, 1836] {
            let problem = of_server(code, "read only");
            assert!(!problem.is_final() && !problem.may_pass(), "{problem:?}");
            assert_eq!(problem.kind(), StoreErrorKind::Denied);
        }
    }

    #[test]
    fn a_cluster_without_a_majority_is_unreachable() {
        for code in [1047, 1180, 3100, 3101, 3796] {
            assert_eq!(of_server(code, "").kind(), StoreErrorKind::Unreachable);
        }
    }
}
