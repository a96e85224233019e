//! SQLite's dialect. Times are texts in UTC, which sort like the times.

use uidring_store::sql::{Dialect, prune_by_key};

pub const DIALECT: Dialect = Dialect {
    now: "strftime('%Y-%m-%d %H:%M:%f', 'now')",
    now_plus: "strftime('%Y-%m-%d %H:%M:%f', 'now', ? || ' seconds')",
    millis: |time| format!("CAST(ROUND(UNIXEPOCH({time}, 'subsec') * 1000) AS INTEGER)"),
    today: "DATE('now')",
    created_seconds: "UNIXEPOCH(CREATED)",
    now_seconds: "UNIXEPOCH()",
    days_ago: "DATETIME('now', '-' || ? || ' days')",
    seconds_ago: "DATETIME('now', '-' || ? || ' seconds')",
    text: |column| column.into(),
    day: |column| column.into(),
    same: "IS",
    unlocked: |condition| condition.into(),
    by_key: "",
    or_nothing: |key| format!(" ON CONFLICT ({key}) DO NOTHING"),
    prune: prune_by_key,
    one_row: "leaf_alloc needs biz_tag for its primary key",
    in_engine: "",
    generated_key: "the column ID of WORKER_NODE must be AUTOINCREMENT",
    set_counter: "UPDATE sqlite_sequence",
};
