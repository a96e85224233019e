//! What a server has to be like so that nothing comes twice, and what is said where it is not like that: each
//! a typed error, within its deadline, without the password.
#![cfg(unix)]

mod server;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use server::PostgresServers;
use uidring::segment::LoadError;
use uidring::{Layout, StoreErrorKind};
use uidring_postgres::{PostgresError, PostgresStore};
use uidring_store::WorkerTable;
use uidring_testkit::certificates::Authority;
use uidring_testkit::postgres::{Database, Postgres};
use uidring_testkit::servers::conditions::{self, create, use_all};
use uidring_testkit::{chain, servers};

const LAYOUT: Layout = Layout::SNOWFLAKE;

fn store_at(url: &str) -> PostgresStore {
    PostgresStore::from_url(url).expect("a URL")
}

/// The kind and text of a refusal, which comes within the deadline and does not tell the password.
fn refusal(store: &PostgresStore) -> (StoreErrorKind, String) {
    let begin = Instant::now();
    let error = store.worker_nodes().assign(&LAYOUT).expect_err("refused");
    assert!(begin.elapsed() < store_limit(), "{:?}", begin.elapsed());
    let Some(PostgresError::Server { kind, .. }) = error.store() else { panic!("{error:?}") };
    (*kind, servers::told(&error, store))
}

/// The deadline, and what a busy machine adds.
fn store_limit() -> Duration {
    Duration::from_secs(15)
}

fn table() -> Database {
    let database = Postgres::shared().database();
    create(&store_at(&database.url()));
    database
}

#[test]
fn who_is_not_let_in_is_told_why() {
    let database = table();
    let (user, port) = (database.user(), database.server().port());
    let address = format!("127.0.0.1:{port}");
    for (url, kind, words) in [
        (
            format!("postgres://{user}:wr0ng@{address}/{}", database.name()),
            StoreErrorKind::Denied,
            "check user and password",
        ),
        (
            format!("postgres://{user}@{address}/{}", database.name()),
            StoreErrorKind::Other,
            "check user and password",
        ),
        (database.url_of("nobody", &address), StoreErrorKind::Denied, "check user and password"),
        (
            format!("{}x", database.url()),
            StoreErrorKind::NotFound,
            "there is no such database; create it",
        ),
        (format!("{}?sslmode=require", database.url()), StoreErrorKind::Other, "offers none"),
    ] {
        let found = refusal(&store_at(&url));
        assert!(found.0 == kind && found.1.contains(words), "{words}: {found:?}");
    }
    database.administer(&format!("ALTER ROLE {user} NOLOGIN"));
    let (kind, text) = refusal(&store_at(&database.url()));
    assert!(kind == StoreErrorKind::Denied && text.contains("not permitted to log in"), "{text}");
    database.administer(&format!("ALTER ROLE {user} LOGIN CONNECTION LIMIT 0"));
    let hasty = store_at(&database.url()).deadline(Duration::from_secs(1));
    let (kind, text) = refusal(&hasty);
    assert!(kind == StoreErrorKind::Unreachable && text.contains("allow more"), "{text}");
    assert!(text.contains("attempts within 1s"), "{text}");
}

#[test]
fn a_missing_right_names_what_to_grant() {
    let database = table();
    let (user, name) = (format!("{}_poor", database.user()), database.name());
    let create = format!("CREATE ROLE {user} LOGIN PASSWORD '{}'", database.password());
    database.administer(&create);
    let url = database.url_of(&user, &format!("127.0.0.1:{}", database.server().port()));
    let [node, lease, segment] = use_all(&store_at(&url));
    for (text, right) in [
        (node, "an assignment needs SELECT and INSERT"),
        (lease, "a lease needs SELECT, INSERT and UPDATE"),
        (segment, "a load needs SELECT and UPDATE"),
    ] {
        assert!(text.as_ref().is_some_and(|text| text.contains(right)), "{text:?}");
    }
    database.administer(&format!("REVOKE CONNECT ON DATABASE {name} FROM PUBLIC"));
    let (kind, text) = refusal(&store_at(&url));
    assert!(kind == StoreErrorKind::Denied && text.contains("grant it CONNECT"), "{text}");
}

#[test]
fn a_server_that_takes_no_rows_names_the_primary() {
    let primary = Postgres::start();
    let database = primary.database();
    create(&store_at(&database.url()));
    let standby = primary.standby(&[]);
    let store = store_at(&database.url_at(&format!("127.0.0.1:{}", standby.port())));
    let (kind, text) = refusal(&store);
    assert!(kind == StoreErrorKind::Denied && text.contains("is a standby"), "{text}");
    assert!(text.contains("name the primary"), "{text}");
    // With both named, in either order.
    let [one, two] = [&standby, &primary].map(|server| format!("127.0.0.1:{}", server.port()));
    for hosts in [format!("{one},{two}"), format!("{two},{one}")] {
        assert_eq!(use_all(&store_at(&database.url_at(&hosts))), [None, None, None], "{hosts}");
    }
    // One that may be promoted yet is waited for.
    let store = store_at(&database.url_at(&format!("127.0.0.1:1,{one}")));
    let (kind, text) = refusal(&store.deadline(Duration::from_secs(1)));
    assert!(kind == StoreErrorKind::Unreachable && text.contains("no server takes rows"), "{text}");
    assert!(text.contains("attempts within 1s"), "{text}");
    let user = database.user();
    database.administer(&format!("ALTER ROLE {user} SET default_transaction_read_only = on"));
    let (kind, text) = refusal(&store_at(&database.url()));
    assert!(kind == StoreErrorKind::Denied && text.contains("default_transaction_read_only"));
    let loaded = servers::load(&mut store_at(&database.url()).segments(), "t");
    assert!(matches!(loaded, Err(LoadError::Store(_))), "it may change");
}

/// A small file system in memory, at a folder, until the end of a test.
struct Mounted(PathBuf);

impl Mounted {
    /// `None` where that is not allowed.
    fn new(folder: &Path) -> Option<Self> {
        let options = ["-t", "tmpfs", "-o", "size=1m", "tmpfs"];
        let done = Command::new("mount").args(options).arg(folder).status();
        done.is_ok_and(|done| done.success()).then(|| Self(folder.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let done = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(done.is_ok_and(|done| done.success()) || thread::panicking(), "unmounted");
    }
}

/// A file system of its own, so small that a few rows fill it.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_that_says_so() {
    let server = Postgres::start();
    let database = server.database();
    let folder = server.folder().join("small");
    fs::create_dir(&folder).expect("made");
    let _mounted =
        Mounted::new(&folder).expect("root, who alone mounts a file system: run as root");
    server.own(&folder);
    let place = format!("CREATE TABLESPACE small LOCATION '{}'", folder.display());
    server.execute(&place);
    let user = database.user();
    server.execute(&format!("GRANT CREATE ON TABLESPACE small TO {user}"));
    let store = store_at(&database.url());
    create(&store);
    for table in ["WORKER_NODE", "LEAF_ALLOC", "UIDRING_LEASE"] {
        database.execute(&format!("ALTER TABLE {table} SET TABLESPACE small"));
    }
    fs::write(folder.join("filler"), vec![0; 4 << 20]).expect_err("it is full");
    let mut full = None;
    for _ in 0..500 {
        if let Err(error) = store.worker_nodes().assign(&LAYOUT) {
            full = Some(error);
            break;
        }
    }
    let text = chain(&full.expect("no room for the next row"));
    assert!(text.contains("the server's disk is full; make room"), "{text}");
    fs::remove_file(folder.join("filler")).expect("removed");
    assert_eq!(use_all(&store), [None, None, None], "there is room again");
    server.stop();
}

#[test]
fn certificates_are_looked_at() {
    let server = Postgres::start();
    let folder = server.folder().to_owned();
    let authority = Authority::new(&folder);
    let others = folder.join("others");
    fs::create_dir(&others).expect("made");
    let other_authority = Authority::new(&others);
    let database = server.database();
    create(&store_at(&database.url()));
    let show = |certificate: &uidring_testkit::certificates::Certificate| {
        for path in [&certificate.certificate, &certificate.key] {
            server.own(path);
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            fs::set_permissions(path, mode).expect("set");
        }
        server.execute(&format!(
            "ALTER SYSTEM SET ssl_cert_file = '{}'",
            certificate.certificate.display()
        ));
        server.execute(&format!("ALTER SYSTEM SET ssl_key_file = '{}'", certificate.key.display()));
        server.set("ssl", "on");
    };
    let hosts = [format!("localhost:{}", server.port()), format!("127.0.0.1:{}", server.port())];
    let store = |host: &str| {
        let store = store_at(&database.url_at(host)).deadline(Duration::from_secs(5));
        store.tls_authority(authority.certificate()).expect("a certificate")
    };
    show(&authority.server());
    for host in &hosts {
        assert_eq!(use_all(&store(host)), [None, None, None], "{host}");
    }
    let url = format!(
        "{}?sslmode=verify-full&channel_binding=require&sslrootcert={}",
        database.url_at(&hosts[0]),
        authority.certificate().display()
    );
    assert_eq!(use_all(&store_at(&url)), [None, None, None], "bound to the channel");
    let wrong = store_at(&database.url()).tls_authority(other_authority.certificate());
    let (_, text) = refusal(&wrong.expect("a certificate"));
    assert!(text.contains("name the authority that signed"), "{text}");
    let (_, text) = refusal(&store_at(&database.url()).require_tls());
    assert!(text.contains("name the authority that signed"), "{text}");
    for (certificate, advice) in [
        (authority.expired(), "the server needs a new certificate"),
        (authority.stranger(), "use the host name that is in the certificate"),
        (authority.own(), "the server shows an authority's own certificate"),
        (authority.early(), "by this machine's clock the server's certificate is not valid yet"),
    ] {
        show(&certificate);
        let (_, text) = refusal(&store(&hosts[0]));
        assert!(text.contains(advice), "{text}");
    }

    // Now the server wants one, too, of the user's name, and no password.
    show(&authority.server());
    server.execute(&format!(
        "ALTER SYSTEM SET ssl_ca_file = '{}'",
        authority.certificate().display()
    ));
    server.let_in("local all postgres trust\nhostssl all all 127.0.0.1/32 cert\n");
    let (kind, text) = refusal(&store_at(&database.url()).deadline(Duration::from_secs(2)));
    assert!(kind == StoreErrorKind::Denied && text.contains("tls=verify"), "{text}");
    let (_, text) = refusal(&store(&hosts[1]));
    assert!(text.contains("the server wants a client's certificate"), "{text}");
    let with = |authority: &Authority, user: &str| {
        let shown = authority.client(user);
        let store = store(&hosts[1]);
        store.tls_certificate(shown.certificate, shown.key).expect("a certificate and its key")
    };
    assert_eq!(use_all(&with(&authority, &database.user())), [None, None, None]);
    let (_, text) = refusal(&with(&authority, "somebody"));
    assert!(text.contains("that names this user"), "{text}");
    let (_, text) = refusal(&with(&other_authority, &database.user()));
    assert!(text.contains("of an authority that it knows"), "{text}");
    let [one, two] = [authority.client("a"), authority.client("b")];
    let error = store(&hosts[1]).tls_certificate(one.certificate, two.key).expect_err("another's");
    assert!(chain(&error).contains("the key of another certificate"), "{}", chain(&error));
}

#[test]
fn settings_that_may_lose_commits_are_told_once_and_refused_on_demand() {
    conditions::settings_that_may_lose_commits_are_told_once_and_refused_on_demand::<PostgresServers>(
    );
}

#[test]
fn tables_say_their_version_and_a_later_one_is_refused() {
    conditions::tables_say_their_version_and_a_later_one_is_refused::<PostgresServers>();
}
