//! [`AnyStore`] for registries.

use std::fmt;

use uidring::WorkerSource;
use uidring_store::AnyStore;

use crate::LeafZooKeeper;

impl AnyStore for LeafZooKeeper {
    fn has(&self) -> &'static str {
        "the worker ids of its instances"
    }

    fn own_workers(&self) -> Option<Box<dyn WorkerSource + Send>> {
        Some(Box::new(self.clone()))
    }
}

impl fmt::Display for LeafZooKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.registry, f)
    }
}
