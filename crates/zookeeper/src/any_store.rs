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
        if self.is_named {
            return Ok(Box::new(self.clone()));
        }
        let problem = "the environment variable UIDRING_INSTANCE is not set; set it to a name that no other process \
                       has, and that stays the same after a restart, such as HOST:PORT";
        Err(Error::Environment { problem: problem.into() })
    }

    fn examine(&self, _: StoreUse) -> Findings {
        match self.instances() {
            // Nobody has registered yet. The first start creates the nodes.
            Err(Error::Store(error)) if error.kind() == StoreErrorKind::NotFound => {}
            Err(error) => return Err(vec![Finding::error("connection", &error)]),
            Ok(_) => {}
        }
        let answers = Finding::good("connection", "the servers answer");
        Ok(vec![answers, self.registry.servers.password(true).finding()])
    }

    fn instances(&self) -> Result<Vec<LeafNode>, Error> {
        self.registry.servers.leaf_nodes(&self.registry.name)
    }
}

impl fmt::Display for LeafZooKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.registry, f)
    }
}
