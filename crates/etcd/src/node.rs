//! The key of a start, for people: who got a worker id, and when.

use serde_json::{Value, json};
use uidring::Timestamp;
use uidring_store::{NodeIdentity, WorkerNode};

use crate::key_value::KeyValue;
use crate::problem::Problem;
use crate::store::FOLDERS;

pub const VERSION: u64 = 1;

/// Returns the worker id of a key of a start or a lease.
pub fn worker_id(found: &KeyValue) -> Result<u64, Problem> {
    let mut parts = found.key.rsplit('/');
    let digits = parts.next().unwrap_or_default();
    let is_below = parts.next().is_some_and(|part| FOLDERS.contains(&part));
    // A store further down has a second one.
    let is_ours = is_below && digits.len() == 20 && parts.all(|part| !FOLDERS.contains(&part));
    digits.parse().ok().filter(|_| is_ours).ok_or_else(|| {
        Problem::Damaged(format!(
            "the key {} does not belong to this store: another program, or a store with a prefix below this one, wrote it; \
             use a prefix below which nobody else writes",
            found.key
        ))
    })
}

/// Reads a value. It must have the current version.
pub fn read(found: &KeyValue) -> Result<Value, Problem> {
    let key = &found.key;
    let value: Value = serde_json::from_str(&found.value)
        .map_err(|error| Problem::Flawed(format!("the value of {key} is not JSON: {error}")))?;
    match field(found, &value, "version")? {
        VERSION => Ok(value),
        version => Err(Problem::Damaged(format!(
            "the value of {key} has version {version}, and this uidring uses version {VERSION}: use the uidring that wrote it"
        ))),
    }
}

pub fn field(found: &KeyValue, value: &Value, name: &str) -> Result<u64, Problem> {
    value[name].as_u64().ok_or_else(|| {
        Problem::Flawed(format!("the value of {} lacks the number `{name}`", found.key))
    })
}

pub fn write(node: &NodeIdentity, now: Timestamp) -> String {
    let NodeIdentity { host, port, kind, .. } = node;
    json!({"version": VERSION, "host": host, "port": port, "type": *kind as u8,
           "created": now.as_millis()})
    .to_string()
}

pub fn start(found: &KeyValue) -> Result<(WorkerNode, Timestamp), Problem> {
    let value = read(found)?;
    let created = Timestamp::from_millis(field(found, &value, "created")?.cast_signed());
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let time = format!("{created:.0}").trim_end_matches('Z').replace('T', " ");
    let node = WorkerNode {
        id: worker_id(found)?,
        host_name: text("host"),
        port: text("port"),
        kind: field(found, &value, "type")?.cast_signed(),
        launch_date: time.chars().take(10).collect(),
        modified: time.clone(),
        created: time,
    };
    Ok((node, created))
}
