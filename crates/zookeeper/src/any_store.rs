//! [`AnyStore`] for registries.

use std::fmt;

use uidring::{Error, WorkerSource};
use uidring_store::{AnyStore, WorkerRange};

use crate::LeafZooKeeper;

impl AnyStore for LeafZooKeeper {
    fn has(&self) -> &'static str {
        "the worker ids of its instances"
    }

    fn range(&self) -> Result<Option<WorkerRange>, Error> {
        Err(self.lacks("range of them: a registry numbers its instances from 0"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_no_range_and_says_why() {
        let store = LeafZooKeeper::from_url(
            "zookeeper://h?name=orders",
            crate::Instance::new("web-0").expect("a name"),
        )
        .expect("a URL");
        let text = store.range().expect_err("it has none").to_string();
        assert!(text.contains("and no range of them: a registry numbers"), "{text}");
    }
}
