//! Worker ids from the table `WORKER_NODE` of a real server: what is assigned, and what is refused.

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use uidring::Layout;
use uidring_postgres::PostgresWorkerNodes;
use uidring_store::WorkerTable;
use uidring_testkit::docs;
use uidring_testkit::postgres::{Database, Postgres};
use uidring_testkit::proxy::{Proxy, Verdict};
use uidring_testkit::servers::told;

use crate::support::{store, store_at, through};

const LAYOUT: Layout = Layout::UID_GENERATOR;

/// A fresh database with a fresh table.
fn table() -> (Database, PostgresWorkerNodes) {
    let database = Postgres::shared().database();
    let nodes = store(&database).worker_nodes();
    nodes.create().expect("created");
    (database, nodes)
}

fn refusal(nodes: &PostgresWorkerNodes) -> String {
    told(&nodes.assign(&LAYOUT).expect_err("refused"), nodes)
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

/// The deadline also becomes a setting of the session, which the server stores as an i32 of milliseconds.
#[test]
fn a_deadline_may_be_as_long_as_one_likes() {
    let (database, _) = table();
    for deadline in [Duration::from_secs(25 * 86_400), Duration::MAX] {
        let nodes = store(&database).deadline(deadline).worker_nodes();
        nodes.assign(&LAYOUT).expect("assigned");
    }
}

#[test]
fn a_silent_host_does_not_hide_a_wrong_password() {
    let database = Postgres::shared().database();
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = silent.local_addr().expect("an address");
    let (user, name, port) = (database.user(), database.name(), database.server().port());
    for hosts in [format!("127.0.0.1:{port},{silent}"), format!("{silent},127.0.0.1:{port}")] {
        let url = format!("postgres://{user}:wrong@{hosts}/{name}?deadline=60s&connect_timeout=1s");
        let begin = Instant::now();
        let text = refusal(&store_at(&url).worker_nodes());
        assert!(text.contains("the login failed"), "{text}");
        assert!(begin.elapsed() < Duration::from_secs(20), "it is not tried again");
    }
}

#[test]
fn an_infinite_time_is_listed_and_counted() {
    let (database, nodes) = table();
    nodes.assign(&LAYOUT).expect("assigned");
    nodes.assign(&LAYOUT).expect("assigned");
    database.execute(
        "UPDATE WORKER_NODE SET CREATED = 'infinity', LAUNCH_DATE = 'infinity' WHERE ID = 1",
    );
    let listed = nodes.list().expect("listed");
    assert_eq!(
        (listed.len(), &*listed[0].created, &*listed[0].launch_date),
        (2, "infinity", "infinity")
    );
    assert_eq!(nodes.usage().expect("counted").rows, 2);
}
