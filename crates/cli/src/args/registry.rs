//! Flags that name Leaf's registry in ZooKeeper, and an instance in it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::advice::{file, value};
use uidring_store::values::{CENTURY, time};

/// Flags that name a database instead.
const DATABASES: [&str; 6] =
    ["sqlite", "mysql", "mysql_url_file", "postgres", "postgres_url_file", "etcd"];

/// Leaf's registry in ZooKeeper.
#[derive(Args)]
pub struct RegistryArgs {
    /// The ZooKeeper servers with Leaf's registry, which gives each instance a worker id of its own:
    /// HOST:PORT,HOST:PORT, or with a path after them, HOST:PORT/PATH; with tls:// before each server for
    /// TLS
    #[arg(long, value_name = "HOSTS", requires = "name",
          conflicts_with_all = DATABASES)]
    pub zookeeper: Option<String>,

    /// The registry's name: Leaf's leaf.name
    #[arg(long, value_name = "NAME", requires = "zookeeper")]
    pub name: Option<String>,

    /// A file whose first line is the USER:PASSWORD for the ZooKeeper servers (scheme digest), for
    /// whom alone the nodes of a new name are made; else the environment variable
    /// UIDRING_ZOOKEEPER_AUTH, if it is set
    #[arg(long, value_name = "PATH", requires = "zookeeper")]
    pub zookeeper_auth_file: Option<PathBuf>,

    /// Accept only certificates of the ZooKeeper servers that are signed by an authority in this PEM file;
    /// without it, by one that the system trusts
    #[arg(long, value_name = "PATH", requires = "zookeeper")]
    pub zookeeper_ca: Option<PathBuf>,

    /// Show the ZooKeeper servers this certificate, a PEM file
    #[arg(long, value_name = "PATH", requires_all = ["zookeeper", "zookeeper_key"])]
    pub zookeeper_cert: Option<PathBuf>,

    /// The private key of that certificate, a PEM file that others may not read
    #[arg(long, value_name = "PATH", requires = "zookeeper_cert")]
    pub zookeeper_key: Option<PathBuf>,
}

impl RegistryArgs {
    /// The flags that name the registry, as one writes them.
    pub fn flags(&self) -> String {
        let flags = [
            self.zookeeper.as_deref().map(|hosts| value("--zookeeper", hosts)),
            self.name.as_deref().map(|name| value("--name", name)),
            file("--zookeeper-auth-file", self.zookeeper_auth_file.as_deref()),
            file("--zookeeper-ca", self.zookeeper_ca.as_deref()),
            file("--zookeeper-cert", self.zookeeper_cert.as_deref()),
            file("--zookeeper-key", self.zookeeper_key.as_deref()),
        ];
        flags.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

/// An instance in Leaf's registry.
#[derive(Args)]
pub struct InstanceArgs {
    /// The name of this instance in Leaf's registry. It stays the same when the instance restarts, like
    /// that of a pod in a StatefulSet, or IP:PORT. Else the environment variable UIDRING_INSTANCE
    #[arg(long, value_name = "NAME", requires = "zookeeper")]
    pub instance: Option<String>,

    /// The file that keeps other processes of this host from using the instance [default:
    /// uidring/leaf/NAME/INSTANCE@bounded.json in your data directory; with
    /// --risk-repeats-in-outages the name lacks @bounded]
    #[arg(long, value_name = "PATH", requires = "zookeeper")]
    pub leaf_cache: Option<PathBuf>,

    /// Use no such file
    #[arg(long, requires = "zookeeper", conflicts_with = "leaf_cache")]
    pub no_leaf_cache: bool,

    /// Stop when ZooKeeper has been away for this long, from 1s to nine tenths of the session's
    /// timeout, which is the default
    #[arg(long, value_name = "SECONDS", requires = "zookeeper", allow_hyphen_values = true,
          value_parser = time(Duration::from_secs(1)..=CENTURY))]
    pub max_outage: Option<Duration>,

    /// While ZooKeeper is away, start and go on with the file alone, as Leaf does: uids repeat if
    /// the instance starts on another host meanwhile. The worker id is that of the Java Leaf of this
    /// name
    #[arg(long, requires = "zookeeper", conflicts_with = "max_outage")]
    pub risk_repeats_in_outages: bool,
}
