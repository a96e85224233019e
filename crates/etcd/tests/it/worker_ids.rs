//! Disposable worker ids.

use std::thread;
use std::time::Duration;

use serde_json::json;
use uidring::{Layout, StoreErrorKind};
use uidring_etcd::{ServerError, TableError, WorkerTable};
use uidring_testkit::chain;
use uidring_testkit::etcd::Etcd;

use crate::support::{fresh, small};

#[test]
fn a_worker_id_that_does_not_fit_is_not_spent() {
    let server = Etcd::shared();
    let store = fresh(&server);
    let ids = store.worker_ids();
    assert_eq!([1, 2, 3].map(|_| ids.assign(&small()).expect("left")), [1, 2, 3]);
    for _ in 0..2 {
        let error = ids.assign(&small()).expect_err("none left");
        let used_up = |error: &uidring::Error| {
            matches!(error.store(), Some(TableError::NoneFits { next: 4, max: 3, .. }))
        };
        assert!(used_up(&error), "{error:?}");
    }
    assert_eq!(ids.assign(&Layout::UID_GENERATOR).expect("left"), 4);
}

#[test]
fn pruning_keeps_the_newest_and_makes_nothing_available_again() {
    let server = Etcd::shared();
    let store = fresh(&server);
    let ids = store.worker_ids();
    for _ in 0..3 {
        ids.assign(&Layout::UID_GENERATOR).expect("assigned");
    }
    thread::sleep(Duration::from_millis(20));
    let pruned = ids.prune(Duration::ZERO).expect("pruned");
    assert_eq!((pruned.removed, pruned.newest), (2, Some(3)));
    assert_eq!(ids.list().expect("listed").len(), 1);
    assert_eq!(ids.assign(&Layout::UID_GENERATOR).expect("assigned"), 4);
}

#[test]
fn a_counter_that_was_deleted_hands_out_nothing() {
    let server = Etcd::start();
    let store = fresh(&server);
    let ids = store.worker_ids();
    ids.assign(&Layout::UID_GENERATOR).expect("assigned");
    let prefix = store.to_string();
    let key = format!("{}counter", prefix.split(' ').nth(1).expect("a prefix"));
    server.post("kv/deleterange", &json!({"key": base64(&key)}));
    let error = ids.assign(&Layout::UID_GENERATOR).expect_err("went back");
    let text = chain(&error);
    assert!(text.contains("worker id 1 was handed out before"), "{text}");
    let is_corrupt = |error: &ServerError| {
        matches!(error, ServerError::Server { kind: StoreErrorKind::Corrupt, .. })
    };
    assert!(error.store().is_some_and(is_corrupt), "{error:?}");
    // What docs/etcd.md says to do.
    let value = base64(r#"{"version":1,"base":5000}"#);
    server.post("kv/put", &json!({"key": base64(&key), "value": value}));
    assert_eq!(ids.assign(&Layout::UID_GENERATOR).expect("assigned"), 5_000);
}

#[test]
fn values_of_a_later_version_are_refused_and_left() {
    let server = Etcd::start();
    let store = fresh(&server);
    store.worker_ids().create().expect("made");
    let prefix = store.to_string();
    let key = format!("{}counter", prefix.split(' ').nth(1).expect("a prefix"));
    let value = base64(r#"{"version":2,"base":1}"#);
    server.post("kv/put", &json!({"key": base64(&key), "value": value}));
    let error = store.worker_ids().assign(&Layout::UID_GENERATOR).expect_err("later");
    assert!(error.to_string().contains("use the uidring that wrote it"), "{error}");
    let found = server.post("kv/range", &json!({"key": base64(&key)}));
    assert_eq!(found["kvs"][0]["value"], value);
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}
