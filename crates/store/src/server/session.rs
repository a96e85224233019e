//! A connection as the operations on tables use it.

use std::future::Future;

use super::problem::{Failure, Problem, State};
use super::row::Row;
use super::tables::Table;
use super::value::Value;
use crate::WorkerRange;
use crate::sql::Dialect;

/// The result of using a session.
pub type Done<S, T> = Result<T, Problem<<S as Session>::Failure>>;

/// The result of a change.
#[derive(Clone, Copy, Debug)]
pub struct Changed {
    /// How many rows matched, including those that already had the values.
    pub rows: u64,
    /// The number of the server that executed it, if it has one and the statement has a
    /// [`server_mark`](Session::server_mark).
    pub server: Option<u64>,
}

/// A connection whose server and tables are checked. Parameters are `?`, in the order of the text.
///
/// A transaction reads what was committed when a statement begins, or the rows that it has locked. After an error, the
/// caller rolls the transaction back or drops the session.
pub trait Session: Send + Sync + Sized {
    /// An error of the driver.
    type Failure: Failure;

    /// The database's SQL.
    const DIALECT: Dialect;

    /// An expression that is true if the comment of `WORKER_NODE` names the table `UIDRING_RANGE`. In a statement that
    /// reads `WORKER_NODE`, its value holds until the transaction ends.
    const HAS_RANGE: &'static str;

    /// Begins a transaction.
    fn begin(&mut self) -> impl Future<Output = Done<Self, ()>> + Send;

    /// Returns the rows of a query without parameters in a transaction of its own; none if the table does not exist.
    fn look_if_there(&mut self, sql: &str) -> impl Future<Output = Done<Self, Vec<Row>>> + Send {
        async move {
            match self.look(sql, &[]).await {
                Err(problem) if problem.state() == Some(State::NoTable) => Ok(Vec::new()),
                rows => rows,
            }
        }
    }

    /// Begins a transaction with a query.
    fn begin_with(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Done<Self, Vec<Row>>> + Send {
        async move {
            self.begin().await?;
            self.query(sql, values).await
        }
    }

    /// Commits. If the reply is lost, the changes may or may not be committed.
    fn commit(&mut self) -> impl Future<Output = Done<Self, ()>> + Send;

    /// Rolls the transaction back, if there is one.
    fn rollback(&mut self) -> impl Future<Output = Done<Self, ()>> + Send;

    /// Returns the rows of a query in a transaction.
    fn query(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Done<Self, Vec<Row>>> + Send;

    /// Returns the rows of a query in a transaction of its own.
    fn look(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Done<Self, Vec<Row>>> + Send;

    /// Executes a statement in a transaction, and returns how many rows it changed.
    fn execute(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Done<Self, u64>> + Send;

    /// Executes a statement in a transaction of its own, sent as a whole. So a process that is paused meanwhile holds
    /// no lock that others wait for.
    fn change(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Done<Self, Changed>> + Send;

    /// Executes a statement in a transaction, then a query that sees what its triggers did.
    fn change_and_look(
        &mut self,
        change: (&str, &[Value<'_>]),
        look: (&str, &[Value<'_>]),
    ) -> impl Future<Output = Done<Self, (u64, Vec<Row>)>> + Send {
        async move {
            let rows = self.execute(change.0, change.1).await?;
            Ok((rows, self.query(look.0, look.1).await?))
        }
    }

    /// Inserts a row of `WORKER_NODE` in a transaction, and returns its generated key, if any.
    fn insert_node(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Done<Self, Option<u64>>> + Send;

    /// Creates a table if it is missing. Needs the right to do so only then.
    fn create_table(&mut self, table: &Table) -> impl Future<Output = Done<Self, ()>> + Send;

    /// Waits for all transactions that have read `WORKER_NODE`. Then sets its comment to
    /// [`RANGE_COMMENT`](super::RANGE_COMMENT), and its counter to at least the first worker id of the range.
    fn mark_range(&mut self, range: WorkerRange) -> impl Future<Output = Done<Self, ()>> + Send;

    /// Returns the last key that `WORKER_NODE` has generated, or has been set to; `None` if the server does not say. Rows
    /// alone do not show a counter that was set by hand.
    fn last_key(&mut self) -> impl Future<Output = Done<Self, Option<u64>>> + Send;

    /// Returns whether the account may create tables; `None` if the server does not say.
    fn may_create(&mut self) -> impl Future<Output = Done<Self, Option<bool>>> + Send;

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
    fn not_read_back(&self, why: String) -> Problem<Self::Failure> {
        Problem::Refused(why)
    }

    /// Returns the error of a statement that changed `rows` rows instead of the locked one.
    fn miscounted(&self, what: &str, rows: u64) -> Problem<Self::Failure> {
        not_one_row(what, rows, Self::DIALECT.one_row)
    }

    /// Checks that a row that no query found is not hidden.
    fn check_absent(&mut self, tag: &str) -> impl Future<Output = Done<Self, ()>> + Send {
        let _ = tag;
        async { Ok(()) }
    }

    /// Fails if a free lease cannot be changed at all, rather than being locked by others.
    fn check_changeable(&mut self, worker_id: u64) -> impl Future<Output = Done<Self, ()>> + Send {
        let why = format!(
            "worker id {worker_id} is free in UIDRING_LEASE, and a change of it changes nothing: the table has to \
             be as `uidring worker init --leases` makes it"
        );
        async { Err(Problem::Refused(why)) }
    }

    /// Adds a row in a transaction. Returns false if its key, in column `key`, exists.
    fn insert_new(
        &mut self,
        sql: &str,
        key: &str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Done<Self, bool>> + Send {
        async move {
            let sql = format!("{sql}{}", (Self::DIALECT.or_nothing)(key));
            match self.execute(&sql, values).await {
                Err(problem) if problem.state() == Some(State::Duplicate) => Ok(false),
                done => Ok(done? == 1),
            }
        }
    }
}

/// Returns the error of a statement that did not change exactly one row.
pub fn not_one_row<F>(what: &str, rows: u64, needs: &str) -> Problem<F> {
    Problem::Conflict(format!("{what} changed {rows} rows and not 1: {needs}; try again"))
}
