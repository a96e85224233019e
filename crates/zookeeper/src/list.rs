//! What is in a registry, for people.

use std::thread;

use uidring::{Error, Timestamp};

use super::instance::{Instance, check_name};
use super::nodes::{BOUNDED, Endpoint, Paths, instance_and_number};
use super::problem::Problem;
use super::thread::runtime;
use super::tree::{Ensemble, Tree};
use super::{Outages, Registry, ZooKeeperServers};

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
    /// Whether it issues only what the registry holds. A Java Leaf does not, nor does an instance
    /// that [risks repeats](super::LeafZooKeeper::risk_repeats_in_outages).
    pub is_bounded: bool,
}

impl ZooKeeperServers {
    /// All instances of the registry of this name (Leaf's `leaf.name`), by number.
    ///
    /// It blocks, as [`LeafZooKeeper::lease`](super::LeafZooKeeper::lease) does.
    ///
    /// # Errors
    ///
    /// [`ZooKeeperError::LeafName`](crate::ZooKeeperError::LeafName);
    /// [`ZooKeeperError::Registry`](crate::ZooKeeperError::Registry) where the servers are away or
    /// refuse, or where there is no such registry.
    pub fn leaf_nodes(&self, name: &str) -> Result<Vec<LeafNode>, Error> {
        check_name("registry", name)?;
        let (servers, paths) = (self.clone(), Paths::new(name));
        // An instance that is none: it only looks.
        let instance = Instance::new("list")?;
        let registry =
            Registry { servers, name: name.into(), paths, instance, outages: Outages::default() };
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
    let servers = &registry.servers;
    let tree = servers.connect().await?;
    let limit = servers.deadline();
    let nodes = servers.within(limit, nodes(&tree, &registry.paths)).await;
    nodes.unwrap_or_else(|| Err(Problem::no_answer(limit)))
}

async fn nodes(tree: &impl Tree, paths: &Paths) -> Result<Vec<LeafNode>, Problem> {
    let forever = paths.forever();
    if tree.read(&forever).await?.is_none() {
        return Err(Problem::Denied(format!("there is no {forever} yet")));
    }
    // A registry that only Java Leafs have used has no such folder.
    let live = match tree.read(&paths.temporary()).await? {
        Some(_) => tree.children(&paths.temporary()).await?,
        None => Vec::new(),
    };
    let mut nodes = Vec::new();
    for child in tree.children(&forever).await? {
        let Some((name, number)) = instance_and_number(&child) else { continue };
        let Some((data, _)) = tree.read(&format!("{forever}/{child}")).await? else { continue };
        let endpoint = Endpoint::from_json(&data);
        let timestamp = endpoint.as_ref().map(|e| Timestamp::from_millis(e.timestamp));
        let (ip, port) = endpoint.map(|e| (e.ip, e.port)).unwrap_or_default();
        let is_live = live.iter().any(|live| live == name);
        let bounded = name.strip_suffix(BOUNDED);
        let (instance, is_bounded) = (bounded.unwrap_or(name).to_owned(), bounded.is_some());
        nodes.push(LeafNode { number, instance, ip, port, timestamp, is_live, is_bounded });
    }
    nodes.sort_by_key(|node| node.number);
    Ok(nodes)
}
