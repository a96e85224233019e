//! Leaf's registry in ZooKeeper.

use std::time::Duration;

use serde_json::{Value, json};
#[cfg(feature = "zookeeper-tls")]
use uidring::Error;
use uidring::WorkerSource;
#[cfg(feature = "zookeeper-tls")]
use uidring_store::ServerError;
use uidring_zookeeper::{Instance, LeafNode, LeafZooKeeper, ZooKeeperServers};

use crate::args::registry::{InstanceArgs, RegistryArgs};
use crate::args::set;
use crate::failure::Failure;
use crate::table::{self, Column};
use crate::text::visible;

/// Prints all instances in the registry.
pub fn list_instances(args: &RegistryArgs, as_json: bool) -> Result<(), Failure> {
    let (servers, name) = servers(args)?;
    let columns = [
        Column::number("NUMBER", |node: &LeafNode| node.number.to_string()),
        Column::text("LIVE", |node| yes_or_no(node.is_live)),
        Column::text("BOUNDED", |node| yes_or_no(node.is_bounded)),
        Column::text("TIMESTAMP", |node| {
            node.timestamp.map_or_else(|| "unknown".into(), |time| time.to_string())
        }),
        Column::text("INSTANCE (IP:PORT)", |LeafNode { instance, ip, port, .. }| {
            format!("{} ({}:{})", visible(instance), visible(ip), visible(port))
        }),
    ];
    table::print(&servers.leaf_nodes(name)?, as_json, node_as_json, &columns)
}

/// The registry as the source of the instance's worker id.
pub fn instance(
    registry: &RegistryArgs,
    args: &InstanceArgs,
    max_clock_difference: Option<Duration>,
) -> Result<Box<dyn WorkerSource + Send>, Failure> {
    let (servers, name) = servers(registry)?;
    let instance = match &args.instance {
        Some(instance) => Some(Instance::new(instance).map_err(Failure::usage)?),
        None => Instance::from_env().map_err(Failure::usage)?,
    };
    let instance = instance.ok_or_else(|| {
        Failure::Usage(
            "--zookeeper needs --instance, or the environment variable UIDRING_INSTANCE: a name \
             that no other process has, and that stays the same after a restart"
                .into(),
        )
    })?;
    let source = LeafZooKeeper::new(servers, name, instance).map_err(Failure::usage)?;
    let source = set(source, max_clock_difference, LeafZooKeeper::max_clock_difference);
    let source = set(source, args.max_outage, LeafZooKeeper::max_outage);
    let mut source = set(source, args.leaf_cache.as_ref(), LeafZooKeeper::cache_file);
    if args.no_leaf_cache {
        source = source.no_cache_file();
    }
    if args.risk_repeats_in_outages {
        source = source.risk_repeats_in_outages();
    }
    Ok(Box::new(source))
}

/// The servers and the registry's name, of which each flag requires the other.
fn servers(args: &RegistryArgs) -> Result<(ZooKeeperServers, &str), Failure> {
    let hosts = args.zookeeper.as_deref().unwrap_or_default();
    #[cfg(not(feature = "zookeeper-tls"))]
    if hosts.contains("tls://") || args.zookeeper_ca.is_some() || args.zookeeper_cert.is_some() {
        return Err(Failure::NotBuilt { feature: "zookeeper-tls" });
    }
    let servers = ZooKeeperServers::new(hosts).map_err(Failure::usage)?;
    #[cfg(feature = "zookeeper-tls")]
    let servers = with_certificates(servers, args)?;
    let servers = match &args.zookeeper_auth_file {
        Some(path) => servers.auth_file(path)?,
        None => servers.auth_from_env()?,
    };
    Ok((servers, args.name.as_deref().unwrap_or_default()))
}

#[cfg(feature = "zookeeper-tls")]
fn with_certificates(
    mut servers: ZooKeeperServers,
    args: &RegistryArgs,
) -> Result<ZooKeeperServers, Failure> {
    if let Some(path) = &args.zookeeper_ca {
        servers = servers.tls_authority(path).map_err(wrong)?;
    }
    if let (Some(certificate), Some(key)) = (&args.zookeeper_cert, &args.zookeeper_key) {
        servers = servers.tls_certificate(certificate, key).map_err(wrong)?;
    }
    Ok(servers)
}

/// Certificates without TLS are wrong usage; a file that cannot be read is a failure.
#[cfg(feature = "zookeeper-tls")]
fn wrong(error: Error) -> Failure {
    if error.store::<ServerError>().is_some() { Failure::usage(error) } else { error.into() }
}

fn yes_or_no(is: bool) -> String {
    if is { "yes".into() } else { "no".into() }
}

fn node_as_json(node: &LeafNode) -> Value {
    json!({
        "number": node.number,
        "instance": node.instance,
        "ip": node.ip,
        "port": node.port,
        "timestamp": node.timestamp.map(|time| time.to_string()),
        "live": node.is_live,
        "bounded": node.is_bounded,
    })
}
