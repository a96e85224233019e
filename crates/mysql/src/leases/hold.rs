//! How the holder of a row of `UIDRING_LEASE` renews and releases it, in SQL.

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use uidring_store::leases::{Horizon, LeaseRow, LeasedRow, Loss};
use uidring_store::server::{Operation, Release, Renew, Table, UIDRING_LEASE};
use uidring_store::sql::Dialect;

use super::acquire::identified;
use super::admin::row;
use crate::MySqlStore;
use crate::dialect::DIALECT;
use crate::problem::Problem;
use crate::session::Session;

impl Operation<MySqlStore> for Renew<'_> {
    const TABLE: Table = UIDRING_LEASE;

    type Done = Result<(), Loss>;

    /// The statement matches the row only if it is ours and still has what the store has confirmed. A matched
    /// row always changes, and the connection counts matched rows, so the count is right either way.
    async fn run(&self, conn: &mut Session) -> Result<Self::Done, Problem> {
        let LeasedRow { worker_id, owner, token, confirmed, server, .. } = self.row;
        let Horizon { tick, sequence } = self.horizon;
        let Dialect { now, now_plus, .. } = DIALECT;
        // The server assigns from left to right: where the tick is compared, it is still the old one.
        let update = format!(
            "UPDATE UIDRING_LEASE SET LEASE_END = {now_plus}, RENEWED = {now},
             HORIZON_SEQUENCE = IF(HORIZON_TICK > ?, HORIZON_SEQUENCE, ?),
             HORIZON_TICK = GREATEST(COALESCE(HORIZON_TICK, 0), ?), TOKEN = TOKEN + {}
             WHERE WORKER_ID = ? AND TOKEN = ? AND OWNER = ? AND COALESCE(HORIZON_TICK, 0) >= ?",
            identified(conn)
        );
        let known = confirmed.unwrap_or(0);
        let values = (self.lasts_micros, tick, sequence, tick, worker_id, token, owner, known);
        let written = conn.written().await?;
        conn.exec_drop(update, values).await?;
        let (rows, answered_by) = (conn.affected_rows(), conn.last_insert_id());
        if rows != 1 {
            return Ok(Err(match present(conn, *worker_id).await? {
                Ok(row) => self.row.loss(row).map_err(Problem::Refused)?,
                Err(loss) => loss,
            }));
        }
        conn.assure_written(written).await?;
        // A trigger on the table can hide the server's number. That alone does not mean another server.
        let is_other = answered_by != *server && (answered_by.is_some() || !conn.has_identity());
        if !self.is_cluster && server.is_some() && is_other {
            return Ok(Err(Loss::OtherServer));
        }
        // Each renewal finds that the one before has stayed. The first one, before which nothing was
        // issued, makes sure of itself: by a statement that writes, since only the primary gets that.
        if confirmed.is_none() && !has_stayed(self, conn).await? {
            return Err(Problem::Refused(format!(
                "the horizon of worker id {worker_id} was to be tick {tick}, and reads {:?}: \
                 UIDRING_LEASE has to be as `uidring worker init --leases` makes it, without \
                 triggers",
                row(conn, *worker_id).await?.and_then(|row| row.horizon).map(|(tick, _)| tick)
            )));
        }
        Ok(Ok(()))
    }
}

/// A column of a smaller type, or a trigger, may have made something else of the horizon.
async fn has_stayed(work: &Renew<'_>, conn: &mut Conn) -> Result<bool, Problem> {
    let LeasedRow { worker_id, owner, token, .. } = work.row;
    let Horizon { tick, sequence } = work.horizon;
    conn.exec_drop(
        "UPDATE UIDRING_LEASE SET RENEWED = RENEWED + INTERVAL 1000 MICROSECOND
         WHERE WORKER_ID = ? AND TOKEN = ? AND OWNER = ?
         AND (HORIZON_TICK > ? OR HORIZON_TICK = ? AND HORIZON_SEQUENCE = ?)",
        (worker_id, token, owner, tick, tick, sequence),
    )
    .await?;
    Ok(conn.affected_rows() == 1)
}

/// Returns the row of a lost lease. One that somebody has damaged is lost, too.
async fn present(
    conn: &mut Session,
    worker_id: u64,
) -> Result<Result<Option<LeaseRow>, Loss>, Problem> {
    match row(conn, worker_id).await {
        Ok(row) => Ok(Ok(row)),
        Err(Problem::Refused(why)) => Ok(Err(Loss::Unreadable(why))),
        Err(problem) => Err(problem),
    }
}

impl Operation<MySqlStore> for Release<'_> {
    const TABLE: Table = UIDRING_LEASE;

    type Done = Result<(), Loss>;

    /// The statement also meets a row that an earlier attempt has freed, whose answer was lost, and leaves
    /// it as it is.
    async fn run(&self, conn: &mut Session) -> Result<Self::Done, Problem> {
        let LeasedRow { worker_id, owner, token, .. } = self.row;
        let (tick, sequence) = (self.last.map(|p| p.tick), self.last.map(|p| p.sequence));
        conn.exec_drop(
            "UPDATE UIDRING_LEASE SET LEASE_END = NULL, TOKEN = ?, HORIZON_TICK = ?,
             HORIZON_SEQUENCE = ?, RENEWED = UTC_TIMESTAMP(3)
             WHERE WORKER_ID = ? AND OWNER = ? AND (TOKEN = ? OR TOKEN = ? AND LEASE_END IS NULL
             AND HORIZON_TICK <=> ? AND HORIZON_SEQUENCE <=> ?)",
            (token + 1, tick, sequence, worker_id, owner, token, token + 1, tick, sequence),
        )
        .await?;
        if conn.affected_rows() == 1 {
            return Ok(Ok(()));
        }
        let row = present(conn, *worker_id).await?;
        Ok(Err(row.map_or_else(|loss| loss, |row| Loss::of(row.map(|row| (row.owner, row.token))))))
    }
}
