//! The errors for callers.

use uidring::Error;

use super::engine::Engine;
use super::error::database;
use super::problem::{Cause, Failure, Problem};
use super::tables::Table;
use crate::ServerError;

/// Returns the error for callers: what to do, with the driver's error as its source.
pub fn explain<E: Engine>(engine: &E, table: &Table, problem: Problem<E::Failure>) -> Error {
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
                E::NAME
            ),
            None,
        ),
        Problem::NoEnd(limit) => (
            format!(
                "connected, but a statement did not end within {limit:?}; is {} locked, {}or the \
                 server overloaded?",
                table.name,
                E::MAY_WAIT_FOR
            ),
            None,
        ),
        Problem::Driver(failure) => (engine.advice(table, &failure), failure.into_cause()),
    };
    database(engine, kind, problem, source)
}
