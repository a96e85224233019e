//! The contract of leases.

use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use uidring::{Error, Layout};
use uidring_etcd::{EtcdStore, LeaseState, LeaseTable, TableError, WorkerTable};
use uidring_testkit::etcd::Etcd;
use uidring_testkit::{chain, request};

use crate::support::{fresh, generator, options, small, tick};

#[test]
fn those_that_are_held_are_not_had_and_disposable_ones_never_meet_them() {
    let server = Etcd::shared();
    let store = fresh(&server);
    assert_eq!(store.worker_ids().assign(&small()).expect("left"), 1);
    let leases = store.leases();
    let held = [0; 2].map(|_| leases.lease(&request(small()), &options()).expect("left"));
    assert_eq!(held.each_ref().map(|lease| lease.worker_id()), [2, 3]);
    let error = leases.lease(&request(small()), &options()).expect_err("none left");
    let Some(TableError::NoFreeWorkerId { shortage, .. }) = error.store() else {
        panic!("{error:?}")
    };
    assert_eq!(shortage.held, 2, "{error:?}");
    assert!(shortage.ends_in > Some(Duration::from_secs(100)), "{error:?}");
    assert_eq!(store.worker_ids().list().expect("listed").len(), 3);
    drop(held);
    assert_eq!(leases.lease(&request(small()), &options()).expect("free").worker_id(), 2);
}

#[test]
fn the_lease_of_a_dead_holder_is_had_after_its_length_and_no_sooner() {
    let server = Etcd::shared();
    let store = fresh(&server);
    let lasts = Duration::from_secs(2);
    let short = options().lasts(lasts).wait_for(Duration::from_secs(20));
    while store.worker_ids().assign(&small()).expect("left") < 2 {}
    let crashed = store.leases().lease(&request(small()), &short).expect("left");
    let id = crashed.worker_id();
    // Nobody renews it.
    std::mem::forget(crashed);
    let start = Instant::now();
    let next = store.leases().lease(&request(small()), &short).expect("free after a while");
    assert_eq!(next.worker_id(), id);
    let took = start.elapsed();
    assert!(took >= lasts + lasts / 10, "{took:?}");
    assert!(took < lasts * 3, "{took:?}");
}

#[test]
fn people_free_what_is_over_and_nothing_else() {
    let server = Etcd::shared();
    let store = fresh(&server);
    let leases = store.leases();
    let none = leases.release(1).expect_err("never leased");
    assert!(matches!(none.store(), Some(TableError::NoSuchLease { worker_id: 1, .. })), "{none:?}");
    let held = leases.lease(&request(small()), &options()).expect("left");
    let error = leases.release(1).expect_err("held");
    assert!(matches!(error.store(), Some(TableError::LeaseHeld { worker_id: 1, .. })), "{error:?}");
    leases.fence(1).expect("fenced");
    assert_eq!(leases.release(1).expect("over").state, LeaseState::Free);
    let error = held.release().expect_err("lost");
    assert!(matches!(error, Error::LeaseLost { worker_id: 1, .. }), "{error:?}");
}

#[test]
fn worker_ids_of_starts_that_ended_can_be_leased() {
    let server = Etcd::shared();
    let store = fresh(&server);
    while store.worker_ids().assign(&small()).expect("left") < 2 {}
    let (leases, until) = (store.leases(), "2026-06-01T00:00:00Z".parse().expect("a time"));
    let error = leases.reuse(1..=3, &small(), until).expect_err("3 is not used");
    assert!(
        matches!(error.store(), Some(TableError::NotReusable { worker_id: 3, .. })),
        "{error:?}"
    );
    leases.reuse(1..=2, &small(), until).expect("added");
    let lease = leases.lease(&request(small()), &options()).expect("free");
    assert_eq!(lease.worker_id(), 1);
    let after = lease.after().expect("used before");
    assert_eq!(small().time_of(tick(after)), until);
    let error = leases.lease(&request(Layout::SNOWFLAKE), &options()).expect_err("another layout");
    assert!(matches!(error.store(), Some(TableError::LeaseTableLayout { .. })), "{error:?}");
}

/// A value that somebody has damaged must not stop every start, and is named.
#[test]
fn a_damaged_lease_is_passed_over_and_named() {
    let server = Etcd::shared();
    for (right, wrong, words) in [
        ("\"token\":2", &b"\"token\":9223372036854775807"[..], "token is 9223372036854775807"),
        ("\"sequence\":", b"\"sequence\":99999", "horizon.sequence is 99999"),
        ("\"tick\":", b"\"tick\":-1", "horizon.tick is -1"),
        ("{", b"no JSON {", "is not JSON"),
        ("{", b"{\"no text\":\"\xff\",", "is not JSON"),
        ("\"version\":", b"\"other\":1", "lacks the number `version`"),
    ] {
        let store = fresh(&server);
        let leases = store.leases();
        drop(generator(&store, &options()));
        let prefix = store.to_string();
        let prefix = prefix.split(' ').next_back().expect("a prefix");
        let key = STANDARD.encode(format!("{prefix}leases/{:020}", 1));
        let found = server.post("kv/range", &json!({"key": key}));
        let value = found["kvs"][0]["value"].as_str().expect("a value");
        let value = String::from_utf8(STANDARD.decode(value).expect("base64")).expect("JSON");
        let (before, after) = value.split_once(right).expect(right);
        let after = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
        let value = [before.as_bytes(), wrong, after.as_bytes()].concat();
        server.post("kv/put", &json!({"key": key, "value": STANDARD.encode(value)}));
        let held = [0; 2].map(|_| leases.lease(&request(small()), &options()).expect("another"));
        assert_eq!(held.each_ref().map(|lease| lease.worker_id()), [2, 3]);
        for error in [
            leases.lease(&request(small()), &options()).map(drop).expect_err("none left"),
            leases.fence(1).map(drop).expect_err("damaged"),
        ] {
            let text = chain(&error);
            assert!(text.contains(&format!("{prefix}leases/")) && text.contains(words), "{text}");
        }
        let rows = leases.list().expect("listed");
        assert_eq!(rows.iter().map(|row| row.worker_id).collect::<Vec<_>>(), [2, 3]);
    }
}

/// A store below another's `nodes/` or `leases/` is refused: the upper one would read its keys as worker ids.
#[test]
fn a_store_below_the_keys_of_another_is_refused() {
    let server = Etcd::shared();
    for prefix in ["/shop/leases", "/nodes/", "/shop/nodes/x"] {
        let error = fresh(&server).prefix(prefix).map(drop).expect_err(prefix);
        assert!(chain(&error).contains("a part of it is `nodes` or `leases`"), "{error}");
        let url = format!("etcd://h{prefix}");
        let error = EtcdStore::from_url(&url).map(drop).expect_err(prefix);
        assert!(chain(&error).contains("a part `nodes` or `leases`"), "{error}");
    }
    // Written by hand, or by an earlier version.
    for below in ["nodes", "leases"] {
        for key in [
            "counter",
            "00000000000000000003/00000000000000000004",
            "x/nodes/00000000000000000004",
            "x/leases/00000000000000000004",
            "7",
        ] {
            let store = fresh(&server);
            let prefix = store.to_string();
            let prefix = prefix.split(' ').next_back().expect("a prefix");
            let key = format!("{prefix}{below}/{key}");
            let value = STANDARD.encode(json!({"version": 1, "base": 1}).to_string());
            server.post("kv/put", &json!({"key": STANDARD.encode(&key), "value": value}));
            let text = chain(&store.worker_ids().assign(&small()).expect_err("a foreign key"));
            assert!(
                text.contains(&format!("the key {key} does not belong to this store")),
                "{text}"
            );
            assert!(!text.contains("remove"), "{text}");
        }
    }
}

/// Its texts said that the counter was deleted, or that an older state was restored.
#[test]
fn a_counter_that_somebody_set_too_high_is_named() {
    let server = Etcd::shared();
    let store = fresh(&server);
    assert_eq!(store.worker_ids().assign(&small()).expect("left"), 1);
    let prefix = store.to_string();
    let prefix = prefix.split(' ').next_back().expect("a prefix");
    for base in [i64::MAX as u64, u64::MAX, 0] {
        let key = STANDARD.encode(format!("{prefix}counter"));
        let value = STANDARD.encode(json!({"version": 1, "base": base}).to_string());
        server.post("kv/put", &json!({"key": key, "value": value}));
        let text = chain(&store.worker_ids().assign(&small()).expect_err("too high"));
        assert!(text.contains(&format!("{prefix}counter is {base}, and has to be 1 to")), "{text}");
    }
}

#[test]
fn a_renewal_is_one_transaction() {
    let server = Etcd::start();
    let store = fresh(&server);
    let holder = generator(&store, &options().lasts(Duration::from_secs(3)));
    holder.next_uid().expect("ready");
    let counts = || {
        let requests = server.metric("grpc_server_handled_total{");
        let fsyncs = server.metric("etcd_disk_wal_fsync_duration_seconds_count");
        let revision = server.post("kv/range", &serde_json::json!({"key": "AA=="}));
        let revision = revision["header"]["revision"].as_str().map(str::parse::<f64>);
        [requests, fsyncs, revision.expect("a revision").expect("a number")]
    };
    let (before, begin) = (counts(), Instant::now());
    thread::sleep(Duration::from_secs(6));
    let mut looks = 0.0;
    let after = loop {
        looks += 1.0;
        let counts = counts();
        if counts[2] - before[2] >= 6.0 {
            break counts;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "it is not renewed");
        thread::sleep(Duration::from_millis(500));
    };
    let [requests, fsyncs, renewals] = [0, 1, 2].map(|number| after[number] - before[number]);
    eprintln!("renewals: {renewals}, requests: {requests}, fsyncs of the log: {fsyncs}");
    // Two renewals may be at the edges, and each look is a request.
    assert!(requests <= renewals + 2.0 + looks, "{requests} requests, {renewals} renewals");
    holder.next_uid().expect("held");
}
