//! What is refused, with the remedy and within the deadline.

use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};
use std::{fs, thread};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use uidring::{Error, Layout, StoreErrorKind};
use uidring_etcd::{EtcdStore, LeaseTable, WorkerTable};
use uidring_testkit::certificates::Authority;
use uidring_testkit::etcd::Etcd;
use uidring_testkit::{chain, request};

use crate::support::{fresh, options, small};

fn assign(store: &EtcdStore) -> Result<u64, Error> {
    store.worker_ids().assign(&Layout::UID_GENERATOR)
}

/// The error's text, whose kind must be this.
fn refused(store: &EtcdStore, kind: StoreErrorKind) -> String {
    let error = assign(store).expect_err("refused");
    let text = chain(&error);
    let Error::Store(error) = &error else { panic!("{error:?}") };
    assert_eq!(error.kind(), kind, "{text}");
    assert!(!format!("{text} {error:?}").contains("s3cret"), "{text}");
    text
}

#[test]
fn users_need_a_password_and_rights_and_log_in_again_after_a_restart() {
    let server = Etcd::start();
    let folder = tempfile::tempdir().expect("a folder");
    let login = |store: EtcdStore, text: &str| {
        let path = folder.path().join("auth");
        fs::write(&path, text).expect("writes");
        store.auth_file(&path).expect("user and password")
    };
    let store = EtcdStore::new(&server.endpoints()).expect("endpoints");
    let right = login(store.clone(), "ids:s3cret");
    let text = refused(&right, StoreErrorKind::Invalid);
    assert!(text.contains("leave out user and password"), "{text}");

    for user in ["root", "ids"] {
        server.post("auth/user/add", &json!({"name": user, "password": "s3cret"}));
        server.post("auth/role/add", &json!({"name": user}));
        server.post("auth/user/grant", &json!({"user": user, "role": user}));
    }
    let [key, end] = ["/uidring/", "/uidring0"].map(|text| STANDARD.encode(text));
    let rights = json!({"permType": "READWRITE", "key": key, "range_end": end});
    server.post("auth/role/grant", &json!({"name": "ids", "perm": rights}));
    server.post("auth/enable", &json!({}));

    let text = refused(&store, StoreErrorKind::Denied);
    assert!(text.contains("needs user and password"), "{text}");
    let text = refused(&login(store, "ids:s3cret2"), StoreErrorKind::Denied);
    assert!(text.contains("check user and password"), "{text}");
    let elsewhere = right.clone().prefix("/other").expect("a prefix");
    let text = refused(&elsewhere, StoreErrorKind::Denied);
    assert!(text.contains("grant the user's role"), "{text}");
    assert_eq!(assign(&right).expect("allowed"), 1);

    // The server forgets its tokens.
    let lease = right.leases().lease(&request(small()), &options()).expect("left");
    server.kill();
    server.start_again();
    lease.release().expect("logs in again");
}

#[test]
fn tls_needs_the_right_certificates_on_both_sides() {
    let [ours, other] = [0; 2].map(|_| tempfile::tempdir().expect("a folder"));
    let [authority, others] = [&ours, &other].map(|folder| Authority::new(folder.path()));
    let server = Etcd::start_with_tls(&authority, &authority.server(), true);
    let client = authority.client("uidring");
    let at = |endpoints: &str| EtcdStore::new(endpoints).expect("endpoints");
    let trusting = |authority: &Authority| {
        let store = at(&server.endpoints()).deadline(Duration::from_secs(5));
        store.tls_authority(authority.certificate()).expect("a certificate")
    };
    let shown = |store: EtcdStore| store.tls_client(&client.certificate, &client.key);
    assert_eq!(assign(&shown(trusting(&authority)).expect("a pair")).expect("allowed"), 1);
    let hosts = server.endpoints().replace("https://", "");
    let (ca, cert, key) = (authority.certificate(), &client.certificate, &client.key);
    let [ca, cert, key] = [ca.display(), cert.display(), key.display()];
    let url = format!("etcd://{hosts}/by/url?ca={ca}&cert={cert}&key={key}&deadline=5s");
    let store = EtcdStore::from_url(&url).expect("a URL");
    assert_eq!(assign(&store).expect("allowed"), 1, "the first of this prefix");
    for (store, words) in [
        (at(&server.endpoints()), "TLS failed"),
        (shown(trusting(&others)).expect("a pair"), "TLS failed"),
    ] {
        let text = refused(&store, StoreErrorKind::Denied);
        assert!(text.contains(words), "{text}");
    }
    // The connection may break before the server has said why.
    let error = assign(&trusting(&authority)).expect_err("no certificate of the client's");
    assert!(error.to_string().contains("a client's certificate"), "{error}");
    // The server wants TLS, and the client has none.
    let plain = at(&server.endpoints().replace("https", "http")).deadline(Duration::from_secs(2));
    let text = refused(&plain, StoreErrorKind::Unreachable);
    assert!(text.contains("do they have TLS (tls=verify"), "{text}");
    let wrong = trusting(&authority).tls_client(&client.key, &client.certificate);
    assert!(chain(&wrong.expect_err("the wrong way round")).contains("no certificate"));
}

#[test]
fn certificates_of_other_hosts_and_times_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path());
    for (shown, words) in [
        (authority.stranger(), "use the host name that is in the certificate"),
        (authority.expired(), "has expired"),
        (authority.own(), "an authority's own certificate"),
    ] {
        let server = Etcd::start_with_tls(&authority, &shown, false);
        let store = EtcdStore::new(&server.endpoints()).expect("endpoints");
        let store = store.tls_authority(authority.certificate()).expect("a certificate");
        let text = refused(&store, StoreErrorKind::Denied);
        assert!(text.contains("TLS failed") && text.contains(words), "{text}");
    }
}

#[test]
fn a_full_database_names_the_remedy() {
    let server = Etcd::start_with(&["--quota-backend-bytes=300000"]);
    let store = fresh(&server);
    assign(&store).expect("room");
    let value = STANDARD.encode([0; 100_000]);
    let full = |number: usize| {
        let put = json!({"key": STANDARD.encode(number.to_string()), "value": value});
        server.ask("kv/put", &put).is_err()
    };
    assert!((0..50).any(full), "it is never full");
    let error = assign(&store).expect_err("full");
    assert!(error.to_string().contains("its database is full"), "{error:?}");
    assert!(error.to_string().contains("etcdctl alarm disarm"), "{error}");
}

#[test]
fn a_server_without_the_gateway_or_that_is_no_etcd_says_what_is_needed() {
    let server = Etcd::start_with(&["--enable-grpc-gateway=false"]);
    let text = refused(&fresh(&server), StoreErrorKind::NotFound);
    assert!(text.contains("etcd 3.4 or later") && text.contains("--enable-grpc-gateway"), "{text}");
}

#[test]
fn nobody_there_and_nobody_who_answers_end_at_the_deadline() {
    let deadline = Duration::from_secs(1);
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = free.local_addr().expect("bound").port();
    drop(free);
    let server = Etcd::start();
    let frozen = fresh(&server).deadline(deadline);
    server.freeze();
    let away = EtcdStore::new(&format!("127.0.0.1:{port}")).expect("endpoints").deadline(deadline);
    for (store, kind, words) in [
        (&away, StoreErrorKind::Unreachable, "are its members running"),
        (&frozen, StoreErrorKind::TimedOut, "no answer within 1s"),
    ] {
        let start = Instant::now();
        let text = refused(store, kind);
        assert!(text.contains(words), "{text}");
        assert!(start.elapsed() < deadline * 3, "{:?}", start.elapsed());
    }
    // One of several endpoints is enough.
    let both = format!("127.0.0.1:{port},{}", server.endpoints());
    server.thaw();
    thread::sleep(Duration::from_millis(100));
    for _ in 0..4 {
        assign(&EtcdStore::new(&both).expect("endpoints")).expect("the other answers");
    }
}
