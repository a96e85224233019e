//! What a server has to be like so that nothing comes twice: settings that keep what is committed,
//! tables of a known version.
#![cfg(unix)]

use uidring::segment::{LoadError, SegmentRequest, SegmentStore};
use uidring::{Error, Layout};
use uidring_mysql::MySqlStore;
use uidring_store::{LeaseOptions, LeaseTable, NewSegmentTag, SegmentTable, WorkerTable};
use uidring_testkit::log::Log;
use uidring_testkit::mariadb::{Database, MariaDb};
use uidring_testkit::{chain, request};

fn layout() -> Layout {
    Layout::SNOWFLAKE
}

fn server_at(database: &Database) -> MySqlStore {
    MySqlStore::from_url(&database.url()).expect("a URL")
}

/// Makes all tables, with a tag.
fn create(server: &MySqlStore) {
    server.leases().create().expect("made");
    let segments = server.segments().create_table_if_missing(true);
    segments.create_tag(&NewSegmentTag::new("t", 10).expect("allowed")).expect("created");
}

fn load(server: &MySqlStore) -> Result<u64, LoadError> {
    let mut done = None;
    let wanted = [SegmentRequest { tag: "t".into(), step: 10 }];
    server.segments().load(&wanted, &mut |_, result| done = Some(result));
    done.expect("handed over").map(|range| range.start)
}

/// Does all that ids hang on, and returns what was refused.
fn use_all(server: &MySqlStore) -> [Option<String>; 3] {
    let nodes = server.worker_nodes();
    let assigned = WorkerTable::assign(&nodes, &layout());
    let leased = server.leases().lease(&request(layout()), &LeaseOptions::default());
    [
        assigned.err().map(|error| chain(&error)),
        leased.err().map(|error| chain(&error)),
        load(server).err().map(|error| chain(&error)),
    ]
}

const FLUSH: &str = "--innodb-flush-log-at-trx-commit=1";

/// One test, since the log is the process's.
#[test]
fn settings_that_may_lose_commits_are_told_once_and_refused_on_demand() {
    let log = Log::start();
    for (settings, risk) in [
        (&["--log-bin", "--sync-binlog=0", FLUSH] as &[&str], Some("sync_binlog = 1")),
        (&["--log-bin", "--sync-binlog=100", FLUSH], Some("sync_binlog = 1")),
        (&["--innodb-flush-log-at-trx-commit=0"], Some("innodb_flush_log_at_trx_commit = 1")),
        (&["--innodb-flush-log-at-trx-commit=2"], Some("innodb_flush_log_at_trx_commit = 1")),
        (&["--log-bin", "--sync-binlog=1", FLUSH], None),
        (&["--log-bin", "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=3"], None),
        // Without the binary log there is nothing to be synced.
        (&["--skip-log-bin", "--sync-binlog=0", FLUSH], None),
    ] {
        let database = MariaDb::start_with(settings).database();
        log.clear();
        let server = server_at(&database);
        create(&server);
        assert_eq!(use_all(&server), [None, None, None], "{settings:?}");
        assert_eq!(use_all(&server), [None, None, None], "{settings:?}");
        assert_eq!(log.lines("ids come twice"), usize::from(risk.is_some()), "{}", log.text());
        let Some(risk) = risk else {
            assert_eq!(use_all(&server.require_durability()), [None, None, None], "{settings:?}");
            continue;
        };
        assert_eq!(log.lines(risk), 1, "{settings:?}: {}", log.text());
        assert!(!log.text().contains("p@ss"), "{}", log.text());
        let used = server.worker_nodes().usage().expect("counted").newest;
        let refused = use_all(&server.clone().require_durability());
        for text in refused {
            let text = text.expect("refused");
            assert!(text.contains(risk) && !text.contains("p@ss"), "{text}");
        }
        let now = server.worker_nodes().usage().expect("counted").newest;
        assert_eq!(used, now, "nothing was spent");
    }

    // An engine that forgets; the settings are those of the last case, which are good.
    let settings = ["--skip-log-bin", FLUSH];
    let database = MariaDb::start_with(&settings).database();
    for table in ["WORKER_NODE", "UIDRING_LEASE", "leaf_alloc"] {
        let server = server_at(&database);
        if table == "WORKER_NODE" {
            create(&server);
        }
        database.execute(&format!("ALTER TABLE {table} ENGINE = MyISAM"));
        log.clear();
        use_all(&server);
        let advice = format!("ALTER TABLE {table} ENGINE = InnoDB");
        assert_eq!(log.lines(&advice), 1, "{}", log.text());
        let refused = use_all(&server.require_durability());
        let refusals = refused.iter().flatten().filter(|text| text.contains(&advice)).count();
        // The tables of leases need that of starts.
        assert_eq!(refusals, if table == "WORKER_NODE" { 2 } else { 1 }, "{refused:?}");
        database.execute(&format!("ALTER TABLE {table} ENGINE = InnoDB"));
    }
}

#[test]
fn tables_say_their_version_and_a_later_one_is_refused() {
    let database = MariaDb::shared().database();
    let server = server_at(&database);
    create(&server);
    let comments: Vec<(String, String)> = database.query(
        "SELECT TABLE_NAME, TABLE_COMMENT FROM information_schema.TABLES
         WHERE TABLE_SCHEMA = DATABASE()",
    );
    assert_eq!(comments.len(), 3);
    assert!(comments.iter().all(|(_, text)| text.starts_with("uidring version 1")), "{comments:?}");
    // In the order of `use_all`, those that need the table.
    for (table, needed) in [
        ("WORKER_NODE", [true, true, false]),
        ("UIDRING_LEASE", [false, true, false]),
        ("leaf_alloc", [false, false, true]),
    ] {
        // A table of Baidu's or Leaf's script, or of an earlier program, says nothing of it.
        for comment in ["", "DB WorkerID Assigner for UID Generator"] {
            database.execute(&format!("ALTER TABLE {table} COMMENT = '{comment}'"));
            assert_eq!(use_all(&server), [None, None, None], "{table}");
        }
        database.execute(&format!("ALTER TABLE {table} COMMENT = 'uidring version 2: who knows'"));
        let rows = |sql: &str| database.query::<u64>(sql);
        let counts = || {
            rows(
                "SELECT COUNT(*) FROM WORKER_NODE UNION ALL SELECT SUM(TOKEN) FROM UIDRING_LEASE
                 UNION ALL SELECT max_id FROM leaf_alloc",
            )
        };
        let before = counts();
        for (done, needed) in use_all(&server).into_iter().zip(needed) {
            let text = done.unwrap_or_default();
            let is_refused = text.contains(table) && text.contains("version 2");
            assert_eq!(is_refused, needed, "{table}: {text}");
            assert!(!needed || text.contains("another version"), "{text}");
        }
        if needed[2] {
            assert!(matches!(load(&server), Err(LoadError::Refused(Error::Store(_)))));
        }
        let changed = before.iter().zip(counts()).zip(needed).filter(|((a, b), _)| **a != *b);
        assert!(changed.clone().all(|(_, needed)| !needed), "{table} was changed");
        database.execute(&format!("ALTER TABLE {table} COMMENT = 'uidring version 1'"));
        assert_eq!(use_all(&server), [None, None, None], "{table}");
    }
}
