//! What a failure means, whether it may pass, and what to do about it.

use std::io::{self, ErrorKind};

use mysql_async::{DriverError, Error as Failure, IoError, ServerError};
use uidring::{Error, StoreErrorKind};

use super::session::Problem;
use super::{MySqlError, MySqlStore};

/// An error of the driver, the server or the system.
type Cause = Box<dyn std::error::Error + Send + Sync>;

/// What errors say of the table that was worked on.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    name: &'static str,
    /// It, and those that are used with it.
    pub all: &'static [&'static str],
    /// Whose script makes it.
    origin: &'static str,
    /// The subcommand that makes it.
    command: &'static str,
    /// What to do where it is missing, besides.
    or: &'static str,
    /// What the account has to be granted.
    rights: &'static str,
}

pub const WORKER_NODE: Table = Table {
    name: "WORKER_NODE",
    all: &["WORKER_NODE"],
    origin: "Baidu's",
    command: "uidring worker init",
    or: ", or allow the first start to",
    rights: "an assignment needs SELECT and INSERT on the table, pruning also DELETE",
};

pub const LEAF_ALLOC: Table = Table {
    name: "leaf_alloc",
    all: &["leaf_alloc"],
    origin: "Leaf's",
    command: "uidring segment create",
    or: ", with its first tag",
    rights: "a load needs SELECT and UPDATE on the table, a new tag INSERT",
};

pub const UIDRING_LEASE: Table = Table {
    name: "UIDRING_LEASE",
    all: &["UIDRING_LEASE", "WORKER_NODE"],
    origin: "this program's",
    command: "uidring worker init --leases",
    or: ", or allow the first start to",
    rights: "a lease needs SELECT, INSERT and UPDATE on UIDRING_LEASE, and SELECT and INSERT on \
             WORKER_NODE",
};

/// Whether another attempt may succeed without anybody doing anything.
pub fn is_transient(problem: &Problem) -> bool {
    match problem {
        Problem::NoConnection(_) | Problem::NoEnd(_) => true,
        Problem::Refused(_)
        | Problem::Conflict(_)
        | Problem::UsedUp { .. }
        | Problem::ClockDiffers { .. } => false,
        Problem::Driver(Failure::Io(IoError::Io(error))) => {
            // InvalidData is a handshake that failed: TLS, or no MySQL server.
            !matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::PermissionDenied)
                && !is_gibberish(error)
        }
        Problem::Driver(Failure::Driver(DriverError::ConnectionClosed)) => true,
        Problem::Driver(Failure::Server(error)) => match error.code {
            // Too many connections, of all or of this user; shutting down; a cluster's node that
            // is not ready.
            1040 | 1203 | 1053 | 1047
            // Lock wait, deadlock, a row that changed since it was read; a query or connection that
            // somebody killed.
            | 1205 | 1213 | 1020 | 1317 | 1927 => true,
            // Of the account's limits those of an hour outlast any start.
            1226 => error.message.contains("max_user_connections"),
            _ => false,
        },
        Problem::Driver(_) => false,
    }
}

/// Whether it stays so until somebody does something.
pub fn is_final(problem: &Problem) -> bool {
    // A server that takes no rows now may be one that hands over to another.
    const READ_ONLY: [u16; 3] = [1290, 1792, 1836];
    match problem {
        Problem::Conflict(_) => false,
        Problem::Driver(Failure::Server(error)) if READ_ONLY.contains(&error.code) => false,
        problem => !is_transient(problem),
    }
}

/// Whether somebody else has a row locked: it was waited for, or waiting was not wanted.
pub fn is_locked(problem: &Problem) -> bool {
    matches!(problem, Problem::Driver(Failure::Server(error)) if matches!(error.code, 1205 | 3572))
}

/// Returns the error for callers: what to do, with what the driver said as its source.
pub fn explain(server: &MySqlStore, table: &Table, problem: Problem) -> Error {
    let kind = kind_of(&problem);
    let (problem, source): (String, Option<Cause>) = match problem {
        Problem::UsedUp { row, max } => {
            let server = server.to_string();
            return Error::from(MySqlError::WorkerIdsUsedUp { server, row, max });
        }
        Problem::ClockDiffers { ours, theirs, limit } => {
            let server = server.to_string();
            return Error::from(MySqlError::ClockDiffers { server, ours, theirs, limit });
        }
        Problem::Refused(why) | Problem::Conflict(why) => (why, None),
        Problem::NoConnection(limit) => (
            format!(
                "no answer within {limit:?} while connecting; is a MySQL server there, and does the \
                 network let us through?"
            ),
            None,
        ),
        Problem::NoEnd(limit) => (
            format!(
                "connected, but a statement did not end within {limit:?}; is {} locked, or the server \
                 overloaded?",
                table.name
            ),
            None,
        ),
        Problem::Driver(Failure::Server(error)) => {
            (of_server(server, table, &error), Some(error.into()))
        }
        Problem::Driver(Failure::Io(IoError::Io(error))) => {
            (of_connection(&error), Some(error.into()))
        }
        Problem::Driver(Failure::Io(IoError::Tls(error))) => (tls(&error), Some(error.into())),
        Problem::Driver(Failure::Driver(DriverError::NoClientSslFlagFromServer)) => (
            "TLS was asked for, and the server offers none; give it a certificate, or do without"
                .into(),
            None,
        ),
        Problem::Driver(Failure::Driver(error @ DriverError::ConnectionClosed)) => {
            ("the server closed the connection".into(), Some(error.into()))
        }
        // The driver's texts name neither user nor password, but for those about URLs, which have
        // been read long before.
        Problem::Driver(Failure::Driver(error)) => {
            ("the driver and the server do not understand each other".into(), Some(error.into()))
        }
        Problem::Driver(Failure::Url(_)) => ("the URL cannot be used".into(), None),
        Problem::Driver(Failure::Other(error)) => ("the driver failed".into(), Some(error)),
    };
    MySqlError::Database { server: server.to_string(), problem, kind, source }.into()
}

/// Adds to what an error says of the server.
pub fn with_note(error: Error, note: &str) -> Error {
    let Error::Store(error) = error else { return error };
    match error.downcast::<MySqlError>() {
        Ok(MySqlError::Database { server, mut problem, kind, source }) => {
            problem.push_str(note);
            MySqlError::Database { server, problem, kind, source }.into()
        }
        Ok(other) => other.into(),
        Err(error) => error.into(),
    }
}

/// What kind of thing went wrong.
fn kind_of(problem: &Problem) -> StoreErrorKind {
    match problem {
        Problem::UsedUp { .. } => StoreErrorKind::Exhausted,
        Problem::ClockDiffers { .. } => StoreErrorKind::Clock,
        Problem::Refused(_) => StoreErrorKind::Corrupt,
        // It is tried again.
        Problem::Conflict(_) | Problem::NoEnd(_) => StoreErrorKind::TimedOut,
        problem if is_locked(problem) => StoreErrorKind::TimedOut,
        Problem::Driver(Failure::Server(error)) if matches!(error.code, 1049 | 1146) => {
            StoreErrorKind::NotFound
        }
        problem if is_transient(problem) => StoreErrorKind::Unreachable,
        Problem::Driver(Failure::Server(_)) => StoreErrorKind::Denied,
        _ => StoreErrorKind::Other,
    }
}

fn of_connection(error: &io::Error) -> String {
    let inner = error.get_ref();
    if let Some(error) = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return tls(error);
    }
    let what = match error.kind() {
        ErrorKind::ConnectionRefused => "no connection; is the server running?",
        ErrorKind::NotFound => "no connection; is the server running, and the socket its own?",
        ErrorKind::UnexpectedEof => "the server closed the connection",
        ErrorKind::InvalidData => "no connection; is this a MySQL server?",
        _ if is_gibberish(error) => "no connection; is this a MySQL server?",
        _ => "the connection failed",
    };
    what.into()
}

/// Whether the other side speaks something else: the driver's type for it is out of sight.
fn is_gibberish(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.to_string() == "Packets out of sync")
}

fn tls(error: &(dyn std::error::Error + 'static)) -> String {
    use rustls::{CertificateError, Error as Tls};
    let advice = match error.downcast_ref::<Tls>() {
        Some(Tls::InvalidCertificate(why)) => match why {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "; the server needs a new certificate"
            }
            CertificateError::UnknownIssuer => {
                "; name the authority that signed the server's certificate"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "; use the host name that is in the certificate"
            }
            _ => "",
        },
        _ => "",
    };
    format!("TLS failed{advice}")
}

fn of_server(server: &MySqlStore, table: &Table, error: &ServerError) -> String {
    let ServerError { code, message, .. } = error;
    let Table { name, origin, command, or, rights, .. } = table;
    let text = match code {
        1045 if server.demands_tls() => {
            "the login failed; check user and password, percent-encoded in a URL"
        }
        1045 => {
            "the login failed; check user and password, percent-encoded in a URL; the account may \
             also demand TLS"
        }
        1698 => "this account is not let in with a password; use one that is",
        4151 | 3118 => "the account is locked; unlock it: ALTER USER … ACCOUNT UNLOCK",
        1820 | 1862 => "the account's password has expired; give it a new one with ALTER USER",
        1044 => "the account may not use this database; grant it its rights on it",
        1049 => "there is no such database; create it, or name another",
        1142 if message.starts_with("CREATE command denied") => &format!(
            "the account may not make the table; grant CREATE, or have somebody else make it \
             (`{command}`)"
        ),
        1142 | 1143 => &format!("the account may not do that; grant it: {rights}"),
        1146 => &format!("there is no table {name}; create it (`{command}`){or}"),
        1226 if message.contains("max_user_connections") => {
            "all connections that this account may have are in use; allow it more"
        }
        1226 => "the account has used up its limit of this hour; raise it, or wait",
        1290 | 1836 => "the server takes no rows now; name the primary",
        1792 => "transactions are read-only there; name the primary, or unset the variable",
        1054 | 1136 | 1264 | 1364 | 1366 | 1406 => {
            &format!("{name} is not as {origin} script makes it")
        }
        167 | 1062 | 1467 => {
            "the table's AUTO_INCREMENT is behind its rows, or at its end; set it above the \
             greatest ID with ALTER TABLE"
        }
        1205 | 3572 => "another transaction has the row or table locked",
        3159 => "the account demands TLS; ask for it",
        _ => "the server refused",
    };
    text.into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uidring::adapter::Chain;

    use super::*;

    fn of_server(code: u16, message: &str) -> Problem {
        let (message, state) = (message.to_owned(), "HY000".to_owned());
        Problem::Driver(Failure::Server(ServerError { code, message, state }))
    }

    fn text(problem: Problem) -> String {
        let server = MySqlStore::from_url("mysql://root@h/d").expect("a URL");
        Chain(&explain(&server, &WORKER_NODE, problem)).to_string()
    }

    #[test]
    fn the_servers_refusals_come_with_advice() {
        for (code, message, advice) in [
            (1142, "CREATE command denied to user", "grant CREATE"),
            (1142, "INSERT command denied to user", "SELECT and INSERT"),
            (1226, "exceeded the 'max_user_connections' resource", "in use"),
            (1226, "exceeded the 'max_connections_per_hour' resource", "of this hour"),
            (1698, "Access denied for user", "with a password"),
            (4151, "Access denied, this account is locked", "ACCOUNT UNLOCK"),
            (1820, "You must SET PASSWORD before", "expired"),
            (1792, "Cannot execute statement in a READ ONLY transaction", "the primary"),
            (167, "Out of range value for column 'ID'", "ALTER TABLE"),
        ] {
            let text = text(of_server(code, message));
            assert!(text.contains(message) && text.contains(&code.to_string()), "{text}");
            assert!(text.contains(advice), "{advice}: {text}");
        }
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let limit = Duration::from_secs(1);
        let other = |text: &str| Problem::Driver(io::Error::other(text).into());
        for problem in [
            Problem::NoConnection(limit),
            Problem::NoEnd(limit),
            of_server(1226, "exceeded the 'max_user_connections' resource"),
            other("Connection reset by peer"),
        ] {
            assert!(is_transient(&problem), "{problem:?}");
        }
        for problem in [
            of_server(1226, "exceeded the 'max_connections_per_hour' resource"),
            of_server(1226, "exceeded the 'max_questions' resource"),
            of_server(1045, "Access denied"),
            other("Packets out of sync"),
        ] {
            assert!(!is_transient(&problem), "{problem:?}");
        }
        assert!(text(other("Packets out of sync")).contains("is this a MySQL server?"));
    }
}
