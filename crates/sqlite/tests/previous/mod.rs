//! What the previous program does with a SQLite file, statement by statement; it looks at no version, and
//! opens and closes the file beside SQLite.

// Every test binary compiles this file and uses its own part of it.
#![allow(dead_code)]

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, Result, TransactionBehavior};

pub const WORKER_NODE: &str = "CREATE TABLE IF NOT EXISTS WORKER_NODE (
    ID INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    HOST_NAME VARCHAR(64) NOT NULL,
    PORT VARCHAR(64) NOT NULL,
    TYPE INT NOT NULL,
    LAUNCH_DATE DATE NOT NULL,
    MODIFIED TIMESTAMP NOT NULL,
    CREATED TIMESTAMP NOT NULL
)";

pub const UIDRING_LEASE: &str = "CREATE TABLE IF NOT EXISTS UIDRING_LEASE (
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

pub const LEAF_ALLOC: &str = "CREATE TABLE IF NOT EXISTS leaf_alloc (
    biz_tag VARCHAR(128) PRIMARY KEY NOT NULL,
    max_id BIGINT NOT NULL DEFAULT 1,
    step INT NOT NULL,
    description VARCHAR(256),
    update_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
)";

/// What makes it dangerous.
pub fn touch(path: &Path) {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    options.open(path).map(drop).expect("opens");
}

pub fn open(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

pub fn assign(path: &Path) -> Result<i64> {
    touch(path);
    let mut connection = open(path)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(WORKER_NODE)?;
    let counts_up: bool = transaction.query_row(
        "SELECT sql LIKE '%AUTOINCREMENT%' FROM sqlite_master
         WHERE type = 'table' AND name = 'WORKER_NODE' COLLATE NOCASE",
        [],
        |row| row.get(0),
    )?;
    assert!(counts_up);
    let id = transaction.query_row(
        "INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED)
         VALUES (?1, ?2, ?3, DATE('now'), CURRENT_TIMESTAMP, CURRENT_TIMESTAMP)
         RETURNING ID",
        ("host", "port", 2),
        |row| row.get(0),
    )?;
    transaction.commit()?;
    Ok(id)
}

/// Its new row of leases; `None` where the id does not fit, or there is one that is free.
pub fn add_lease(path: &Path, layout: &str) -> Result<i64> {
    let worker_id = assign(path)?;
    let mut connection = open(path)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(UIDRING_LEASE)?;
    transaction.execute(
        "INSERT INTO UIDRING_LEASE (WORKER_ID, OWNER, TOKEN, LEASE_END, LAYOUT, CREATED, RENEWED)
         VALUES (?1, 'previous', 1, strftime('%Y-%m-%d %H:%M:%f', 'now', '+30 seconds'), ?2,
         strftime('%Y-%m-%d %H:%M:%f', 'now'), strftime('%Y-%m-%d %H:%M:%f', 'now'))",
        (worker_id, layout),
    )?;
    transaction.commit()?;
    Ok(worker_id)
}

pub fn take_lease(path: &Path) -> Result<Option<i64>> {
    touch(path);
    let mut connection = open(path)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let taken = transaction
        .query_row(
            "UPDATE UIDRING_LEASE SET OWNER = 'previous', TOKEN = TOKEN + 1,
             LEASE_END = strftime('%Y-%m-%d %H:%M:%f', 'now', '+30 seconds'),
             RENEWED = strftime('%Y-%m-%d %H:%M:%f', 'now')
             WHERE WORKER_ID = (SELECT MIN(WORKER_ID) FROM UIDRING_LEASE WHERE LEASE_END IS NULL)
             RETURNING WORKER_ID",
            [],
            |row| row.get(0),
        )
        .optional()?;
    transaction.commit()?;
    Ok(taken)
}

pub fn renew(path: &Path, worker_id: i64, tick: i64, sequence: i64) -> Result<usize> {
    open(path)?.execute(
        "UPDATE UIDRING_LEASE SET LEASE_END = strftime('%Y-%m-%d %H:%M:%f', 'now', '+30 seconds'),
         RENEWED = strftime('%Y-%m-%d %H:%M:%f', 'now'),
         HORIZON_TICK = MAX(COALESCE(HORIZON_TICK, 0), ?2),
         HORIZON_SEQUENCE = IIF(HORIZON_TICK > ?2, HORIZON_SEQUENCE, ?3)
         WHERE WORKER_ID = ?1",
        (worker_id, tick, sequence),
    )
}

pub fn release(path: &Path, worker_id: i64) -> Result<usize> {
    open(path)?.execute(
        "UPDATE UIDRING_LEASE SET LEASE_END = NULL, TOKEN = TOKEN + 1, HORIZON_TICK = ?2,
         HORIZON_SEQUENCE = ?3, RENEWED = strftime('%Y-%m-%d %H:%M:%f', 'now')
         WHERE WORKER_ID = ?1",
        (worker_id, 1, 1),
    )
}

pub fn fence(path: &Path, worker_id: i64) -> Result<usize> {
    open(path)?.execute(
        "UPDATE UIDRING_LEASE SET TOKEN = TOKEN + 1,
         RENEWED = strftime('%Y-%m-%d %H:%M:%f', 'now'),
         LEASE_END = CASE WHEN LEASE_END IS NOT NULL THEN strftime('%Y-%m-%d %H:%M:%f', 'now') END
         WHERE WORKER_ID = ?1",
        [worker_id],
    )
}

pub fn create_tag(path: &Path, tag: &str, step: i64) -> Result<()> {
    touch(path);
    let mut connection = open(path)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(LEAF_ALLOC)?;
    transaction.execute(
        "INSERT INTO leaf_alloc (biz_tag, max_id, step, description, update_time)
         VALUES (?1, ?2, ?3, ?4, CURRENT_TIMESTAMP)",
        (tag, 1, step, None::<&str>),
    )?;
    transaction.commit()
}

/// The first id of the range.
pub fn load(path: &Path, tag: &str) -> Result<i64> {
    let mut connection = open(path)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let (max_id, step): (i64, i64) = transaction.query_row(
        "SELECT max_id, step FROM leaf_alloc WHERE biz_tag = ?1",
        [tag],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    transaction.execute(
        "UPDATE leaf_alloc SET max_id = ?1, update_time = CURRENT_TIMESTAMP
         WHERE biz_tag = ?2 AND max_id = ?3",
        (max_id + step, tag, max_id),
    )?;
    transaction.commit()?;
    Ok(max_id)
}
