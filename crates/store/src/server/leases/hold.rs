//! Renews and releases a held row of `UIDRING_LEASE`, in SQL.

use super::rows::row;
use crate::leases::{Horizon, LeaseRow, LeasedRow, other_server, unreadable};
use crate::server::connection::Operation;
use crate::server::problem::Problem;
use crate::server::session::{Done, Session};
use crate::server::tables::{Table, UIDRING_LEASE};
use crate::sql::Dialect;

pub struct Renew<'a> {
    pub row: &'a LeasedRow,
    /// What may be issued from now on.
    pub horizon: Horizon,
    pub lasts_micros: u64,
    /// Whether any server may answer.
    pub is_cluster: bool,
}

impl Operation for Renew<'_> {
    const TABLE: Table = UIDRING_LEASE;

    type Done = ();

    /// The statement changes the row only if it is ours and still has the confirmed horizon.
    async fn run(&self, session: &mut dyn Session) -> Done<Self::Done> {
        let LeasedRow { worker_id, owner, token, confirmed, server, .. } = self.row;
        let Horizon { tick, sequence } = self.horizon;
        let Dialect { now, now_plus, .. } = session.dialect();
        // MySQL assigns from left to right, so the sequence number is set while the tick is still the old one.
        let update = format!(
            "UPDATE UIDRING_LEASE SET LEASE_END = {now_plus}, RENEWED = {now},
             HORIZON_SEQUENCE = CASE WHEN HORIZON_TICK > ? THEN HORIZON_SEQUENCE ELSE ? END,
             HORIZON_TICK = CASE WHEN HORIZON_TICK > ? THEN HORIZON_TICK ELSE ? END,
             TOKEN = TOKEN{}
             WHERE WORKER_ID = ? AND TOKEN = ? AND OWNER = ? AND COALESCE(HORIZON_TICK, 0) >= ?",
            session.server_mark()
        );
        let (lasts, tick_value) = (self.lasts_micros.into(), tick.into());
        let (id, token, owner) = ((*worker_id).into(), (*token).into(), owner.into());
        let known = confirmed.unwrap_or(0).into();
        let values =
            [lasts, tick_value, sequence.into(), tick_value, tick_value, id, token, owner, known];
        let changed = session.change(&update, &values).await?;
        if changed.rows != 1 {
            return Err(lost(session, self.row).await);
        }
        // A trigger on the table can hide the server's number. That alone does not mean another server.
        let is_other =
            changed.server != *server && (changed.server.is_some() || !session.has_identity());
        if !self.is_cluster && server.is_some() && is_other {
            return Err(loss_of(self.row, other_server()));
        }
        // Each renewal checks that the one before has stayed. The first renewal, before which nothing was issued,
        // checks itself: a smaller column type or a trigger may have changed the horizon.
        if confirmed.is_none() {
            let stored = row(session, *worker_id).await?.and_then(|row| row.horizon);
            if stored.is_none_or(|stored| stored < (tick, sequence)) {
                let stored = stored.map_or_else(
                    || "nothing".into(),
                    |(tick, number)| format!("{tick} and {number}"),
                );
                return Err(Problem::Refused(format!(
                    "the horizon of worker id {worker_id} was to be tick {tick} and sequence number \
                     {sequence}, and reads {stored}: UIDRING_LEASE has to be as `uidring worker init \
                     --leases` makes it, without triggers"
                )));
            }
        }
        Ok(())
    }
}

pub struct Release<'a> {
    pub row: &'a LeasedRow,
    /// The last that was issued.
    pub last: Option<Horizon>,
}

impl Operation for Release<'_> {
    const TABLE: Table = UIDRING_LEASE;

    type Done = ();

    /// Also meets a row that an earlier attempt freed without a reply, and leaves it as it is.
    async fn run(&self, session: &mut dyn Session) -> Done<Self::Done> {
        let LeasedRow { worker_id, owner, token, .. } = self.row;
        let Dialect { now, same, .. } = session.dialect();
        let update = format!(
            "UPDATE UIDRING_LEASE SET LEASE_END = NULL, TOKEN = ?, HORIZON_TICK = ?,
             HORIZON_SEQUENCE = ?, RENEWED = {now} WHERE WORKER_ID = ? AND OWNER = ?
             AND (TOKEN = ? OR TOKEN = ? AND LEASE_END IS NULL AND HORIZON_TICK {same} ?
             AND HORIZON_SEQUENCE {same} ?)"
        );
        let tick = self.last.map(|last| last.tick).into();
        let sequence = self.last.map(|last| last.sequence).into();
        let (token, freed) = ((*token).into(), (token + 1).into());
        let (id, owner) = ((*worker_id).into(), owner.into());
        let values = [freed, tick, sequence, id, owner, token, freed, tick, sequence];
        if session.change(&update, &values).await?.rows == 1 {
            return Ok(());
        }
        Err(lost(session, self.row).await)
    }
}

/// Returns why a lease is lost, by its row. A damaged row is lost, too.
async fn lost(session: &mut dyn Session, held: &LeasedRow) -> Problem {
    match row(session, held.worker_id).await {
        Ok(row) => LeaseRow::loss(row.as_ref(), held)
            .map_or_else(Problem::Refused, |why| loss_of(held, why)),
        Err(Problem::Refused(why)) => loss_of(held, unreadable(&why)),
        Err(problem) => problem,
    }
}

fn loss_of(held: &LeasedRow, why: String) -> Problem {
    Problem::Lost { worker_id: held.worker_id, why }
}
