//! Leaf's registry in ZooKeeper, as the flags name it.

use uidring::{Instance, LeafNode, LeafZooKeeper, ZooKeeperServers};

use super::Failure;
use super::args::{GenerateArgs, RegistryArgs};

impl RegistryArgs {
    /// All instances in the registry, if the flags name one.
    pub fn nodes(&self) -> Result<Option<Vec<LeafNode>>, Failure> {
        let Some((servers, name)) = self.named()? else { return Ok(None) };
        Ok(Some(servers.leaf_nodes(name)?))
    }

    /// The servers and the registry's name, if the flags name one.
    fn named(&self) -> Result<Option<(ZooKeeperServers, &str)>, Failure> {
        let (Some(hosts), Some(name)) = (&self.zookeeper, &self.name) else { return Ok(None) };
        let servers = ZooKeeperServers::new(hosts).map_err(Failure::usage)?;
        let servers = match &self.zookeeper_auth_file {
            Some(path) => servers.auth_file(path)?,
            None => servers.auth_from_env()?,
        };
        Ok(Some((servers, name)))
    }
}

impl GenerateArgs {
    /// The registry with this instance, if the flags name one.
    pub fn leaf_registry(&self) -> Result<Option<LeafZooKeeper>, Failure> {
        let Some((servers, name)) = self.registry.named()? else { return Ok(None) };
        let args = &self.instance;
        let instance = match &args.instance {
            Some(instance) => Some(Instance::new(instance)),
            None => Instance::from_env().transpose(),
        };
        let instance = instance.transpose().map_err(Failure::usage)?.ok_or_else(|| {
            Failure::usage(
                "--zookeeper needs --instance, or the environment variable UIDRING_INSTANCE: a name \
                 that is this process's own, and that it has again after a restart",
            )
        })?;
        let mut registry = LeafZooKeeper::new(servers, name, instance).map_err(Failure::usage)?;
        if let Some(path) = &args.leaf_cache {
            registry = registry.cache_file(path);
        }
        if args.no_leaf_cache {
            registry = registry.no_cache_file();
        }
        if let Some(limit) = args.max_outage {
            registry = registry.max_outage(limit);
        }
        if let Some(limit) = self.table.max_clock_difference {
            registry = registry.max_clock_difference(limit);
        }
        Ok(Some(registry))
    }
}
