//! How the holder of a row of `UIDRING_LEASE` renews and releases it, in SQL.

use uidring_store::leases::{Horizon, LeaseRow, LeasedRow, Loss};
use uidring_store::server::{Operation, Release, Renew, Table, UIDRING_LEASE};
use uidring_store::sql::Dialect;

use super::admin::row;
use crate::PostgresStore;
use crate::columns::optional_unsigned;
use crate::dialect::DIALECT;
use crate::problem::Problem;
use crate::session::Session;

impl Operation<PostgresStore> for Renew<'_> {
    const TABLE: Table = UIDRING_LEASE;

    type Done = Result<(), Loss>;

    /// The statement matches the row only if it is ours and still has what the store has confirmed.
    async fn run(&self, session: &mut Session) -> Result<Self::Done, Problem> {
        let LeasedRow { worker_id, owner, token, confirmed, server, .. } = self.row;
        let Horizon { tick, sequence } = self.horizon;
        let Dialect { now, now_plus, .. } = DIALECT;
        let update = format!(
            "UPDATE UIDRING_LEASE SET LEASE_END = {now_plus}, RENEWED = {now},
             HORIZON_SEQUENCE = CASE WHEN HORIZON_TICK > ? THEN HORIZON_SEQUENCE ELSE ? END,
             HORIZON_TICK = GREATEST(COALESCE(HORIZON_TICK, 0), ?)
             WHERE WORKER_ID = ? AND TOKEN = ? AND OWNER = ? AND COALESCE(HORIZON_TICK, 0) >= ?
             RETURNING {}",
            session.identity()
        );
        let known = confirmed.unwrap_or(0);
        let values = [
            self.lasts_micros.into(),
            tick.into(),
            sequence.into(),
            tick.into(),
            (*worker_id).into(),
            (*token).into(),
            owner.into(),
            known.into(),
        ];
        let rows = session.change(&update, &values).await?;
        let [answer] = &*rows else {
            return Ok(Err(match present(session, *worker_id).await? {
                Ok(row) => self.row.loss(row).map_err(Problem::Refused)?,
                Err(loss) => loss,
            }));
        };
        let is_other = server.is_some() && Session::server(answer, 0)? != *server;
        if is_other && !self.is_cluster {
            return Ok(Err(Loss::OtherServer));
        }
        // Each renewal finds that the one before has stayed. The first one, before which nothing was
        // issued, makes sure of itself: a trigger may have made something else of the horizon.
        if confirmed.is_none() {
            let stored = stored_horizon(session, *worker_id).await?;
            if stored.is_none_or(|stored| stored < self.horizon) {
                let stored = stored.map_or_else(
                    || "nothing".into(),
                    |Horizon { tick, sequence }| format!("{tick} and {sequence}"),
                );
                return Err(Problem::Refused(format!(
                    "the horizon of worker id {worker_id} was to be tick {tick} and sequence number \
                     {sequence}, and reads {stored}: UIDRING_LEASE has to be as `uidring worker init --leases` makes it, without \
                     triggers"
                )));
            }
        }
        Ok(Ok(()))
    }
}

async fn stored_horizon(session: &mut Session, worker_id: u64) -> Result<Option<Horizon>, Problem> {
    let select = "SELECT HORIZON_TICK, HORIZON_SEQUENCE FROM UIDRING_LEASE WHERE WORKER_ID = ?";
    let rows = session.query(select, &[worker_id.into()]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (tick, sequence) = (optional_unsigned(row, 0)?, optional_unsigned(row, 1)?);
    Ok(tick.map(|tick| Horizon { tick, sequence: sequence.unwrap_or(0) }))
}

/// Returns the row of a lost lease. One that somebody has damaged is lost, too.
async fn present(
    session: &mut Session,
    worker_id: u64,
) -> Result<Result<Option<LeaseRow>, Loss>, Problem> {
    match row(session, worker_id).await {
        Ok(row) => Ok(Ok(row)),
        Err(Problem::Refused(why)) => Ok(Err(Loss::Unreadable(why))),
        Err(problem) => Err(problem),
    }
}

impl Operation<PostgresStore> for Release<'_> {
    const TABLE: Table = UIDRING_LEASE;

    type Done = Result<(), Loss>;

    /// The statement also meets a row that an earlier attempt has freed, whose answer was lost, and leaves
    /// it as it is.
    async fn run(&self, session: &mut Session) -> Result<Self::Done, Problem> {
        let LeasedRow { worker_id, owner, token, .. } = self.row;
        let (tick, sequence) =
            (self.last.map(|last| last.tick), self.last.map(|last| last.sequence));
        let update = format!(
            "UPDATE UIDRING_LEASE SET LEASE_END = NULL, TOKEN = ?, HORIZON_TICK = ?,
             HORIZON_SEQUENCE = ?, RENEWED = {} WHERE WORKER_ID = ? AND OWNER = ?
             AND (TOKEN = ? OR TOKEN = ? AND LEASE_END IS NULL AND HORIZON_TICK IS NOT DISTINCT FROM ?
             AND HORIZON_SEQUENCE IS NOT DISTINCT FROM ?) RETURNING WORKER_ID",
            DIALECT.now
        );
        let (tick, sequence) = (tick.into(), sequence.into());
        let (token, freed) = ((*token).into(), (token + 1).into());
        let (id, owner) = ((*worker_id).into(), owner.into());
        let values = [freed, tick, sequence, id, owner, token, freed, tick, sequence];
        if session.change(&update, &values).await?.len() == 1 {
            return Ok(Ok(()));
        }
        let row = present(session, *worker_id).await?;
        Ok(Err(row.map_or_else(|loss| loss, |row| Loss::of(row.map(|row| (row.owner, row.token))))))
    }
}
