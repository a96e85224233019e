//! A connection that is kept from one call to the next, for callers that are not async.

use std::mem;
use std::process;
use std::time::Duration;

use mysql_async::OptsBuilder;
use uidring::Error;

use super::MySqlStore;
use super::blocking::Bridge;
use super::session::{Failed, Line, Work};

/// Statements that a kept connection has prepared.
const STATEMENTS: usize = 8;

/// It is opened by the first work, and opened anew when it broke.
pub struct Kept {
    server: MySqlStore,
    line: Line,
    bridge: Bridge,
    /// In another process, a forked child, the connection is the parent's.
    process: u32,
}

impl Kept {
    /// Each connection begins with these statements.
    pub fn new(server: MySqlStore, begin_with: Vec<String>) -> Self {
        let opts = OptsBuilder::from_opts(server.opts().clone())
            .stmt_cache_size(STATEMENTS)
            // A change counts the rows that it finds, be they the same afterwards.
            .client_found_rows(true)
            .init(begin_with);
        let line = Line::new(opts.into());
        Self { server, line, bridge: Bridge::default(), process: process::id() }
    }

    pub fn server(&self) -> &MySqlStore {
        &self.server
    }

    /// Works from now on take no longer than this.
    pub fn limit(&mut self, limit: Duration) {
        let server = self.server.clone();
        let (connect, deadline) = server.timeouts();
        self.server = server.connect_timeout(connect.min(limit)).deadline(deadline.min(limit));
    }

    /// Does the work; what may pass is tried again.
    pub fn run<W: Work>(&mut self, work: &W) -> Result<W::Done, Error> {
        Ok(self.try_run(work)?)
    }

    /// The same, and tells whether a failure stays.
    pub fn try_run<W: Work>(&mut self, work: &W) -> Result<W::Done, Failed> {
        let Self { server, line, bridge, .. } = self;
        let done = async { Ok(server.run_on(line, work).await) };
        // An error of the bridge's own is one of this moment.
        bridge.run(server, done).map_err(|error| Failed { error, is_final: false })?
    }

    /// Does the work once, for callers that come again by themselves.
    pub fn run_once<W: Work>(&mut self, work: &W) -> Result<W::Done, Error> {
        self.bridge.run(&self.server, self.server.run_once_on(&mut self.line, work))
    }

    /// Whether the last attempt of the last work had a connection.
    pub fn has_reached(&self) -> bool {
        self.line.has_reached()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if process::id() != self.process {
            // To close it, or only to forget it in an orderly way, would disturb the parent's.
            mem::forget(mem::replace(&mut self.line, Line::new(self.server.opts().clone())));
            mem::forget(mem::take(&mut self.bridge));
        } else if self.line.is_open() {
            let close = async {
                self.line.close().await;
                Ok(())
            };
            // Only a courtesy.
            let _ = self.bridge.run(&self.server, close);
        }
    }
}
