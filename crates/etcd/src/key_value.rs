//! Transactions of etcd, in the JSON of its gateway.

use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub struct KeyValue {
    pub key: String,
    pub value: String,
    pub mod_revision: i64,
    /// The number of changes since the key was created, including that.
    pub version: i64,
}

/// What a transaction did.
#[derive(Debug)]
pub struct Answer {
    /// The cluster's id. A restored cluster has another one.
    pub cluster: u64,
    /// The revision that the transaction made or, if it only read, saw.
    pub revision: i64,
    /// Whether all comparisons held.
    pub succeeded: bool,
    /// The results of the reads in the branch that ran.
    pub reads: Vec<Vec<KeyValue>>,
}

impl Answer {
    /// Returns the first key that was read.
    pub fn first(self) -> Option<KeyValue> {
        self.reads.into_iter().flatten().next()
    }
}

/// Compares: the key was last changed at this revision.
pub fn modified_at(key: &str, revision: i64) -> Value {
    json!({"key": encode(key), "target": "MOD", "result": "EQUAL",
           "mod_revision": revision.to_string()})
}

/// Compares: the key does not exist.
pub fn is_absent(key: &str) -> Value {
    version_is(key, 0)
}

/// Compares: the key was changed this often.
pub fn version_is(key: &str, version: i64) -> Value {
    json!({"key": encode(key), "target": "VERSION", "result": "EQUAL",
           "version": version.to_string()})
}

/// Compares: the key was changed less often.
pub fn version_below(key: &str, version: i64) -> Value {
    json!({"key": encode(key), "target": "VERSION", "result": "LESS",
           "version": version.to_string()})
}

/// Compares: the key has this value.
pub fn value_is(key: &str, value: &str) -> Value {
    json!({"key": encode(key), "target": "VALUE", "result": "EQUAL", "value": encode(value)})
}

pub fn put(key: &str, value: &str) -> Value {
    json!({"request_put": {"key": encode(key), "value": encode(value)}})
}

/// Increments the key's version and keeps the value.
pub fn bump(key: &str) -> Value {
    json!({"request_put": {"key": encode(key), "ignore_value": true}})
}

pub fn delete(key: &str) -> Value {
    json!({"request_delete_range": {"key": encode(key)}})
}

pub fn get(key: &str) -> Value {
    json!({"request_range": {"key": encode(key)}})
}

/// Reads the keys with this prefix that changed after this revision.
pub fn get_changed(prefix: &str, after: i64) -> Value {
    json!({"request_range": {"key": encode(prefix), "range_end": encode(&end(prefix)),
           "min_mod_revision": (after + 1).to_string()}})
}

/// Reads up to `limit` keys with this prefix, starting at `from`.
pub fn get_page(prefix: &str, from: &str, limit: usize) -> Value {
    json!({"request_range": {"key": encode(from), "range_end": encode(&end(prefix)),
           "limit": limit.to_string()}})
}

/// Reads the last key with this prefix.
pub fn get_last(prefix: &str) -> Value {
    json!({"request_range": {"key": encode(prefix), "range_end": encode(&end(prefix)),
           "limit": "1", "sort_order": "DESCEND", "sort_target": "KEY"}})
}

/// Reads an answer; `None` if it is not one of etcd's gateway.
pub fn answer(body: &Value) -> Option<Answer> {
    let mut reads = Vec::new();
    for response in body["responses"].as_array().into_iter().flatten() {
        // etcd omits empty fields, and answers to other requests have no `kvs`.
        if let Some(range) = response.get("response_range") {
            let found = range["kvs"].as_array().into_iter().flatten();
            reads.push(found.map(key_value).collect::<Option<_>>()?);
        }
    }
    Some(Answer {
        cluster: number(&body["header"]["cluster_id"])?,
        revision: number(&body["header"]["revision"])?,
        succeeded: body["succeeded"].as_bool().unwrap_or(false),
        reads,
    })
}

fn key_value(body: &Value) -> Option<KeyValue> {
    Some(KeyValue {
        key: decode(&body["key"]).unwrap_or_default(),
        // A missing value is empty. One that is not UTF-8 reads as empty, too, and then fails as invalid JSON.
        value: decode(&body["value"]).unwrap_or_default(),
        mod_revision: number(&body["mod_revision"])?,
        version: number(&body["version"])?,
    })
}

/// The gateway writes 64-bit numbers as strings; a proxy may turn them into numbers.
fn number<T: FromStr>(value: &Value) -> Option<T> {
    value.as_str().map_or_else(|| value.to_string().parse().ok(), |text| text.parse().ok())
}

fn encode(text: &str) -> String {
    STANDARD.encode(text)
}

fn decode(value: &Value) -> Option<String> {
    String::from_utf8(STANDARD.decode(value.as_str()?).ok()?).ok()
}

/// The first key after all keys with this prefix, which ends with a slash.
fn end(prefix: &str) -> String {
    format!("{}0", prefix.trim_end_matches('/'))
}
