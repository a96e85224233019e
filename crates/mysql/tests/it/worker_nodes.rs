//! Worker ids from the table `WORKER_NODE` of a real server, by the library: what is assigned, and
//! what is refused.

use std::thread;
use std::time::Duration;

use uidring::Layout;
use uidring_mysql::{MySqlStore, MySqlWorkerNodes};
use uidring_store::WorkerTable;
use uidring_testkit::mariadb::{Database, MariaDb};
use uidring_testkit::servers::told;

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

fn refusal(nodes: &MySqlWorkerNodes) -> String {
    told(&nodes.assign(&LAYOUT).expect_err("refused"), nodes)
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
