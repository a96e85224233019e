//! What the operations on tables need of a connection.

use std::future::Future;

use super::problem::{Failure, Problem, State};
use super::row::Row;
use super::tables::Table;
use super::value::Value;
use crate::WorkerRange;
use crate::sql::Dialect;

/// What comes of a use of a session.
pub type Done<S, T> = Result<T, Problem<<S as Session>::Failure>>;

/// What a statement changed.
#[derive(Clone, Copy, Debug)]
pub struct Changed {
    /// How many rows it met. One that it leaves as it is counts, too.
    pub rows: u64,
    /// A number of the server that executed it, if the server says it and the statement asks by
    /// [`server_mark`](Session::server_mark).
    pub server: Option<u64>,
}

/// A connection whose server and tables are known to be good. Parameters are `?`, in the order of the text.
///
/// A transaction reads what was committed when a statement begins, or the rows that it has locked. After an
/// error the caller gives the session up, unless it rolls the transaction back.
pub trait Session: Send + Sync + Sized {
    /// An error of the driver.
    type Failure: Failure;

    /// What the database writes differently from others.
    const DIALECT: Dialect;

    /// An expression that is true if the comment of `WORKER_NODE` names the table `UIDRING_RANGE`. In a statement that
    /// reads `WORKER_NODE` it stays true or false until the transaction ends.
    const HAS_RANGE: &'static str;

    /// Begins a transaction.
    fn begin(&mut self) -> impl Future<Output = Done<Self, ()>> + Send;

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

    /// Commits. If the answer is lost, nobody can tell whether it was done.
    fn commit(&mut self) -> impl Future<Output = Done<Self, ()>> + Send;

    /// Undoes the transaction, if there is one.
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

    /// Executes a statement in a transaction of its own, which reaches the server whole: a process that is
    /// paused meanwhile holds no lock that others wait for.
    fn change(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Done<Self, Changed>> + Send;

    /// Executes a statement in a transaction, and then a query that sees what its triggers did.
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

    /// Inserts a row of `WORKER_NODE` in a transaction, and returns its generated key; `None` without one.
    fn insert_node(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Done<Self, Option<u64>>> + Send;

    /// Creates a table if it is missing. Only then is the right to do so needed.
    fn create_table(&mut self, table: &Table) -> impl Future<Output = Done<Self, ()>> + Send;

    /// Waits for the end of all transactions that have read `WORKER_NODE`. Then its comment is
    /// [`RANGE_COMMENT`](super::RANGE_COMMENT), and its counter stands at the first worker id of the range or above.
    fn mark_range(&mut self, range: WorkerRange) -> impl Future<Output = Done<Self, ()>> + Send;

    /// Returns whether the account may create tables; `None` if the server does not say.
    fn may_create(&mut self) -> impl Future<Output = Done<Self, Option<bool>>> + Send;

    /// An expression for a number above 0 that tells the server that evaluates it from others; 0 where the
    /// server does not say.
    fn identity(&self) -> String;

    /// Whether the server says which it is.
    fn has_identity(&self) -> bool;

    /// A term of 0 for the value of a column, which makes an UPDATE tell which server executed it.
    fn server_mark(&self) -> String {
        String::new()
    }

    /// Returns why a transaction does not read what it has written.
    fn not_read_back(&self, why: String) -> Problem<Self::Failure> {
        Problem::Refused(why)
    }

    /// Returns why a statement changed so many rows of a table in place of one that is locked for it.
    fn miscounted(&self, what: &str, rows: u64) -> Problem<Self::Failure> {
        not_one_row(what, rows, Self::DIALECT.one_row)
    }

    /// Makes sure that a row which no query found is not hidden.
    fn check_absent(&mut self, tag: &str) -> impl Future<Output = Done<Self, ()>> + Send {
        let _ = tag;
        async { Ok(()) }
    }

    /// Tells a free lease that others have locked from one that cannot be changed.
    fn check_changeable(&mut self, worker_id: u64) -> impl Future<Output = Done<Self, ()>> + Send {
        let why = format!(
            "worker id {worker_id} is free in UIDRING_LEASE, and a change of it changes nothing: the table has to \
             be as `uidring worker init --leases` makes it"
        );
        async { Err(Problem::Refused(why)) }
    }

    /// Adds a row in a transaction, and returns whether there was none with its key, which is in this column.
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

/// The error of a statement that changed another number of rows than one.
pub fn not_one_row<F>(what: &str, rows: u64, needs: &str) -> Problem<F> {
    Problem::Conflict(format!("{what} changed {rows} rows and not 1: {needs}; try again"))
}
