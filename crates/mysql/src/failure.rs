//! Explains errors of the driver by the server's codes, and says what to do about them.

use std::borrow::Cow;
use std::io::{self, ErrorKind};

use mysql_async::{DriverError, Error, IoError, ServerError};
use uidring_store::server::{Cause, Failure, LOGIN, Problem, State};
use uidring_store::{tls_error, tls_failed};

/// Classifies an error of the driver. Its texts contain no credentials, except those about URLs, which are dropped.
pub fn failed(error: Error) -> Problem {
    let is_answer = matches!(error, Error::Server(_));
    let (state, advice, cause): (_, Cow<'static, str>, Option<Cause>) = match error {
        Error::Server(error) => {
            let (state, advice) = of_server(&error);
            (state, advice.into(), Some(error.into()))
        }
        Error::Io(IoError::Io(error)) => {
            let (state, advice) = of_connection(&error);
            (state, advice, Some(error.into()))
        }
        Error::Io(IoError::Tls(error)) => {
            (State::Lasting, tls_failed(&error).into(), Some(error.into()))
        }
        Error::Driver(DriverError::NoClientSslFlagFromServer) => {
            let advice = "TLS was asked for, and the server offers none; give it a certificate, or do without";
            (State::Lasting, advice.into(), None)
        }
        Error::Driver(error @ DriverError::ConnectionClosed) => {
            (State::MayPass, "the server closed the connection".into(), Some(error.into()))
        }
        Error::Driver(error) => {
            let advice = "the driver and the server do not understand each other";
            (State::Lasting, advice.into(), Some(error.into()))
        }
        Error::Url(_) => (State::Lasting, "the URL cannot be used".into(), None),
        Error::Other(error) => (State::Lasting, "the driver failed".into(), Some(error)),
    };
    Problem::Driver(Failure { state, is_answer, advice, cause })
}

/// Returns what an answer of the server means, and what to do. The table fills the placeholders.
fn of_server(error: &ServerError) -> (State, &'static str) {
    let is_of_connections = error.message.contains("max_user_connections");
    match error.code {
        1045 => (State::Lasting, LOGIN),
        1146 => (
            State::NoTable,
            "there is no table {table}: if there never was one, create it with `{command}`",
        ),
        1049 => (State::NoDatabase, "there is no such database; create it, or name another"),
        1050 => (State::TableExists, "the table exists already"),
        167 | 1467 => (State::Lasting, BEHIND),
        1062 => (State::Duplicate, BEHIND),
        1064 => (State::Syntax, "the server does not know such a statement"),
        // After a wait, or with NOWAIT. Galera reports 1205 also if a read waits for other nodes.
        1205 | 3572 => (
            State::Locked,
            "another transaction has the row or table locked, or a node of a cluster is cut off",
        ),
        // The server may be handing over to another.
        1290 | 1836 => (State::MayChange, "the server is read-only now; name the primary"),
        1792 => (
            State::MayChange,
            "transactions are read-only there; name the primary, or unset the variable",
        ),
        // Galera reports this also if another node's commit came first.
        1213 | 3101 => {
            (State::MayPass, "another transaction came first, perhaps on another node; try again")
        }
        1047 | 1180 => (
            State::MayPass,
            "this node of a cluster takes nothing: it is joining, or cut off from the majority; name a \
             node of the majority, or see `SHOW STATUS LIKE 'wsrep_cluster_status'`",
        ),
        3100 | 3796..=3799 => (
            State::MayPass,
            "this member of a group is joining, leaving, or cut off from the majority; name a member of \
             the majority",
        ),
        3032 => (
            State::MayPass,
            "the server is in offline mode, as a member is that a group has expelled; name another",
        ),
        // The limit's name is the same in all languages. The other limits are per hour, longer than any start.
        1226 if is_of_connections => {
            (State::MayPass, "all connections that this account may have are in use; allow it more")
        }
        1226 => {
            (State::Lasting, "the account has used up its limit of this hour; raise it, or wait")
        }
        // Too many connections, a shutdown, a connection given up by the server, a row changed since it was read, a
        // killed query or connection, or another node's commit.
        1040 | 1203 | 1053 | 1158..=1161 | 4031 | 1020 | 1317 | 1927 | 3169 => {
            (State::MayPass, REFUSED)
        }
        1698 => (State::Lasting, "this account is not let in with a password; use one that is"),
        4151 | 3118 => {
            (State::Lasting, "the account is locked; unlock it: ALTER USER … ACCOUNT UNLOCK")
        }
        1820 | 1862 => (
            State::Lasting,
            "the account's password has expired; give it a new one with ALTER USER",
        ),
        1044 => (
            State::Lasting,
            "the account may not use this database; grant the account its rights on it",
        ),
        1142 | 1143 => (
            State::Lasting,
            "the account lacks a right: {rights}; creating the table needs CREATE, or another account for \
             `{command}`",
        ),
        3159 => (State::Lasting, "the account demands TLS; ask for it"),
        1267 | 1366 => (
            State::Lasting,
            "a column cannot hold this value; if it is a text, the column's character set lacks one of its \
             characters, and utf8mb4 has all",
        ),
        1054 | 1136 | 1264 | 1364 | 1406 => {
            (State::Lasting, "{table} is not as {origin} script makes it")
        }
        1305 => (
            State::Lasting,
            "this node of a Galera cluster cannot say what it has committed; use MariaDB 10.4 or later",
        ),
        3098 => (
            State::Lasting,
            "Group Replication does not take this table: it needs InnoDB and its primary key",
        ),
        _ => (State::Lasting, REFUSED),
    }
}

const REFUSED: &str = "the server refused";

const BEHIND: &str = "the table's AUTO_INCREMENT is behind its rows, or at its end; set it above the \
                      greatest ID with ALTER TABLE";

/// Whether the peer speaks another protocol. The driver does not export that error's type.
fn is_gibberish(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.to_string() == "Packets out of sync")
}

fn of_connection(error: &io::Error) -> (State, Cow<'static, str>) {
    const OTHER_SERVER: &str = "no connection; is this a MySQL server?";
    let (state, advice) = match error.kind() {
        // The handshake failed: over TLS, or with something other than a MySQL server.
        ErrorKind::InvalidData => (State::Lasting, OTHER_SERVER),
        _ if is_gibberish(error) => (State::Lasting, OTHER_SERVER),
        ErrorKind::PermissionDenied => (State::Lasting, "the connection failed"),
        ErrorKind::ConnectionRefused => (State::MayPass, "no connection; is the server running?"),
        ErrorKind::NotFound => {
            (State::MayPass, "no connection; is the server running, and the socket its own?")
        }
        ErrorKind::UnexpectedEof => (State::MayPass, "the server closed the connection"),
        _ => (State::MayPass, "the connection failed"),
    };
    match tls_error(error) {
        Some(_) => (state, tls_failed(error).into()),
        None => (state, advice.into()),
    }
}

#[cfg(test)]
mod tests {
    use uidring::StoreErrorKind;
    use uidring::adapter::Chain;
    use uidring_store::server::{WORKER_NODE, explain};

    use super::*;

    fn of_server(code: u16, message: &str) -> Problem {
        let (message, state) = (message.to_owned(), "HY000".to_owned());
        failed(Error::Server(ServerError { code, message, state }))
    }

    fn other(text: &str) -> Problem {
        failed(io::Error::other(text).into())
    }

    fn error(problem: Problem) -> uidring::Error {
        let server = crate::MySqlStore::from_url("mysql://root@h/d").expect("a URL");
        explain(&server.engine, &WORKER_NODE, problem)
    }

    fn text(problem: Problem) -> String {
        Chain(&error(problem)).to_string()
    }

    fn kind(problem: Problem) -> StoreErrorKind {
        match error(problem) {
            uidring::Error::Store(error) => error.kind(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        for problem in [
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

    #[test]
    fn a_lost_connection_may_pass_and_a_wrong_peer_does_not() {
        let of_kind = |kind: ErrorKind| failed(io::Error::from(kind).into());
        assert!(failed(DriverError::ConnectionClosed.into()).may_pass());
        assert!(!failed(DriverError::NoClientSslFlagFromServer.into()).may_pass());
        for (kind, may_pass, advice) in [
            (ErrorKind::ConnectionRefused, true, "is the server running?"),
            (ErrorKind::NotFound, true, "and the socket its own?"),
            (ErrorKind::UnexpectedEof, true, "the server closed the connection"),
            (ErrorKind::ConnectionReset, true, "the connection failed"),
            (ErrorKind::InvalidData, false, "is this a MySQL server?"),
            (ErrorKind::PermissionDenied, false, "the connection failed"),
        ] {
            assert_eq!(of_kind(kind).may_pass(), may_pass, "{kind}");
            assert!(text(of_kind(kind)).contains(advice), "{}", text(of_kind(kind)));
        }
    }

    /// Only an answer shows that the server has not done what it was asked for.
    #[test]
    fn an_answer_is_the_servers() {
        let error = ServerError { code: 1213, message: String::new(), state: "40001".into() };
        assert!(failed(Error::Server(error)).is_answered());
        assert!(!failed(DriverError::ConnectionClosed.into()).is_answered());
    }

    /// A start reports it at once. Renewals and loads are repeated anyway.
    #[test]
    fn a_read_only_server_is_not_final() {
        for code in [1290, 1792, 1836] {
            let problem = of_server(code, "read only");
            assert!(!problem.is_final() && !problem.may_pass(), "{problem:?}");
            assert_eq!(kind(problem), StoreErrorKind::Denied);
        }
    }

    #[test]
    fn a_cluster_without_a_majority_is_unreachable() {
        for code in [1047, 1180, 3100, 3101, 3796] {
            assert_eq!(kind(of_server(code, "")), StoreErrorKind::Unreachable);
        }
    }

    #[test]
    fn the_servers_refusals_come_with_advice() {
        for (code, message, advice) in [
            (1044, "Access denied for user", "grant the account its rights on it"),
            (1049, "Unknown database", "no such database"),
            (1050, "Table already exists", "exists already"),
            (1064, "You have an error in your SQL syntax", "does not know such a statement"),
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
            (3159, "Connections using insecure transport are prohibited", "demands TLS"),
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
        assert!(text(other("Packets out of sync")).contains("is this a MySQL server?"));
    }
}
