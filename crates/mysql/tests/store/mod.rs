//! A MySQL-compatible server.

use std::time::Duration;

use uidring::Error;
use uidring_mysql::MySqlStore;
use uidring_testkit::mariadb::MariaDb;
use uidring_testkit::suite::engine::{Database, Engine, Tables};

/// With these settings of the server.
pub struct MySql(pub &'static [&'static str]);

impl Engine for MySql {
    const NOW: &'static str = "UTC_TIMESTAMP(3)";

    fn server(&self) -> Box<dyn Database> {
        // A lease keeps its connection.
        let settings = [&["--max-connections=1200"], self.0].concat();
        Box::new(MariaDb::start_with(&settings).database())
    }

    fn shared_server(&self) -> Box<dyn Database> {
        match self.0 {
            [] => Box::new(MariaDb::shared().database()),
            _ => self.server(),
        }
    }

    fn open(url: &str, deadline: Duration) -> Result<Tables, Error> {
        let store = MySqlStore::from_url(url)?.connect_timeout(deadline).deadline(deadline);
        Ok(Tables {
            worker_nodes: Box::new(store.worker_nodes()),
            leases: Box::new(store.leases()),
            segments: Box::new(store.segments().create_table_if_missing(true)),
        })
    }
}
