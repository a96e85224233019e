//! `uidring worker list` of a registry.

use serde_json::{Value, json};
use uidring_any::{AnyStore, LeafNode};

use crate::failure::Failure;
use crate::table::{self, Column};
use crate::text::visible;

pub fn list(store: &dyn AnyStore, as_json: bool) -> Result<(), Failure> {
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
    table::print(&store.instances()?, as_json, node_as_json, &columns)
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
