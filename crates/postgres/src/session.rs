//! A connection whose server was looked at, and its statements. Nothing is left in the session by them, so
//! that a pooler may give each transaction another connection.

use std::time::Duration;

use futures_util::future::{join, join3, join4, join5};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use uidring_store::server::{Table, check_version};

use crate::PostgresStore;
use crate::columns::{column, int, optional_unsigned};
use crate::dialect::numbered;
use crate::driver::Raw;
use crate::problem::Problem;
use crate::value::Value;

/// The earliest version that is known to do all that is asked of it.
const EARLIEST: i64 = 120_000;

/// A number above 0 that tells this server from others, and from what it was before it was promoted: of
/// the cluster's own number and the timeline that it writes.
const IDENTITY: &str = "(SELECT CAST(CAST('x' || SUBSTR(MD5(system_identifier || '/' || \
     SUBSTR(PG_WALFILE_NAME(PG_CURRENT_WAL_LSN()), 1, 8)), 1, 15) AS BIT(60)) AS BIGINT) \
     FROM PG_CONTROL_SYSTEM())";

/// What transactions begin with: at a level at which a statement sees what is committed, whatever the
/// server's own level, and with a COMMIT that waits for the disk, and for standbys where there are any. A
/// row that is locked is waited for as long as that is shorter than any lease; who is paused amid must not
/// keep what it has locked. No trigger waits for the COMMIT, where it could change what was read back, and no
/// warning is sent before the [`COMMIT`].
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED;
     SET CONSTRAINTS ALL IMMEDIATE;
     SET LOCAL lock_timeout = '1s';
     SET LOCAL client_min_messages = error";

/// Executes triggers that another trigger has deferred all the same.
const SETTLE: &str = "SET CONSTRAINTS ALL IMMEDIATE";

/// What transactions end with. A warning of the COMMIT means that it cannot be relied on: it is how the server
/// says that whoever waited for a standby was cancelled, and that only the server itself has committed.
const COMMIT: [&str; 2] = ["SET LOCAL client_min_messages = warning", "COMMIT"];

/// What a connection is made with.
pub struct Session {
    raw: Raw,
    begin: String,
    /// Whether the server says which it is.
    has_identity: bool,
}

impl Session {
    /// Checks the server of a connection.
    ///
    /// What is read here may come from another server than the one that writes, if a pooler is in between:
    /// its settings are as good a hint. The server's identity is read where it counts, in the statement
    /// that writes.
    pub async fn inspect(raw: Raw, store: &PostgresStore, table: &Table) -> Result<Self, Problem> {
        let mut session = Self { raw, begin: String::new(), has_identity: true };
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
        let client = &session.raw.client;
        // At once, and in one transaction: a pooler may give what comes after one to somebody else. The
        // last may fail, as where the account may not look.
        let answers = join5(
            client.batch_execute("BEGIN"),
            client.query_typed(&settings, &[]),
            client.query_typed(&tables, &[]),
            client.query_typed(&identity, &[]),
            client.batch_execute("ROLLBACK"),
        );
        let (settings, tables) = match answers.await {
            (Ok(()), Ok(settings), Ok(tables), identity, Ok(())) => {
                session.has_identity = identity.is_ok();
                (settings, tables)
            }
            (Err(error), ..) | (_, Err(error), ..) | (_, _, Err(error), ..) | (.., Err(error)) => {
                return Err(session.failed(error));
            }
        };
        let row = only(settings)?;
        check_server(store, int(&row, 0)?, column(&row, 1)?, column(&row, 2)?)?;
        let level = if column(&row, 3)? { "remote_apply" } else { "on" };
        let patience = store.settings.limits.deadline.max(Duration::from_secs(1)).as_millis();
        session.begin = format!(
            "{BEGIN}; SET LOCAL synchronous_commit = {level};
             SET LOCAL idle_in_transaction_session_timeout = {patience}"
        );
        for (risk, index, name) in [(0, 4, "fsync"), (1, 5, "full_page_writes")] {
            let value: &str = column(&row, index)?;
            if value != "on" {
                report(store, risk, || {
                    format!(
                        "{name} is {value}: after a crash of its machine the server may have lost what \
                         it confirmed, and ids come twice; set {name} = on"
                    )
                })?;
            }
        }
        for row in tables {
            let (name, kind): (&str, &str) = (column(&row, 0)?, column(&row, 1)?);
            let comment: Option<&str> = column(&row, 2)?;
            check_version(name, comment.unwrap_or_default()).map_err(Problem::Refused)?;
            if kind != "p" {
                report(store, 2, || {
                    format!(
                        "{name} is an unlogged or temporary table, which forgets what it confirmed, and \
                         ids come twice; ALTER TABLE {name} SET LOGGED"
                    )
                })?;
            }
        }
        Ok(session)
    }

    /// An expression for a number above 0 that tells the server that evaluates it from others; 0 where the
    /// server does not say.
    pub fn identity(&self) -> &'static str {
        if self.has_identity { IDENTITY } else { "CAST(0 AS BIGINT)" }
    }

    /// Begins a transaction.
    pub async fn begin(&mut self) -> Result<(), Problem> {
        self.raw.forget_warning();
        let begin = self.begin.clone();
        self.script(&begin).await
    }

    /// Begins a transaction with a query, in one round trip.
    pub async fn begin_with(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Problem> {
        let (sql, client) = (numbered(sql), &self.raw.client);
        let params = params(values);
        self.raw.forget_warning();
        let begun = join(client.batch_execute(&self.begin), client.query_typed(&sql, &params));
        match begun.await {
            (Ok(()), Ok(rows)) => Ok(rows),
            (Err(error), _) | (Ok(()), Err(error)) => Err(self.failed(error)),
        }
    }

    /// Commits. If the answer is lost, nobody can tell whether it was done.
    pub async fn commit(&mut self) -> Result<(), Problem> {
        let client = &self.raw.client;
        let [warn, commit] = COMMIT.map(|sql| client.batch_execute(sql));
        match join(warn, commit).await {
            (Ok(()), Ok(())) => self.check_commit(),
            (Err(error), _) | (_, Err(error)) => Err(self.failed(error)),
        }
    }

    /// Undoes the transaction, if there is one.
    pub async fn rollback(&mut self) -> Result<(), Problem> {
        self.script("ROLLBACK").await
    }

    /// Executes a statement in a transaction of its own, in one round trip, and returns its rows. Whoever
    /// is paused meanwhile keeps nothing locked.
    pub async fn change(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Problem> {
        let (sql, client) = (numbered(sql), &self.raw.client);
        let params = params(values);
        self.raw.forget_warning();
        let [warn, commit] = COMMIT.map(|sql| client.batch_execute(sql));
        // What follows a statement that failed is not executed, and the COMMIT then is a ROLLBACK.
        let done = join4(
            client.batch_execute(&self.begin),
            client.query_typed(&sql, &params),
            warn,
            commit,
        );
        let rows = match done.await {
            (Ok(()), Ok(rows), Ok(()), Ok(())) => rows,
            (Err(error), ..) | (_, Err(error), ..) | (.., Err(error), _) | (.., Err(error)) => {
                return Err(self.failed(error));
            }
        };
        self.check_commit()?;
        Ok(rows)
    }

    /// Returns the rows of a query.
    pub async fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Problem> {
        let sql = numbered(sql);
        let rows = self.raw.client.query_typed(&sql, &params(values)).await;
        rows.map_err(|error| self.failed(error))
    }

    /// Returns the rows of a statement, and of a query that sees what its triggers did, in one round trip.
    pub async fn query_twice(
        &mut self,
        statement: (&str, &[Value<'_>]),
        query: (&str, &[Value<'_>]),
    ) -> Result<(Vec<Row>, Vec<Row>), Problem> {
        let client = &self.raw.client;
        let [(first, one), (second, two)] =
            [statement, query].map(|(sql, values)| (numbered(sql), params(values)));
        let done = join3(
            client.query_typed(&first, &one),
            client.batch_execute(SETTLE),
            client.query_typed(&second, &two),
        );
        match done.await {
            (Ok(one), Ok(()), Ok(two)) => Ok((one, two)),
            (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => Err(self.failed(error)),
        }
    }

    /// Returns the only row of a query.
    pub async fn one(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Row, Problem> {
        only(self.query(sql, values).await?)
    }

    /// Returns how many rows a statement changed.
    pub async fn execute(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64, Problem> {
        let sql = numbered(sql);
        let rows = self.raw.client.execute_typed(&sql, &params(values)).await;
        rows.map_err(|error| self.failed(error))
    }

    /// Executes statements without parameters.
    pub async fn script(&mut self, sql: &str) -> Result<(), Problem> {
        let done = self.raw.client.batch_execute(sql).await;
        done.map_err(|error| self.failed(error))
    }

    /// Creates a table if it is missing. Only then is the right to do so needed.
    pub async fn create_table(&mut self, name: &str, create: &str) -> Result<(), Problem> {
        let select = format!("SELECT CAST(TO_REGCLASS('{name}') AS TEXT)");
        let row = self.one(&select, &[]).await?;
        if column::<Option<&str>>(&row, 0)?.is_some() {
            return Ok(());
        }
        match self.script(create).await {
            // Somebody else was faster.
            Err(problem) if problem.is_there() || problem.is_duplicate() => Ok(()),
            done => done,
        }
    }

    /// Returns the worker id's column of a number that the server says it is; `None` for 0.
    pub fn server(row: &Row, index: usize) -> Result<Option<u64>, Problem> {
        Ok(optional_unsigned(row, index)?.filter(|server| *server > 0))
    }

    pub async fn close(self) {
        self.raw.close().await;
    }

    fn check_commit(&self) -> Result<(), Problem> {
        match self.raw.warning() {
            Some(warning) => Err(Problem::Unconfirmed(warning)),
            None => Ok(()),
        }
    }

    fn failed(&mut self, error: tokio_postgres::Error) -> Problem {
        Problem::Driver(self.raw.cause(error))
    }
}

pub fn only(mut rows: Vec<Row>) -> Result<Row, Problem> {
    rows.pop().ok_or_else(|| Problem::Refused("the server gave no row where one always is".into()))
}

fn params<'a>(values: &'a [Value<'_>]) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
    values.iter().map(|value| (value as _, value.kind())).collect()
}

fn check_server(
    store: &PostgresStore,
    version: i64,
    is_standby: bool,
    is_read_only: bool,
) -> Result<(), Problem> {
    if version < EARLIEST {
        let (found, needed) = (version / 10_000, EARLIEST / 10_000);
        return Err(Problem::Refused(format!(
            "the server is PostgreSQL {found}, and the earliest that will do is {needed}: update it"
        )));
    }
    let has_others = store.has_others();
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

fn report(store: &PostgresStore, risk: usize, explain: impl Fn() -> String) -> Result<(), Problem> {
    store.settings.report(store, risk, explain).map_err(Problem::Refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_server_and_one_that_takes_no_rows_are_refused() {
        let store = PostgresStore::from_url("postgres://u@h/d").expect("a URL");
        assert!(check_server(&store, 120_000, false, false).is_ok());
        let Err(Problem::Refused(text)) = check_server(&store, 110_022, false, false) else {
            panic!("too old")
        };
        assert!(text.contains("PostgreSQL 11") && text.contains("is 12"), "{text}");
        for (is_standby, is_read_only) in [(true, true), (false, true)] {
            let done = check_server(&store, 150_000, is_standby, is_read_only);
            assert!(matches!(done, Err(Problem::ReadOnly { has_others: false, .. })), "{done:?}");
        }
    }
}
