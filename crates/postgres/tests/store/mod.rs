//! A PostgreSQL server.

use std::time::Duration;

use uidring::Error;
use uidring_postgres::PostgresStore;
use uidring_testkit::postgres::Postgres;
use uidring_testkit::suite::engine::{Database, Engine, Tables};
use uidring_testkit::suite::{Cause, tables};

/// With these settings of the server.
pub struct PostgreSql(pub &'static [&'static str]);

impl Engine for PostgreSql {
    const NOW: &'static str = "CLOCK_TIMESTAMP()";

    fn server(&self) -> Box<dyn Database> {
        // A lease keeps its connection.
        let settings = [&["max_connections=1200"], self.0].concat();
        Box::new(Postgres::start_with(&settings).database())
    }

    fn shared_server(&self) -> Box<dyn Database> {
        match self.0 {
            [] => Box::new(Postgres::shared().database()),
            _ => self.server(),
        }
    }

    fn open(url: &str, deadline: Duration) -> Result<Tables, Error> {
        let store = PostgresStore::from_url(url)?.connect_timeout(deadline).deadline(deadline);
        Ok(Tables {
            worker_nodes: Box::new(store.worker_nodes()),
            leases: Box::new(store.leases()),
            segments: Box::new(store.segments().create_table_if_missing(true)),
        })
    }

    fn cause_of(error: &str) -> Option<Cause> {
        let away = ["the server ended the connection", "the server is starting or stopping"];
        let is_away = away.iter().any(|text| error.contains(text));
        tables::server_cause(error).or(is_away.then_some(Cause::Away))
    }

    /// Where a transaction is serializable, it would fail beside a load.
    fn beside_loads(change: String) -> String {
        format!("BEGIN ISOLATION LEVEL READ COMMITTED; {change}; COMMIT")
    }
}
