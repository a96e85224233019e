//! A connection as the operations on tables use it.

use async_trait::async_trait;

use super::problem::{Problem, State};
use super::row::Row;
use super::settings::Inspected;
use super::tables::Table;
use super::value::Value;
use crate::WorkerRange;
use crate::sql::Dialect;

/// The result of using a session.
pub type Done<T> = Result<T, Problem>;

/// The result of a change.
#[derive(Clone, Copy, Debug)]
pub struct Changed {
    /// How many rows matched, including those that already had the values.
    pub rows: u64,
    /// The number of the server that executed it, if it has one and the statement has a
    /// [`server_mark`](Session::server_mark).
    pub server: Option<u64>,
}

/// A connection. Parameters are `?`, in the order of the text.
///
/// A transaction reads what was committed when a statement begins, or the rows that it has locked. After an error, the
/// caller rolls the transaction back or drops the session.
#[async_trait]
pub trait Session: Send + Sync {
    /// Checks the server and its tables, before anything else.
    async fn inspect(&mut self, server: Inspected<'_>, table: &Table) -> Done<()>;

    /// Returns whether an idle connection still answers.
    async fn answers(&mut self) -> bool;

    /// Closes the connection cleanly.
    async fn close(self: Box<Self>);

    /// Returns the database's SQL.
    fn dialect(&self) -> &'static Dialect;

    /// Returns an expression that is true if the comment of `WORKER_NODE` names the table `UIDRING_RANGE`. In a statement
    /// that reads `WORKER_NODE`, its value holds until the transaction ends.
    fn has_range(&self) -> &'static str;

    /// Begins a transaction.
    async fn begin(&mut self) -> Done<()>;

    /// Begins a transaction with a query.
    async fn begin_with(&mut self, sql: &str, values: &[Value<'_>]) -> Done<Vec<Row>> {
        self.begin().await?;
        self.query(sql, values).await
    }

    /// Commits. If the reply is lost, the changes may or may not be committed.
    async fn commit(&mut self) -> Done<()>;

    /// Rolls the transaction back, if there is one.
    async fn rollback(&mut self) -> Done<()>;

    /// Returns the rows of a query in a transaction.
    async fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Done<Vec<Row>>;

    /// Returns the rows of a query in a transaction of its own.
    async fn look(&mut self, sql: &str, values: &[Value<'_>]) -> Done<Vec<Row>>;

    /// Returns the rows of a query without parameters in a transaction of its own; none if the table does not exist.
    async fn look_if_there(&mut self, sql: &str) -> Done<Vec<Row>> {
        match self.look(sql, &[]).await {
            Err(problem) if problem.state() == Some(State::NoTable) => Ok(Vec::new()),
            rows => rows,
        }
    }

    /// Executes a statement in a transaction, and returns how many rows it changed.
    async fn execute(&mut self, sql: &str, values: &[Value<'_>]) -> Done<u64>;

    /// Executes a statement in a transaction of its own, sent as a whole. So a process that is paused meanwhile holds
    /// no lock that others wait for.
    async fn change(&mut self, sql: &str, values: &[Value<'_>]) -> Done<Changed>;

    /// Executes a statement in a transaction, then a query that sees what its triggers did.
    async fn change_and_look(
        &mut self,
        change: (&str, &[Value<'_>]),
        look: (&str, &[Value<'_>]),
    ) -> Done<(u64, Vec<Row>)> {
        let rows = self.execute(change.0, change.1).await?;
        Ok((rows, self.query(look.0, look.1).await?))
    }

    /// Adds a row in a transaction. Returns false if its key, in column `key`, exists.
    async fn insert_new(&mut self, sql: &str, key: &str, values: &[Value<'_>]) -> Done<bool> {
        let sql = format!("{sql}{}", (self.dialect().or_nothing)(key));
        match self.execute(&sql, values).await {
            Err(problem) if problem.state() == Some(State::Duplicate) => Ok(false),
            done => Ok(done? == 1),
        }
    }

    /// Inserts a row of `WORKER_NODE` in a transaction, and returns its generated key, if any.
    async fn insert_node(&mut self, sql: &str, values: &[Value<'_>]) -> Done<Option<u64>>;

    /// Creates a table if it is missing. Needs the right to do so only then.
    async fn create_table(&mut self, table: &Table) -> Done<()>;

    /// Waits for all transactions that have read `WORKER_NODE`. Then sets its comment to
    /// [`RANGE_COMMENT`](super::RANGE_COMMENT), and its counter to at least the first worker id of the range.
    async fn mark_range(&mut self, range: WorkerRange) -> Done<()>;

    /// Returns the last key that `WORKER_NODE` has generated, or has been set to; `None` if the server does not say. Rows
    /// alone do not show a counter that was set by hand.
    async fn last_key(&mut self) -> Done<Option<u64>>;

    /// Returns whether the account may create tables; `None` if the server does not say.
    async fn may_create(&mut self) -> Done<Option<bool>>;

    /// Returns an expression for a number above 0 that identifies the server that evaluates it; 0 if the server has
    /// none.
    fn identity(&self) -> String;

    /// Returns whether the server has such a number.
    fn has_identity(&self) -> bool;

    /// Returns a term, of value 0, that makes an UPDATE report which server executed it.
    fn server_mark(&self) -> String {
        String::new()
    }

    /// Returns the error of a transaction that does not read what it wrote.
    fn not_read_back(&self, why: String) -> Problem {
        Problem::Refused(why)
    }

    /// Returns the error of a statement that changed `rows` rows instead of the locked one.
    fn miscounted(&self, what: &str, rows: u64) -> Problem {
        not_one_row(what, rows, self.dialect().one_row)
    }

    /// Checks that a row that no query found is not hidden.
    async fn check_absent(&mut self, _tag: &str) -> Done<()> {
        Ok(())
    }

    /// Fails if a free lease cannot be changed at all, rather than being locked by others.
    async fn check_changeable(&mut self, worker_id: u64) -> Done<()> {
        Err(Problem::Refused(format!(
            "worker id {worker_id} is free in UIDRING_LEASE, and a change of it changes nothing: the table has to \
             be as `uidring worker init --leases` makes it"
        )))
    }
}

/// Returns the error of a statement that did not change exactly one row.
pub fn not_one_row(what: &str, rows: u64, needs: &str) -> Problem {
    Problem::Conflict(format!("{what} changed {rows} rows and not 1: {needs}; try again"))
}
