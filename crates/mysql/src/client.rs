//! How clients of a server connect.

use mysql_async::{Conn, Opts, OptsBuilder};
use uidring::{Error, StoreErrorKind};
use uidring_store::choose_cryptography;
use uidring_store::server::{Done, Purpose, Server, ServerError, Settings, Table};

use crate::MySqlStore;
use crate::failure::{Failure, advice, failed};
use crate::session::Session;

/// What sessions begin with, whatever the server's own level is: some servers refuse to write below this one,
/// and above it a SELECT would lock rows against other starts.
const ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ";

/// With autocommit off, every statement would need a COMMIT, with another completion type a COMMIT would end
/// the connection, and with another limit a server may cut all answers to a few rows.
const SESSION: &str = "SET SESSION autocommit = 1, SESSION completion_type = 'NO_CHAIN',
     SESSION sql_select_limit = 18446744073709551615, SESSION time_zone = '+00:00'";

/// How many seconds a load or a lease waits for a row that somebody else has locked: the least that servers
/// allow. A load or a renewal takes a few milliseconds, and what is locked for longer should not hold up the
/// rest.
const LOCK_WAIT: &str = ", SESSION innodb_lock_wait_timeout = 1";

/// Prepared statements that a connection keeps that stays.
const STATEMENTS: usize = 8;

impl Server for MySqlStore {
    type Options = Opts;

    type Raw = Conn;

    type Session = Session;

    type Failure = Failure;

    const NAME: &'static str = "MySQL";

    const MAY_WAIT_FOR: &'static str = "";

    const THREAD: &'static str = "uidring-mysql";

    fn options(&self, purpose: Purpose) -> Opts {
        let (lock_wait, statements) = match purpose {
            Purpose::Admin => ("", 0),
            Purpose::Loads | Purpose::Lease(_) => (LOCK_WAIT, STATEMENTS),
        };
        let mut session = format!("{SESSION}{lock_wait}");
        // A server that waits long for a client that was paused keeps what it has locked.
        if let Purpose::Lease(lasts) = purpose {
            let seconds = lasts.as_secs().clamp(1, 3_600);
            session.push_str(&format!(", SESSION wait_timeout = {seconds}"));
        }
        OptsBuilder::from_opts(self.opts.clone())
            .stmt_cache_size(statements)
            // A change counts the rows that it meets, even if it leaves them as they are.
            .client_found_rows(true)
            .init(vec![ISOLATION.into(), session])
            .into()
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

    async fn connect(options: &Opts) -> Done<Session, Conn> {
        Conn::new(options.clone()).await.map_err(failed)
    }

    async fn inspect(&self, raw: Conn, table: &Table) -> Done<Session, Session> {
        Session::inspect(raw, self, table).await
    }

    async fn answers(session: &mut Session) -> bool {
        session.answers().await
    }

    async fn close(session: Session) {
        session.close().await;
    }

    fn advice(&self, table: &Table, failure: &Failure) -> String {
        advice(self, table, failure)
    }
}
