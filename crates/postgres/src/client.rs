//! How clients of a server connect.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_postgres::Config;
use tokio_postgres_rustls::MakeRustlsConnect;
use uidring::{Error, StoreErrorKind};
use uidring_store::server::{Done, Problem, Purpose, Server, ServerError, Settings, Table};

use crate::PostgresStore;
use crate::driver::Raw;
use crate::failure::{Failure, advice, failed};
use crate::session::Session;

/// What connections are made of.
pub struct Hosts {
    /// One for each host.
    configs: Vec<Config>,
    tls: MakeRustlsConnect,
}

impl Server for PostgresStore {
    type Options = Arc<Hosts>;

    type Raw = Raw;

    type Session = Session;

    type Failure = Failure;

    const NAME: &'static str = "PostgreSQL";

    const MAY_WAIT_FOR: &'static str = "a synchronous standby away, ";

    const THREAD: &'static str = "uidring-postgres";

    fn options(&self, _: Purpose) -> Arc<Hosts> {
        let tls = MakeRustlsConnect::new(self.tls_config());
        Arc::new(Hosts { configs: self.hosts.clone(), tls })
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

    /// Asks all hosts at once, and takes the first that says that it takes rows. The driver would ask one
    /// after the other: one that is cut off or stands still would cost all the time there is.
    async fn connect(hosts: &Arc<Hosts>) -> Done<Session, Raw> {
        let mut attempts = JoinSet::new();
        for config in hosts.configs.clone() {
            let tls = hosts.tls.clone();
            attempts.spawn(async move { Raw::connect(&config, tls).await });
        }
        let mut problem = Problem::NoConnection(Duration::ZERO);
        while let Some(attempt) = attempts.join_next().await {
            match attempt {
                Ok(Ok(raw)) => return Ok(raw),
                Ok(Err(error)) => problem = failed(error),
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => resume_unwind(panic),
                    Err(_) => unreachable!("nobody ends an attempt"),
                },
            }
        }
        Err(problem)
    }

    async fn inspect(&self, raw: Raw, table: &Table) -> Done<Session, Session> {
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
