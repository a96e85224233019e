//! Tables of a MySQL or MariaDB server.

use std::time::Duration;

use uidring::WorkerSource;
use uidring::segment::SegmentStore;
use uidring_mysql::MySqlStore;
use uidring_store::{LeaseOptions, LeaseTable, SegmentTable, WorkerTable};

use super::Database;
use crate::Failure;
use crate::args::PlaceArgs;

/// The server that the flags name, else the environment.
pub fn server(args: &PlaceArgs) -> Result<MySqlStore, Failure> {
    let server = if let Some(url) = &args.mysql {
        MySqlStore::from_url(url)?
    } else if let Some(path) = &args.mysql_url_file {
        MySqlStore::from_url_file(path)?
    } else {
        MySqlStore::from_env()?
            .ok_or_else(|| Failure::usage("UIDRING_MYSQL_URL is not set any more"))?
    };
    let mut server = server.deadline(Duration::from_secs(args.mysql_deadline));
    if args.mysql_require_durability {
        server = server.require_durability();
    }
    if args.mysql_cluster {
        server = server.synchronous_cluster();
    }
    if let Some(path) = &args.mysql_ca {
        server = server.tls_authority(path)?;
    }
    Ok(server)
}

impl Database for MySqlStore {
    fn worker_table(&self, limit: Option<Duration>) -> Box<dyn WorkerTable + Send> {
        let nodes = self.worker_nodes();
        Box::new(match limit {
            Some(limit) => nodes.max_clock_difference(limit),
            None => nodes,
        })
    }

    fn lease_table(&self) -> Box<dyn LeaseTable> {
        Box::new(self.leases())
    }

    fn leases(&self, options: LeaseOptions) -> Box<dyn WorkerSource + Send> {
        Box::new(self.leases().options(options))
    }

    fn segment_table(&self) -> Box<dyn SegmentTable> {
        Box::new(self.segments().create_table_if_missing(true))
    }

    fn segment_store(&self) -> Box<dyn SegmentStore> {
        Box::new(self.segments())
    }
}
