//! Leaf's registry in ZooKeeper, as the flags name it.

#[cfg(feature = "zookeeper")]
mod leaf;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use uidring::WorkerSource;

use super::Failure;
use super::args::{GenerateArgs, parse_seconds};

/// Leaf's registry in ZooKeeper.
#[derive(Args)]
pub struct RegistryArgs {
    /// The ZooKeeper servers with Leaf's registry, in which an instance has a worker id of its own:
    /// HOST:PORT,HOST:PORT, or with a path behind them HOST:PORT/PATH
    #[arg(long, value_name = "HOSTS", requires = "name",
          conflicts_with_all = ["sqlite", "mysql", "mysql_url_file"])]
    pub zookeeper: Option<String>,

    /// The registry's name: Leaf's leaf.name
    #[arg(long, value_name = "NAME", requires = "zookeeper")]
    pub name: Option<String>,

    /// A file whose first line is the USER:PASSWORD to log in to the ZooKeeper servers with (scheme
    /// digest); else the environment variable UIDRING_ZOOKEEPER_AUTH, if it is set
    #[arg(long, value_name = "PATH", requires = "zookeeper")]
    pub zookeeper_auth_file: Option<PathBuf>,
}

/// An instance in Leaf's registry.
#[derive(Args)]
pub struct InstanceArgs {
    /// What this instance is known by in Leaf's registry: a name that outlives restarts, such as a
    /// pod's in a StatefulSet, or IP:PORT. Else the environment variable UIDRING_INSTANCE
    #[arg(long, value_name = "NAME", requires = "zookeeper")]
    pub instance: Option<String>,

    /// The file that only one process of this host can have; if not given,
    /// uidring/leaf/NAME/INSTANCE@bounded.json in your data directory (without @bounded at the risk of
    /// repeats)
    #[arg(long, value_name = "PATH", requires = "zookeeper")]
    pub leaf_cache: Option<PathBuf>,

    /// Do without such a file
    #[arg(long, requires = "zookeeper", conflicts_with = "leaf_cache")]
    pub no_leaf_cache: bool,

    /// Stop when ZooKeeper has been away for so long, 1 at least and nine tenths of the session's
    /// timeout at most, which is the default
    #[arg(long, value_name = "SECONDS", requires = "zookeeper", value_parser = parse_seconds)]
    pub max_outage: Option<Duration>,

    /// Go on by the file alone while ZooKeeper is away, and start by it, as Leaf does: uids repeat if
    /// the instance starts on another host meanwhile. The worker id is that of the Java Leaf of this
    /// name
    #[arg(long, requires = "zookeeper", conflicts_with = "max_outage")]
    pub risk_repeats_in_outages: bool,
}

#[cfg(feature = "zookeeper")]
impl RegistryArgs {
    /// Lists all instances in the registry, if the flags name one.
    pub fn list(&self, json: bool) -> Result<bool, Failure> {
        leaf::list(self, json)
    }
}

#[cfg(feature = "zookeeper")]
impl GenerateArgs {
    /// The registry with this instance, if the flags name one.
    pub fn leaf_registry(&self) -> Result<Option<Box<dyn WorkerSource + Send>>, Failure> {
        Ok(leaf::named(self)?.map(|registry| Box::new(registry) as _))
    }
}

#[cfg(not(feature = "zookeeper"))]
impl RegistryArgs {
    pub fn list(&self, _: bool) -> Result<bool, Failure> {
        if self.zookeeper.is_some() {
            return Err(Failure::NotBuilt { feature: "zookeeper" });
        }
        Ok(false)
    }
}

#[cfg(not(feature = "zookeeper"))]
impl GenerateArgs {
    pub fn leaf_registry(&self) -> Result<Option<Box<dyn WorkerSource + Send>>, Failure> {
        self.registry.list(false).map(|_| None)
    }
}
