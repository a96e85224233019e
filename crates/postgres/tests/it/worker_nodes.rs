//! Worker ids from the table `WORKER_NODE` of a real server: what is assigned, and what is refused.

use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime;
use uidring::{CachedUidGenerator, Layout};
use uidring_postgres::PostgresWorkerNodes;
use uidring_store::{TableError, WorkerTable};
use uidring_testkit::chain;
use uidring_testkit::docs;
use uidring_testkit::namespace::fresh;
use uidring_testkit::postgres::{Database, Postgres};
use uidring_testkit::proxy::{Proxy, Verdict};

use crate::support::{store, store_at, through};

const LAYOUT: Layout = Layout::UID_GENERATOR;

/// A fresh database with a fresh table.
fn table() -> (Database, PostgresWorkerNodes) {
    let database = Postgres::shared().database();
    let nodes = store(&database).worker_nodes();
    nodes.create().expect("created");
    (database, nodes)
}

fn ids(database: &Database) -> Vec<String> {
    database.column("SELECT ID FROM WORKER_NODE ORDER BY ID")
}

/// The text of a refusal, which must not tell the password.
fn refusal(nodes: &PostgresWorkerNodes) -> String {
    let error = nodes.assign(&LAYOUT).expect_err("refused");
    for text in [chain(&error), format!("{error:?}"), format!("{nodes:?}")] {
        assert!(!text.contains("p@ss") && !text.contains("%40"), "{text}");
    }
    chain(&error)
}

#[test]
fn a_missing_table_is_made_only_when_asked() {
    let database = Postgres::shared().database();
    let nodes = store(&database).worker_nodes();
    let text = refusal(&nodes);
    assert!(text.contains("does not exist") && text.contains("uidring worker init"), "{text}");
    let asked = nodes.create_table_if_missing(true);
    assert_eq!(asked.assign(&LAYOUT).expect("assigned"), 1);
    assert_eq!(asked.assign(&LAYOUT).expect("assigned"), 2);
    asked.create().expect("it is there, which is fine");
    let rows = asked.list().expect("listed");
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(rows[0].launch_date, rows[0].created[..10]);
    assert_eq!(rows[0].created.len(), "2026-01-01 00:00:00".len());
}

#[test]
fn the_table_of_the_docs_is_the_one_that_is_made() {
    let database = Postgres::shared().database();
    database.execute(&docs::block("postgresql.md", "CREATE TABLE worker_node"));
    let columns =
        "SELECT concat_ws(' ', column_name, data_type, character_maximum_length, is_nullable,
        is_identity, obj_description('worker_node'::regclass)) FROM information_schema.columns
        WHERE table_name = 'worker_node' ORDER BY ordinal_position";
    assert_eq!(database.column(columns), table().0.column(columns));
    assert_eq!(store(&database).worker_nodes().assign(&LAYOUT).expect("assigned"), 1);
}

/// Many starts at once make the table, and all of them get on.
#[test]
fn starts_that_make_the_table_at_once_do_not_meet() {
    let database = Postgres::shared().database();
    let nodes = store(&database).worker_nodes().create_table_if_missing(true);
    let mut assigned: Vec<u64> = thread::scope(|scope| {
        let starts: Vec<_> =
            (0..8).map(|_| scope.spawn(|| nodes.assign(&LAYOUT).expect("assigned"))).collect();
        starts.into_iter().map(|start| start.join().expect("no panic")).collect()
    });
    assigned.sort_unstable();
    assigned.dedup();
    assert_eq!(assigned.len(), 8);
}

#[test]
fn a_table_that_is_there_needs_no_right_to_make_one() {
    let (database, _) = table();
    let url = database.grant_as_docs_say("postgresql.md", "GRANT SELECT, INSERT ON worker_node");
    let nodes = store_at(&url).worker_nodes().create_table_if_missing(true);
    assert_eq!(nodes.assign(&LAYOUT).expect("assigned"), 1);
    let error = nodes.prune(Duration::ZERO).map(|_| ()).expect_err("no right");
    assert!(chain(&error).contains("pruning also DELETE"), "{}", chain(&error));
    database.execute("DROP TABLE WORKER_NODE");
    let text = refusal(&nodes);
    assert!(text.contains("needs CREATE on the schema"), "{text}");
}

#[test]
fn a_trigger_that_changes_the_key_later_is_refused() {
    let (database, nodes) = table();
    database.execute(
        "CREATE FUNCTION meddle() RETURNS TRIGGER LANGUAGE plpgsql AS
         'BEGIN UPDATE WORKER_NODE SET ID = 1000 WHERE ID = NEW.ID; RETURN NULL; END';
         CREATE CONSTRAINT TRIGGER meddle AFTER INSERT ON WORKER_NODE DEFERRABLE INITIALLY DEFERRED
         FOR EACH ROW EXECUTE FUNCTION meddle()",
    );
    let text = refusal(&nodes);
    assert!(text.contains("generated key 1") && text.contains("without triggers"), "{text}");
    assert!(nodes.list().expect("listed").is_empty(), "rolled back");
}

#[test]
fn assignments_work_within_runtimes() {
    let (_database, nodes) = table();
    for runtime in [
        runtime::Builder::new_current_thread().enable_all().build().expect("a runtime"),
        runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("one"),
    ] {
        let before = nodes.usage().expect("counted").rows;
        runtime.block_on(async { nodes.assign(&LAYOUT).expect("assigned within a task") });
        assert_eq!(nodes.usage().expect("counted").rows, before + 1);
    }
}

#[test]
fn a_key_over_the_maximum_names_row_and_maximum() {
    let (database, nodes) = table();
    database.execute("ALTER TABLE WORKER_NODE ALTER COLUMN ID RESTART WITH 1024");
    let error = nodes.assign(&Layout::SNOWFLAKE).expect_err("1,023 is the greatest");
    assert!(
        matches!(error.store(), Some(TableError::WorkerIdsUsedUp { next: 1_024, max: 1_023, .. })),
        "{error:?}"
    );
    assert!(ids(&database).is_empty(), "its row was rolled back");
}

#[test]
fn a_counter_that_went_backwards_is_refused() {
    let (database, nodes) = table();
    assert_eq!(nodes.assign(&LAYOUT).expect("assigned"), 1);
    database.execute("UPDATE WORKER_NODE SET ID = 1000");
    let text = refusal(&nodes);
    assert!(text.contains("key 2 ") && text.contains("greatest in WORKER_NODE, 1000"), "{text}");
    // Into the rows themselves: the server refuses for us.
    database.execute("ALTER TABLE WORKER_NODE ALTER COLUMN ID RESTART WITH 1000");
    let text = refusal(&nodes);
    assert!(text.contains("worker_node_pkey") && text.contains("RESTART WITH"), "{text}");
    database.execute("ALTER TABLE WORKER_NODE ALTER COLUMN ID RESTART WITH 1001");
    assert_eq!(nodes.assign(&LAYOUT).expect("mended"), 1_001);
    assert_eq!(ids(&database), ["1000", "1001"], "what was refused was rolled back");
}

#[test]
fn a_column_that_is_not_ours_is_refused() {
    let (database, nodes) = table();
    database.execute("ALTER TABLE WORKER_NODE DROP COLUMN HOST_NAME");
    let text = refusal(&nodes);
    assert!(text.contains("WORKER_NODE is not as `uidring worker init` makes it"), "{text}");
    database.execute("ALTER TABLE WORKER_NODE ADD COLUMN HOST_NAME TEXT");
    database.execute("ALTER TABLE WORKER_NODE ALTER COLUMN ID DROP IDENTITY");
    let text = refusal(&nodes);
    assert!(text.contains("null value in column"), "{text}");
}

/// Whatever a server or a user has for its defaults, a row is committed for good.
#[test]
fn servers_of_every_temper_commit_the_row() {
    for settings in [
        &["default_transaction_isolation=serializable", "synchronous_commit=off"][..],
        &["DateStyle=German, DMY", "TimeZone=Pacific/Apia", "IntervalStyle=iso_8601"],
        &["standard_conforming_strings=off", "client_min_messages=error"],
        &["idle_in_transaction_session_timeout=500", "lock_timeout=1"],
    ] {
        let server = Postgres::start_with(settings);
        let database = server.database();
        let nodes = store(&database).worker_nodes().create_table_if_missing(true);
        assert_eq!(nodes.assign(&LAYOUT).expect("assigned"), 1, "{settings:?}");
        server.kill();
        server.start_again();
        assert_eq!(ids(&database), ["1"], "{settings:?}");
        // The server leaves out a few that it had set aside.
        assert!(nodes.assign(&LAYOUT).expect("assigned") > 1, "{settings:?}");
        let row = &nodes.list().expect("listed")[0];
        assert!(row.launch_date.starts_with("20") && row.created.starts_with("20"), "{row:?}");
        assert!(nodes.usage().expect("counted").now.to_string().starts_with("20"));
        assert_eq!(nodes.prune(Duration::ZERO).expect("pruned").removed, 1, "{settings:?}");
        assert_eq!(ids(&database).len(), 1, "{settings:?}");
    }
}

#[test]
fn pruning_keeps_the_newest_row_and_the_counter() {
    let (database, nodes) = table();
    for id in 1..=5 {
        assert_eq!(nodes.assign(&LAYOUT).expect("assigned"), id);
    }
    let age = "UPDATE WORKER_NODE SET CREATED = NOW() - INTERVAL '2 days' WHERE ID <> 2";
    database.execute(age);
    let usage = nodes.usage().expect("counted");
    assert_eq!((usage.rows, usage.newest), (5, Some(5)));
    assert!(usage.per_day.is_some_and(|rate| (1.9..2.1).contains(&rate)), "{usage:?}");
    let done = nodes.prune(Duration::from_secs(86_400)).expect("pruned");
    assert_eq!((done.removed, done.newest), (3, Some(5)));
    assert_eq!(ids(&database), ["2", "5"]);
    assert_eq!(nodes.assign(&LAYOUT).expect("assigned"), 6);
    let fill =
        "INSERT INTO WORKER_NODE SELECT -number, 'h', '80', 1, NOW(), NOW() - INTERVAL '3 days',
                NOW() - INTERVAL '3 days' FROM GENERATE_SERIES(1, 20001) number";
    database.execute(fill);
    assert_eq!(nodes.prune(Duration::from_secs(86_400)).expect("pruned").removed, 20_002);
}

#[test]
fn deadlines_pass_with_a_text_that_tells_what_was_waited_for() {
    let (database, _) = table();
    let mute = Proxy::with(database.server().port(), |chunk| {
        if chunk.asks("INSERT INTO WORKER_NODE") { Verdict::Swallow } else { Verdict::Forward }
    });
    let deaf = Proxy::with(database.server().port(), |_| Verdict::Swallow);
    let is_locked = "connected, but a statement did not end within 1s; is WORKER_NODE locked";
    for (proxy, words) in [(mute, is_locked), (deaf, "no answer within 1s while connecting")] {
        let begin = Instant::now();
        let store = through(&database, &proxy).deadline(Duration::from_secs(1));
        let text = refusal(&store.worker_nodes());
        assert!(text.contains(words), "{text}");
        assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    }
    let not_postgres = Proxy::with(database.server().port(), |chunk| match chunk.answers() {
        true => Verdict::Forward,
        false => Verdict::Answer(b"J\0\0\0\x0a5.5.5\0"),
    });
    let text = refusal(&through(&database, &not_postgres).worker_nodes());
    assert!(text.contains("is this a PostgreSQL server?"), "{text}");
}

#[test]
fn the_generator_lives_without_the_server() {
    let server = Postgres::start();
    let nodes = store(&server.database()).worker_nodes().create_table_if_missing(true);
    let first = nodes.assign(&LAYOUT).expect("assigned");
    let generator = CachedUidGenerator::builder()
        .layout(LAYOUT)
        .worker_id(first)
        .namespace(fresh())
        .build()
        .expect("built");
    server.kill();
    for uid in generator.uids().take(100_000) {
        assert_eq!(generator.decode(uid.expect("taken")).expect("ours").worker_id, first);
    }
    let hasty = nodes.store().clone().deadline(Duration::from_secs(3)).worker_nodes();
    let text = refusal(&hasty);
    assert!(text.contains("is the server running?") && text.contains("within 3s"), "{text}");
    // A start that comes too early waits for the server.
    let late = thread::scope(|scope| {
        let patient = nodes.store().clone().deadline(Duration::from_secs(60)).worker_nodes();
        let late = scope.spawn(move || patient.assign(&LAYOUT));
        thread::sleep(Duration::from_millis(200));
        server.start_again();
        late.join().expect("no panic").expect("assigned")
    });
    assert!(late > first, "{late} after {first}");
}

#[test]
fn a_socket_stands_for_host_and_port_and_has_no_tls() {
    let (database, _) = table();
    let server = database.server();
    let folder = server.socket().display().to_string().replace('/', "%2F");
    let url = database.url_at(&format!("{folder}:{}", server.port()));
    assert_eq!(store_at(&url).worker_nodes().assign(&LAYOUT).expect("assigned"), 1);
    let text = refusal(&store_at(&format!("{url}?sslmode=require")).worker_nodes());
    assert!(text.contains("TLS was asked for, and a Unix socket has none"), "{text}");
    let elsewhere = database.url_at("%2Fnowhere").replace('?', "");
    let hasty = store_at(&elsewhere).deadline(Duration::from_secs(3));
    assert!(refusal(&hasty.worker_nodes()).contains("and the socket its own?"));
}
