//! Explains errors of the driver by the server's codes, and says what to do about them.

use std::borrow::Cow;
use std::error::Error as _;
use std::io::{self, ErrorKind};

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};
use uidring_store::server::{Failure, LOGIN, Problem, State};
use uidring_store::{tls_error, tls_failed};

/// Classifies an error of the driver.
pub fn failed(error: Error) -> Problem {
    let (state, advice, is_answer) = match error.as_db_error() {
        Some(answer) => {
            let (state, advice) = of_server(answer);
            (state, advice.into(), true)
        }
        None => (of_driver(&error), advice(&error), false),
    };
    // The source says more than the driver's own text.
    let cause = match is_answer || io_error(&error).is_some() {
        true => error.into_source(),
        false => Some(error.into()),
    };
    Problem::Driver(Failure { state, is_answer, advice, cause })
}

fn of_driver(error: &Error) -> State {
    match error.is_closed() || io_error(error).is_some_and(is_of_the_network) {
        true => State::MayPass,
        false => State::Lasting,
    }
}

/// Returns what to do, and what went wrong unless the error says so.
fn advice(error: &Error) -> Cow<'static, str> {
    if tls_error(error).is_some() {
        return tls_failed(error).into();
    }
    if error.is_closed() {
        return "the server closed the connection".into();
    }
    let text = match io_error(error) {
        Some(error) => of_connection(error),
        // The driver shows the kind of error only in its text.
        None => match &*error.to_string() {
            "error performing TLS handshake" => {
                "TLS was asked for, and the server offers none; give it a certificate, or do without"
            }
            "authentication error" | "invalid configuration" => WRONG_PASSWORD,
            "unexpected message from server" | "error parsing response from server" => {
                "no connection; is this a PostgreSQL server?"
            }
            _ => "the driver and the server do not understand each other",
        },
    };
    text.into()
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

/// Returns what an answer of the server means, and what to do. The table fills the placeholders.
fn of_server(error: &DbError) -> (State, &'static str) {
    if is_pooler_refusal(error) {
        return match error.message().contains("pooling mode") {
            true => (
                State::Lasting,
                "PgBouncer in statement mode allows no transactions; set pool_mode = transaction, or session",
            ),
            false => (State::Lasting, "the pooler refused"),
        };
    }
    match *error.code() {
        SqlState::UNDEFINED_TABLE => (
            State::NoTable,
            "there is no table {table}: if there never was one, create it with `{command}`",
        ),
        SqlState::INVALID_CATALOG_NAME => {
            (State::NoDatabase, "there is no such database; create it, or name another")
        }
        SqlState::DUPLICATE_TABLE | SqlState::DUPLICATE_OBJECT => {
            (State::TableExists, "the table exists already")
        }
        SqlState::UNIQUE_VIOLATION => (State::Duplicate, BEHIND),
        SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED => (State::Lasting, BEHIND),
        SqlState::LOCK_NOT_AVAILABLE => {
            (State::Locked, "another transaction has the row or table locked")
        }
        // The server may be handing over to another.
        SqlState::READ_ONLY_SQL_TRANSACTION => (
            State::MayChange,
            "the server is read-only now: it is a standby, or set to be; name the primary",
        ),
        SqlState::DISK_FULL => (State::MayChange, "the server's disk is full; make room on it"),
        SqlState::TOO_MANY_CONNECTIONS => (
            State::MayPass,
            "all connections of the server, or of this account, are in use; allow more, or put a pooler in \
             front",
        ),
        SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN => {
            (State::MayPass, "the server ended the connection; is it being stopped or restarted?")
        }
        SqlState::CANNOT_CONNECT_NOW => (State::MayPass, "the server is starting or stopping"),
        // Transactions that conflicted, exceeded a limit of the server, or were cancelled.
        SqlState::T_R_SERIALIZATION_FAILURE
        | SqlState::T_R_DEADLOCK_DETECTED
        | SqlState::QUERY_CANCELED
        | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => (State::MayPass, REFUSED),
        SqlState::INVALID_PASSWORD => (State::Lasting, WRONG_PASSWORD),
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION => (State::Lasting, LOGIN),
        // The error ended the login.
        SqlState::INSUFFICIENT_PRIVILEGE if error.parsed_severity() == Some(Severity::Fatal) => {
            (State::Lasting, "the account may not use this database; grant it CONNECT")
        }
        SqlState::INSUFFICIENT_PRIVILEGE => (
            State::Lasting,
            "the account lacks a right: {rights}, also by policies if the table has row-level security; creating the \
             table needs CREATE on the schema, or another account for `{command}`",
        ),
        SqlState::UNDEFINED_COLUMN
        | SqlState::NOT_NULL_VIOLATION
        | SqlState::NUMERIC_VALUE_OUT_OF_RANGE
        | SqlState::STRING_DATA_RIGHT_TRUNCATION
        | SqlState::DATATYPE_MISMATCH
        | SqlState::UNDEFINED_FUNCTION
        | SqlState::GENERATED_ALWAYS => (State::Lasting, "{table} is not as `{command}` makes it"),
        SqlState::UNTRANSLATABLE_CHARACTER | SqlState::CHARACTER_NOT_IN_REPERTOIRE => (
            State::Lasting,
            "the database's encoding cannot hold this text; use a database with the encoding UTF8",
        ),
        // Connections that broke or could not be made.
        _ if error.code().code().starts_with("08") => (State::MayPass, REFUSED),
        _ => (State::Lasting, REFUSED),
    }
}

const REFUSED: &str = "the server refused";

const WRONG_PASSWORD: &str = "the login failed; check user and password, percent-encoded in a URL";

const BEHIND: &str = "the counter of the column ID is behind the table's rows, or at its end; set it above the \
                      greatest ID with ALTER TABLE WORKER_NODE ALTER COLUMN ID RESTART WITH …";

/// Whether PgBouncer refuses for good. It uses one code for everything, and always English.
fn is_pooler_refusal(error: &DbError) -> bool {
    let refusals = ["no such database", "no such user", "pooling mode", "password", "not allowed"];
    *error.code() == SqlState::PROTOCOL_VIOLATION
        && refusals.iter().any(|text| error.message().contains(text))
}

/// Returns the system's error inside the driver's.
fn io_error(error: &tokio_postgres::Error) -> Option<&io::Error> {
    error.source().and_then(|source| source.downcast_ref())
}

/// Whether none of several servers accepts writes. One may still be promoted.
fn is_read_only(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_none()
}

fn is_of_the_network(error: &io::Error) -> bool {
    let is_tls = tls_error(error).is_some();
    let kinds = [ErrorKind::InvalidData, ErrorKind::InvalidInput, ErrorKind::PermissionDenied];
    is_read_only(error) || !is_tls && !kinds.contains(&error.kind())
}
