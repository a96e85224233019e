//! What the flags of a registry have done.

use std::io::{self, BufWriter, Write};

use serde_json::{Value, json};
use uidring_zookeeper::{Instance, LeafNode, LeafZooKeeper, ZooKeeperServers};

use super::RegistryArgs;
use crate::Failure;
use crate::args::GenerateArgs;
use crate::output;
use crate::text::visible;

/// Lists all instances in the registry, if the flags name one.
pub fn list(args: &RegistryArgs, json: bool) -> Result<bool, Failure> {
    let Some((servers, name)) = servers(args)? else { return Ok(false) };
    write_nodes(output::stdout()?, &servers.leaf_nodes(name)?, json)?;
    Ok(true)
}

/// The registry with this instance, if the flags name one.
pub fn named(args: &GenerateArgs) -> Result<Option<LeafZooKeeper>, Failure> {
    let Some((servers, name)) = servers(&args.registry)? else { return Ok(None) };
    let own = &args.instance;
    let instance = match &own.instance {
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
    if let Some(path) = &own.leaf_cache {
        registry = registry.cache_file(path);
    }
    if own.no_leaf_cache {
        registry = registry.no_cache_file();
    }
    if let Some(limit) = own.max_outage {
        registry = registry.max_outage(limit);
    }
    if own.risk_repeats_in_outages {
        registry = registry.risk_repeats_in_outages();
    }
    if let Some(limit) = args.table.max_clock_difference {
        registry = registry.max_clock_difference(limit);
    }
    Ok(Some(registry))
}

/// The servers and the registry's name, if the flags name one.
fn servers(args: &RegistryArgs) -> Result<Option<(ZooKeeperServers, &str)>, Failure> {
    let (Some(hosts), Some(name)) = (&args.zookeeper, &args.name) else { return Ok(None) };
    let servers = ZooKeeperServers::new(hosts).map_err(Failure::usage)?;
    let servers = match &args.zookeeper_auth_file {
        Some(path) => servers.auth_file(path)?,
        None => servers.auth_from_env()?,
    };
    Ok(Some((servers, name)))
}

fn write_nodes(output: impl Write, nodes: &[LeafNode], json: bool) -> io::Result<()> {
    let mut output = BufWriter::new(output);
    if json {
        let nodes: Vec<Value> = nodes.iter().map(node_as_json).collect();
        writeln!(output, "{}", Value::from(nodes))?;
    } else {
        writeln!(
            output,
            "{:>10}  {:<4}  {:<7}  {:<24}  INSTANCE (IP:PORT)",
            "NUMBER", "LIVE", "BOUNDED", "TIMESTAMP"
        )?;
        for LeafNode { number, instance, ip, port, timestamp, is_live, is_bounded, .. } in nodes {
            let [live, bounded] = [is_live, is_bounded].map(|is| if *is { "yes" } else { "no" });
            let timestamp = timestamp.map_or_else(|| "unknown".into(), |time| time.to_string());
            let [instance, ip, port] = [instance, ip, port].map(|text| visible(text));
            writeln!(
                output,
                "{number:>10}  {live:<4}  {bounded:<7}  {timestamp:<24}  {instance} ({ip}:{port})"
            )?;
        }
    }
    output.flush()
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
