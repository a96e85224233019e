//! What the stores on a database server share: a blocking client whose work is tried again within a
//! deadline, the operations on the tables in SQL, and the errors.

mod client;
mod connection;
mod error;
mod leases;
mod nodes;
mod problem;
mod row;
mod runtime;
mod segments;
mod session;
mod settings;
mod tables;
mod value;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use uidring::Error;

pub use self::client::Client;
pub use self::connection::{Connection, Failed, Operation};
pub use self::error::ServerError;
pub use self::leases::ServerLeases;
pub use self::nodes::ServerWorkerNodes;
pub use self::problem::{Cause, Failure, Problem, State};
pub use self::row::{Cell, Row, only};
pub use self::runtime::BlockingRuntime;
pub use self::segments::ServerSegments;
pub use self::session::{Changed, Done, Session};
pub use self::settings::{Limits, ServerUrl, Settings};
pub use self::tables::{LEAF_ALLOC, Table, UIDRING_LEASE, WORKER_NODE, check_version};
pub use self::value::Value;

/// A database server and how to reach it, as the crate of its store does.
pub trait Server: Clone + Send + Sync + fmt::Display {
    /// How a client connects.
    type Options: Clone + Send + Sync;

    /// A connection that was not looked at yet.
    type Raw: Send;

    /// A connection whose server and tables are known to be good.
    type Session: Session<Failure = Self::Failure>;

    /// An error of the driver.
    type Failure: Failure;

    /// What people call such a server.
    const NAME: &'static str;

    /// What a statement may wait for beside a locked table: empty, or ending in a comma and a blank.
    const MAY_WAIT_FOR: &'static str;

    /// The name of threads that work for it.
    const THREAD: &'static str;

    /// Returns the options of a client for this.
    fn options(&self, purpose: Purpose) -> Self::Options;

    /// Returns the options that every server has.
    fn settings(&self) -> &Settings;

    /// Returns them to be changed.
    fn settings_mut(&mut self) -> &mut Settings;

    /// Looks at the options before each operation.
    ///
    /// # Errors
    ///
    /// Options that contradict each other.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Returns what to know before a connection is made, such as that others can read its password.
    fn warning(&self) -> Option<String> {
        None
    }

    /// Connects and logs in.
    fn connect(
        options: &Self::Options,
    ) -> impl Future<Output = Result<Self::Raw, Problem<Self::Failure>>> + Send;

    /// Looks at the server and its tables.
    fn inspect(
        &self,
        raw: Self::Raw,
        table: &Table,
    ) -> impl Future<Output = Result<Self::Session, Problem<Self::Failure>>> + Send;

    /// Returns whether a connection that was idle still answers.
    fn answers(session: &mut Self::Session) -> impl Future<Output = bool> + Send;

    /// Closes a connection in an orderly way.
    fn close(session: Self::Session) -> impl Future<Output = ()> + Send;

    /// Returns what to do about an error of the driver, and what went wrong unless the error says it.
    fn advice(&self, table: &Table, failure: &Self::Failure) -> String;
}

/// What a client is for.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// A few works.
    Admin,
    /// Loads of segments.
    Loads,
    /// A lease, whose connection may end when nothing was heard of it for so long.
    Lease(Duration),
}
