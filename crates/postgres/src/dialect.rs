//! PostgreSQL's dialect.

use uidring_store::sql::{Dialect, prune_by_key};

pub static DIALECT: Dialect = Dialect {
    // The present time, not that of the transaction's begin, which may have waited for a lock.
    now: "CLOCK_TIMESTAMP()",
    now_plus: "CLOCK_TIMESTAMP() + ? * INTERVAL '1 microsecond'",
    // An infinite time has no milliseconds, and NULL would show a held lease as free.
    millis: |time| {
        format!(
            "CAST(FLOOR(EXTRACT(EPOCH FROM CASE {time} WHEN 'infinity' THEN '9999-12-31'
             WHEN '-infinity' THEN '1970-01-01' ELSE {time} END) * 1000) AS BIGINT)"
        )
    },
    today: "CAST(CURRENT_TIMESTAMP AT TIME ZONE 'UTC' AS DATE)",
    created_seconds: "CAST(FLOOR(EXTRACT(EPOCH FROM LEAST(CREATED, CURRENT_TIMESTAMP))) AS BIGINT)",
    now_seconds: "CAST(FLOOR(EXTRACT(EPOCH FROM CURRENT_TIMESTAMP)) AS BIGINT)",
    days_ago: "CURRENT_TIMESTAMP - ? * INTERVAL '1 day'",
    seconds_ago: "CURRENT_TIMESTAMP - ? * INTERVAL '1 second'",
    text: |column| {
        format!(
            "COALESCE(TO_CHAR({column} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS'), CAST({column} AS TEXT))"
        )
    },
    day: |column| format!("COALESCE(TO_CHAR({column}, 'YYYY-MM-DD'), CAST({column} AS TEXT))"),
    same: "IS NOT DISTINCT FROM",
    unlocked: |condition| {
        format!(
            "WORKER_ID = (SELECT WORKER_ID FROM UIDRING_LEASE WHERE {condition} FOR UPDATE SKIP LOCKED)"
        )
    },
    by_key: "",
    or_nothing: |key| format!(" ON CONFLICT ({key}) DO NOTHING"),
    prune: prune_by_key,
    one_row: "leaf_alloc needs biz_tag for its primary key",
    in_engine: "",
    generated_key: "the column ID of WORKER_NODE must be GENERATED AS IDENTITY, and no trigger, rule or \
                    policy of the table may prevent an INSERT",
    set_counter: "ALTER TABLE WORKER_NODE ALTER COLUMN ID RESTART WITH …, and SET CACHE 1 if several \
                  sessions cache its keys",
};

/// Replaces each `?` of a statement with PostgreSQL's `$1`, `$2` and so on.
pub fn numbered(sql: &str) -> String {
    let mut parts = sql.split('?');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for (index, part) in parts.enumerate() {
        text.push_str(&format!("${}{part}", index + 1));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbered_in_their_order() {
        assert_eq!(numbered("SELECT 1"), "SELECT 1");
        assert_eq!(numbered("a = ? AND b = ?"), "a = $1 AND b = $2");
        assert_eq!(numbered("?"), "$1");
    }
}
