//! Worker ids from the table `WORKER_NODE` of a real server, by the library: what is assigned, and
//! what is refused.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime;
use uidring::{Bits, CachedUidGenerator, Layout, Tick, Timestamp};
use uidring_mysql::{MySqlStore, MySqlWorkerNodes};
use uidring_store::{TableError, WorkerTable};
use uidring_testkit::chain;
use uidring_testkit::mariadb::{Database, MariaDb};
use uidring_testkit::namespace::fresh;

/// As Baidu's users have it; only comments are left out.
const ORIGINAL_TABLE: &str = "CREATE TABLE WORKER_NODE (
    ID BIGINT NOT NULL AUTO_INCREMENT, HOST_NAME VARCHAR(64) NOT NULL, PORT VARCHAR(64) NOT NULL,
    TYPE INT NOT NULL, LAUNCH_DATE DATE NOT NULL, MODIFIED TIMESTAMP NOT NULL,
    CREATED TIMESTAMP NOT NULL, PRIMARY KEY(ID)) ENGINE = INNODB";

const LAYOUT: Layout = Layout::UID_GENERATOR;

fn nodes(database: &Database) -> MySqlWorkerNodes {
    MySqlStore::from_url(&database.url()).expect("a URL").worker_nodes()
}

/// A fresh database with a fresh table.
fn table() -> (Database, MySqlWorkerNodes) {
    let database = MariaDb::shared().database();
    let nodes = nodes(&database);
    nodes.create().expect("created");
    (database, nodes)
}

fn ids(database: &Database) -> Vec<i64> {
    database.query("SELECT ID FROM WORKER_NODE ORDER BY ID")
}

/// The text of a refusal, which must not tell the password.
fn refusal(nodes: &MySqlWorkerNodes) -> String {
    let error = nodes.assign(&LAYOUT).expect_err("refused");
    for text in [chain(&error), format!("{error:?}"), format!("{nodes:?}")] {
        assert!(!text.contains("p@ss") && !text.contains("%40"), "{text}");
    }
    chain(&error)
}

#[test]
fn the_original_table_goes_on_where_it_stands() {
    let database = MariaDb::shared().database();
    database.execute(&format!("/* as it was made long ago */ {ORIGINAL_TABLE}"));
    database
        .execute("INSERT INTO WORKER_NODE VALUES (4711, 'h', '80', 1, '2020-01-01', NOW(), NOW())");
    let nodes = nodes(&database);
    assert_eq!(nodes.assign(&LAYOUT).expect("assigned"), 4_712);
    nodes.create().expect("it is there, which is fine");
    assert_eq!(nodes.assign(&LAYOUT).expect("assigned"), 4_713);
    let rows = nodes.list().expect("listed");
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [4_711, 4_712, 4_713]);
    assert_eq!((&*rows[0].host_name, &*rows[0].port, rows[0].kind), ("h", "80", 1));
    assert_eq!(rows[0].launch_date, "2020-01-01");
    assert_eq!(rows[1].launch_date, rows[1].created[..10]);
    assert_eq!(rows[1].created.len(), "2026-01-01 00:00:00".len());
}

#[test]
fn a_missing_table_is_made_only_when_asked() {
    let database = MariaDb::shared().database();
    let nodes = nodes(&database);
    let text = refusal(&nodes);
    assert!(text.contains("1146") && text.contains("uidring worker init"), "{text}");
    assert!(database.query::<String>("SHOW TABLES").is_empty());
    let asked = nodes.create_table_if_missing(true);
    assert_eq!(asked.assign(&LAYOUT).expect("assigned"), 1);
    assert_eq!(asked.assign(&LAYOUT).expect("assigned"), 2);
}

#[test]
fn a_table_that_is_there_needs_no_right_to_make_one() {
    let (database, nodes) = table();
    let server = database.server();
    let nodes = nodes.create_table_if_missing(true);
    database.grant_as_docs_say("mysql.md", "GRANT SELECT, INSERT ON ids.WORKER_NODE");
    assert_eq!(nodes.assign(&LAYOUT).expect("assigned"), 1);
    server.execute(&format!("DROP TABLE {}.WORKER_NODE", database.name()));
    let text = refusal(&nodes);
    assert!(text.contains("CREATE command denied") && text.contains("needs CREATE"), "{text}");
}

#[test]
fn assignments_work_within_runtimes() {
    let (_database, nodes) = table();
    let nodes = Arc::new(nodes);
    for runtime in [
        runtime::Builder::new_current_thread().enable_all().build().expect("a runtime"),
        runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("one"),
    ] {
        let before = nodes.usage().expect("counted").rows;
        let builds: Vec<_> = (0..8)
            .map(|_| {
                let source = Arc::clone(&nodes);
                // As an asynchronous program builds its generators.
                runtime.spawn_blocking(move || {
                    CachedUidGenerator::builder().layout(LAYOUT).worker_from(source).build()
                })
            })
            .collect();
        let inside = {
            let _inside = runtime.enter();
            nodes.assign(&LAYOUT).expect("assigned")
        };
        let nested = Arc::clone(&nodes);
        let nested = runtime
            .block_on(async move { nested.assign(&LAYOUT).expect("assigned within a task") });
        let mut all = BTreeSet::from([inside, nested]);
        for build in builds {
            let generator = runtime.block_on(build).expect("no panic").expect("built");
            all.insert(generator.stats().worker_id);
        }
        assert_eq!(all.len(), 10);
        assert_eq!(nodes.usage().expect("counted").rows, before + 10);
    }
}

#[test]
fn the_generator_lives_without_the_server() {
    let server = MariaDb::start();
    let nodes = nodes(&server.database()).create_table_if_missing(true);
    let first = nodes.assign(&LAYOUT).expect("assigned");
    let generator = CachedUidGenerator::builder()
        .layout(LAYOUT)
        .worker_id(first)
        .namespace(fresh())
        .build()
        .expect("built");
    server.kill();
    for uid in generator.uids().take(1_000_000) {
        assert_eq!(generator.decode(uid.expect("taken")).expect("ours").worker_id, first);
    }
    let patient = nodes.store().clone().deadline(Duration::from_secs(3)).worker_nodes();
    let text = refusal(&patient);
    assert!(text.contains("refused") && text.contains("attempts within 3s"), "{text}");

    // A start that comes too early waits for the server.
    let late = thread::scope(|scope| {
        let late = scope.spawn(|| nodes.assign(&LAYOUT));
        thread::sleep(Duration::from_millis(200));
        server.start_again();
        late.join().expect("no panic").expect("assigned")
    });
    assert!(late > first, "{late} after {first}");
}

#[test]
fn a_key_over_the_maximum_names_row_and_maximum() {
    let (database, nodes) = table();
    database.execute("ALTER TABLE WORKER_NODE AUTO_INCREMENT = 1024");
    let error = nodes.assign(&Layout::SNOWFLAKE).expect_err("1,023 is the greatest");
    assert!(
        matches!(error.store(), Some(TableError::WorkerIdsUsedUp { next: 1_024, max: 1_023, .. })),
        "{error:?}"
    );
    let text = chain(&error);
    for word in ["1024", "reuse FIRST LAST ", "more worker bits", "earlier epoch", &database.name()]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(ids(&database).is_empty(), "its row was rolled back");
    let tiny = Bits { time: 40, worker: 1, sequence: 10 };
    let tiny = Layout::new(tiny, Tick::Second, Timestamp::default()).expect("possible");
    let usage = nodes.usage().expect("counted");
    assert_eq!((usage.rows, usage.left(&tiny)), (0, 1));
}

#[test]
fn without_a_generated_key_there_is_no_worker() {
    let database = MariaDb::start_with(&["--sql-mode="]).database();
    database.execute(&ORIGINAL_TABLE.replace("AUTO_INCREMENT,", ","));
    let text = refusal(&nodes(&database));
    assert!(text.contains("no generated key") && text.contains("AUTO_INCREMENT"), "{text}");
    assert!(ids(&database).is_empty(), "the row with ID 0 was rolled back");
}

#[test]
fn a_strict_server_says_that_the_key_is_missing() {
    let database = MariaDb::shared().database();
    database.execute(&format!(
        "SET STATEMENT sql_mode = '' FOR {}",
        ORIGINAL_TABLE.replace("AUTO_INCREMENT,", ",")
    ));
    let text = refusal(&nodes(&database));
    assert!(text.contains("1364") && text.contains("Baidu's script"), "{text}");
}

/// What MySQL's servers did when rows were changed by hand, this one has to be told.
#[test]
fn a_counter_that_went_backwards_is_refused() {
    let server = MariaDb::start();
    let database = server.database();
    let nodes = nodes(&database).create_table_if_missing(true);
    assert_eq!(nodes.assign(&LAYOUT).expect("assigned"), 1);
    database.execute("UPDATE WORKER_NODE SET ID = 1000");
    server.execute("SET GLOBAL init_connect = 'SET INSERT_ID = 2'");
    let text = refusal(&nodes);
    assert!(text.contains("key 2 ") && text.contains("greatest in WORKER_NODE, 1000"), "{text}");
    // Into the rows themselves: the server refuses for us.
    server.execute("SET GLOBAL init_connect = 'SET INSERT_ID = 1000'");
    let text = refusal(&nodes);
    assert!(text.contains("1062") && text.contains("ALTER TABLE"), "{text}");
    server.execute("SET GLOBAL init_connect = ''");
    assert_eq!(ids(&database), [1_000], "what was refused was rolled back");
    assert_eq!(nodes.assign(&LAYOUT).expect("mended"), 1_001);
}

#[test]
fn primaries_that_count_in_steps_give_distinct_ids() {
    let primaries = [1, 2].map(|offset| {
        let steps = ["--auto-increment-increment=2", &format!("--auto-increment-offset={offset}")];
        MariaDb::start_with(&steps).database()
    });
    let tables = primaries.each_ref().map(|primary| nodes(primary).create_table_if_missing(true));
    let assign = |nodes: &MySqlWorkerNodes| nodes.assign(&LAYOUT).expect("assigned");
    let ids: Vec<_> = (0..6).map(|i| assign(&tables[i % 2])).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn servers_of_every_temper_commit_the_row() {
    for arguments in [
        &["--autocommit=0", "--sql-mode="][..],
        &[
            "--sql-mode=STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ANSI_QUOTES,ONLY_FULL_GROUP_BY",
        ],
        &["--sql-mode=ORACLE", "--explicit-defaults-for-timestamp=OFF"],
        &["--completion-type=CHAIN", "--transaction-isolation=SERIALIZABLE"],
        // Together they refuse to insert below REPEATABLE READ.
        &[
            "--log-bin=log",
            "--server-id=1",
            "--binlog-format=STATEMENT",
            "--transaction-isolation=READ-COMMITTED",
        ],
    ] {
        let server = MariaDb::start_with(arguments);
        let database = server.database();
        let nodes = nodes(&database).create_table_if_missing(true);
        assert_eq!(nodes.assign(&LAYOUT).expect("assigned"), 1, "{arguments:?}");
        server.kill();
        server.start_again();
        assert_eq!(ids(&database), [1], "{arguments:?}");
        assert_eq!(nodes.assign(&LAYOUT).expect("assigned"), 2, "{arguments:?}");
        assert_eq!(nodes.prune(Duration::ZERO).expect("pruned").removed, 1, "{arguments:?}");
        assert_eq!(ids(&database), [2], "{arguments:?}");
    }
}

#[test]
fn pruning_keeps_the_newest_row_and_the_counter() {
    let server = MariaDb::start();
    let database = server.database();
    let nodes = nodes(&database).create_table_if_missing(true);
    for id in 1..=5 {
        assert_eq!(nodes.assign(&LAYOUT).expect("assigned"), id);
    }
    database.execute("UPDATE WORKER_NODE SET CREATED = NOW() - INTERVAL 2 DAY WHERE ID != 2");
    let usage = nodes.usage().expect("counted");
    assert_eq!((usage.rows, usage.newest), (5, Some(5)));
    assert!(usage.per_day.is_some_and(|rate| (1.9..2.1).contains(&rate)), "{usage:?}");
    let day = Duration::from_secs(86_400);
    let done = nodes.prune(day).expect("pruned");
    assert_eq!((done.removed, done.newest), (3, Some(5)));
    assert_eq!(ids(&database), [2, 5]);
    server.stop();
    server.start_again();
    assert_eq!(nodes.assign(&LAYOUT).expect("assigned"), 6);
    let ever = nodes.prune(Duration::MAX).expect("100 years at most");
    assert_eq!((ever.removed, ever.newest), (0, Some(6)));
    database.execute("DELETE FROM WORKER_NODE");
    let empty = nodes.prune(day).expect("nothing to do");
    assert_eq!((empty.removed, empty.newest), (0, None));
}

/// Also with times of milliseconds, whose seconds are no whole numbers.
#[test]
fn the_rate_is_that_of_the_last_30_days() {
    let (database, nodes) = table();
    database.execute("ALTER TABLE WORKER_NODE MODIFY CREATED TIMESTAMP(3) NOT NULL");
    let start = |id: i64, age: &str| {
        database.execute(&format!(
            "INSERT INTO WORKER_NODE
             VALUES ({id}, 'h', '80', 1, UTC_DATE(), NOW(), NOW(3) - INTERVAL {age})"
        ));
        nodes.usage().expect("counted").per_day
    };
    assert_eq!(nodes.usage().expect("counted").per_day, None);
    assert_eq!(start(20, "300 DAY"), Some(0.0));
    assert_eq!(start(60, "2 HOUR"), Some(40.0 / 30.0));
    assert_eq!(start(120, "1 HOUR"), Some(100.0 / 30.0));
    database.execute("DELETE FROM WORKER_NODE WHERE ID < 120");
    assert_eq!(nodes.usage().expect("counted").per_day, None, "a single start tells nothing");
    let rate = start(130, "0 HOUR").expect("two tell");
    assert!((230.0..=240.0).contains(&rate), "{rate}");
    assert_eq!(nodes.list().expect("listed")[0].created.len(), "2026-01-01 00:00:00.000".len());
}

#[test]
fn an_assignment_inserts_once_and_reads_once() {
    let server = MariaDb::start();
    let database = server.database();
    let nodes = nodes(&database).create_table_if_missing(true);
    nodes.assign(&LAYOUT).expect("assigned");
    let nodes = nodes.create_table_if_missing(false);
    server.log_statements();
    nodes.assign(&LAYOUT).expect("assigned");
    // The server hears of the end a little later than we say it.
    let mut log = server.statements();
    for _ in 0..100 {
        if log.contains("COMMIT") && log.trim_end().ends_with("Quit") {
            break;
        }
        thread::sleep(Duration::from_millis(20));
        log = server.statements();
    }
    assert!(log.trim_end().ends_with("Quit"), "the connection is closed: {log}");
    let count = |words: &str| log.matches(words).count();
    assert_eq!(count(&format!("Connect\t{}", database.user())), 1, "{log}");
    assert_eq!(count("Execute\tINSERT INTO WORKER_NODE"), 1, "{log}");
    assert_eq!(count("Query\tSELECT MAX(ID)"), 1, "{log}");
    assert_eq!(
        count("Query\t"),
        8,
        "the session's level and variables, the server's settings and its table, the transaction's begin, the \
         SELECT, a look at the new row, its end: {log}"
    );
}
