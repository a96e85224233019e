//! A connection, checked for its server's identity and durability, and for the version of its tables.

use std::sync::Arc;

use async_trait::async_trait;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Value as Parameter};
use uidring_store::WorkerRange;
use uidring_store::server::{
    Cell, Changed, Done, Inspected, Problem, RANGE_COMMENT, Row, Table, Value, check_version, only,
};
use uidring_store::sql::Dialect;

use crate::dialect::{DIALECT, create};
use crate::failure::failed;

/// A connection, and what is known of its server.
pub struct Session {
    conn: Conn,
    /// The variable that identifies the server.
    identity: Option<&'static str>,
    is_galera: bool,
    /// On Galera, the session's last written transaction when the present one began.
    written: Option<String>,
}

/// Returns the session's last transaction that the cluster has.
const LAST_WRITTEN: &str = "SELECT WSREP_LAST_WRITTEN_GTID()";

impl Session {
    /// Uses an open connection.
    pub fn new(conn: Conn) -> Self {
        Self { conn, identity: None, is_galera: false, written: None }
    }

    /// Remembers the last transaction before the next one begins.
    async fn note_written(&mut self) -> Done<()> {
        if self.is_galera {
            self.written = self.last_written().await?;
        }
        Ok(())
    }

    /// Makes sure that a commit has changed something.
    ///
    /// A Galera node rolls a transaction back if another node's comes first. If that happens between two statements,
    /// the node may not report it, and the COMMIT succeeds with nothing to commit. Then the session has written nothing
    /// new.
    async fn assure_written(&mut self) -> Done<()> {
        if self.is_galera && self.last_written().await? == self.written {
            return Err(undone());
        }
        Ok(())
    }

    async fn last_written(&mut self) -> Done<Option<String>> {
        let rows = rows(&mut self.conn, LAST_WRITTEN, &[]).await?;
        let written = rows.first().map(|row| row.optional_text(0)).transpose()?.flatten();
        Ok(written.map(str::to_owned))
    }
}

/// Reads are in transactions, which a proxy that splits reads from writes sends to the primary.
#[async_trait]
impl uidring_store::server::Session for Session {
    /// A proxy that splits reads from writes may answer from a replica. Its settings are as good a hint as the
    /// primary's. The server's identity is read by the statement that writes.
    async fn inspect(&mut self, server: Inspected<'_>, table: &Table) -> Done<()> {
        let variables = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_bin', 'sync_binlog',
             'innodb_flush_log_at_trx_commit', 'server_uuid', 'server_uid', 'wsrep_on',
             'wsrep_provider', 'wsrep_provider_options')";
        let variables = rows(&mut self.conn, variables, &[]).await?;
        let variables = variables.iter().map(|row| {
            Ok((row.text(0)?.to_owned(), row.optional_text(1)?.unwrap_or_default().to_owned()))
        });
        let variables = variables.collect::<Done<Vec<(String, String)>>>()?;
        let value = |name: &str| {
            let found = variables.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.map(|(_, value)| &**value)
        };
        let binlog = (value("log_bin") == Some("ON")).then_some(("sync_binlog", &["1"][..]));
        // MariaDB's 3 syncs like 1.
        let log = Some(("innodb_flush_log_at_trx_commit", &["1", "3"][..]));
        for (risk, setting, when) in [(0, binlog, " with the binary log on"), (1, log, "")] {
            let Some((name, good)) = setting else { continue };
            if let Some(found) = value(name).filter(|found| !good.contains(found)) {
                server.report(risk, || {
                    format!(
                        "{name} is {found}{when}: after a crash of its machine the server may have lost \
                         what it has committed, so that ids repeat; set {name} = 1"
                    )
                })?;
            }
        }
        self.is_galera = value("wsrep_on") == Some("ON") && value("wsrep_provider") != Some("none");
        if self.is_galera {
            check_galera(server, value("wsrep_provider_options").unwrap_or_default())?;
            catch_up(&mut self.conn).await?;
        }
        check_tables(&mut self.conn, server, table).await?;
        let names = ["server_uuid", "server_uid"];
        self.identity = names.into_iter().find(|name| value(name).is_some_and(|id| !id.is_empty()));
        Ok(())
    }

    async fn answers(&mut self) -> bool {
        self.conn.ping().await.is_ok()
    }

    async fn close(self: Box<Self>) {
        let _ = self.conn.disconnect().await;
    }

    fn dialect(&self) -> &'static Dialect {
        &DIALECT
    }

    /// A reader holds the table's metadata lock until its transaction ends, so the comment stays.
    fn has_range(&self) -> &'static str {
        "(SELECT COUNT(*) FROM information_schema.TABLES
         WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'WORKER_NODE'
         AND TABLE_COMMENT LIKE '%UIDRING_RANGE%')"
    }

    async fn begin(&mut self) -> Done<()> {
        self.note_written().await?;
        run(&mut self.conn, "START TRANSACTION").await
    }

    async fn commit(&mut self) -> Done<()> {
        run(&mut self.conn, "COMMIT").await?;
        self.assure_written().await
    }

    async fn rollback(&mut self) -> Done<()> {
        run(&mut self.conn, "ROLLBACK").await
    }

    async fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Done<Vec<Row>> {
        rows(&mut self.conn, sql, values).await
    }

    async fn look(&mut self, sql: &str, values: &[Value<'_>]) -> Done<Vec<Row>> {
        run(&mut self.conn, "START TRANSACTION").await?;
        let rows = self.query(sql, values).await;
        self.rollback().await?;
        rows
    }

    async fn execute(&mut self, sql: &str, values: &[Value<'_>]) -> Done<u64> {
        let values: Vec<Parameter> = values.iter().map(parameter).collect();
        self.conn.exec_drop(sql, values).await.map_err(failed)?;
        Ok(self.conn.affected_rows())
    }

    /// The statement commits by itself. Its own answer holds the result, because a proxy would answer a SELECT from a
    /// replica.
    async fn change(&mut self, sql: &str, values: &[Value<'_>]) -> Done<Changed> {
        self.note_written().await?;
        let rows = self.execute(sql, values).await?;
        let server = self.conn.last_insert_id();
        if rows > 0 {
            self.assure_written().await?;
        }
        Ok(Changed { rows, server })
    }

    /// The driver returns `None` for 0, the server's answer if no key was generated.
    async fn insert_node(&mut self, sql: &str, values: &[Value<'_>]) -> Done<Option<u64>> {
        self.execute(sql, values).await?;
        Ok(self.conn.last_insert_id())
    }

    async fn create_table(&mut self, table: &Table) -> Done<()> {
        run(&mut self.conn, create(table.name)).await
    }

    /// The counter continues from the seed row. Without a row, servers before version 8 forget the counter when they
    /// restart. The ALTER TABLE waits only briefly, because later starts wait for it.
    async fn mark_range(&mut self, range: WorkerRange) -> Done<()> {
        if range.first() > 1 {
            let seed = format!("{} ON DUPLICATE KEY UPDATE ID = ID", DIALECT.insert_seed());
            let text = range.to_string();
            self.execute(&seed, &[(range.first() - 1).into(), (&text).into()]).await?;
        }
        run(&mut self.conn, "SET SESSION lock_wait_timeout = 2").await?;
        run(&mut self.conn, &format!("ALTER TABLE WORKER_NODE COMMENT = '{RANGE_COMMENT}'")).await
    }

    /// Without the hint, MySQL may answer with a number of the day before.
    async fn last_key(&mut self) -> Done<Option<u64>> {
        let select = "SELECT /*+ SET_VAR(information_schema_stats_expiry = 0) */
                      LEAST(AUTO_INCREMENT, 9223372036854775807) - 1 AS LAST_KEY FROM information_schema.TABLES
                      WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'WORKER_NODE'";
        let rows = self.look(select, &[]).await?;
        Ok(rows.first().map(|row| row.optional_unsigned(0)).transpose()?.flatten())
    }

    /// Checks the account's own privileges. Those of its roles are not listed.
    async fn may_create(&mut self) -> Done<Option<bool>> {
        let own = "GRANTEE = CONCAT('\\'', REPLACE(CURRENT_USER(), '@', '\\'@\\''), '\\'')
                   AND PRIVILEGE_TYPE = 'CREATE'";
        let select = format!(
            "SELECT (SELECT COUNT(*) FROM information_schema.USER_PRIVILEGES WHERE {own})
             + (SELECT COUNT(*) FROM information_schema.SCHEMA_PRIVILEGES
                WHERE {own} AND DATABASE() LIKE TABLE_SCHEMA)"
        );
        Ok(Some(only(self.look(&select, &[]).await?)?.int(0)? != 0))
    }

    fn identity(&self) -> String {
        self.identity.map_or_else(
            || "0".into(),
            |name| format!("CAST(CONV(LEFT(SHA1(@@global.{name}), 15), 16, 10) AS UNSIGNED)"),
        )
    }

    fn has_identity(&self) -> bool {
        self.identity.is_some()
    }

    /// The term is 0, so a replica that executes the statement gets the same row.
    fn server_mark(&self) -> String {
        format!(" + 0 * LAST_INSERT_ID({})", self.identity())
    }

    fn not_read_back(&self, why: String) -> Problem {
        // On Galera it is more likely that the transaction was undone meanwhile.
        if self.is_galera { undone() } else { Problem::Refused(why) }
    }
}

fn undone() -> Problem {
    Problem::Undone(
        "the node has undone a transaction and not said so: another node's came first, or a table's engine is \
         not InnoDB; try again"
            .into(),
    )
}

async fn run(conn: &mut Conn, sql: &str) -> Done<()> {
    conn.query_drop(sql).await.map_err(failed)
}

/// Returns the rows of a query. Without parameters it is not prepared, and integers arrive as text.
async fn rows(conn: &mut Conn, sql: &str, values: &[Value<'_>]) -> Done<Vec<Row>> {
    let rows: Vec<mysql_async::Row> = if values.is_empty() {
        conn.query(sql).await.map_err(failed)?
    } else {
        let values: Vec<Parameter> = values.iter().map(parameter).collect();
        conn.exec(sql, values).await.map_err(failed)?
    };
    let names = rows.first().map_or_else(Vec::new, |row| {
        row.columns_ref().iter().map(|column| column.name_str().into_owned()).collect()
    });
    let names: Arc<[String]> = names.into();
    let row = |row: mysql_async::Row| Row {
        cells: row.unwrap_raw().into_iter().map(cell).collect(),
        names: Arc::clone(&names),
    };
    Ok(rows.into_iter().map(row).collect())
}

fn parameter(value: &Value<'_>) -> Parameter {
    match *value {
        Value::Int(number) => number.into(),
        Value::Text(text) => text.into(),
    }
}

fn cell(value: Option<Parameter>) -> Cell {
    match value {
        Some(Parameter::NULL) => Cell::Null,
        Some(Parameter::Int(number)) => Cell::Int(number),
        Some(Parameter::UInt(number)) => i64::try_from(number).map_or(Cell::Other, Cell::Int),
        Some(Parameter::Bytes(bytes)) => Cell::Text(String::from_utf8_lossy(&bytes).into_owned()),
        _ => Cell::Other,
    }
}

/// Waits until the node has applied what the others have confirmed. Otherwise a holder that switches nodes would find
/// its lease in an older state.
async fn catch_up(conn: &mut Conn) -> Done<()> {
    run(conn, "SET SESSION wsrep_sync_wait = 1").await?;
    match run(conn, "SELECT 1").await {
        // A node without a majority reports a lock. The next statement says what is wrong.
        Err(problem) if problem.is_locked() => {}
        done => done?,
    }
    run(conn, "SET SESSION wsrep_sync_wait = DEFAULT").await
}

/// Reports what a cluster may lose although each node syncs.
fn check_galera(server: Inspected<'_>, options: &str) -> Done<()> {
    server.report_lasting(3, || {
        "it is a node of a Galera cluster, which confirms a commit when the other nodes have received \
         it, and not when they have written it: if several crash at about the same time, it may be \
         lost, so that ids repeat; set innodb_flush_log_at_trx_commit = 1 on all nodes, bootstrap only \
         from the one that is furthest, or use a server that is not in such a cluster"
            .into()
    })?;
    let is_on = |name: &str| {
        let mut all = options.split(';').filter_map(|option| option.split_once('='));
        let found = all.find(|(option, _)| option.trim() == name).map(|(_, value)| value.trim());
        found.is_some_and(|value| ["true", "yes", "on", "1"].contains(&&*value.to_lowercase()))
    };
    for name in ["pc.ignore_sb", "pc.ignore_quorum"] {
        if is_on(name) {
            server.report(4, || {
                format!(
                    "{name} is on in wsrep_provider_options: both halves of a cluster that is split take \
                     rows, so that ids repeat; turn it off"
                )
            })?;
        }
    }
    Ok(())
}

async fn check_tables(conn: &mut Conn, server: Inspected<'_>, table: &Table) -> Done<()> {
    let names = table.all.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    let tables = rows(
        conn,
        &format!(
            "SELECT TABLE_NAME, ENGINE, TABLE_COMMENT FROM information_schema.TABLES
             WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ({names})"
        ),
        &[],
    )
    .await?;
    for row in tables {
        let text = |index| row.optional_text(index).map(Option::unwrap_or_default);
        let (name, engine, comment) = (text(0)?, text(1)?, text(2)?);
        check_version(name, comment).map_err(Problem::Refused)?;
        // A view has no engine.
        if !engine.is_empty() && !["InnoDB", "ROCKSDB"].contains(&engine) {
            server.report(2, || {
                format!(
                    "{name} has the engine {engine}, which may lose committed rows in a crash, so that ids repeat; \
                     convert it: ALTER TABLE {name} ENGINE = InnoDB"
                )
            })?;
        }
    }
    Ok(())
}
