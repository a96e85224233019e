//! How clients of a server connect.

use std::sync::Arc;

use tokio_postgres_rustls::MakeRustlsConnect;
use uidring::{Error, StoreErrorKind};
use uidring_store::server::{LeaseServer, SegmentServer, Server, ServerError, Settings, Table};

use crate::PostgresStore;
use crate::driver::Raw;
use crate::error::advice::to_error;
use crate::hosts::Hosts;
use crate::problem::Problem;
use crate::session::Session;

impl Server for PostgresStore {
    type Options = Arc<Hosts>;

    type Raw = Raw;

    type Session = Session;

    type Problem = Problem;

    const THREAD: &'static str = "uidring-postgres";

    fn options(&self) -> Arc<Hosts> {
        let tls = MakeRustlsConnect::new(self.tls_config());
        Arc::new(Hosts::new(&self.config, tls))
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    fn check(&self) -> Result<(), Error> {
        match self.refusal() {
            Some(problem) => Err(ServerError::refusal(self, StoreErrorKind::Invalid, problem)),
            None => Ok(()),
        }
    }

    fn warning(&self) -> Option<String> {
        self.warning()
    }

    async fn connect(hosts: &Arc<Hosts>) -> Result<Raw, Problem> {
        hosts.connect().await
    }

    async fn inspect(&self, raw: Raw, table: &Table) -> Result<Session, Problem> {
        Session::inspect(raw, self, table).await
    }

    async fn answers(session: &mut Session) -> bool {
        session.script("").await.is_ok()
    }

    async fn close(session: Session) {
        session.close().await;
    }

    fn explain(&self, table: &Table, problem: Problem) -> Error {
        to_error(self, table, problem)
    }
}

impl SegmentServer for PostgresStore {}

impl LeaseServer for PostgresStore {}
