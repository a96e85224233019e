//! Worker ids from a server that is slow, far off, or of another kind: deadlines and what is said
//! when they pass, clocks, addresses, sockets.

use std::io::Write;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use uidring::Layout;
use uidring::clock::{Clock, SystemClock};
use uidring_mysql::{MySqlError, MySqlStore, MySqlWorkerNodes};
use uidring_store::WorkerTable;
use uidring_testkit::certificates::Authority;
use uidring_testkit::chain;
use uidring_testkit::mariadb::{Database, MariaDb};
use uidring_testkit::proxy::{Proxy, Verdict};

const LAYOUT: Layout = Layout::UID_GENERATOR;

const INSERT: &str = "INSERT INTO WORKER_NODE";

fn server(url: &str) -> MySqlStore {
    MySqlStore::from_url(url).expect("a URL")
}

/// A fresh database with a fresh table.
fn table(server: &Arc<MariaDb>) -> Database {
    let database = server.database();
    nodes(&database.url()).create().expect("created");
    database
}

fn nodes(url: &str) -> MySqlWorkerNodes {
    server(url).worker_nodes()
}

/// The table by way of a proxy, with so many seconds for each thing to do.
fn within(seconds: u64, database: &Database, proxy: &Proxy) -> MySqlWorkerNodes {
    let url = database.url_at(&format!("127.0.0.1:{}", proxy.port()));
    server(&url).deadline(Duration::from_secs(seconds)).worker_nodes()
}

fn refusal(nodes: &MySqlWorkerNodes) -> String {
    chain(&nodes.assign(&LAYOUT).expect_err("refused"))
}

#[test]
fn a_statement_without_end_is_told_from_a_connection_without_answer() {
    let database = table(&MariaDb::shared());
    let mute = Proxy::after(database.server().port(), INSERT, || Verdict::Swallow);
    let text = refusal(&within(1, &database, &mute));
    assert!(text.contains("connected, but a statement did not end within 1s"), "{text}");
    assert!(text.contains("is WORKER_NODE locked"), "{text}");

    let deaf = Proxy::with(database.server().port(), |_| Verdict::Swallow);
    let text = refusal(&within(1, &database, &deaf));
    assert!(text.contains("no answer within 1s while connecting"), "{text}");
}

/// The last attempt finds no end; what the one before it met is the better hint.
#[test]
fn an_attempt_cut_short_does_not_hide_the_cause() {
    let database = table(&MariaDb::shared());
    for (text, wait) in [(INSERT, "waiting for a statement to end"), ("", "connecting")] {
        let proxy = Proxy::with(database.server().port(), move |chunk| match chunk.connection {
            0 if chunk.asks(INSERT) => Verdict::Cut,
            0 => Verdict::Forward,
            _ if chunk.answers() && text.is_empty() => Verdict::Swallow,
            _ if chunk.asks(INSERT) => Verdict::Swallow,
            _ => Verdict::Forward,
        });
        let text = refusal(&within(1, &database, &proxy));
        assert!(text.contains("the server closed the connection"), "{text}");
        let end = format!("given up after 2 attempts within 1s, in the last one {wait}");
        assert!(text.contains(&end), "{text}");
    }
}

/// 30,000 rows are three parts and the rest.
#[test]
fn pruning_counts_part_by_part() {
    let database = table(&MariaDb::shared());
    let fill = || {
        database.execute(
            "INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE, CREATED)
             SELECT 'h', '80', 1, '2020-01-01', '2020-01-01' FROM seq_1_to_30001",
        );
    };
    fill();
    let deletions = Arc::new(AtomicU32::new(0));
    // The second one is lost with its connection, and done again.
    let proxy = Proxy::with(database.server().port(), {
        let deletions = Arc::clone(&deletions);
        move |chunk| match chunk.asks("DELETE FROM WORKER_NODE") {
            true if deletions.fetch_add(1, Ordering::SeqCst) == 1 => Verdict::Cut,
            _ => Verdict::Forward,
        }
    });
    let done = within(10, &database, &proxy).prune(Duration::from_secs(60)).expect("pruned");
    assert_eq!((done.removed, done.newest), (30_000, Some(30_001)));
    assert_eq!(deletions.load(Ordering::SeqCst), 5);
    assert_eq!(database.query::<u64>("SELECT COUNT(*) FROM WORKER_NODE"), [1]);

    // Each part has the deadline for itself: four that are held up take longer together.
    fill();
    let hold_up = Duration::from_millis(1_200);
    let proxy = Proxy::with(database.server().port(), move |chunk| {
        match chunk.asks("DELETE FROM WORKER_NODE") {
            true => Verdict::Hold(hold_up),
            false => Verdict::Forward,
        }
    });
    let done = within(4, &database, &proxy).prune(Duration::from_secs(60)).expect("pruned");
    assert_eq!(done.removed, 30_001);

    // One that gets no answer ends it all.
    fill();
    let deletions = AtomicU32::new(0);
    let proxy = Proxy::with(database.server().port(), move |chunk| {
        match chunk.asks("DELETE FROM WORKER_NODE") {
            true if deletions.fetch_add(1, Ordering::SeqCst) >= 2 => Verdict::Swallow,
            _ => Verdict::Forward,
        }
    });
    let error = within(4, &database, &proxy).prune(Duration::from_secs(60)).expect_err("cut");
    let text = chain(&error);
    assert!(text.contains("did not end") && text.contains("rows removed before: 20000"), "{text}");
    assert_eq!(database.query::<u64>("SELECT COUNT(*) FROM WORKER_NODE"), [10_002]);
}

#[test]
fn clocks_that_differ_are_refused_before_the_insert() {
    let server = MariaDb::start();
    let database = table(&server);
    let strict =
        |seconds| nodes(&database.url()).max_clock_difference(Duration::from_secs(seconds));
    assert_eq!(strict(30).assign(&LAYOUT).expect("they agree"), 1);
    // Whatever the server takes for its local time.
    for zone in ["+00:00", "-11:00", "+13:00"] {
        for (shift, ahead) in [("+ 3600", true), ("- 3600", false)] {
            server.execute(&format!(
                "SET GLOBAL init_connect =
                 'SET time_zone = \"{zone}\", timestamp = UNIX_TIMESTAMP() {shift}'"
            ));
            let before = SystemClock.now();
            let error = strict(30).assign(&LAYOUT).expect_err("an hour");
            let Some(&MySqlError::ClockDiffers { ours, theirs, limit, .. }) = error.store() else {
                panic!("{error:?}");
            };
            assert!(before <= ours && ours <= SystemClock.now(), "{ours}");
            assert_eq!((theirs > ours, limit), (ahead, Duration::from_secs(30)));
            let apart = theirs.saturating_since(ours).max(ours.saturating_since(theirs));
            assert!((3_590..=3_610).contains(&apart.as_secs()), "{apart:?}");
            let text = chain(&error);
            assert!(
                text.contains("apart, where 30s is allowed; set the wrong one right"),
                "{text}"
            );
        }
    }
    let by_url = nodes(&format!("{}?max-clock-difference=30s", database.url()));
    let error = by_url.assign(&LAYOUT).expect_err("an hour");
    assert!(matches!(error.store(), Some(MySqlError::ClockDiffers { .. })), "{error:?}");
    assert_eq!(strict(3_660).assign(&LAYOUT).expect("it is allowed"), 2);
    assert_eq!(nodes(&database.url()).assign(&LAYOUT).expect("nobody looks"), 3);
}

#[test]
fn with_the_clock_an_assignment_still_reads_once() {
    let server = MariaDb::start();
    let database = table(&server);
    let strict = nodes(&database.url()).max_clock_difference(Duration::from_secs(30));
    server.log_statements();
    strict.assign(&LAYOUT).expect("assigned");
    let log = server.statements();
    assert_eq!(log.matches("SELECT MAX(ID), TIMESTAMPDIFF").count(), 1, "{log}");
    assert_eq!(log.matches("Execute\tINSERT INTO WORKER_NODE").count(), 1, "{log}");
}

#[test]
fn addresses_of_version_6() {
    if TcpListener::bind("[::1]:0").is_err() {
        return; // A host without them; what the driver is told has a test of its own.
    }
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path());
    let mut arguments = authority.arguments(&authority.server()).to_vec();
    arguments.push("--bind-address=::1,127.0.0.1".into());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let database = table(&MariaDb::start_with(&arguments));
    let address = format!("[::1]:{}", database.server().port());
    let server = server(&database.url_at(&address));
    assert_eq!(server.to_string(), format!("{address}/{}", database.name()));
    assert_eq!(server.worker_nodes().assign(&LAYOUT).expect("assigned"), 1);
    // With TLS as far as the certificate, which is not for this address.
    let tls = server.tls_authority(authority.certificate()).expect("a certificate");
    let text = refusal(&tls.worker_nodes());
    assert!(text.contains("TLS failed") && text.contains("not valid for name"), "{text}");
}

#[test]
fn a_socket_has_no_tls() {
    let database = table(&MariaDb::shared());
    let socket = database.server().socket().display().to_string().replace('/', "%2F");
    let url = format!("{}?socket={socket}", database.url());
    assert_eq!(nodes(&url).assign(&LAYOUT).expect("assigned"), 1);
    for server in [server(&url).require_tls(), server(&format!("{url}&tls=verify"))] {
        let text = refusal(&server.worker_nodes());
        assert!(text.contains("TLS was asked for, and a Unix socket has none"), "{text}");
    }
    assert_eq!(database.query::<u64>("SELECT COUNT(*) FROM WORKER_NODE"), [1]);
}

#[test]
fn what_speaks_something_else_is_given_up_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let greeter = thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        // Its first packet has the number 7.
        client.write_all(&[1, 0, 0, 7, b'?']).expect("writes");
        drop(listener);
    });
    let text = refusal(&nodes(&format!("mysql://u@{address}/d")));
    greeter.join().expect("no panic");
    assert!(text.contains("is this a MySQL server?") && !text.contains("given up"), "{text}");
}

/// The account's own limit: it passes when another connection ends.
#[test]
fn a_limit_of_connections_may_pass() {
    let server = MariaDb::start();
    let database = table(&server);
    let limit = "WITH MAX_USER_CONNECTIONS 1";
    server.execute(&format!("ALTER USER {}@'%' {limit}", database.user()));
    // It stays connected for as long as its answer is held, and the others meet it.
    let (release, held) = mpsc::channel();
    let proxy = Proxy::after(server.port(), "COMMIT", move || {
        held.recv().expect("released");
        Verdict::Forward
    });
    let slow = within(30, &database, &proxy);
    let count = format!("SELECT COUNT(*) FROM {}.WORKER_NODE", database.name());
    thread::scope(|scope| {
        let slow = scope.spawn(|| slow.assign(&LAYOUT).expect("assigned"));
        while server.query::<u64>(&count) == [0] {
            thread::sleep(Duration::from_millis(5));
        }
        let quick = nodes(&database.url());
        let hasty = self::server(&database.url()).deadline(Duration::from_secs(3));
        let text = refusal(&hasty.worker_nodes());
        assert!(text.contains("max_user_connections") && text.contains("attempts"), "{text}");
        assert!(text.contains("allow it more"), "{text}");
        release.send(()).expect("it waits");
        assert_eq!(quick.assign(&LAYOUT).expect("it passed"), 2);
        assert_eq!(slow.join().expect("no panic"), 1);
    });
}
