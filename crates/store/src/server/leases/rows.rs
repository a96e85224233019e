//! Operations on the table `UIDRING_LEASE`, in SQL.

use std::ops::RangeInclusive;

use uidring::Timestamp;

use crate::leases::{Denial, Horizon, LeaseRow, LeaseState, flaw_of};
use crate::server::connection::Operation;
use crate::server::problem::Problem;
use crate::server::range::recorded;
use crate::server::row::{Row, only};
use crate::server::session::{Done, Session};
use crate::server::tables::{Table, UIDRING_LEASE};
use crate::sql::{FOREIGN_LAYOUT, LOWEST_LEASE};

/// Returns all rows, or what is wrong with a damaged one.
pub struct ListLeases;

impl Operation for ListLeases {
    const TABLE: Table = UIDRING_LEASE;

    type Done = Vec<Result<LeaseRow, String>>;

    async fn run(&self, session: &mut dyn Session) -> Done<Self::Done> {
        list(session, None).await
    }
}

async fn list(
    session: &mut dyn Session,
    worker_id: Option<u64>,
) -> Done<Vec<Result<LeaseRow, String>>> {
    let worker_id = worker_id.into();
    let rows = session.look(&session.dialect().list_leases(), &[worker_id, worker_id]).await?;
    rows.iter()
        .map(|row| match read(row) {
            Err(Problem::Refused(why)) => {
                let worker_id = row.unsigned(0).unwrap_or_default();
                Ok(Err(format!("UIDRING_LEASE, row with WORKER_ID {worker_id}: {why}")))
            }
            done => done,
        })
        .collect()
}

/// Returns the row of a worker id. Refuses several rows, since each could have a holder.
pub async fn row(session: &mut dyn Session, worker_id: u64) -> Done<Option<LeaseRow>> {
    let mut rows = list(session, Some(worker_id)).await?;
    match rows.len() {
        0 | 1 => rows.pop().transpose().map_err(Problem::Refused),
        count => Err(Problem::Refused(format!(
            "worker id {worker_id} has {count} rows in UIDRING_LEASE; the table needs WORKER_ID as its primary key"
        ))),
    }
}

/// Returns what is wrong with a free row that is not sound.
pub async fn flaw(session: &mut dyn Session, is_sound: &str) -> Done<Option<String>> {
    let rows = session.query(&session.dialect().find_flawed_lease(is_sound), &[]).await?;
    Ok(rows.first().map(read).transpose()?.map(flaw_of))
}

fn read(row: &Row) -> Result<Result<LeaseRow, String>, Problem> {
    let lease = LeaseRow {
        worker_id: row.unsigned(0)?,
        owner: row.text(1)?.into(),
        token: row.int(2)?,
        state: LeaseState::of(row.optional_int(3)?.map(Timestamp::from_millis), row.int(4)? != 0),
        horizon: None,
        layout: row.text(7)?.into(),
        // MariaDB reads a zero date as NULL. These times are only shown to people.
        created: row.optional_int(8)?.map_or_else(Timestamp::default, Timestamp::from_millis),
        renewed: row.optional_int(9)?.map_or_else(Timestamp::default, Timestamp::from_millis),
    };
    Ok(lease.with_horizon(row.optional_int(5)?, row.optional_int(6)?))
}

/// Ends a lease. Returns whether that changed the row, and the row afterwards.
pub struct EndLease {
    pub worker_id: u64,
    pub ending: Ending,
}

/// How an operator ends a lease.
#[derive(Clone, Copy, Debug)]
pub enum Ending {
    /// Whoever holds it.
    Fence,
    /// Only if nobody holds it.
    Free,
}

impl Operation for EndLease {
    const TABLE: Table = UIDRING_LEASE;

    type Done = (bool, Option<LeaseRow>);

    async fn run(&self, session: &mut dyn Session) -> Done<Self::Done> {
        // Name a damaged row before the server fails at it.
        row(session, self.worker_id).await?;
        let update = match self.ending {
            Ending::Fence => session.dialect().fence(),
            Ending::Free => session.dialect().free(),
        };
        let changed = session.change(&update, &[self.worker_id.into()]).await?;
        Ok((changed.rows == 1, row(session, self.worker_id).await?))
    }
}

/// Adds free rows for worker ids that `WORKER_NODE` handed out.
pub struct Reuse<'a> {
    pub worker_ids: RangeInclusive<u64>,
    /// The layout as the table writes it.
    pub fingerprint: &'a str,
    /// What they may have issued.
    pub horizon: Horizon,
}

impl Operation for Reuse<'_> {
    const TABLE: Table = UIDRING_LEASE;

    type Done = Result<(), Denial>;

    async fn run(&self, session: &mut dyn Session) -> Done<Self::Done> {
        session.begin().await?;
        // Before the transaction reads, which fixes what it sees.
        set_layout(session, self.fingerprint).await?;
        if let Some(denial) = self.denial(session).await? {
            session.rollback().await?;
            return Ok(Err(denial));
        }
        let insert = session.dialect().insert_free_lease();
        for worker_id in self.worker_ids.clone() {
            let (tick, sequence) = (self.horizon.tick.into(), self.horizon.sequence.into());
            let values = [worker_id.into(), tick, sequence, self.fingerprint.into()];
            session.execute(&insert, &values).await?;
        }
        session.commit().await?;
        Ok(Ok(()))
    }
}

impl Reuse<'_> {
    async fn denial(&self, session: &mut dyn Session) -> Done<Option<Denial>> {
        let (first, last) = (*self.worker_ids.start(), *self.worker_ids.end());
        let foreign = session.query(FOREIGN_LAYOUT, &[self.fingerprint.into()]).await?;
        if let Some(row) = foreign.first() {
            return Ok(Some(Denial::Foreign(row.text(0)?.into())));
        }
        let newest = format!("SELECT MAX(ID), {} FROM WORKER_NODE", session.has_range());
        let newest = only(session.query(&newest, &[]).await?)?;
        let range = recorded(session, newest.int(1)? != 0).await?;
        let newest = newest.optional_unsigned(0)?;
        let leased = only(session.query(LOWEST_LEASE, &[first.into(), last.into()]).await?)?;
        Ok(Denial::check_reuse(first, last, newest, leased.optional_unsigned(0)?, range).err())
    }
}

/// Sets the table's layout unless it has one. Returns whether it had none. A transaction that has already read rows may
/// not see whose layout it is.
pub async fn set_layout(session: &mut dyn Session, fingerprint: &str) -> Done<bool> {
    session.insert_new(&session.dialect().insert_layout(), "WORKER_ID", &[fingerprint.into()]).await
}
