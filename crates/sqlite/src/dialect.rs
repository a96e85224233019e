//! What SQLite writes differently from other databases. Times are texts in UTC, which compare as the
//! times do.

use uidring_store::sql::Dialect;

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
};
