//! How clients of a server connect.

use std::sync::Arc;

use tokio_postgres_rustls::MakeRustlsConnect;
use uidring::{Error, StoreErrorKind};
use uidring_store::server::{LeaseServer, Limits, SegmentServer, Server, Table, with_cause};

use crate::driver::Raw;
use crate::error::advice::{to_error, with_note};
use crate::hosts::Hosts;
use crate::problem::Problem;
use crate::session::Session;
use crate::{PostgresError, PostgresStore};

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

    fn limits(&self) -> Limits {
        Limits { connect: self.connect_timeout, deadline: self.deadline }
    }

    fn limited(self, limits: Limits) -> Self {
        self.connect_timeout(limits.connect).deadline(limits.deadline)
    }

    fn check(&self) -> Result<(), Error> {
        if self.demands_tls() && self.has_socket() {
            let problem =
                "TLS was asked for, and a Unix socket has none; leave out the one or the other";
            return Err(Server::error(self, StoreErrorKind::Invalid, problem.into()));
        }
        Ok(())
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

    fn error(&self, kind: StoreErrorKind, problem: String) -> Error {
        PostgresError::Database { server: self.to_string(), problem, kind, source: None }.into()
    }

    fn with_note(error: Error, note: &str) -> Error {
        with_note(error, note)
    }
}

impl SegmentServer for PostgresStore {
    fn requires_durability(&self) -> bool {
        self.requires_durability
    }

    fn is_cluster(&self) -> bool {
        self.is_cluster
    }

    fn described(error: &Error) -> Option<(StoreErrorKind, String)> {
        match error.store() {
            Some(PostgresError::Database { kind, problem, source, .. }) => {
                let source = source.as_ref().map(|source| &**source as _);
                Some((*kind, with_cause(problem, source)))
            }
            _ => None,
        }
    }
}

impl LeaseServer for PostgresStore {}
