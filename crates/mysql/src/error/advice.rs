//! What an error says, and what to do about it.

use std::io::{self, ErrorKind};

use mysql_async::{DriverError, Error as Failure, IoError, ServerError};
use uidring::Error;

use crate::problem::{Problem, is_gibberish};
use crate::{MySqlError, MySqlStore};
use uidring_store::server::{ClockDifference, Table};
use uidring_store::{TableError, tls_error, tls_failed};

/// An error of the driver, the server or the system.
type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Returns the error for callers: what to do, with what the driver said as its source.
pub fn to_error(server: &MySqlStore, table: &Table, problem: Problem) -> Error {
    let kind = problem.kind();
    let (problem, source): (String, Option<Cause>) = match problem {
        Problem::UsedUp { row, max } => {
            let (place, next) = (server.to_string(), row);
            return Error::from(TableError::WorkerIdsUsedUp { place, next, max });
        }
        Problem::ClockDiffers(ClockDifference { ours, theirs, limit }) => {
            let server = server.to_string();
            return Error::from(MySqlError::ClockDiffers { server, ours, theirs, limit });
        }
        Problem::Refused(why) | Problem::Conflict(why) => (why, None),
        Problem::Undone => (
            "the node has undone a transaction and not said so: another node's came first, or a table's \
             engine is not InnoDB; try again"
                .into(),
            None,
        ),
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
        Problem::Driver(Failure::Io(IoError::Tls(error))) => (tls_failed(&error), Some(error.into())),
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

fn of_connection(error: &io::Error) -> String {
    if tls_error(error).is_some() {
        return tls_failed(error);
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

fn of_server(server: &MySqlStore, table: &Table, error: &ServerError) -> String {
    let ServerError { code, message, .. } = error;
    let Table { name, origin, command, or, rights, .. } = table;
    let text = match code {
        1045 if server.shows_certificate() => {
            "the login failed; check user and password, percent-encoded in a URL, and whether the account \
             demands another subject or issuer of the certificate"
        }
        1045 if server.demands_tls() => {
            "the login failed; check user and password, percent-encoded in a URL; the account may also \
             demand a client's certificate"
        }
        1045 => {
            "the login failed; check user and password, percent-encoded in a URL; the account may \
             also demand TLS"
        }
        1698 => "this account is not let in with a password; use one that is",
        4151 | 3118 => "the account is locked; unlock it: ALTER USER … ACCOUNT UNLOCK",
        1820 | 1862 => "the account's password has expired; give it a new one with ALTER USER",
        1044 => "the account may not use this database; grant the account its rights on it",
        1049 => "there is no such database; create it, or name another",
        1142 | 1143 => &format!(
            "the account may not do that; grant it: {rights}; to make the table it needs CREATE, or have \
             somebody else make it (`{command}`)"
        ),
        1146 => &format!("there is no table {name}; create it (`{command}`){or}"),
        1226 if message.contains("max_user_connections") => {
            "all connections that this account may have are in use; allow it more"
        }
        1226 => "the account has used up its limit of this hour; raise it, or wait",
        1290 | 1836 => "the server takes no rows now; name the primary",
        1792 => "transactions are read-only there; name the primary, or unset the variable",
        1267 | 1366 => {
            "a column cannot hold this value; if it is a text, the column's character set lacks one of its \
             characters, and utf8mb4 has all"
        }
        1054 | 1136 | 1264 | 1364 | 1406 => &format!("{name} is not as {origin} script makes it"),
        167 | 1062 | 1467 => {
            "the table's AUTO_INCREMENT is behind its rows, or at its end; set it above the \
             greatest ID with ALTER TABLE"
        }
        1047 | 1180 => {
            "this node of a cluster takes nothing: it is joining, or cut off from the majority; name a \
             node of the majority, or see `SHOW STATUS LIKE 'wsrep_cluster_status'`"
        }
        1213 | 3101 => "another transaction came first, perhaps on another node; try again",
        1305 => {
            "this node of a Galera cluster cannot say what it has committed; use MariaDB 10.4 or later"
        }
        3098 => "Group Replication does not take this table: it needs InnoDB and its primary key",
        3100 | 3796..=3799 => {
            "this member of a group is joining, leaving, or cut off from the majority; name a member of \
             the majority"
        }
        3032 => {
            "the server is in offline mode, as a member is that a group has expelled; name another"
        }
        1205 | 3572 => {
            "another transaction has the row or table locked, or a node of a cluster is cut off"
        }
        3159 => "the account demands TLS; ask for it",
        _ => "the server refused",
    };
    text.into()
}

#[cfg(test)]
mod tests {
    use uidring::adapter::Chain;

    use uidring_store::server::WORKER_NODE;

    use super::*;

    fn of_server(code: u16, message: &str) -> Problem {
        let (message, state) = (message.to_owned(), "HY000".to_owned());
        Problem::Driver(Failure::Server(ServerError { code, message, state }))
    }

    fn text(problem: Problem) -> String {
        let server = MySqlStore::from_url("mysql://root@h/d").expect("a URL");
        Chain(&to_error(&server, &WORKER_NODE, problem)).to_string()
    }

    #[test]
    fn the_servers_refusals_come_with_advice() {
        for (code, message, advice) in [
            (1142, "CREATE command denied to user", "needs CREATE"),
            (1142, "INSERT command denied to user", "SELECT and INSERT"),
            (1226, "exceeded the 'max_user_connections' resource", "in use"),
            (1226, "exceeded the 'max_connections_per_hour' resource", "of this hour"),
            (1698, "Access denied for user", "with a password"),
            (4151, "Access denied, this account is locked", "ACCOUNT UNLOCK"),
            (1820, "You must SET PASSWORD before", "expired"),
            (1792, "Cannot execute statement in a READ ONLY transaction", "the primary"),
            (1290, "running with the --super-read-only option", "the primary"),
            (1836, "Running in read-only mode", "the primary"),
            (1047, "WSREP has not yet prepared node", "a node of the majority"),
            (1180, "Not connected to Primary Component", "a node of the majority"),
            (1213, "Deadlock found", "came first"),
            (1305, "FUNCTION WSREP_LAST_WRITTEN_GTID does not exist", "MariaDB 10.4"),
            (3098, "does not comply with the requirements", "primary key"),
            (3101, "Plugin instructed the server to rollback", "came first"),
            (3100, "Error on observer while running", "of the majority"),
            (3796, "cannot be used on the current member state", "of the majority"),
            (3032, "The server is currently in offline mode", "name another"),
            (167, "Out of range value for column 'ID'", "ALTER TABLE"),
        ] {
            let text = text(of_server(code, message));
            assert!(text.contains(message) && text.contains(&code.to_string()), "{text}");
            assert!(text.contains(advice), "{advice}: {text}");
        }
    }

    #[test]
    fn another_protocol_is_recognised() {
        let other = Problem::Driver(io::Error::other("Packets out of sync").into());
        assert!(text(other).contains("is this a MySQL server?"));
    }
}
