//! A MySQL-compatible server under the tests of all engines; see `uidring_testkit::servers`.

use std::ops::RangeInclusive;

use uidring_mysql::MySql;
use uidring_testkit::mariadb::{Database, Settings};
use uidring_testkit::servers::TestedEngine;

pub struct MariaDbServers;

const FLUSH: &str = "--innodb-flush-log-at-trx-commit=1";

impl TestedEngine for MariaDbServers {
    type Kind = Settings;
    type Engine = MySql;

    const TEMPERS: &'static [&'static [&'static str]] = &[
        &["--autocommit=0", "--sql-mode=", "--transaction-isolation=SERIALIZABLE"],
        &[
            "--sql-mode=STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ANSI_QUOTES,ONLY_FULL_GROUP_BY",
        ],
        &["--sql-mode=ORACLE", "--explicit-defaults-for-timestamp=OFF"],
        &["--completion-type=CHAIN", "--transaction-isolation=SERIALIZABLE"],
        &["--completion-type=RELEASE", "--transaction-isolation=READ-UNCOMMITTED"],
        // Together they refuse to write below REPEATABLE READ.
        &[
            "--log-bin=log",
            "--server-id=1",
            "--binlog-format=STATEMENT",
            "--transaction-isolation=READ-COMMITTED",
        ],
    ];
    const RISKS: &'static [(&'static [&'static str], Option<&'static str>)] = &[
        (&["--log-bin", "--sync-binlog=0", FLUSH], Some("sync_binlog = 1")),
        (&["--log-bin", "--sync-binlog=100", FLUSH], Some("sync_binlog = 1")),
        (&["--innodb-flush-log-at-trx-commit=0"], Some("innodb_flush_log_at_trx_commit = 1")),
        (&["--innodb-flush-log-at-trx-commit=2"], Some("innodb_flush_log_at_trx_commit = 1")),
        (&["--log-bin", "--sync-binlog=1", FLUSH], None),
        (&["--log-bin", "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=3"], None),
        // Without the binary log there is nothing to be synced.
        (&["--skip-log-bin", "--sync-binlog=0", FLUSH], None),
        // It could be a node of a Galera cluster, but is none.
        (&["--wsrep-provider=/usr/lib/galera/libgalera_smm.so", "--wsrep-on=OFF", FLUSH], None),
    ];
    const KEYS_AFTER_A_CRASH: RangeInclusive<u64> = 1..=1;
    const TABLES: [&'static str; 3] = ["WORKER_NODE", "UIDRING_LEASE", "leaf_alloc"];
    const GRANTS: [(&'static str, &'static str); 3] = [
        ("mysql.md", "GRANT SELECT, INSERT ON ids.WORKER_NODE"),
        ("mysql.md", "GRANT SELECT, INSERT, UPDATE ON ids.UIDRING_LEASE"),
        ("segments.md", "GRANT SELECT, UPDATE ON ids.leaf_alloc"),
    ];
    const GRANT_RANGE: (&'static str, &'static str) =
        ("mysql.md", "GRANT SELECT ON ids.UIDRING_RANGE");
    const BEGIN_ABOVE: (&'static str, &'static str) = ("leases.md", "INSERT INTO WORKER_NODE (ID,");
    const SCHEMA: &'static str = "DATABASE()";
    const COMMIT: &'static str = "COMMIT";
    const TRANSACTION: [&'static str; 2] = ["START TRANSACTION", "COMMIT"];
    const SET: &'static str = "SET ";
    const RAISE: &'static str = "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this one'";
    const NO_TABLE: &'static str = "1146";
    const NO_RIGHT: [&'static str; 2] = ["CREATE command denied", "needs CREATE"];
    const KEY_TAKEN: [&'static str; 2] = ["1062", "ALTER TABLE"];

    const NOW: &'static str = "UTC_TIMESTAMP(3)";
    const MANY_CONNECTIONS: &'static str = "--max-connections=1200";

    fn set_counter(next: u64) -> String {
        format!("ALTER TABLE WORKER_NODE AUTO_INCREMENT = {next}")
    }

    /// What MySQL's servers did when rows were changed by hand, this one has to be told.
    fn set_next_key(database: &Database, key: u64) {
        let set = format!("SET GLOBAL init_connect = 'SET INSERT_ID = {key}'");
        database.server().execute(&set);
    }

    fn nullable(table: &str, column: &str) -> String {
        let kind = if column == "step" { "INT" } else { "BIGINT" };
        format!("ALTER TABLE {table} MODIFY {column} {kind} NULL")
    }

    fn before_update(table: &str, body: &str) -> String {
        format!("CREATE OR REPLACE TRIGGER meddle BEFORE UPDATE ON {table} FOR EACH ROW {body}")
    }

    fn make_forgetful(table: &str) -> String {
        format!("ALTER TABLE {table} ENGINE = MyISAM")
    }

    fn make_durable(table: &str) -> String {
        format!("ALTER TABLE {table} ENGINE = InnoDB")
    }

    fn set_comment(table: &str, comment: &str) -> String {
        format!("ALTER TABLE {table} COMMENT = '{comment}'")
    }

    fn comment(table: &str) -> String {
        format!(
            "SELECT TABLE_COMMENT FROM information_schema.TABLES
             WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{table}'"
        )
    }

    /// What `mariadb-dump` writes: each table as it is made now, with its counter, and its rows.
    fn back_up(database: &Database) {
        database.execute("CREATE TABLE backup (name VARCHAR(64), made TEXT)");
        for name in Self::TABLES {
            let (_, made) =
                database.query::<(String, String)>(&format!("SHOW CREATE TABLE {name}")).remove(0);
            let made = made.replace('\'', "''");
            database.execute(&format!("INSERT INTO backup VALUES ('{name}', '{made}')"));
            database.execute(&format!("CREATE TABLE backup_{name} AS SELECT * FROM {name}"));
        }
    }

    fn restore(database: &Database) {
        for name in Self::TABLES {
            let made = database.column(&format!("SELECT made FROM backup WHERE name = '{name}'"));
            database.execute(&format!("DROP TABLE {name}"));
            database.execute(&made[0]);
            database.execute(&format!("INSERT INTO {name} SELECT * FROM backup_{name}"));
        }
    }
}
