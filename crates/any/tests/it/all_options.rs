//! Opens a URL of each engine with every option that the engine takes: a file, or a real server over TLS.

use std::collections::HashSet;
use std::path::Path;

use uidring_any::table::{GENERATORS, kinds};
use uidring_any::{Options, Verdict};
use uidring_testkit::certificates::Authority;
use uidring_testkit::etcd::Etcd;
use uidring_testkit::mariadb::MariaDb;
use uidring_testkit::postgres::Postgres;
use uidring_testkit::zookeeper::ZooKeeper;

use crate::doors::opened;

/// The options of generators with a ring, and of worker ids.
const GENERATOR: &str = "generator=cached&layout=31/10/22&namespace=all&boost-power=2&max-borrow=5m&max-lag=2s\
                         &order=ordered&max-start-wait=10s&on-clock-back=stay-ahead&take=5s";
const WORKER: &str = "worker=lease&lease=20s&lease-wait=1s";

/// Opens the store at this URL with these options of its engine and those of generators, and takes a uid. Together with
/// `elsewhere`, which cannot stand beside them, they are all options of the engine.
#[track_caller]
fn takes(url: &str, options: &str, elsewhere: &[&str], worker: &str) {
    let scheme = url.split(':').next().expect("a scheme");
    let kind = kinds().into_iter().find(|kind| kind.schemes.contains(&scheme)).expect("an engine");
    let named = options.split('&').filter_map(|option| option.split('=').next());
    let named: HashSet<_> = named.chain(elsewhere.iter().copied()).collect();
    let rows = kind.options.rows.iter().chain(GENERATORS[0].rows).map(|row| row.name);
    let missing: Vec<_> = rows
        .filter(|name| !named.contains(name) && !GENERATOR.contains(&format!("{name}=")))
        .collect();
    assert_eq!(missing, [""; 0], "{scheme}");
    let url = format!("{url}?{options}&{GENERATOR}{worker}");
    let read = || Options::from_url(&url).unwrap_or_else(|error| panic!("{scheme}: {error}"));
    if !kind.has_own_workers && !kind.is_file {
        let leases = read().store().expect("a store").lease_table(Default::default());
        leases.expect("leases").create().expect("creates");
        let examined = read().examine();
        let is_good = examined.findings.iter().all(|finding| finding.verdict == Verdict::Good);
        assert!(is_good, "{:#?}", examined.findings);
    }
    let generator = opened(|| read().open());
    let uid = generator.next_uid().expect("a uid");
    assert!(generator.decode(uid).is_ok(), "{scheme}");
}

/// The files of an authority and of a client, as options.
fn certificates(authority: &Authority) -> String {
    let client = authority.client("uidring");
    let shown = |path: &Path| path.display().to_string();
    format!(
        "tls=verify&ca={}&cert={}&key={}",
        shown(&authority.certificate()),
        shown(&client.certificate),
        shown(&client.key)
    )
}

#[test]
fn sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("w.db").display());
    takes(&url, "mode=rwc&foreign=true", &[], &format!("&{WORKER}"));
}

#[test]
fn mysql() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path());
    let tls = authority.arguments(&authority.server());
    let mut arguments: Vec<_> = tls.iter().map(|argument| &**argument).collect();
    arguments.push("--innodb-flush-log-at-trx-commit=1");
    let server = MariaDb::start_with(&arguments);
    let database = server.database();
    server.execute(&format!("ALTER USER {}@'%' REQUIRE X509", database.user()));
    let options = format!(
        "{}&cleartext-password=no&connect-timeout=5s&deadline=20s&durability=require&cluster=synchronous\
         &max-clock-difference=10s",
        certificates(&authority)
    );
    // With a lease nothing compares clocks, and a socket has no TLS.
    let leased = options.replace("&max-clock-difference=10s", "");
    let both = ["max-clock-difference", "socket"];
    takes(&database.url(), &leased, &both, &format!("&{WORKER}"));
    takes(&database.url(), &options, &["socket"], "&worker=disposable");
    server.execute(&format!("ALTER USER {}@'%' REQUIRE NONE", database.user()));
    let socket = server.socket();
    let options = format!(
        "tls=off&socket={}&{}",
        socket.display(),
        &leased[leased.find("clear").expect("it")..]
    );
    takes(
        &database.url(),
        &options,
        &["ca", "cert", "key", "max-clock-difference"],
        "&worker=disposable",
    );
}

#[test]
fn postgres() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path());
    let server = Postgres::start_with(&["fsync=on", "full_page_writes=on"]);
    let database = server.database();
    let shown = authority.server();
    for (name, path) in [
        ("ssl_cert_file", &shown.certificate),
        ("ssl_key_file", &shown.key),
        ("ssl_ca_file", &authority.certificate()),
    ] {
        server.own(path);
        server.execute(&format!("ALTER SYSTEM SET {name} = '{}'", path.display()));
    }
    server.set("ssl", "on");
    let options = format!(
        "{}&channel-binding=require&host=localhost&hostaddr=127.0.0.1&port={}&target_session_attrs=read-write\
         &connect-timeout=5s&deadline=20s&durability=require&cluster=synchronous&max-clock-difference=10s",
        certificates(&authority),
        server.port()
    );
    let leased = options.replace("&max-clock-difference=10s", "");
    let url = database.url_at("127.0.0.1:1");
    takes(&url, &leased, &["max-clock-difference"], &format!("&{WORKER}"));
    takes(&url, &options, &[], "&worker=disposable");
}

#[test]
fn etcd() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path());
    let server = Etcd::start_with_tls(&authority, &authority.server(), true);
    let options = format!("{}&deadline=20s", certificates(&authority));
    takes(&server.url("all"), &options, &[], &format!("&{WORKER}"));
}

#[test]
fn zookeeper() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path());
    let server = ZooKeeper::start_with_tls(&authority, &authority.server(), true, "");
    let url = format!("zookeeper://localhost:{}", server.tls_port());
    let options = format!(
        "{}&name=all&session-timeout=20s&max-outage=10s&outages=stop&cache=none&max-clock-difference=1m",
        certificates(&authority)
    );
    // The instance is the process's, which other tests need not name.
    let mut command = uidring_testkit::child::this_test("all_options::registered");
    command.env("UIDRING_INSTANCE", "web-0").env("UIDRING_ALL_OPTIONS", format!("{url} {options}"));
    assert!(command.status().expect("starts").success());
}

/// A process of [`zookeeper`].
#[test]
fn registered() {
    let Ok(given) = std::env::var("UIDRING_ALL_OPTIONS") else { return };
    let (url, options) = given.split_once(' ').expect("a URL and options");
    takes(url, options, &[], "");
}
