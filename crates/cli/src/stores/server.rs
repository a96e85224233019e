//! Tables of a database server, whichever it is.

use std::time::Duration;

use uidring::Error;
use uidring::segment::SegmentStore;
use uidring_store::server::{LeaseServer, ServerLeases, ServerSegments, ServerWorkerNodes};
use uidring_store::{LeaseOptions, LeaseTable, SegmentTable, WorkerTable};

use super::database::Database;
use crate::args::set;
use crate::failure::Failure;

/// A wrong URL is wrong usage, wherever it was found; a file that cannot be read is a failure. `E` is the
/// error of the server's store.
pub fn wrong_url<E: std::error::Error + 'static>(error: Error) -> Failure {
    if error.store::<E>().is_some() { Failure::usage(error) } else { error.into() }
}

/// A database of a server.
pub struct OnServer<S>(pub S);

impl<S> Database for OnServer<S>
where
    S: LeaseServer + Send + 'static,
    ServerWorkerNodes<S>: WorkerTable + Send,
    ServerLeases<S>: LeaseTable + Send,
    ServerSegments<S>: SegmentTable + SegmentStore + Send + Sync,
{
    fn worker_table(&self, max_clock_difference: Option<Duration>) -> Box<dyn WorkerTable + Send> {
        let nodes = ServerWorkerNodes::new(self.0.clone());
        Box::new(set(nodes, max_clock_difference, ServerWorkerNodes::max_clock_difference))
    }

    fn leases(&self, options: LeaseOptions) -> Box<dyn LeaseTable + Send> {
        Box::new(ServerLeases::new(self.0.clone()).options(options))
    }

    fn segment_table(&self) -> Box<dyn SegmentTable + Send + Sync> {
        Box::new(ServerSegments::new(&self.0).create_table_if_missing(true))
    }

    fn segment_store(&self) -> Box<dyn SegmentStore> {
        Box::new(ServerSegments::new(&self.0))
    }
}
