//! What is in a registry, for people.

use std::thread;

use super::instance::{Instance, check_name};
use super::nodes::{Endpoint, Paths, instance_and_number};
use super::problem::Problem;
use super::session::read;
use super::thread::runtime;
use super::{Registry, ZooKeeperServers};
use crate::error::Error;
use crate::timestamp::Timestamp;

/// An instance's node in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeafNode {
    /// The worker id.
    pub number: i64,
    /// The instance's name: for Leaf `ip:port`.
    pub instance: String,
    /// Its address, the last time that it started.
    pub ip: String,
    /// Its port, likewise.
    pub port: String,
    /// The last time that it uploaded; `None` where the node does not say.
    pub timestamp: Option<Timestamp>,
    /// Whether it is running now. A Java Leaf does not tell, and never counts as running.
    pub is_live: bool,
}

impl ZooKeeperServers {
    /// All instances of the registry of this name (Leaf's `leaf.name`), by number.
    ///
    /// It blocks, as [`LeafZooKeeper::acquire`](super::LeafZooKeeper::acquire) does.
    ///
    /// # Errors
    ///
    /// [`Error::LeafName`]; [`Error::Registry`] where the servers are away or refuse, or where there
    /// is no such registry.
    pub fn leaf_nodes(&self, name: &str) -> Result<Vec<LeafNode>, Error> {
        check_name("registry", name)?;
        let (servers, paths) = (self.clone(), Paths::new(name));
        // An instance that is none: it only looks.
        let instance = Instance::new("list")?;
        let registry = Registry { servers, name: name.into(), paths, instance };
        let failed = |what: &str| Err(Problem::Denied(format!("the client failed: {what}")));
        let nodes = thread::scope(|scope| {
            let look = || match runtime() {
                Ok(runtime) => {
                    let nodes = runtime.block_on(look(&registry));
                    runtime.shutdown_background();
                    nodes
                }
                Err(error) => failed(&error.to_string()),
            };
            let thread = thread::Builder::new().name("uidring-zookeeper".into());
            match thread.spawn_scoped(scope, look).map(thread::ScopedJoinHandle::join) {
                Ok(Ok(nodes)) => nodes,
                Ok(Err(_)) => failed("it panicked"),
                Err(error) => failed(&format!("no thread: {error}")),
            }
        });
        nodes.map_err(|problem| problem.explain(&registry))
    }
}

async fn look(registry: &Registry) -> Result<Vec<LeafNode>, Problem> {
    let client = registry.connect().await?;
    let paths = &registry.paths;
    registry
        .answer(async {
            let none = || Problem::Denied(format!("there is no {} yet", paths.forever()));
            let children = client.list_children(&paths.forever()).await;
            let children = match children {
                Err(zookeeper_client::Error::NoNode) => return Err(none()),
                children => children?,
            };
            // A registry that only Java Leafs have used has no such folder.
            let live = match client.list_children(&paths.temporary()).await {
                Err(zookeeper_client::Error::NoNode) => Vec::new(),
                live => live?,
            };
            let mut nodes = Vec::with_capacity(children.len());
            for child in children {
                let Some((instance, number)) = instance_and_number(&child) else { continue };
                let Some((data, _)) =
                    read(&client, &format!("{}/{child}", paths.forever())).await?
                else {
                    continue;
                };
                let endpoint = Endpoint::from_json(&data);
                let timestamp = endpoint.as_ref().map(|e| Timestamp::from_millis(e.timestamp));
                let (ip, port) = endpoint.map(|e| (e.ip, e.port)).unwrap_or_default();
                let is_live = live.iter().any(|name| name == instance);
                let instance = instance.to_owned();
                nodes.push(LeafNode { number, instance, ip, port, timestamp, is_live });
            }
            nodes.sort_by_key(|node| node.number);
            Ok(nodes)
        })
        .await
}
