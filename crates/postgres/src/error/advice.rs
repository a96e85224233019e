//! What an error says, and what to do about it.

use std::io::{self, ErrorKind};

use tokio_postgres::error::{DbError, Severity, SqlState};
use uidring::Error;
use uidring_store::server::{ClockDifference, Table};
use uidring_store::{TableError, tls_error, tls_failed};

use crate::problem::{Problem, io_error, is_pooler_refusal, is_read_only};
use crate::{PostgresError, PostgresStore};

/// An error of the driver, the server or the system.
type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Returns the error for callers: what to do, with what the driver said as its source.
pub fn to_error(server: &PostgresStore, table: &Table, problem: Problem) -> Error {
    let kind = problem.kind();
    let (problem, source): (String, Option<Cause>) = match problem {
        Problem::UsedUp { row, max } => {
            let (place, next) = (server.to_string(), row);
            return Error::from(TableError::WorkerIdsUsedUp { place, next, max });
        }
        Problem::ClockDiffers(ClockDifference { ours, theirs, limit }) => {
            let server = server.to_string();
            return Error::from(PostgresError::ClockDiffers { server, ours, theirs, limit });
        }
        Problem::Refused(why)
        | Problem::Denied(why)
        | Problem::Conflict(why)
        | Problem::Busy(why)
        | Problem::ReadOnly { why, .. } => (why, None),
        Problem::NoConnection(limit) => (
            format!(
                "no answer within {limit:?} while connecting; is a PostgreSQL server there, and does the \
                 network let us through?"
            ),
            None,
        ),
        Problem::NoEnd(limit) => (
            format!(
                "connected, but a statement did not end within {limit:?}; is {} locked, a synchronous \
                 standby away, or the server overloaded?",
                table.name
            ),
            None,
        ),
        Problem::Unconfirmed(warning) => (
            format!(
                "the server has committed with a warning, so that a synchronous standby may lack the \
                 commit, which does not count: {warning}"
            ),
            None,
        ),
        Problem::Driver(error) => {
            let text = of_driver(server, table, &error);
            // The driver's own words say less than what it was told.
            let is_of_server = error.as_db_error().is_some() || io_error(&error).is_some();
            let source = match is_of_server {
                true => error.into_source(),
                false => Some(error.into()),
            };
            (text, source)
        }
    };
    PostgresError::Database { server: server.to_string(), problem, kind, source }.into()
}

fn of_driver(server: &PostgresStore, table: &Table, error: &tokio_postgres::Error) -> String {
    if let Some(error) = error.as_db_error() {
        return of_server(server, table, error);
    }
    if tls_error(error).is_some() {
        return tls_failed(error);
    }
    if error.is_closed() {
        return "the server closed the connection".into();
    }
    match io_error(error) {
        Some(error) => of_connection(error).into(),
        // The driver says what kind of error it is by its text alone.
        None => match &*error.to_string() {
            "error performing TLS handshake" => {
                "TLS was asked for, and the server offers none; give it a certificate, or do without"
                    .into()
            }
            "authentication error" | "invalid configuration" => {
                "the login failed; check user and password, percent-encoded in a URL".into()
            }
            "unexpected message from server" | "error parsing response from server" => {
                "no connection; is this a PostgreSQL server?".into()
            }
            _ => "the driver and the server do not understand each other".into(),
        },
    }
}

fn of_connection(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::ConnectionRefused => "no connection; is the server running?",
        ErrorKind::NotFound => "no connection; is the server running, and the socket its own?",
        ErrorKind::UnexpectedEof => "the server closed the connection",
        ErrorKind::PermissionDenied if !is_read_only(error) => {
            "no connection; may this user open the socket?"
        }
        ErrorKind::PermissionDenied => {
            "no server takes rows now: all that answer are standbys, or were told to take none; \
             promote one"
        }
        ErrorKind::InvalidData | ErrorKind::InvalidInput => {
            "no connection; is this a PostgreSQL server?"
        }
        _ => "the connection failed",
    }
}

fn of_server(server: &PostgresStore, table: &Table, error: &DbError) -> String {
    let Table { name, command, or, rights, .. } = table;
    let login = "the login failed; check user and password, percent-encoded in a URL";
    if is_pooler_refusal(error) {
        return match error.message().contains("pooling mode") {
            true => {
                "PgBouncer in statement mode allows no transactions; set pool_mode = transaction, \
                     or session"
                    .into()
            }
            false => "the pooler refused".into(),
        };
    }
    match *error.code() {
        SqlState::INVALID_PASSWORD => login.into(),
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION => match server.demands_tls() {
            true => "the server does not let this user in: its pg_hba.conf lacks a line for it, or \
                     the server wants a client's certificate that names this user"
                .into(),
            false => "the server does not let this user in: its pg_hba.conf lacks a line for it, or \
                      demands TLS (sslmode=require)"
                .into(),
        },
        SqlState::INVALID_CATALOG_NAME => "there is no such database; create it, or name another".into(),
        // The login ends by it.
        SqlState::INSUFFICIENT_PRIVILEGE if error.parsed_severity() == Some(Severity::Fatal) => {
            "the account may not use this database; grant it CONNECT".into()
        }
        SqlState::INSUFFICIENT_PRIVILEGE => format!(
            "the account may not do that; grant it: {rights}, also by policies if the table has row-level \
             security; to make the table it needs CREATE on the schema, or have somebody else make it \
             (`{command}`)"
        ),
        SqlState::UNDEFINED_TABLE => format!("there is no table {name}; create it (`{command}`){or}"),
        SqlState::TOO_MANY_CONNECTIONS => {
            "all connections of the server, or of this account, are in use; allow more, or put a \
             pooler in front"
                .into()
        }
        SqlState::READ_ONLY_SQL_TRANSACTION => {
            "the server takes no rows now: it is a standby, or was told to; name the primary".into()
        }
        SqlState::DISK_FULL => "the server's disk is full; make room on it".into(),
        SqlState::LOCK_NOT_AVAILABLE => "another transaction has the row or table locked".into(),
        SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN => {
            "the server ended the connection; is it being stopped or restarted?".into()
        }
        SqlState::CANNOT_CONNECT_NOW => "the server is starting or stopping".into(),
        SqlState::UNDEFINED_COLUMN
        | SqlState::NOT_NULL_VIOLATION
        | SqlState::NUMERIC_VALUE_OUT_OF_RANGE
        | SqlState::STRING_DATA_RIGHT_TRUNCATION
        | SqlState::DATATYPE_MISMATCH
        | SqlState::UNDEFINED_FUNCTION
        | SqlState::GENERATED_ALWAYS => format!("{name} is not as `{command}` makes it"),
        SqlState::UNIQUE_VIOLATION | SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED => {
            "the counter of the column ID is behind the table's rows, or at its end; set it above the \
             greatest ID with ALTER TABLE WORKER_NODE ALTER COLUMN ID RESTART WITH …"
                .into()
        }
        SqlState::UNTRANSLATABLE_CHARACTER | SqlState::CHARACTER_NOT_IN_REPERTOIRE => {
            "the database's encoding cannot hold this text; use a database with the encoding UTF8".into()
        }
        _ => "the server refused".into(),
    }
}
