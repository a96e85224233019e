//! What the stores on a database server share: a blocking client whose work is tried again within a
//! deadline, and what errors say of the tables.

mod client;
mod connection;
mod error;
mod leases;
mod nodes;
mod runtime;
mod segments;
mod settings;
mod tables;
mod tags;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use uidring::Error;

pub use self::client::Client;
pub use self::connection::{Connection, Failed, Operation};
pub use self::error::ServerError;
pub use self::leases::{
    Acquire, CreateLeases, EndLease, Ending, LeaseServer, ListLeases, Release, Renew, Reuse,
    ServerLeases,
};
pub use self::nodes::{
    Assign, ClockDifference, CreateNodes, ListNodes, Newest, PrunePart, ServerWorkerNodes, Usage,
    clock_difference, node_columns,
};
pub use self::runtime::BlockingRuntime;
pub use self::segments::{
    Load, LoadTogether, Loaded, NotLoaded, SegmentServer, ServerSegments, Together, Waits,
};
pub use self::settings::{Limits, ServerUrl, Settings};
pub use self::tables::{LEAF_ALLOC, Table, UIDRING_LEASE, WORKER_NODE, check_version};
pub use self::tags::{Change, CreateTag, TagChange, TagStep, Tags};

/// A database server and how to reach it, as the crate of its store does.
pub trait Server: Clone + Send + Sync + fmt::Display {
    /// How a client connects.
    type Options: Clone + Send + Sync;

    /// A connection that was not looked at yet.
    type Raw: Send;

    /// A connection whose server and tables are known to be good.
    type Session: Send;

    /// Why an attempt failed.
    type Problem: Problem;

    /// The name of threads that work for it.
    const THREAD: &'static str;

    /// Returns the options of a client for a few works.
    fn options(&self) -> Self::Options;

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
    ) -> impl Future<Output = Result<Self::Raw, Self::Problem>> + Send;

    /// Looks at the server and its tables.
    fn inspect(
        &self,
        raw: Self::Raw,
        table: &Table,
    ) -> impl Future<Output = Result<Self::Session, Self::Problem>> + Send;

    /// Returns whether a connection that was idle still answers.
    fn answers(session: &mut Self::Session) -> impl Future<Output = bool> + Send;

    /// Closes a connection in an orderly way.
    fn close(session: Self::Session) -> impl Future<Output = ()> + Send;

    /// Returns the error for callers.
    fn explain(&self, table: &Table, problem: Self::Problem) -> Error;
}

/// Why an attempt failed.
pub trait Problem: Send {
    /// There was no connection within this time.
    fn no_connection(limit: Duration) -> Self;

    /// There was one, and the work was not done within this time.
    fn no_end(limit: Duration) -> Self;

    /// Whether another attempt may succeed without anybody doing anything.
    fn may_pass(&self) -> bool;

    /// Whether it stays so until somebody does something.
    fn is_final(&self) -> bool;

    /// What an attempt that ran out of time was waiting for.
    fn last_wait(&self) -> Option<&'static str>;
}
