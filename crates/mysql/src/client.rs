//! The blocking client of a store: a connection and the runtime that drives it.

pub mod connection;
mod runtime;

use std::mem;
use std::process;
use std::time::Duration;

use mysql_async::{Opts, OptsBuilder};
use uidring::Error;

use self::connection::{Connection, Failed, Operation};
use self::runtime::BlockingRuntime;
use crate::MySqlStore;

/// Prepared statements that a connection with options keeps.
const STATEMENTS: usize = 8;

/// What such connections begin with, whatever the server's own level is: some servers refuse to write
/// below this one.
const ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ";

/// How many seconds such a connection waits for a row that somebody else has locked: the least that
/// servers allow. A load or a renewal takes a few milliseconds, and what is locked for longer should not
/// hold up the rest.
const LOCK_WAIT: &str = "SET SESSION innodb_lock_wait_timeout = 1";

/// Opens its connection with the first work, and again if it broke.
pub struct Client {
    store: MySqlStore,
    connection: Connection,
    runtime: BlockingRuntime,
    /// In another process, a forked child, the connection is the parent's.
    process: u32,
}

impl Client {
    /// A client with the server's defaults, for a few works.
    pub fn new(store: &MySqlStore) -> Self {
        Self::with_options(store, store.opts.clone())
    }

    /// A client that stays, whose connections also begin with these statements.
    pub fn lasting(store: &MySqlStore, begin_with: Option<String>) -> Self {
        let statements = [ISOLATION.into(), LOCK_WAIT.into()].into_iter().chain(begin_with);
        let opts = OptsBuilder::from_opts(store.opts.clone())
            .stmt_cache_size(STATEMENTS)
            // A change counts the rows that it finds, even if it leaves them as they are.
            .client_found_rows(true)
            .init(statements.collect::<Vec<String>>());
        Self::with_options(store, opts.into())
    }

    fn with_options(store: &MySqlStore, opts: Opts) -> Self {
        Self {
            store: store.clone(),
            connection: Connection::new(opts),
            runtime: BlockingRuntime::default(),
            process: process::id(),
        }
    }

    pub fn store(&self) -> &MySqlStore {
        &self.store
    }

    /// Lets no later work take longer than this.
    pub fn limit(&mut self, limit: Duration) {
        let MySqlStore { connect_timeout: connect, deadline, .. } = self.store;
        let store = self.store.clone().connect_timeout(connect.min(limit));
        self.store = store.deadline(deadline.min(limit));
    }

    /// Does the work, and tries again what may pass.
    pub fn run<W: Operation>(&mut self, work: &W) -> Result<W::Done, Error> {
        Ok(self.try_run(work)?)
    }

    /// The same, and says whether a failure stays.
    pub fn try_run<W: Operation>(&mut self, work: &W) -> Result<W::Done, Failed> {
        let done = self.connection.run(&self.store, work);
        // An error of the runtime's own is one of this moment.
        let done = self.runtime.block_on(&self.store, done);
        done.map_err(|error| Failed { error, is_final: false })?
    }

    /// Does the work once, for callers that come again by themselves.
    pub fn run_once<W: Operation>(&mut self, work: &W) -> Result<W::Done, Error> {
        self.runtime.block_on(&self.store, self.connection.run_once(&self.store, work))?
    }

    /// Whether the last attempt of the last work had a connection.
    pub fn has_reached(&self) -> bool {
        self.connection.has_reached()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if process::id() != self.process {
            // To close the parent's connection, or even to drop it, would disturb the parent.
            let own = Connection::new(self.store.opts.clone());
            mem::forget(mem::replace(&mut self.connection, own));
            mem::forget(mem::take(&mut self.runtime));
        } else if self.connection.is_open() {
            // Only a courtesy.
            let _ = self.runtime.block_on(&self.store, self.connection.close());
        }
    }
}
