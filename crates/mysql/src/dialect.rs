//! What MySQL and MariaDB write differently from other databases.

use uidring_store::sql::Dialect;

pub const DIALECT: Dialect = Dialect {
    now: "UTC_TIMESTAMP(3)",
    now_plus: "UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND",
    // In UTC: a local time comes twice when summer ends.
    millis: |time| format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {time}) DIV 1000"),
    today: "UTC_DATE()",
    created_seconds: "CAST(FLOOR(UNIX_TIMESTAMP(CREATED)) AS SIGNED)",
    now_seconds: "CAST(UNIX_TIMESTAMP() AS SIGNED)",
    days_ago: "CURRENT_TIMESTAMP - INTERVAL ? DAY",
    seconds_ago: "CURRENT_TIMESTAMP - INTERVAL ? SECOND",
    text: |column| format!("CAST({column} AS CHAR)"),
    day: |column| format!("CAST({column} AS CHAR)"),
};
