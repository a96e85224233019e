//! What people do with the table `UIDRING_LEASE`, in SQL.

use tokio_postgres::Row;
use uidring::{Layout, Timestamp};
use uidring_store::leases::{Denial, LeaseColumns, LeaseRow, Unusable, is_sound};
use uidring_store::server::{EndLease, Ending, ListLeases, Operation, Reuse, Table, UIDRING_LEASE};
use uidring_store::sql::{FOREIGN_LAYOUT, LOWEST_LEASE, NEWEST_NODE};

use crate::PostgresStore;
use crate::columns::{column, int, millis, optional_int, optional_unsigned, unsigned};
use crate::dialect::DIALECT;
use crate::leases::acquire::set_layout;
use crate::problem::Problem;
use crate::session::Session;

impl Operation<PostgresStore> for ListLeases {
    const TABLE: Table = UIDRING_LEASE;

    type Done = Vec<Result<LeaseRow, String>>;

    async fn run(&self, session: &mut Session) -> Result<Self::Done, Problem> {
        let worker_id = self.worker_id.into();
        let rows = session.query(&DIALECT.list_leases(), &[worker_id, worker_id]).await?;
        rows.iter().map(read).collect()
    }
}

/// The row of a worker id.
pub async fn row(session: &mut Session, worker_id: u64) -> Result<Option<LeaseRow>, Problem> {
    let row = ListLeases { worker_id: Some(worker_id) }.run(session).await?.pop();
    row.transpose().map_err(Problem::Refused)
}

/// What is wrong with a row that nobody holds.
pub async fn flaw(session: &mut Session, layout: &Layout) -> Result<Option<String>, Problem> {
    let rows = session.query(&DIALECT.find_flawed_lease(&is_sound(layout)), &[]).await?;
    Ok(rows.first().map(read).transpose()?.and_then(Result::err))
}

fn read(row: &Row) -> Result<Result<LeaseRow, String>, Problem> {
    let columns = LeaseColumns {
        worker_id: unsigned(row, 0)?,
        owner: column(row, 1)?,
        token: int(row, 2)?,
        lease_end: optional_int(row, 3)?.map(Timestamp::from_millis),
        is_over: column(row, 4)?,
        horizon: (optional_int(row, 5)?, optional_int(row, 6)?),
        layout: column(row, 7)?,
        created: millis(row, 8)?,
        renewed: millis(row, 9)?,
    };
    Ok(columns.read())
}

impl Operation<PostgresStore> for EndLease {
    const TABLE: Table = UIDRING_LEASE;

    type Done = (bool, Option<LeaseRow>);

    async fn run(&self, session: &mut Session) -> Result<Self::Done, Problem> {
        // One that is damaged is named before the server fails at it.
        row(session, self.worker_id).await?;
        let update = match self.ending {
            Ending::Fence => DIALECT.fence(),
            Ending::Free => DIALECT.free(),
        };
        let update = format!("{update} RETURNING WORKER_ID");
        let is_done = session.change(&update, &[self.worker_id.into()]).await?.len() == 1;
        Ok((is_done, row(session, self.worker_id).await?))
    }
}

impl Operation<PostgresStore> for Reuse<'_> {
    const TABLE: Table = UIDRING_LEASE;

    type Done = Result<(), Denial>;

    async fn run(&self, session: &mut Session) -> Result<Self::Done, Problem> {
        let (first, last) = (*self.worker_ids.start(), *self.worker_ids.end());
        session.begin().await?;
        set_layout(session, self.fingerprint).await?;
        let foreign = session.query(FOREIGN_LAYOUT, &[self.fingerprint.into()]).await?;
        let denial = if let Some(row) = foreign.first() {
            Some(Denial::Foreign(column(row, 0)?))
        } else {
            let newest = optional_unsigned(&session.one(NEWEST_NODE, &[]).await?, 0)?;
            let leased = session.one(LOWEST_LEASE, &[first.into(), last.into()]).await?;
            Unusable::find(first, last, newest, optional_unsigned(&leased, 0)?)
                .map(Denial::Unusable)
        };
        if let Some(denial) = denial {
            session.rollback().await?;
            return Ok(Err(denial));
        }
        let insert = DIALECT.insert_free_lease();
        for worker_id in self.worker_ids.clone() {
            let (tick, sequence) = (self.horizon.tick.into(), self.horizon.sequence.into());
            let values = [worker_id.into(), tick, sequence, self.fingerprint.into()];
            session.execute(&insert, &values).await?;
        }
        session.commit().await?;
        Ok(Ok(()))
    }
}
