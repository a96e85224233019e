//! What people do with the table `UIDRING_LEASE`, in SQL.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use uidring::{Layout, Timestamp};
use uidring_store::leases::{Denial, Horizon, LeaseColumns, LeaseRow, Unusable, is_sound};
use uidring_store::server::{EndLease, Ending, ListLeases, Operation, Reuse, Table, UIDRING_LEASE};
use uidring_store::sql::{FOREIGN_LAYOUT, LOWEST_LEASE, NEWEST_NODE};

use crate::MySqlStore;
use crate::columns::{column, millis, text};
use crate::dialect::DIALECT;
use crate::problem::Problem;
use crate::session::Session;
use crate::worker_nodes::rows::begin;

impl Operation<MySqlStore> for ListLeases {
    const TABLE: Table = UIDRING_LEASE;

    type Done = Vec<Result<LeaseRow, String>>;

    async fn run(&self, conn: &mut Session) -> Result<Self::Done, Problem> {
        let rows: Vec<Row> =
            conn.exec(DIALECT.list_leases(), (self.worker_id, self.worker_id)).await?;
        rows.into_iter().map(read).collect()
    }
}

fn read(mut row: Row) -> Result<Result<LeaseRow, String>, Problem> {
    let columns = LeaseColumns {
        worker_id: column(&mut row, 0)?,
        owner: text(&mut row, 1)?,
        token: column(&mut row, 2)?,
        lease_end: column::<Option<i64>>(&mut row, 3)?.map(Timestamp::from_millis),
        is_over: column(&mut row, 4)?,
        horizon: (column(&mut row, 5)?, column(&mut row, 6)?),
        layout: text(&mut row, 7)?,
        created: millis(&mut row, 8)?,
        renewed: millis(&mut row, 9)?,
    };
    Ok(columns.read())
}

/// A row as the primary has it: a proxy that splits reads from writes leaves a transaction there.
pub async fn row(conn: &mut Session, worker_id: u64) -> Result<Option<LeaseRow>, Problem> {
    conn.query_drop("START TRANSACTION").await?;
    let rows = ListLeases { worker_id: Some(worker_id) }.run(conn).await;
    conn.query_drop("ROLLBACK").await?;
    rows?.pop().transpose().map_err(Problem::Refused)
}

/// What is wrong with a row that nobody holds.
pub async fn flaw(conn: &mut Conn, layout: &Layout) -> Result<Option<String>, Problem> {
    let row: Option<Row> = conn.query_first(DIALECT.find_flawed_lease(&is_sound(layout))).await?;
    Ok(row.map(read).transpose()?.and_then(Result::err))
}

impl Operation<MySqlStore> for EndLease {
    const TABLE: Table = UIDRING_LEASE;

    /// Whether the statement changed the row, and the row as it is now.
    type Done = (bool, Option<LeaseRow>);

    async fn run(&self, conn: &mut Session) -> Result<Self::Done, Problem> {
        // One that is damaged is named before the server fails at it.
        row(conn, self.worker_id).await?;
        let update = match self.ending {
            Ending::Fence => DIALECT.fence(),
            Ending::Free => DIALECT.free(),
        };
        conn.exec_drop(update, (self.worker_id,)).await?;
        let is_done = conn.affected_rows() == 1;
        Ok((is_done, row(conn, self.worker_id).await?))
    }
}

impl Operation<MySqlStore> for Reuse<'_> {
    const TABLE: Table = UIDRING_LEASE;

    type Done = Result<(), Denial>;

    async fn run(&self, conn: &mut Session) -> Result<Self::Done, Problem> {
        let before = conn.written().await?;
        begin(conn).await?;
        let done = add(self, conn).await?;
        if done.is_ok() {
            conn.commit(before).await?;
        } else {
            conn.query_drop("ROLLBACK").await?;
        }
        Ok(done)
    }
}

async fn add(work: &Reuse<'_>, conn: &mut Conn) -> Result<Result<(), Denial>, Problem> {
    let (first, last) = (*work.worker_ids.start(), *work.worker_ids.end());
    // Before the transaction reads, and sees only what was there by then.
    set_layout(conn, work.fingerprint).await?;
    let foreign: Option<Row> = conn.exec_first(FOREIGN_LAYOUT, (work.fingerprint,)).await?;
    if let Some(mut row) = foreign {
        return Ok(Err(Denial::Foreign(text(&mut row, 0)?)));
    }
    let newest: Option<Row> = conn.query_first(NEWEST_NODE).await?;
    let newest: Option<u64> = newest.map(|mut row| column(&mut row, 0)).transpose()?.flatten();
    let leased: Option<Row> = conn.exec_first(LOWEST_LEASE, (first, last)).await?;
    let leased: Option<u64> = leased.map(|mut row| column(&mut row, 0)).transpose()?.flatten();
    if let Some(unusable) = Unusable::find(first, last, newest, leased) {
        return Ok(Err(Denial::Unusable(unusable)));
    }
    let Horizon { tick, sequence } = work.horizon;
    let row = |worker_id| (worker_id, tick, sequence, work.fingerprint);
    let rows = work.worker_ids.clone().map(row);
    conn.exec_batch(DIALECT.insert_free_lease(), rows).await?;
    Ok(Ok(()))
}

/// Sets the layout of the table unless it has one. Returns whether it had none: a transaction that has read
/// rows may not see whose layout it is.
pub async fn set_layout(conn: &mut Conn, fingerprint: &str) -> Result<bool, Problem> {
    let done = conn.exec_drop(DIALECT.insert_layout(), (fingerprint,)).await;
    match done.map_err(Problem::from) {
        Err(problem) if problem.is_duplicate() => Ok(false),
        done => done.map(|()| true),
    }
}
