//! The tables of a file, and their version.
//!
//! The version is in the table `UIDRING_FILE`. `PRAGMA user_version` is left to the application that may own the file.

use std::io;
use std::process;

use rusqlite::{Connection, Transaction};
use uidring::Error;
use uidring::adapter::{Chain, error_traits};

use super::columns::unsigned;
use super::patience::GaveUp;

/// All tables but `UIDRING_FILE`.
const TABLES: [&str; 3] = ["WORKER_NODE", "UIDRING_LEASE", "leaf_alloc"];

/// The version of the tables. Files of other versions are refused.
const VERSION: i64 = 1;

/// The columns of Baidu's UidGenerator. Without AUTOINCREMENT, SQLite would reuse the greatest id after its row was
/// deleted.
const WORKER_NODE: &str = "CREATE TABLE WORKER_NODE (
    ID INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    HOST_NAME VARCHAR(64) NOT NULL,
    PORT VARCHAR(64) NOT NULL,
    TYPE INT NOT NULL,
    LAUNCH_DATE DATE NOT NULL,
    MODIFIED TIMESTAMP NOT NULL,
    CREATED TIMESTAMP NOT NULL
)";

/// The same columns as on a server. Times are texts in UTC, which sort like the times.
const UIDRING_LEASE: &str = "CREATE TABLE UIDRING_LEASE (
    WORKER_ID INTEGER PRIMARY KEY NOT NULL,
    OWNER VARCHAR(255) NOT NULL,
    TOKEN BIGINT NOT NULL,
    LEASE_END DATETIME,
    HORIZON_TICK BIGINT,
    HORIZON_SEQUENCE BIGINT,
    LAYOUT VARCHAR(255) NOT NULL,
    CREATED DATETIME NOT NULL,
    RENEWED DATETIME NOT NULL
)";

/// The columns of Leaf.
const LEAF_ALLOC: &str = "CREATE TABLE leaf_alloc (
    biz_tag VARCHAR(128) PRIMARY KEY NOT NULL,
    max_id BIGINT NOT NULL DEFAULT 1,
    step INT NOT NULL,
    description VARCHAR(256),
    update_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
)";

/// `LAST_WORKER_ID` is a copy of the counter of `WORKER_NODE`, which `integrity_check` does not cover. `COMMITS` and
/// `LAST_COMMIT` are compared by [`commits`](super::commits). `ONLY_WORKER_ID` is NULL except in a file for one worker
/// id (see [`dedicated`](super::dedicated)).
const UIDRING_FILE: &str = "CREATE TABLE UIDRING_FILE (
    ONE INTEGER PRIMARY KEY NOT NULL CHECK (ONE = 1),
    VERSION INTEGER NOT NULL,
    LAST_WORKER_ID INTEGER NOT NULL,
    COMMITS INTEGER NOT NULL,
    LAST_COMMIT INTEGER NOT NULL,
    ONLY_WORKER_ID INTEGER
)";

/// A trigger and indexes. An index is a copy of its columns that `integrity_check` compares with the table.
const GUARDS: &str = "
    CREATE TRIGGER IF NOT EXISTS UIDRING_NODE_LAST AFTER INSERT ON WORKER_NODE BEGIN
        UPDATE UIDRING_FILE SET LAST_WORKER_ID = MAX(LAST_WORKER_ID, NEW.ID); END;
    CREATE INDEX IF NOT EXISTS UIDRING_LEASE_COPY
        ON UIDRING_LEASE (WORKER_ID, TOKEN, HORIZON_TICK, HORIZON_SEQUENCE);
    CREATE INDEX IF NOT EXISTS UIDRING_SEGMENT_COPY ON leaf_alloc (biz_tag, max_id);
";

/// Why a file cannot be used.
#[derive(thiserror::Error)]
pub enum Problem {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// The file with the count of commits failed.
    #[error(transparent)]
    Count(#[from] io::Error),
    /// Other processes keep the file locked.
    #[error(transparent)]
    Locked(#[from] GaveUp),
    /// The file is damaged, or of another version or program.
    #[error("{0}")]
    Unusable(String),
    /// The file must not be used as it is.
    #[error("{0}")]
    Denied(String),
    /// No worker ids are left.
    #[error("{0}")]
    UsedUp(String),
    /// The error for callers.
    #[error(transparent)]
    Final(#[from] Error),
}

error_traits!(Problem);

pub fn unusable<T>(problem: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::Unusable(problem.into()))
}

/// Refuses another program's database, unless `foreign` allows it. Only reads. Accepts a file without tables, which may
/// become ours.
pub fn recognise(connection: &Connection, foreign: bool) -> Result<(), Problem> {
    if has(connection, "UIDRING_FILE")? {
        return Ok(());
    }
    for table in TABLES {
        if has(connection, table)? {
            return unusable(format!(
                "it has a table {table} and no table UIDRING_FILE with its version: this uidring uses version \
                 {VERSION} of the file, and did not make this one; name another file"
            ));
        }
    }
    if foreign {
        return Ok(());
    }
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let (application, version) = (pragma("application_id")?, pragma("user_version")?);
    let (count, names): (u64, Option<String>) = connection.query_row(
        "SELECT COUNT(*), GROUP_CONCAT(IIF(n < 4, name, NULL), ', ')
         FROM (SELECT name, ROW_NUMBER() OVER (ORDER BY rowid) AS n FROM sqlite_master
               WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\')",
        [],
        |row| Ok((unsigned(row, 0)?, row.get(1)?)),
    )?;
    if application == 0 && version == 0 && count == 0 {
        return Ok(());
    }
    let names = names.unwrap_or_default();
    let more = if count > 3 { ", …" } else { "" };
    Err(Problem::Denied(format!(
        "it is another program's database, with application_id {application:#x}, user_version {version} and {count} \
         table{} ({names}{more}), \
         and was left as it is: name another file; or if that program is yours, allow it by `?foreign=true` \
         after the path, or by `.foreign(true)` in Rust",
        if count == 1 { "" } else { "s" },
    )))
}

/// Checks all of a file, and returns whether it has our tables.
pub fn check(connection: &Connection, foreign: bool) -> Result<bool, Problem> {
    recognise(connection, foreign)?;
    let is_ours = check_ours(connection)?;
    check_integrity(connection, None)?;
    Ok(is_ours)
}

/// Returns whether the file has our tables. Refuses other versions of them, and a file that has lost some.
pub fn check_ours(connection: &Connection) -> Result<bool, Problem> {
    if !has(connection, "UIDRING_FILE")? {
        return Ok(false);
    }
    let versions = integers(connection, "SELECT VERSION FROM UIDRING_FILE")?;
    let known = match versions[..] {
        [Some(VERSION)] => Ok(()),
        [Some(other)] => unusable(format!(
            "it has version {other}, and this uidring uses version {VERSION}: use the uidring that made it"
        )),
        _ => unusable(format!(
            "it is damaged: UIDRING_FILE holds the versions {versions:?}; {DAMAGED}"
        )),
    };
    known?;
    for table in TABLES {
        if !has(connection, table)? {
            return unusable(format!("it is damaged: its table {table} is gone; {DAMAGED}"));
        }
    }
    Ok(true)
}

/// Returns the first column of all rows.
fn integers(connection: &Connection, select: &str) -> rusqlite::Result<Vec<Option<i64>>> {
    connection.prepare(select)?.query_map([], |row| row.get(0))?.collect()
}

pub fn has(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    let sql =
        "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = ?1 COLLATE NOCASE";
    connection.query_row(sql, [table], |row| Ok(row.get::<_, i64>(0)? > 0))
}

pub const DAMAGED: &str = "nothing is handed out from it. Do not put an older copy in its place, which would \
                           repeat ids: follow \"Damage\" in docs/sqlite.md";

/// Checks the structure of the file, or of one table, which must exist, and compares indexes with tables.
pub fn check_integrity(connection: &Connection, table: Option<&str>) -> Result<(), Problem> {
    let sql = match table {
        Some(table) => format!("PRAGMA integrity_check({table})"),
        None => "PRAGMA integrity_check(1)".into(),
    };
    let found: String = connection.query_row(&sql, [], |row| row.get(0))?;
    if found == "ok" {
        return Ok(());
    }
    unusable(format!("it is damaged: {}; {DAMAGED}", found.trim()))
}

/// Creates the tables in a new file, and any guards that are missing.
pub fn prepare(transaction: &Transaction<'_>) -> Result<(), Problem> {
    if !check_ours(transaction)? {
        for table in [WORKER_NODE, UIDRING_LEASE, LEAF_ALLOC, UIDRING_FILE] {
            transaction.execute_batch(table)?;
        }
        transaction.execute("INSERT INTO UIDRING_FILE VALUES (1, ?1, 0, 0, 0, NULL)", [VERSION])?;
    }
    Ok(transaction.execute_batch(GUARDS)?)
}

/// The number of a commit, counted from the file's first, and its random word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    pub count: u64,
    pub word: u64,
}

impl Commit {
    pub fn next(self) -> Self {
        // A forked child repeats its parent's random numbers, but has another process id.
        let word = fastrand::u64(..) ^ u64::from(process::id()).rotate_left(32);
        Self { count: self.count + 1, word: word >> 1 }
    }
}

pub fn last_commit(transaction: &Connection) -> rusqlite::Result<Commit> {
    let last = "SELECT COMMITS, LAST_COMMIT FROM UIDRING_FILE";
    transaction
        .query_row(last, [], |row| Ok(Commit { count: unsigned(row, 0)?, word: unsigned(row, 1)? }))
}

/// Records this commit. Call it just before the commit.
pub fn finish(transaction: &Transaction<'_>, commit: Commit) -> rusqlite::Result<()> {
    let finish = "UPDATE UIDRING_FILE SET COMMITS = ?1, LAST_COMMIT = ?2";
    let values = [commit.count, commit.word].map(u64::cast_signed);
    transaction.execute(finish, values).map(drop)
}

/// Returns the greatest worker id that was ever handed out, or 0. Fails if SQLite's counter of `WORKER_NODE`, its copy
/// and the rows contradict each other.
pub fn last_worker_id(transaction: &Transaction<'_>) -> Result<i64, Problem> {
    let counter = "SELECT IIF(TYPEOF(seq) = 'integer', seq, NULL) FROM sqlite_sequence
                   WHERE name = 'WORKER_NODE' COLLATE NOCASE";
    let counter = integers(transaction, counter)?;
    let rows = "SELECT LAST_WORKER_ID, (SELECT IFNULL(MIN(ID), 0) FROM WORKER_NODE),
                (SELECT IFNULL(MAX(ID), 0) FROM WORKER_NODE) FROM UIDRING_FILE";
    let (last, lowest, greatest): (i64, i64, i64) =
        transaction.query_row(rows, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let is_counted = counter == [Some(last)] || counter.is_empty() && last == 0;
    if is_counted && last >= 0 && lowest >= 0 && greatest <= last {
        return Ok(last);
    }
    let counter: Vec<_> = counter
        .iter()
        .map(|counter| counter.map_or_else(|| "no integer".into(), |counter| counter.to_string()))
        .collect();
    let counter = if counter.is_empty() { "missing".into() } else { counter.join(" and ") };
    unusable(format!(
        "it is damaged, or was changed by hand: the counter of WORKER_NODE is {counter}, its rows go from {lowest} to \
         {greatest}, and the last worker id was {last}; {DAMAGED}"
    ))
}
