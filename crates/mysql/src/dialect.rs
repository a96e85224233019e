//! The dialect of MySQL and MariaDB, and the tables.

use uidring_store::sql::Dialect;

pub static DIALECT: Dialect = Dialect {
    now: "UTC_TIMESTAMP(3)",
    now_plus: "UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND",
    // In UTC: a local time repeats when summer time ends.
    millis: |time| format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {time}) DIV 1000"),
    today: "UTC_DATE()",
    created_seconds: "CAST(FLOOR(UNIX_TIMESTAMP(CREATED)) AS SIGNED)",
    now_seconds: "CAST(UNIX_TIMESTAMP() AS SIGNED)",
    days_ago: "CURRENT_TIMESTAMP - INTERVAL ? DAY",
    seconds_ago: "CURRENT_TIMESTAMP - INTERVAL ? SECOND",
    text: |column| format!("CAST({column} AS CHAR)"),
    day: |column| format!("CAST({column} AS CHAR)"),
    same: "<=>",
    unlocked: |condition| condition.into(),
    by_key: " FORCE INDEX (PRIMARY)",
    or_nothing: |_| String::new(),
    // A subquery would scan and lock the whole table.
    prune: |is_old| format!("DELETE FROM WORKER_NODE WHERE {is_old} ORDER BY ID LIMIT ?"),
    one_row: "leaf_alloc needs the engine InnoDB, and biz_tag for its primary key",
    in_engine: ", in a table with the engine InnoDB",
    generated_key: "the column ID of WORKER_NODE must be AUTO_INCREMENT",
    set_counter: "ALTER TABLE WORKER_NODE AUTO_INCREMENT",
};

/// The columns of Baidu's UidGenerator. Its script lacks the defaults of both times; a strict server refuses the second
/// column without one.
const WORKER_NODE: &str = "CREATE TABLE IF NOT EXISTS WORKER_NODE (
    ID BIGINT NOT NULL AUTO_INCREMENT COMMENT 'worker id, used by one start',
    HOST_NAME VARCHAR(64) NOT NULL COMMENT 'host name or address',
    PORT VARCHAR(64) NOT NULL COMMENT 'port, or time and random number',
    TYPE INT NOT NULL COMMENT '1 container, 2 actual machine',
    LAUNCH_DATE DATE NOT NULL COMMENT 'day of the start, UTC',
    MODIFIED TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP COMMENT 'last change',
    CREATED TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP COMMENT 'time of the start',
    PRIMARY KEY (ID)
) ENGINE = InnoDB COMMENT 'uidring version 1: worker ids'";

/// Texts compare byte by byte, because case matters in a layout's text.
const UIDRING_LEASE: &str = "CREATE TABLE IF NOT EXISTS UIDRING_LEASE (
    WORKER_ID BIGINT NOT NULL COMMENT 'worker id, of one holder at a time',
    OWNER VARCHAR(255) NOT NULL COMMENT 'who holds it, or was the last to',
    TOKEN BIGINT NOT NULL COMMENT 'grows with every change of the holder',
    LEASE_END DATETIME(3) NULL COMMENT 'UTC, by the clock of this server; NULL where it is free',
    HORIZON_TICK BIGINT NULL COMMENT 'last tick that may have been issued',
    HORIZON_SEQUENCE BIGINT NULL COMMENT 'last sequence number of it',
    LAYOUT VARCHAR(255) NOT NULL COMMENT 'bits, tick and epoch of the uids',
    CREATED DATETIME(3) NOT NULL COMMENT 'UTC',
    RENEWED DATETIME(3) NOT NULL COMMENT 'UTC, last change',
    PRIMARY KEY (WORKER_ID)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin
    COMMENT 'uidring version 1: worker ids that are leased'";

const UIDRING_RANGE: &str = "CREATE TABLE IF NOT EXISTS UIDRING_RANGE (
    ONE INT NOT NULL COMMENT 'always 1',
    FIRST_ID BIGINT NOT NULL COMMENT 'first worker id of this database',
    LAST_ID BIGINT NOT NULL COMMENT 'last worker id of this database',
    PRIMARY KEY (ONE)
) ENGINE = InnoDB COMMENT 'uidring version 1: range of worker ids'";

/// The columns of Leaf. Tags are case-sensitive. With Leaf's own script, that depends on the server's default.
const LEAF_ALLOC: &str = "CREATE TABLE IF NOT EXISTS leaf_alloc (
    biz_tag VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    max_id BIGINT NOT NULL DEFAULT 1 COMMENT 'the first id that is not reserved',
    step INT NOT NULL COMMENT 'ids that a load reserves at least',
    description VARCHAR(256) CHARACTER SET utf8mb4 DEFAULT NULL,
    update_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (biz_tag)
) ENGINE = InnoDB COMMENT 'uidring version 1: segments'";

/// Returns the statement that creates a missing table.
pub fn create(table: &str) -> &'static str {
    match table {
        "WORKER_NODE" => WORKER_NODE,
        "UIDRING_LEASE" => UIDRING_LEASE,
        "UIDRING_RANGE" => UIDRING_RANGE,
        _ => LEAF_ALLOC,
    }
}
