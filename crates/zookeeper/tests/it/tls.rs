//! Real servers with TLS: whom they and we trust, and what a refusal says.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use uidring::{Error, Layout, StoreErrorKind};
use uidring_store::ServerError;
use uidring_testkit::certificates::{Authority, Certificate};
use uidring_testkit::zookeeper::ZooKeeper;
use uidring_zookeeper::{Instance, LeafZooKeeper, TableError, ZooKeeperError, ZooKeeperServers};

use crate::leaf::{PATIENCE, acquired, chain, generator, wait_until};

/// Within it every refusal must be known, after a start of it on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

/// An authority of the test's own, and one that has signed nothing.
struct Authorities {
    ours: Authority,
    others: Authority,
    folders: [TempDir; 2],
}

impl Authorities {
    fn new() -> Self {
        let folders = [0; 2].map(|_| tempfile::tempdir().expect("a folder"));
        let [ours, others] = [&folders[0], &folders[1]].map(|folder| Authority::new(folder.path()));
        Self { ours, others, folders }
    }
}

fn secure(server: &ZooKeeper) -> String {
    format!("tls://127.0.0.1:{}", server.tls_port())
}

fn at(hosts: &str) -> ZooKeeperServers {
    let servers = ZooKeeperServers::new(hosts).expect("servers");
    servers.session_timeout(DEADLINE).connect_deadline(DEADLINE)
}

fn trusting(hosts: &str, authority: &Authority) -> ZooKeeperServers {
    at(hosts).tls_authority(authority.certificate()).expect("a certificate")
}

fn showing(servers: ZooKeeperServers, shown: &Certificate) -> ZooKeeperServers {
    servers.tls_certificate(&shown.certificate, &shown.key).expect("a pair")
}

fn registry(servers: ZooKeeperServers) -> LeafZooKeeper {
    let instance = Instance::new("a:1").expect("a name");
    LeafZooKeeper::new(servers.connect_deadline(PATIENCE), "orders", instance)
        .expect("a name")
        .no_cache_file()
}

/// What a start is refused with, by its deadline.
fn refused(servers: ZooKeeperServers) -> (StoreErrorKind, String) {
    let instance = Instance::new("a:1").expect("a name");
    let registry = LeafZooKeeper::new(servers, "orders", instance).expect("a name").no_cache_file();
    let start = Instant::now();
    let error = registry.lease(&Layout::SNOWFLAKE).expect_err("refused");
    let text = chain(&error);
    // Threads may wait for a processor.
    assert!(start.elapsed() < DEADLINE * 2, "{:?}: {text}", start.elapsed());
    match (error.store(), &error) {
        (Some(ZooKeeperError::Registry { kind, .. }), Error::Store(store)) => {
            assert_eq!(*kind, store.kind(), "{text}");
            (*kind, text)
        }
        _ => panic!("{error:?}"),
    }
}

fn denied(servers: ZooKeeperServers, words: &str) {
    let (kind, text) = refused(servers);
    assert!(kind == StoreErrorKind::Denied && text.contains(words), "{words}: {kind:?}, {text}");
}

#[test]
fn sessions_are_made_by_tls_and_nothing_of_a_wrong_authority_is_accepted() {
    let Authorities { ours, others, folders: _folders } = Authorities::new();
    let server = ZooKeeper::start_with_tls(&ours, &ours.server(), false, "");
    for host in ["127.0.0.1", "localhost"] {
        let hosts = format!("tls://{host}:{}", server.tls_port());
        let generator = generator(&registry(trusting(&hosts, &ours)));
        assert_eq!(generator.worker_id(), 1);
        generator.next_uid().expect("issued");
        let (port, ca) = (server.tls_port(), ours.certificate());
        let url = format!("zookeeper://{host}:{port}?name={host}&ca={}", ca.display());
        let by_url = LeafZooKeeper::from_url(&url, Instance::new("a:1").expect("a name"));
        let by_url = self::generator(&by_url.expect("a URL").no_cache_file());
        by_url.next_uid().expect("issued");
        let nodes = trusting(&hosts, &ours).leaf_nodes("orders").expect("listed");
        assert!(nodes.len() == 1 && nodes[0].is_live, "{nodes:?}");
        drop(generator);
        let is_live = || server.get("/snowflake/orders/temporary/a:1@bounded").is_some();
        wait_until("the name is free", || !is_live());
    }
    // A server that is up takes the place of one that is not.
    let two = format!("tls://127.0.0.1:1,{}", secure(&server));
    drop(generator(&registry(trusting(&two, &ours))));

    let unknown = "name the authority that signed the server's certificate";
    denied(trusting(&secure(&server), &others), unknown);
    // The system does not know the test's authority.
    denied(at(&secure(&server)), unknown);
    let (kind, text) = refused(trusting(&two, &others));
    assert_eq!(kind, StoreErrorKind::Unreachable, "the other one may come: {text}");
    assert!(text.contains(unknown) && text.contains(&server.tls_port().to_string()), "{text}");
}

#[test]
fn certificates_of_other_hosts_and_times_are_refused() {
    let Authorities { ours, folders: _folders, .. } = Authorities::new();
    for (shown, words) in [
        (ours.stranger(), "use the host name that is in the certificate"),
        (ours.expired(), "the server needs a new certificate"),
    ] {
        let server = ZooKeeper::start_with_tls(&ours, &shown, false, "");
        denied(trusting(&secure(&server), &ours), words);
    }
}

#[test]
fn a_server_may_want_a_certificate_of_the_client() {
    let Authorities { ours, others, folders: _folders } = Authorities::new();
    // This server's default is TLS 1.2. With 1.3 it refuses a client after the handshake.
    let later = "ssl.protocol=TLSv1.3\nssl.enabledProtocols=TLSv1.3\n\
                 ssl.ciphersuites=TLS_AES_128_GCM_SHA256";
    for settings in ["", later] {
        let server = ZooKeeper::start_with_tls(&ours, &ours.server(), true, settings);
        let right = ours.client("right");
        let servers = trusting(&secure(&server), &ours);
        let generator = generator(&registry(showing(servers.clone(), &right)));
        generator.next_uid().expect("issued");

        // A certificate is a user of its own to ZooKeeper.
        let file = right.certificate.with_extension("auth");
        fs::write(&file, "ids:s3cret").expect("writes");
        let with_user = showing(servers.clone(), &right).auth_file(&file).expect("a user");
        let instance = Instance::new("a:1").expect("a name");
        let users = LeafZooKeeper::new(with_user.connect_deadline(PATIENCE), "users", instance);
        drop(acquired(&users.expect("a name").no_cache_file()));
        let (acls, _) = server.run(async |client| {
            client.auth("digest", b"ids:s3cret").await?;
            client.get_acl("/snowflake/users").await
        });
        let mut schemes: Vec<_> = acls.iter().map(|acl| acl.scheme()).collect();
        schemes.sort_unstable();
        assert_eq!(schemes, ["digest", "x509"], "{acls:?}");

        let wants = "wants a client's certificate";
        denied(servers.clone(), wants);
        denied(showing(servers, &others.client("right")), wants);
    }
}

#[test]
fn a_port_without_tls_and_a_port_with_it_are_told_apart() {
    let Authorities { ours, folders: _folders, .. } = Authorities::new();
    let server = ZooKeeper::start_with_tls(&ours, &ours.server(), false, "");
    let (_, text) = refused(trusting(&format!("tls://{}", server.hosts()), &ours));
    assert!(text.contains("the server's port for TLS (secureClientPort)"), "{text}");

    let plain = at(&format!("127.0.0.1:{}", server.tls_port()));
    let error = plain.connect_deadline(Duration::from_secs(2)).leaf_nodes("orders");
    let text = chain(&error.expect_err("no answer"));
    assert!(text.contains("with it, write tls=verify"), "{text}");
}

/// What a file is refused for.
fn unusable(certificate: &Path, key: &Path) -> String {
    let error = at("tls://h:1").tls_certificate(certificate, key).expect_err("refused");
    let Some(TableError::DatabaseFile { .. }) = error.store() else { panic!("{error:?}") };
    chain(&error)
}

#[test]
fn files_and_hosts_are_looked_at_before_anything_is_done() {
    let Authorities { ours, folders: _folders, .. } = Authorities::new();
    let [one, two] = [ours.client("one"), ours.client("two")];
    let text = unusable(&one.certificate, &two.key);
    assert!(text.contains("key of another certificate") && text.contains("two.key"), "{text}");
    fs::set_permissions(&one.key, Permissions::from_mode(0o644)).expect("ours");
    let text = unusable(&one.certificate, &one.key);
    assert!(text.contains("others may read or change it (mode 644): chmod 6"), "{text}");
    let error = at("tls://h:1").tls_authority(&one.key).expect_err("no certificate");
    assert!(chain(&error).contains("no certificate in PEM form"), "{error:?}");

    let plain = at("h:1").tls_authority(ours.certificate()).expect_err("no TLS");
    assert!(plain.to_string().contains("they are without TLS; write HOST:PORT"), "{plain}");
    for wrong in
        ["tls://a..b:1", "tls://-:1", "tls://a%:1", "tls://[::1%eth0]:1", "tls://h/a,tls://b"]
    {
        let error = ZooKeeperServers::new(wrong).expect_err(wrong);
        let wrong = matches!(error.store(), Some(ServerError::Address { .. }));
        assert!(wrong, "{error:?}");
    }
    let servers = at("tls://zk1,tls://[::1]:2281/ids");
    assert_eq!(servers.to_string(), "tls://zk1,tls://[::1]:2281/ids");
}
