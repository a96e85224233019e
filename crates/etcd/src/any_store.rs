//! [`AnyStore`] for etcd clusters.

use std::time::Duration;

use uidring::Error;
use uidring_store::{AnyStore, Findings, LeaseOptions, LeaseTable, StoreUse, WorkerTable};

use crate::EtcdStore;
use crate::examine::examine;

impl AnyStore for EtcdStore {
    fn has(&self) -> &'static str {
        "worker ids and leases"
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }

    fn worker_table(&self) -> Result<Box<dyn WorkerTable + Send>, Error> {
        Ok(Box::new(self.worker_ids()))
    }

    fn examine(&self, wanted: StoreUse) -> Findings {
        examine(self, wanted)
    }

    fn lease_table(&self, options: LeaseOptions) -> Result<Box<dyn LeaseTable + Send>, Error> {
        Ok(Box::new(self.leases().options(options)))
    }
}
