//! Transactions of etcd, in the JSON of its gateway.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::problem::Problem;

/// A key as etcd has it.
#[derive(Clone, Debug)]
pub struct KeyValue {
    pub key: String,
    pub value: String,
    /// The revision of the last change.
    pub mod_revision: i64,
    /// Changes since the key was created, which counts as the first.
    pub version: i64,
}

/// What a transaction did.
#[derive(Debug)]
pub struct Answer {
    /// The cluster's number, which a restored one does not keep.
    pub cluster: u64,
    /// The revision that the transaction read or, if it wrote, made.
    pub revision: i64,
    /// Whether all comparisons held.
    pub succeeded: bool,
    /// What each read of the branch returned.
    pub reads: Vec<Vec<KeyValue>>,
}

/// The key was last changed at this revision.
pub fn modified_at(key: &str, revision: i64) -> Value {
    json!({"key": encode(key), "target": "MOD", "result": "EQUAL",
           "mod_revision": revision.to_string()})
}

/// The key does not exist.
pub fn is_absent(key: &str) -> Value {
    version_is(key, 0)
}

/// The key was changed as often as this.
pub fn version_is(key: &str, version: i64) -> Value {
    json!({"key": encode(key), "target": "VERSION", "result": "EQUAL",
           "version": version.to_string()})
}

/// The key was changed less often than this.
pub fn version_below(key: &str, version: i64) -> Value {
    json!({"key": encode(key), "target": "VERSION", "result": "LESS",
           "version": version.to_string()})
}

/// The key has this value.
pub fn value_is(key: &str, value: &str) -> Value {
    json!({"key": encode(key), "target": "VALUE", "result": "EQUAL", "value": encode(value)})
}

pub fn put(key: &str, value: &str) -> Value {
    json!({"request_put": {"key": encode(key), "value": encode(value)}})
}

/// Counts the key's version up, and leaves the value.
pub fn bump(key: &str) -> Value {
    json!({"request_put": {"key": encode(key), "ignore_value": true}})
}

pub fn delete(key: &str) -> Value {
    json!({"request_delete_range": {"key": encode(key)}})
}

pub fn get(key: &str) -> Value {
    json!({"request_range": {"key": encode(key)}})
}

/// The keys with this prefix that were changed after this revision.
pub fn get_changed(prefix: &str, after: i64) -> Value {
    json!({"request_range": {"key": encode(prefix), "range_end": encode(&end(prefix)),
           "min_mod_revision": (after + 1).to_string()}})
}

/// So many of the keys with this prefix, from this one on.
pub fn get_page(prefix: &str, from: &str, limit: usize) -> Value {
    json!({"request_range": {"key": encode(from), "range_end": encode(&end(prefix)),
           "limit": limit.to_string()}})
}

/// The last of the keys with this prefix.
pub fn get_last(prefix: &str) -> Value {
    json!({"request_range": {"key": encode(prefix), "range_end": encode(&end(prefix)),
           "limit": "1", "sort_order": "DESCEND", "sort_target": "KEY"}})
}

/// A transaction's body.
pub fn transaction(compare: &[Value], success: &[Value], failure: &[Value]) -> Value {
    json!({"compare": compare, "success": success, "failure": failure})
}

/// Reads the answer to a transaction.
pub fn answer(body: &Value) -> Result<Answer, Problem> {
    let header = &body["header"];
    let (Some(cluster), Some(revision)) =
        (number(&header["cluster_id"]), number(&header["revision"]))
    else {
        return Err(Problem::NotEtcd { status: 200 });
    };
    let mut reads = Vec::new();
    for response in body["responses"].as_array().into_iter().flatten() {
        // etcd leaves out what is empty, and the answers of other requests have no `kvs`.
        if let Some(range) = response.get("response_range") {
            let found = range["kvs"].as_array().into_iter().flatten();
            reads.push(found.map(key_value).collect::<Result<_, _>>()?);
        }
    }
    let succeeded = body["succeeded"].as_bool().unwrap_or(false);
    Ok(Answer { cluster, revision: revision.cast_signed(), succeeded, reads })
}

fn key_value(body: &Value) -> Result<KeyValue, Problem> {
    let revision = |name: &str| number(&body[name]).map(u64::cast_signed);
    let (Some(mod_revision), Some(version)) = (revision("mod_revision"), revision("version"))
    else {
        return Err(Problem::NotEtcd { status: 200 });
    };
    let key = decode(&body["key"]).unwrap_or_default();
    // No value is an empty one. So is one that is no text: whoever reads it finds no JSON.
    let value = decode(&body["value"]).unwrap_or_default();
    Ok(KeyValue { key, value, mod_revision, version })
}

/// Numbers of 64 bits are texts.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    }
}

fn encode(text: &str) -> String {
    STANDARD.encode(text)
}

fn decode(value: &Value) -> Option<String> {
    String::from_utf8(STANDARD.decode(value.as_str()?).ok()?).ok()
}

/// The first key after those with this prefix, which ends with a slash.
fn end(prefix: &str) -> String {
    format!("{}0", prefix.trim_end_matches('/'))
}
