//! A PostgreSQL server under the tests of all engines; see `uidring_testkit::servers`.

use std::ops::RangeInclusive;

use uidring_postgres::Postgres;
use uidring_testkit::postgres::{Database, Settings};
use uidring_testkit::servers::TestedEngine;
use uidring_testkit::suite::{Cause, tables};

pub struct PostgresServers;

impl TestedEngine for PostgresServers {
    type Kind = Settings;
    type Engine = Postgres;

    const TEMPERS: &'static [&'static [&'static str]] = &[
        &[
            "default_transaction_isolation=serializable",
            "synchronous_commit=off",
            "wal_writer_delay=10s",
        ],
        &["DateStyle=German, DMY", "TimeZone=Pacific/Apia", "IntervalStyle=iso_8601"],
        &["standard_conforming_strings=off", "client_min_messages=error"],
        &["idle_in_transaction_session_timeout=500", "lock_timeout=1"],
    ];
    const RISKS: &'static [(&'static [&'static str], Option<&'static str>)] = &[
        (&["fsync=off"], Some("set fsync = on")),
        (&["full_page_writes=off"], Some("set full_page_writes = on")),
        // Each transaction has its own.
        (&["synchronous_commit=off"], None),
        (&["synchronous_commit=remote_apply"], None),
    ];
    /// The server leaves out a few that it had set aside.
    const KEYS_AFTER_A_CRASH: RangeInclusive<u64> = 1..=u64::MAX;
    const TABLES: [&'static str; 3] = ["WORKER_NODE", "UIDRING_LEASE", "LEAF_ALLOC"];
    const GRANTS: [(&'static str, &'static str); 3] = [
        ("postgresql.md", "GRANT SELECT, INSERT ON worker_node"),
        ("postgresql.md", "GRANT SELECT, INSERT, UPDATE ON uidring_lease"),
        ("postgresql.md", "GRANT SELECT, UPDATE ON leaf_alloc"),
    ];
    const GRANT_RANGE: (&'static str, &'static str) =
        ("postgresql.md", "GRANT SELECT ON uidring_range");
    const BEGIN_ABOVE: (&'static str, &'static str) =
        ("postgresql.md", "ALTER TABLE worker_node ALTER COLUMN id");
    const SCHEMA: &'static str = "'public'";
    /// `READ COMMITTED` goes on.
    const COMMIT: &'static str = "COMMIT\0";
    const TRANSACTION: [&'static str; 2] = ["BEGIN ISOLATION", "statement: COMMIT"];
    const SET: &'static str = "";
    const RAISE: &'static str = "RAISE EXCEPTION 'not this one'";
    const NO_TABLE: &'static str = "does not exist";
    const NO_RIGHT: [&'static str; 2] = ["permission denied", "needs CREATE on the schema"];
    const KEY_TAKEN: [&'static str; 2] = ["worker_node_pkey", "RESTART WITH"];

    const NOW: &'static str = "CLOCK_TIMESTAMP()";
    const MANY_CONNECTIONS: &'static str = "max_connections=1200";

    fn cause_of(error: &str) -> Option<Cause> {
        let away = ["the server ended the connection", "the server is starting or stopping"];
        let is_away = away.iter().any(|text| error.contains(text));
        tables::server_cause(error).or(is_away.then_some(Cause::Away))
    }

    /// Where a transaction is serializable, it would fail beside a load.
    fn beside_loads(change: String) -> String {
        format!("BEGIN ISOLATION LEVEL READ COMMITTED; {change}; COMMIT")
    }

    fn set_counter(next: u64) -> String {
        format!("ALTER TABLE worker_node ALTER COLUMN id RESTART WITH {next}")
    }

    fn set_next_key(database: &Database, key: u64) {
        database.execute(&Self::set_counter(key));
    }

    fn nullable(table: &str, column: &str) -> String {
        format!("ALTER TABLE {table} ALTER COLUMN {column} DROP NOT NULL")
    }

    fn before_update(table: &str, body: &str) -> String {
        trigger(table, "", "BEFORE", &format!("{body}; RETURN NEW"))
    }

    /// Further changes, of which the answer to the first one knows nothing: after the statement, at the COMMIT, and
    /// at a COMMIT that another trigger makes wait again.
    fn late_triggers(table: &str, column: &str, condition: &str) -> Vec<String> {
        let body = format!(
            "UPDATE {table} SET {column} = 5 WHERE {condition} AND {column} > 5; RETURN NULL"
        );
        let deferred = trigger(table, "DEFERRABLE INITIALLY DEFERRED", "AFTER", &body);
        let later = format!(
            "CREATE OR REPLACE FUNCTION later() RETURNS TRIGGER LANGUAGE plpgsql AS
             'BEGIN SET CONSTRAINTS ALL DEFERRED; RETURN NEW; END';
             CREATE TRIGGER later BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION later()"
        );
        let again = format!("{deferred}; {later}");
        vec![trigger(table, "", "AFTER", &body), deferred, again]
    }

    fn make_forgetful(table: &str) -> String {
        format!("ALTER TABLE {table} SET UNLOGGED")
    }

    fn make_durable(table: &str) -> String {
        format!("ALTER TABLE {table} SET LOGGED")
    }

    fn set_comment(table: &str, comment: &str) -> String {
        format!("COMMENT ON TABLE {table} IS '{comment}'")
    }

    fn comment(table: &str) -> String {
        format!("SELECT OBJ_DESCRIPTION(TO_REGCLASS('{table}'), 'pg_class')")
    }

    fn back_up(database: &Database) {
        database.back_up();
    }

    fn restore(database: &Database) {
        database.restore();
    }
}

/// Returns the statements that make a trigger in place of an earlier one.
fn trigger(table: &str, deferrable: &str, when: &str, body: &str) -> String {
    let kind = if deferrable.is_empty() { "" } else { "CONSTRAINT" };
    format!(
        "DROP TRIGGER IF EXISTS meddle ON {table};
         CREATE OR REPLACE FUNCTION meddle() RETURNS TRIGGER LANGUAGE plpgsql AS
         $$ BEGIN {body}; END $$;
         CREATE {kind} TRIGGER meddle {when} UPDATE ON {table} {deferrable}
         FOR EACH ROW EXECUTE FUNCTION meddle()"
    )
}
