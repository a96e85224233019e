//! [`AnyStore`] for database servers.

use std::time::Duration;

use uidring::Error;
use uidring::segment::SegmentStore;

use super::examine::examine;
use super::{Engine, ServerStore};
use crate::{AnyStore, Findings, LeaseOptions, LeaseTable, SegmentTable, StoreUse, WorkerTable};

impl<E: Engine> AnyStore for ServerStore<E> {
    fn has(&self) -> &'static str {
        "worker ids, leases and segments"
    }

    fn deadline(&self) -> Duration {
        self.settings.limits.deadline
    }

    fn worker_table(&self) -> Result<Box<dyn WorkerTable + Send>, Error> {
        Ok(Box::new(self.worker_nodes()))
    }

    fn lease_table(&self, options: LeaseOptions) -> Result<Box<dyn LeaseTable + Send>, Error> {
        Ok(Box::new(self.leases().options(options)))
    }

    fn segment_table(&self) -> Result<Box<dyn SegmentTable + Send + Sync>, Error> {
        Ok(Box::new(self.segments().create_table_if_missing(true)))
    }

    fn examine(&self, wanted: StoreUse) -> Findings {
        examine(self.server(), wanted)
    }

    fn segment_store(&self) -> Result<Box<dyn SegmentStore>, Error> {
        Ok(Box::new(self.segments()))
    }
}
