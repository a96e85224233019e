//! How clients of a server connect.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use uidring::{Error, StoreErrorKind};
use uidring_store::choose_cryptography;
use uidring_store::server::{LeaseServer, SegmentServer, Server, ServerError, Settings, Table};

use crate::MySqlStore;
use crate::error::advice::to_error;
use crate::problem::Problem;
use crate::session::Session;

/// Prepared statements that a connection with options keeps.
const STATEMENTS: usize = 8;

/// What such connections begin with, whatever the server's own level is: some servers refuse to write
/// below this one.
const ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ";

/// How many seconds such a connection waits for a row that somebody else has locked: the least that
/// servers allow. A load or a renewal takes a few milliseconds, and what is locked for longer should not
/// hold up the rest.
const LOCK_WAIT: &str = "SET SESSION innodb_lock_wait_timeout = 1";

/// Returns the options of a client that stays, whose connections also begin with these statements.
fn lasting(store: &MySqlStore, begin_with: Option<String>) -> Opts {
    let statements = [ISOLATION.into(), LOCK_WAIT.into()].into_iter().chain(begin_with);
    OptsBuilder::from_opts(store.opts.clone())
        .stmt_cache_size(STATEMENTS)
        // A change counts the rows that it finds, even if it leaves them as they are.
        .client_found_rows(true)
        .init(statements.collect::<Vec<String>>())
        .into()
}

impl Server for MySqlStore {
    type Options = Opts;

    type Raw = Conn;

    type Session = Session;

    type Problem = Problem;

    const THREAD: &'static str = "uidring-mysql";

    fn options(&self) -> Opts {
        self.opts.clone()
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    fn check(&self) -> Result<(), Error> {
        if let Some(problem) = self.refusal() {
            return Err(ServerError::refusal(self, StoreErrorKind::Invalid, problem));
        }
        if self.demands_tls() {
            choose_cryptography();
        }
        Ok(())
    }

    fn warning(&self) -> Option<String> {
        self.warning()
    }

    async fn connect(options: &Opts) -> Result<Conn, Problem> {
        Ok(Conn::new(options.clone()).await?)
    }

    async fn inspect(&self, raw: Conn, table: &Table) -> Result<Session, Problem> {
        Session::inspect(raw, self, table).await
    }

    async fn answers(session: &mut Session) -> bool {
        session.ping().await.is_ok()
    }

    async fn close(session: Session) {
        // Only a courtesy.
        let _ = session.into_conn().disconnect().await;
    }

    fn explain(&self, table: &Table, problem: Problem) -> Error {
        to_error(self, table, problem)
    }
}

impl SegmentServer for MySqlStore {
    fn segment_options(&self) -> Opts {
        lasting(self, None)
    }
}

impl LeaseServer for MySqlStore {
    /// With autocommit off, every statement would need a COMMIT, and with another completion type
    /// a COMMIT would end the connection. A server that waits long for a client that was paused
    /// keeps what it has locked.
    fn lease_options(&self, lasts: Duration) -> Opts {
        let session = format!(
            "SET SESSION autocommit = 1, SESSION completion_type = 'NO_CHAIN',
             SESSION wait_timeout = {}",
            lasts.as_secs().clamp(1, 3_600)
        );
        lasting(self, Some(session))
    }
}
