//! The errors for callers.

use uidring::Error;

use super::engine::Connector;
use super::error::database;
use super::problem::{Cause, LOGIN, Problem};
use super::tables::Table;
use crate::ServerError;

/// Returns the error for callers: what to do, with the driver's error as its source.
pub fn explain(engine: &dyn Connector, table: &Table, problem: Problem) -> Error {
    let kind = problem.kind();
    let (problem, source): (String, Option<Cause>) = match problem {
        Problem::Unfit { row, fitting } => return fitting.error(engine.to_string(), row),
        Problem::Lost { worker_id, why } => {
            return Error::LeaseLost { worker_id, place: engine.to_string(), why };
        }
        Problem::ClockDiffers { ours, theirs, limit } => {
            let server = engine.to_string();
            return ServerError::ClockDiffers { server, ours, theirs, limit }.into();
        }
        Problem::Refused(why)
        | Problem::Denied(why)
        | Problem::Conflict(why)
        | Problem::Undone(why)
        | Problem::Busy(why)
        | Problem::ReadOnly { why, .. } => (why, None),
        Problem::NoConnection(limit) => (
            format!(
                "no answer within {limit:?} while connecting; is a {} server there, and does the \
                 network let us through?",
                engine.name()
            ),
            None,
        ),
        Problem::NoEnd(limit) => (
            format!(
                "connected, but a statement did not end within {limit:?}; is {} locked, {}or the \
                 server overloaded?",
                table.name,
                engine.may_wait_for()
            ),
            None,
        ),
        Problem::Driver(failure) => {
            let advice = failure.advice.replace(LOGIN, engine.login_advice());
            (table.fill(&advice), failure.cause)
        }
    };
    database(&engine, kind, problem, source)
}
