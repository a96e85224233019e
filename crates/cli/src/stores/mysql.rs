//! Tables of a MySQL or MariaDB server.

use std::time::Duration;

use uidring::Error;
use uidring::segment::SegmentStore;
use uidring_mysql::{MySqlError, MySqlStore, MySqlWorkerNodes};
use uidring_store::{LeaseOptions, LeaseTable, SegmentTable, WorkerTable};

use super::database::Database;
use crate::args::database::DatabaseArgs;
use crate::args::set;
use crate::failure::Failure;

/// The server that the flags name, else the environment.
pub fn open(args: &DatabaseArgs) -> Result<Box<dyn Database>, Failure> {
    let flags = &args.mysql_args;
    let server = match (&flags.mysql, &flags.mysql_url_file) {
        (Some(url), _) => MySqlStore::from_url(url).map_err(wrong_url)?,
        (None, Some(path)) => MySqlStore::from_url_file(path).map_err(wrong_url)?,
        (None, None) => MySqlStore::from_env()
            .map_err(wrong_url)?
            .ok_or_else(|| Failure::Usage("UIDRING_MYSQL_URL is no longer set".into()))?,
    };
    let mut server = server.deadline(args.deadline());
    if flags.mysql_require_durability {
        server = server.require_durability();
    }
    if flags.mysql_cluster {
        server = server.synchronous_cluster();
    }
    if let Some(path) = &flags.mysql_ca {
        server = server.tls_authority(path)?;
    }
    Ok(Box::new(server))
}

/// A wrong URL is wrong usage, wherever it was found; a file that cannot be read is a failure.
fn wrong_url(error: Error) -> Failure {
    if error.store::<MySqlError>().is_some() { Failure::usage(error) } else { error.into() }
}

impl Database for MySqlStore {
    fn worker_table(&self, max_clock_difference: Option<Duration>) -> Box<dyn WorkerTable + Send> {
        let limit = max_clock_difference;
        Box::new(set(self.worker_nodes(), limit, MySqlWorkerNodes::max_clock_difference))
    }

    fn leases(&self, options: LeaseOptions) -> Box<dyn LeaseTable + Send> {
        Box::new(self.leases().options(options))
    }

    fn segment_table(&self) -> Box<dyn SegmentTable + Send + Sync> {
        Box::new(self.segments().create_table_if_missing(true))
    }

    fn segment_store(&self) -> Box<dyn SegmentStore> {
        Box::new(self.segments())
    }
}
