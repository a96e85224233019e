//! A connection whose server was checked, and its statements. They leave nothing in the session, so a pooler may move
//! each transaction to another connection.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{join, join3, join4, join5};
use uidring_store::WorkerRange;
use uidring_store::server::{
    Changed, Done, Inspected, Problem, RANGE_COMMENT, Row, Session as _, State, Table, Value,
    check_version, not_one_row, only,
};
use uidring_store::sql::Dialect;

use crate::dialect::{DIALECT, numbered};
use crate::driver::Raw;
use crate::failure::failed;
use crate::tables::create;
use crate::values::{parameters, rows};

/// The earliest supported version.
const EARLIEST: i64 = 120_000;

/// A number above 0 for this server. A promotion changes it: it comes from the cluster's system identifier and the
/// timeline being written.
const IDENTITY: &str = "(SELECT CAST(CAST('x' || SUBSTR(MD5(system_identifier || '/' || \
     SUBSTR(PG_WALFILE_NAME(PG_CURRENT_WAL_LSN()), 1, 8)), 1, 15) AS BIT(60)) AS BIGINT) \
     FROM PG_CONTROL_SYSTEM())";

/// The sequences that generate keys of `WORKER_NODE`, by its column's identity or default, if the account may read them.
/// The column may own others.
const KEY_SEQUENCE: &str =
    "SELECT CAST(CAST(sequence.oid AS REGCLASS) AS TEXT) FROM PG_CLASS sequence
     WHERE CASE WHEN sequence.relkind = 'S' THEN HAS_SEQUENCE_PRIVILEGE(sequence.oid, 'SELECT') END
     AND sequence.oid IN (
         SELECT owned.objid FROM PG_DEPEND owned JOIN PG_ATTRIBUTE id
             ON id.attrelid = owned.refobjid AND id.attnum = owned.refobjsubid
             WHERE owned.deptype = 'i' AND id.attname = 'id' AND owned.refobjid = TO_REGCLASS('WORKER_NODE')
         UNION SELECT used.refobjid FROM PG_ATTRDEF value
             JOIN PG_DEPEND used ON used.objid = value.oid AND used.classid = CAST('pg_attrdef' AS REGCLASS)
             JOIN PG_ATTRIBUTE id ON id.attrelid = value.adrelid AND id.attnum = value.adnum
             WHERE id.attname = 'id' AND value.adrelid = TO_REGCLASS('WORKER_NODE'))";

/// Begins a transaction:
///
/// - Each statement sees what is committed, whatever the server's isolation level.
/// - Triggers do not wait for the COMMIT, where they could change what was read back.
/// - A wait for a locked row is shorter than any lease.
/// - No warning is sent before the [`COMMIT`].
///
/// The session adds `synchronous_commit`, so that a COMMIT waits for the disk and any synchronous standbys, and a
/// timeout, so that a paused process does not keep its locks.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED;
     SET CONSTRAINTS ALL IMMEDIATE;
     SET LOCAL lock_timeout = '1s';
     SET LOCAL client_min_messages = error";

/// Runs triggers that another trigger has deferred.
const SETTLE: &str = "SET CONSTRAINTS ALL IMMEDIATE";

/// Ends a transaction. Do not rely on a COMMIT with a warning: the wait for a standby was cancelled, and only the
/// server itself has committed.
const COMMIT: [&str; 2] = ["SET LOCAL client_min_messages = warning", "COMMIT"];

/// A connection, and what is known of its server.
pub struct Session {
    raw: Raw,
    /// Whether there are other servers to try.
    has_others: bool,
    begin: String,
    /// Whether the account may read the server's identity.
    has_identity: bool,
}

impl Session {
    /// Uses an open connection.
    pub fn new(raw: Raw, has_others: bool) -> Self {
        Self { raw, has_others, begin: String::new(), has_identity: true }
    }

    async fn script(&mut self, sql: &str) -> Done<()> {
        let done = self.raw.client.batch_execute(sql).await;
        done.map_err(|error| self.failed(error))
    }

    fn check_commit(&self) -> Done<()> {
        match self.raw.warning() {
            Some(warning) => Err(Problem::Undone(format!(
                "the server has committed with a warning, so that a synchronous standby may lack the commit, \
                 which does not count: {warning}"
            ))),
            None => Ok(()),
        }
    }

    fn failed(&mut self, error: tokio_postgres::Error) -> Problem {
        failed(self.raw.cause(error))
    }
}

#[async_trait]
impl uidring_store::server::Session for Session {
    /// Behind a pooler, another server than the one that writes may answer. Its settings are as good a hint. The
    /// server's identity is read by the statement that writes.
    async fn inspect(&mut self, server: Inspected<'_>, table: &Table) -> Done<()> {
        let keeps = "CURRENT_SETTING('synchronous_commit') = 'remote_apply'";
        let settings = format!(
            "SELECT CAST(CURRENT_SETTING('server_version_num') AS BIGINT), PG_IS_IN_RECOVERY(),
             CURRENT_SETTING('default_transaction_read_only') = 'on', {keeps},
             CURRENT_SETTING('fsync'), CURRENT_SETTING('full_page_writes')"
        );
        let names = table.all.iter().map(|name| format!("TO_REGCLASS('{name}')"));
        let tables = format!(
            "SELECT CAST(UPPER(relname) AS TEXT), CAST(relpersistence AS TEXT),
             OBJ_DESCRIPTION(oid, 'pg_class') FROM PG_CLASS WHERE oid IN ({})",
            names.collect::<Vec<_>>().join(", ")
        );
        let identity = format!("SELECT {IDENTITY}");
        let client = &self.raw.client;
        // Send all at once and in one transaction, because a pooler may run the next one on another server. The
        // identity query may fail, if the account has no right to it.
        let answers = join5(
            client.batch_execute("BEGIN"),
            client.query_typed(&settings, &[]),
            client.query_typed(&tables, &[]),
            client.query_typed(&identity, &[]),
            client.batch_execute("ROLLBACK"),
        );
        let (settings, tables) = match answers.await {
            (Ok(()), Ok(settings), Ok(tables), identity, Ok(())) => {
                self.has_identity = identity.is_ok();
                (settings, tables)
            }
            (Err(error), ..) | (_, Err(error), ..) | (_, _, Err(error), ..) | (.., Err(error)) => {
                return Err(self.failed(error));
            }
        };
        let row = only(rows(&settings))?;
        check_server(self.has_others, row.int(0)?, row.int(1)? != 0, row.int(2)? != 0)?;
        let level = if row.int(3)? != 0 { "remote_apply" } else { "on" };
        let patience = server.settings.limits.deadline.max(Duration::from_secs(1)).as_millis();
        // The server stores this setting in an `i32`.
        let patience = patience.min(i32::MAX as u128);
        self.begin = format!(
            "{BEGIN}; SET LOCAL synchronous_commit = {level};
             SET LOCAL idle_in_transaction_session_timeout = {patience}"
        );
        for (risk, index, name) in [(0, 4, "fsync"), (1, 5, "full_page_writes")] {
            let value = row.text(index)?;
            if value != "on" {
                server.report(risk, || {
                    format!(
                        "{name} is {value}: after a crash of its machine the server may have lost what \
                         it has committed, so that ids repeat; set {name} = on"
                    )
                })?;
            }
        }
        for row in rows(&tables) {
            let (name, kind, comment) = (row.text(0)?, row.text(1)?, row.optional_text(2)?);
            check_version(name, comment.unwrap_or_default()).map_err(Problem::Refused)?;
            if kind != "p" {
                server.report(2, || {
                    format!(
                        "{name} is an unlogged or temporary table, which loses its rows in a crash, so that ids \
                         repeat; convert it: ALTER TABLE {name} SET LOGGED"
                    )
                })?;
            }
        }
        Ok(())
    }

    async fn answers(&mut self) -> bool {
        self.script("").await.is_ok()
    }

    async fn close(self: Box<Self>) {
        self.raw.close().await;
    }

    fn dialect(&self) -> &'static Dialect {
        &DIALECT
    }

    /// A reader's lock excludes `mark_range` until the transaction ends.
    fn has_range(&self) -> &'static str {
        "COALESCE(OBJ_DESCRIPTION(TO_REGCLASS('WORKER_NODE'), 'pg_class'), '')
         LIKE '%UIDRING_RANGE%'"
    }

    async fn begin(&mut self) -> Done<()> {
        self.raw.forget_warning();
        let begin = self.begin.clone();
        self.script(&begin).await
    }

    /// Sends both in one round trip.
    async fn begin_with(&mut self, sql: &str, values: &[Value<'_>]) -> Done<Vec<Row>> {
        let (sql, client) = (numbered(sql), &self.raw.client);
        let values = parameters(values);
        self.raw.forget_warning();
        let begun = join(client.batch_execute(&self.begin), client.query_typed(&sql, &values));
        match begun.await {
            (Ok(()), Ok(found)) => Ok(rows(&found)),
            (Err(error), _) | (Ok(()), Err(error)) => Err(self.failed(error)),
        }
    }

    async fn commit(&mut self) -> Done<()> {
        let client = &self.raw.client;
        let [warn, commit] = COMMIT.map(|sql| client.batch_execute(sql));
        match join(warn, commit).await {
            (Ok(()), Ok(())) => self.check_commit(),
            (Err(error), _) | (_, Err(error)) => Err(self.failed(error)),
        }
    }

    async fn rollback(&mut self) -> Done<()> {
        self.script("ROLLBACK").await
    }

    async fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Done<Vec<Row>> {
        let sql = numbered(sql);
        let found = self.raw.client.query_typed(&sql, &parameters(values)).await;
        found.map(|found| rows(&found)).map_err(|error| self.failed(error))
    }

    /// A single query is a transaction.
    async fn look(&mut self, sql: &str, values: &[Value<'_>]) -> Done<Vec<Row>> {
        self.query(sql, values).await
    }

    async fn execute(&mut self, sql: &str, values: &[Value<'_>]) -> Done<u64> {
        let sql = numbered(sql);
        let changed = self.raw.client.execute_typed(&sql, &parameters(values)).await;
        changed.map_err(|error| self.failed(error))
    }

    async fn change(&mut self, sql: &str, values: &[Value<'_>]) -> Done<Changed> {
        let sql = numbered(&format!("{sql} RETURNING {}", self.identity()));
        let values = parameters(values);
        let client = &self.raw.client;
        self.raw.forget_warning();
        let [warn, commit] = COMMIT.map(|sql| client.batch_execute(sql));
        // After a failed statement, the server skips the rest, and the COMMIT is a ROLLBACK.
        let done = join4(
            client.batch_execute(&self.begin),
            client.query_typed(&sql, &values),
            warn,
            commit,
        );
        let found = match done.await {
            (Ok(()), Ok(found), Ok(()), Ok(())) => rows(&found),
            (Err(error), ..) | (_, Err(error), ..) | (.., Err(error), _) | (.., Err(error)) => {
                return Err(self.failed(error));
            }
        };
        self.check_commit()?;
        let server = found.first().map(|row| row.server(0)).transpose()?.flatten();
        Ok(Changed { rows: found.len() as u64, server })
    }

    async fn change_and_look(
        &mut self,
        change: (&str, &[Value<'_>]),
        look: (&str, &[Value<'_>]),
    ) -> Done<(u64, Vec<Row>)> {
        let client = &self.raw.client;
        let [(first, one), (second, two)] =
            [change, look].map(|(sql, values)| (numbered(sql), parameters(values)));
        let done = join3(
            client.execute_typed(&first, &one),
            client.batch_execute(SETTLE),
            client.query_typed(&second, &two),
        );
        match done.await {
            (Ok(changed), Ok(()), Ok(found)) => Ok((changed, rows(&found))),
            (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => Err(self.failed(error)),
        }
    }

    async fn insert_node(&mut self, sql: &str, values: &[Value<'_>]) -> Done<Option<u64>> {
        let (sql, client) = (numbered(&format!("{sql} RETURNING ID")), &self.raw.client);
        let values = parameters(values);
        let inserted = join(client.query_typed(&sql, &values), client.batch_execute(SETTLE));
        match inserted.await {
            (Ok(found), Ok(())) => rows(&found).first().map(|row| row.unsigned(0)).transpose(),
            (Err(error), _) | (_, Err(error)) => Err(self.failed(error)),
        }
    }

    async fn create_table(&mut self, table: &Table) -> Done<()> {
        let select = format!("SELECT CAST(TO_REGCLASS('{}') AS TEXT)", table.name);
        if only(self.query(&select, &[]).await?)?.optional_text(0)?.is_some() {
            return Ok(());
        }
        match self.script(create(table.name)).await {
            // Another process was faster.
            Err(problem)
                if matches!(problem.state(), Some(State::TableExists | State::Duplicate)) =>
            {
                Ok(())
            }
            done => done,
        }
    }

    /// The counter is a sequence, which does not follow the rows. It never goes back.
    async fn mark_range(&mut self, range: WorkerRange) -> Done<()> {
        let counter = "PG_GET_SERIAL_SEQUENCE('WORKER_NODE', 'id')";
        let [warn, commit] = COMMIT;
        let script = format!(
            "{}; LOCK TABLE WORKER_NODE IN ACCESS EXCLUSIVE MODE;
             COMMENT ON TABLE WORKER_NODE IS '{RANGE_COMMENT}';
             SELECT SETVAL({counter}, GREATEST(NEXTVAL({counter}), {}), FALSE);
             {warn}; {commit}",
            self.begin,
            range.first()
        );
        self.raw.forget_warning();
        self.script(&script).await?;
        self.check_commit()
    }

    async fn last_key(&mut self) -> Done<Option<u64>> {
        let found = self.look(KEY_SEQUENCE, &[]).await?;
        let [sequence] = &*found else { return Ok(None) };
        // Its name may have a `?`, which would be a parameter.
        let select = format!(
            "SELECT GREATEST(GREATEST(last_value, 0) - CAST(NOT is_called AS INT), 0) AS last_key FROM {}",
            sequence.text(0)?
        );
        let found = self.raw.client.query_typed(&select, &[]).await;
        let found = found.map_err(|error| self.failed(error))?;
        only(rows(&found))?.optional_unsigned(0)
    }

    async fn may_create(&mut self) -> Done<Option<bool>> {
        let select = "SELECT HAS_SCHEMA_PRIVILEGE(CURRENT_SCHEMA(), 'CREATE')";
        Ok(only(self.look(select, &[]).await?)?.optional_int(0)?.map(|may| may != 0))
    }

    fn identity(&self) -> String {
        if self.has_identity { IDENTITY } else { "CAST(0 AS BIGINT)" }.into()
    }

    fn has_identity(&self) -> bool {
        self.has_identity
    }

    fn miscounted(&self, what: &str, rows: u64) -> Problem {
        match rows {
            0 => by_trigger(&format!(
                "{what} in leaf_alloc, whose row is locked for it, changes nothing"
            )),
            _ => not_one_row(what, rows, DIALECT.one_row),
        }
    }

    /// Row-level security may hide an existing row.
    async fn check_absent(&mut self, tag: &str) -> Done<()> {
        match self.look_for("leaf_alloc", "biz_tag", tag.into()).await? {
            (false, false) => Ok(()),
            (true, false) => Err(Problem::Conflict(format!(
                "tag `{tag}` was not there, and was added meanwhile; try again"
            ))),
            (true, true) => Err(by_policy(&format!("tag `{tag}` is in leaf_alloc"))),
            (false, true) => Err(Problem::Denied(format!(
                "this account sees no tag `{tag}` in leaf_alloc, whose row-level security may hide it: let a \
                 policy show it, or look as the table's owner whether it is there before you create it"
            ))),
        }
    }

    async fn check_changeable(&mut self, worker_id: u64) -> Done<()> {
        let id = worker_id.into();
        let lock = "SELECT WORKER_ID FROM UIDRING_LEASE WHERE WORKER_ID = ? FOR UPDATE NOWAIT";
        let update = "UPDATE UIDRING_LEASE SET TOKEN = TOKEN + 1 WHERE WORKER_ID = ?";
        let free = format!("worker id {worker_id} is free in UIDRING_LEASE");
        let prevented = match self.begin_with(lock, &[id]).await {
            Ok(rows) if rows.is_empty() => {
                let sight = self.look_for("UIDRING_LEASE", "WORKER_ID", id).await?;
                (sight == (true, true)).then(|| by_policy(&free))
            }
            Ok(_) => {
                let changed = self.execute(update, &[id]).await?;
                let nothing = || by_trigger(&format!("{free}, and a change of it changes nothing"));
                (changed == 0).then(nothing)
            }
            Err(problem) if problem.is_locked() => None,
            Err(problem) => return Err(problem),
        };
        self.rollback().await?;
        prevented.map_or(Ok(()), Err)
    }
}

impl Session {
    /// Looks for a row that could not be locked. Returns whether it exists, and whether row-level security may hide it
    /// or prevent a change.
    async fn look_for(&mut self, table: &str, key: &str, value: Value<'_>) -> Done<(bool, bool)> {
        let look = format!(
            "SELECT EXISTS (SELECT 1 FROM {table} WHERE {key} = ?), ROW_SECURITY_ACTIVE('{}')",
            table.to_lowercase()
        );
        let row = only(self.query(&look, &[value]).await?)?;
        Ok((row.int(0)? != 0, row.int(1)? != 0))
    }
}

/// The error for a visible row that could not be locked. Only a policy can prevent that.
fn by_policy(row: &str) -> Problem {
    Problem::Denied(format!(
        "{row}, and no policy of its row-level security lets this account change it: add one FOR UPDATE, or FOR \
         ALL"
    ))
}

/// The error for a statement that changed no row, although nobody else holds a lock on it.
fn by_trigger(done: &str) -> Problem {
    Problem::Denied(format!(
        "{done}: a trigger, rule or policy of the table prevents it; remove it"
    ))
}

fn check_server(has_others: bool, version: i64, is_standby: bool, is_read_only: bool) -> Done<()> {
    if version < EARLIEST {
        let (found, needed) = (version / 10_000, EARLIEST / 10_000);
        return Err(Problem::Refused(format!(
            "the server is PostgreSQL {found}, and the earliest that will do is {needed}: update it"
        )));
    }
    if is_standby {
        let why = "the server is a standby, which takes no rows; name the primary, or all servers \
                   of the cluster as HOST1,HOST2"
            .into();
        return Err(Problem::ReadOnly { why, has_others });
    }
    if is_read_only {
        let why = "transactions are read-only there (default_transaction_read_only); name the \
                   primary, or unset it for this user"
            .into();
        return Err(Problem::ReadOnly { why, has_others });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_server_and_one_that_takes_no_rows_are_refused() {
        assert!(check_server(false, 120_000, false, false).is_ok());
        let Err(Problem::Refused(text)) = check_server(false, 110_022, false, false) else {
            panic!("too old")
        };
        assert!(text.contains("PostgreSQL 11") && text.contains("is 12"), "{text}");
        for (is_standby, is_read_only) in [(true, true), (false, true)] {
            let done = check_server(false, 150_000, is_standby, is_read_only);
            assert!(matches!(done, Err(Problem::ReadOnly { has_others: false, .. })), "{done:?}");
        }
    }
}
