//! What people do with the table `UIDRING_LEASE`, in SQL.

use std::ops::RangeInclusive;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use uidring_store::leases::{Denial, LeaseRow, Place, RawRow, Unusable};

use super::explain::{Table, UIDRING_LEASE};
use super::inspection::Session;
use super::lease_rows::text;
use super::session::{Problem, Work, column};

/// All rows, or one.
pub struct List {
    pub worker_id: Option<u64>,
}

impl Work for List {
    const TABLE: Table = UIDRING_LEASE;

    type Done = Vec<LeaseRow>;

    async fn run(&self, conn: &mut Session) -> Result<Vec<LeaseRow>, Problem> {
        let millis = |time| format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {time}) DIV 1000");
        let [end, created, renewed] = ["LEASE_END", "CREATED", "RENEWED"].map(millis);
        let rows: Vec<Row> = conn
            .exec(
                format!(
                    "SELECT WORKER_ID, OWNER, TOKEN, {end},
                     COALESCE(LEASE_END <= UTC_TIMESTAMP(3), 1), HORIZON_TICK, HORIZON_SEQUENCE,
                     LAYOUT, {created}, {renewed} FROM UIDRING_LEASE
                     WHERE ? IS NULL OR WORKER_ID = ? ORDER BY WORKER_ID"
                ),
                (self.worker_id, self.worker_id),
            )
            .await?;
        rows.into_iter()
            .map(|mut row| {
                let raw = RawRow {
                    worker_id: column(&mut row, 0)?,
                    owner: text(&mut row, 1)?,
                    token: column(&mut row, 2)?,
                    lease_end: column(&mut row, 3)?,
                    is_over: column(&mut row, 4)?,
                    horizon: (column(&mut row, 5)?, column(&mut row, 6)?),
                    layout: text(&mut row, 7)?,
                    created: column(&mut row, 8)?,
                    renewed: column(&mut row, 9)?,
                };
                Ok(raw.into())
            })
            .collect()
    }
}

/// Ends a lease, or frees one that is over.
pub struct End {
    pub worker_id: u64,
    pub how: HowToEnd,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum HowToEnd {
    Fence,
    /// Not where it is held.
    Free,
}

impl Work for End {
    const TABLE: Table = UIDRING_LEASE;

    /// Whether there was something to be ended, and what stands there now.
    type Done = (bool, Option<LeaseRow>);

    async fn run(&self, conn: &mut Session) -> Result<Self::Done, Problem> {
        let update = match self.how {
            HowToEnd::Fence => {
                "UPDATE UIDRING_LEASE SET TOKEN = TOKEN + 1, RENEWED = UTC_TIMESTAMP(3),
                 LEASE_END = IF(LEASE_END IS NULL, NULL, UTC_TIMESTAMP(3)) WHERE WORKER_ID = ?"
            }
            HowToEnd::Free => {
                "UPDATE UIDRING_LEASE SET TOKEN = TOKEN + 1, RENEWED = UTC_TIMESTAMP(3),
                 LEASE_END = NULL
                 WHERE WORKER_ID = ? AND (LEASE_END IS NULL OR LEASE_END <= UTC_TIMESTAMP(3))"
            }
        };
        conn.exec_drop(update, (self.worker_id,)).await?;
        let is_done = conn.affected_rows() == 1;
        // The row as it is now, of the server that has changed it: a proxy that splits reads from
        // writes leaves a transaction on the primary.
        conn.query_drop("START TRANSACTION").await?;
        let rows = List { worker_id: Some(self.worker_id) }.run(conn).await;
        conn.query_drop("ROLLBACK").await?;
        Ok((is_done, rows?.pop()))
    }
}

/// Adds free rows for worker ids that `WORKER_NODE` has handed out.
pub struct Reuse<'a> {
    pub worker_ids: RangeInclusive<u64>,
    pub fingerprint: &'a str,
    pub horizon: Place,
}

impl Work for Reuse<'_> {
    const TABLE: Table = UIDRING_LEASE;

    type Done = Result<(), Denial>;

    async fn run(&self, conn: &mut Session) -> Result<Self::Done, Problem> {
        conn.query_drop("START TRANSACTION").await?;
        let done = self.add(conn).await?;
        conn.query_drop(if done.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
        Ok(done)
    }
}

impl Reuse<'_> {
    async fn add(&self, conn: &mut Conn) -> Result<Result<(), Denial>, Problem> {
        let (first, last) = (*self.worker_ids.start(), *self.worker_ids.end());
        let foreign: Option<Row> = conn
            .exec_first(
                "SELECT WORKER_ID, LAYOUT FROM UIDRING_LEASE WHERE LAYOUT <> ? LIMIT 1",
                (self.fingerprint,),
            )
            .await?;
        if let Some(mut row) = foreign {
            let (worker_id, layout) = (column(&mut row, 0)?, text(&mut row, 1)?);
            return Ok(Err(Denial::Foreign { worker_id, layout }));
        }
        let newest: Option<Row> = conn.query_first("SELECT MAX(ID) FROM WORKER_NODE").await?;
        let newest: Option<u64> = newest.map(|mut row| column(&mut row, 0)).transpose()?.flatten();
        if let Some(unused) = Unusable::never_handed_out(first, last, newest) {
            return Ok(Err(Denial::Unusable(unused)));
        }
        let leased: Option<Row> = conn
            .exec_first(
                "SELECT MIN(WORKER_ID) FROM UIDRING_LEASE WHERE WORKER_ID BETWEEN ? AND ?",
                (first, last),
            )
            .await?;
        let leased: Option<u64> = leased.map(|mut row| column(&mut row, 0)).transpose()?.flatten();
        if let Some(worker_id) = leased {
            return Ok(Err(Denial::Unusable(Unusable::leased(worker_id))));
        }
        let Place { tick, sequence } = self.horizon;
        let row = |worker_id| (worker_id, tick, sequence, self.fingerprint);
        conn.exec_batch(
            "INSERT INTO UIDRING_LEASE (WORKER_ID, OWNER, TOKEN, LEASE_END, HORIZON_TICK,
             HORIZON_SEQUENCE, LAYOUT, CREATED, RENEWED)
             VALUES (?, '', 0, NULL, ?, ?, ?, UTC_TIMESTAMP(3), UTC_TIMESTAMP(3))",
            self.worker_ids.clone().map(row),
        )
        .await?;
        Ok(Ok(()))
    }
}
