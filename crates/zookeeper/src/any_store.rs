//! [`AnyStore`] for registries.

use std::fmt;

use uidring::{Error, StoreErrorKind, WorkerSource};
use uidring_store::{AnyStore, Finding, Findings, LeafNode, StoreUse};

use crate::LeafZooKeeper;

impl AnyStore for LeafZooKeeper {
    fn has(&self) -> &'static str {
        "the worker ids of its instances"
    }

    fn own_workers(&self) -> Result<Box<dyn WorkerSource + Send>, Error> {
        if !self.is_named {
            return Err(Error::Environment {
                problem: "the environment variable UIDRING_INSTANCE is not set; set it to a name that no other process \
                          has, and that stays the same after a restart, such as HOST:PORT"
                    .into(),
            });
        }
        Ok(Box::new(self.clone()))
    }

    fn examine(&self, _: StoreUse) -> Findings {
        match self.instances() {
            Err(error) if !is_missing(&error) => Err(vec![Finding::error("connection", &error)]),
            _ => Ok(vec![
                Finding::good("connection", "the servers answer"),
                self.registry.servers.password(true).finding(),
            ]),
        }
    }

    fn instances(&self) -> Result<Vec<LeafNode>, Error> {
        self.registry.servers.leaf_nodes(&self.registry.name)
    }
}

/// Whether nobody has registered yet. The first start creates the nodes.
fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Store(error) if error.kind() == StoreErrorKind::NotFound)
}

impl fmt::Display for LeafZooKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.registry, f)
    }
}
