//! Lists the instances of a registry.

use uidring::{Error, StoreErrorKind};
use uidring_store::LeafNode;

use super::error::ZooKeeperError;
use super::instance::Instance;
use super::nodes::{BOUNDED, Endpoint, instance_and_number};
use super::registry::{MISSING_NODE, Registry};
use super::servers::ZooKeeperServers;
use super::thread::spawn;
use super::tree::{Ensemble, Tree};

impl ZooKeeperServers {
    /// Returns all instances of the registry with this name (Leaf's `leaf.name`), ordered by number.
    ///
    /// Blocks, as [`LeafZooKeeper::lease`](super::LeafZooKeeper::lease) does.
    ///
    /// # Errors
    ///
    /// [`ZooKeeperError::LeafName`]; [`ZooKeeperError::Registry`] if the servers are away or refuse, or there is no
    /// such registry; [`ZooKeeperError::NotAllowed`].
    pub fn leaf_nodes(&self, name: &str) -> Result<Vec<LeafNode>, Error> {
        // The name is not used, because nothing is claimed.
        let registry = Registry::new(self.clone(), name, Instance::new("list")?)?;
        let looking = registry.clone();
        let thread = spawn(&registry, move || look(looking))?;
        Ok(thread.join().unwrap_or_else(|_| Err(registry.client_ended()))?)
    }
}

async fn look(registry: Registry) -> Result<Vec<LeafNode>, ZooKeeperError> {
    let tree = registry.connect().await?;
    let limit = registry.servers.connect_deadline;
    let nodes = registry.within(limit, nodes(&tree, &registry)).await;
    nodes.unwrap_or_else(|| Err(registry.no_answer(limit)))
}

async fn nodes(tree: &impl Tree, registry: &Registry) -> Result<Vec<LeafNode>, ZooKeeperError> {
    let (forever, temporary) = (registry.forever(), registry.temporary());
    if tree.read(&forever).await?.is_none() {
        // Without the path after the hosts, a start fails.
        if let Ok(None) = tree.read("/").await {
            return Err(registry.error(StoreErrorKind::Invalid, MISSING_NODE));
        }
        let problem = format!("there is no {forever} yet");
        return Err(registry.error(StoreErrorKind::NotFound, problem));
    }
    // Only Java Leafs used a registry without this folder.
    let live = match tree.read(&temporary).await? {
        Some(_) => tree.children(&temporary).await?,
        None => Vec::new(),
    };
    let mut nodes = Vec::new();
    for child in tree.children(&forever).await? {
        let Some((name, number)) = instance_and_number(&child) else { continue };
        let Some((data, _)) = tree.read(&format!("{forever}/{child}")).await? else { continue };
        let endpoint = Endpoint::from_json(&data);
        let timestamp = endpoint.as_ref().map(|endpoint| endpoint.timestamp);
        let (ip, port) = endpoint.map(|endpoint| (endpoint.ip, endpoint.port)).unwrap_or_default();
        let is_live = live.iter().any(|live| live == name);
        let bounded = name.strip_suffix(BOUNDED);
        let (instance, is_bounded) = (bounded.unwrap_or(name).to_owned(), bounded.is_some());
        nodes.push(LeafNode { number, instance, ip, port, timestamp, is_live, is_bounded });
    }
    nodes.sort_by_key(|node| node.number);
    Ok(nodes)
}
