//! The lists of `uidring worker`: starts, instances and leases.

use serde_json::{Value, json};
use uidring::Timestamp;
use uidring_any::{AnyStore, LeafNode, LeaseRow, LeaseState, LeaseTable, WorkerNode};
use uidring_store::Fitting;

use crate::failure::Failure;
use crate::report;
use crate::table::{self, Column};
use crate::text::{instant, rfc3339, visible};

/// Lists the starts.
pub fn starts(store: &dyn AnyStore, as_json: bool) -> Result<(), Failure> {
    let columns = [
        Column::number("ID", |row: &WorkerNode| row.id.to_string()),
        Column::text("TYPE", |row| kind(row).into()),
        Column::text("CREATED", |row| rfc3339(&row.created)),
        Column::text("HOST_NAME:PORT", |row| {
            format!("{}:{}", visible(&row.host_name), visible(&row.port))
        }),
    ];
    let nodes = store.worker_table()?;
    table::print(&nodes.list()?, as_json, start_as_json, &columns)?;
    if let Some(range) = nodes.range()? {
        let all = Fitting { max: range.last(), range: Some(range) };
        let left = all.left_after(nodes.usage()?.last());
        report::note(format_args!("the worker ids here are {range}; left for new starts: {left}"));
    }
    Ok(())
}

fn kind(row: &WorkerNode) -> &'static str {
    match row.kind {
        1 => "container",
        2 => "actual",
        _ => "unknown",
    }
}

fn start_as_json(row: &WorkerNode) -> Value {
    json!({
        "id": row.id,
        "host_name": row.host_name,
        "port": row.port,
        "type": row.kind,
        "launch_date": row.launch_date,
        "modified": rfc3339(&row.modified),
        "created": rfc3339(&row.created),
    })
}

/// Lists the instances of a registry.
pub fn instances(store: &dyn AnyStore, as_json: bool) -> Result<(), Failure> {
    let columns = [
        Column::number("NUMBER", |node: &LeafNode| node.number.to_string()),
        Column::text("LIVE", |node| yes_or_no(node.is_live).into()),
        Column::text("BOUNDED", |node| yes_or_no(node.is_bounded).into()),
        Column::text("TIMESTAMP", |node| {
            node.timestamp.map_or_else(|| "unknown".into(), |time| time.to_string())
        }),
        Column::text("INSTANCE (IP:PORT)", |LeafNode { instance, ip, port, .. }| {
            format!("{} ({}:{})", visible(instance), visible(ip), visible(port))
        }),
    ];
    table::print(&store.instances()?, as_json, instance_as_json, &columns)
}

fn yes_or_no(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

fn instance_as_json(node: &LeafNode) -> Value {
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

/// Lists the leases.
pub fn leases(leases: &dyn LeaseTable, as_json: bool) -> Result<(), Failure> {
    let columns = [
        Column::number("WORKER ID", |row: &LeaseRow| row.worker_id.to_string()),
        Column::text("STATE", |row| state(row).0.into()),
        Column::text("LEASE ENDS", |row| instant(state(row).1)),
        Column::number("TOKEN", |row| row.token.to_string()),
        Column::text("USED UNTIL", |row| instant(row.used_until())),
        Column::text("OWNER", |row| visible(&row.owner)),
    ];
    table::print(&leases.list()?, as_json, lease_as_json, &columns)
}

fn state(row: &LeaseRow) -> (&'static str, Option<Timestamp>) {
    match row.state {
        LeaseState::Free => ("free", None),
        LeaseState::Held(end) => ("held", Some(end)),
        LeaseState::Expired(end) => ("expired", Some(end)),
    }
}

fn lease_as_json(row: &LeaseRow) -> Value {
    let (state, end) = state(row);
    json!({
        "worker_id": row.worker_id,
        "state": state,
        "lease_end": end.map(|time| time.to_string()),
        "owner": row.owner,
        "token": row.token,
        "horizon_tick": row.horizon.map(|horizon| horizon.0),
        "horizon_sequence": row.horizon.map(|horizon| horizon.1),
        "used_until": row.used_until().map(|time| time.to_string()),
        "layout": row.layout,
        "created": row.created.to_string(),
        "renewed": row.renewed.to_string(),
    })
}
