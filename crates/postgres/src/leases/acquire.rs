//! How a row of the table `UIDRING_LEASE` is taken, in SQL.
//!
//! Taking a row is one statement, which passes over what others have locked, so that starts that come at
//! once each lock another row. Its transaction reaches the server whole: a process that is paused holds no
//! lock that others wait for.

use std::time::Duration;

use tokio::time::sleep;
use uidring_store::leases::{AcquireRequest, Acquired, Denial, LeasedRow, Shortage, is_sound};
use uidring_store::server::{Acquire, CreateLeases, CreateNodes, Operation, Table, UIDRING_LEASE};
use uidring_store::sql::{Dialect, FOREIGN_LAYOUT, TABLE_LAYOUT};

use super::admin::flaw;
use crate::PostgresStore;
use crate::columns::{column, int, optional_int, unsigned};
use crate::dialect::DIALECT;
use crate::prevented::{by_policy, by_trigger, look_for};
use crate::problem::Problem;
use crate::session::{Session, only};
use crate::tables::CREATE_UIDRING_LEASE;
use crate::worker_nodes::rows::insert_node;

/// How often a start looks for a row that is free and not locked, and how long it waits in between: whoever
/// has locked one is about to take it.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

impl Operation<PostgresStore> for CreateLeases {
    const TABLE: Table = UIDRING_LEASE;

    type Done = ();

    async fn run(&self, session: &mut Session) -> Result<(), Problem> {
        CreateNodes.run(session).await?;
        session.create_table("UIDRING_LEASE", CREATE_UIDRING_LEASE).await
    }
}

impl Operation<PostgresStore> for Acquire<'_> {
    const TABLE: Table = UIDRING_LEASE;

    type Done = Acquired;

    async fn run(&self, session: &mut Session) -> Result<Acquired, Problem> {
        match Taking(self.request).take(session).await {
            Err(problem) if self.create_tables && problem.is_no_table() => {
                session.rollback().await?;
                CreateLeases.run(session).await?;
                Taking(self.request).take(session).await
            }
            done => done,
        }
    }
}

/// Takes a row for this request.
struct Taking<'a>(&'a AcquireRequest);

impl Taking<'_> {
    /// Takes the lowest free row, so that few worker ids serve many starts. Adds a row only if no row is
    /// free.
    async fn take(&self, session: &mut Session) -> Result<Acquired, Problem> {
        for _ in 0..TRIES {
            if let Some(held) = self.take_row(session).await? {
                return Ok(Ok(held));
            }
            let foreign = session.query(FOREIGN_LAYOUT, &[(&self.0.fingerprint).into()]).await?;
            if let Some(row) = foreign.first() {
                return Ok(Err(Denial::Foreign(column(row, 0)?)));
            }
            if self.any_free(session).await?.is_some() {
                sleep(PAUSE).await;
            } else if let Some(done) = self.add_row(session).await? {
                return Ok(done);
            }
        }
        if let Some(worker_id) = self.any_free(session).await? {
            check_changeable(session, worker_id).await?;
        }
        Err(Problem::Busy("other transactions have all free rows of UIDRING_LEASE locked".into()))
    }

    /// A sound row that nobody holds, that was not used too far ahead, or that an attempt of this acquire took
    /// whose answer was lost: the owner, a moment's tick, and the layout.
    fn usable(&self) -> String {
        format!(
            "LAYOUT = ? AND ({} OR OWNER = ?) AND (HORIZON_TICK IS NULL OR HORIZON_TICK <= ?) AND {}",
            DIALECT.is_free(),
            is_sound(&self.0.layout)
        )
    }

    /// Takes a row unless the table has one of another layout. Our own comes first.
    async fn take_row(&self, session: &mut Session) -> Result<Option<LeasedRow>, Problem> {
        let AcquireRequest { fingerprint, owner, lasts, last_tick, .. } = self.0;
        let Dialect { now, now_plus, .. } = DIALECT;
        let update = format!(
            "UPDATE UIDRING_LEASE SET OWNER = ?, TOKEN = TOKEN + 1, LEASE_END = {now_plus},
             RENEWED = {now} WHERE WORKER_ID = (SELECT WORKER_ID FROM UIDRING_LEASE WHERE {}
             ORDER BY OWNER <> ?, WORKER_ID LIMIT 1 FOR UPDATE SKIP LOCKED)
             AND NOT EXISTS (SELECT 1 FROM UIDRING_LEASE WHERE LAYOUT <> ?)
             RETURNING WORKER_ID, TOKEN, HORIZON_TICK, HORIZON_SEQUENCE, {}",
            self.usable(),
            session.identity()
        );
        let (owner, fingerprint) = (owner.into(), fingerprint.into());
        let lasts = lasts.as_micros() as u64;
        let values =
            [owner, lasts.into(), fingerprint, owner, (*last_tick).into(), owner, fingerprint];
        let rows = session.change(&update, &values).await?;
        let [row] = &*rows else {
            return match rows.len() {
                0 => Ok(None),
                count => Err(Problem::Refused(format!(
                    "a change of one worker id met {count} rows: UIDRING_LEASE needs WORKER_ID for its \
                     primary key"
                ))),
            };
        };
        let before = LeasedRow::horizon(optional_int(row, 2)?, optional_int(row, 3)?);
        Ok(Some(self.0.taken(unsigned(row, 0)?, int(row, 1)?, before, Session::server(row, 4)?)))
    }

    /// A row that could be taken, locked or not.
    async fn any_free(&self, session: &mut Session) -> Result<Option<u64>, Problem> {
        let AcquireRequest { fingerprint, owner, last_tick, .. } = self.0;
        let select = format!("SELECT WORKER_ID FROM UIDRING_LEASE WHERE {} LIMIT 1", self.usable());
        let values = [fingerprint.into(), owner.into(), (*last_tick).into()];
        let rows = session.query(&select, &values).await?;
        rows.first().map(|row| unsigned(row, 0)).transpose()
    }

    /// Adds a worker id that nobody had before: the next key of `WORKER_NODE`. `None` if the leases have to be
    /// looked at again, since another start has set their layout.
    async fn add_row(&self, session: &mut Session) -> Result<Option<Acquired>, Problem> {
        let AcquireRequest { layout, fingerprint, node, owner, lasts, .. } = self.0;
        let select = format!(
            "SELECT GREATEST(COALESCE((SELECT MAX(ID) FROM WORKER_NODE), 0),
             COALESCE((SELECT MAX(WORKER_ID) FROM UIDRING_LEASE WHERE WORKER_ID <= {}), 0)),
             {}, {TABLE_LAYOUT}",
            layout.max_worker_id(),
            session.identity()
        );
        let row = only(session.begin_with(&select, &[]).await?)?;
        let (newest, server) = (unsigned(&row, 0)?, Session::server(&row, 1)?);
        // Before a key is spent.
        let is_ours = match column::<Option<&str>>(&row, 2)? {
            Some(found) => found == fingerprint,
            None => set_layout(session, fingerprint).await?,
        };
        if !is_ours {
            session.rollback().await?;
            return Ok(None);
        }
        // A key that would be refused is not asked for: it would be spent.
        let key = match layout.check_worker_id(newest + 1) {
            Ok(()) => Some(insert_node(session, node, Some(newest)).await?),
            Err(_) => None,
        };
        let Some(key) = key.filter(|key| layout.check_worker_id(*key).is_ok()) else {
            session.rollback().await?;
            return Ok(Some(Err(Denial::Short(self.shortage(session).await?))));
        };
        let lasts = lasts.as_micros() as u64;
        let values = [key.into(), owner.into(), lasts.into(), fingerprint.into()];
        session.execute(&DIALECT.insert_held_lease(), &values).await?;
        session.commit().await?;
        Ok(Some(Ok(self.0.taken(key, 1, None, server))))
    }

    async fn shortage(&self, session: &mut Session) -> Result<Shortage, Problem> {
        let row = session.one(&DIALECT.count_leases(), &[]).await?;
        let (held, ends_in, leased) =
            (unsigned(&row, 0)?, optional_int(&row, 1)?, unsigned(&row, 2)?);
        let rows = session
            .query(&DIALECT.least_ahead(&is_sound(&self.0.layout)), &[self.0.last_tick.into()])
            .await?;
        let ahead = match rows.first() {
            Some(row) => Some((unsigned(row, 0)?, unsigned(row, 1)?)),
            None => None,
        };
        let ends_in = ends_in.map(|millis| u64::try_from(millis).unwrap_or(0));
        let flaw = flaw(session, &self.0.layout).await?;
        Ok(Shortage { leased, held, ends_in, ahead, flaw })
    }
}

/// Tells a row that others have locked from one that cannot be changed.
async fn check_changeable(session: &mut Session, worker_id: u64) -> Result<(), Problem> {
    let lock = "SELECT WORKER_ID FROM UIDRING_LEASE WHERE WORKER_ID = ? FOR UPDATE NOWAIT";
    let update =
        "UPDATE UIDRING_LEASE SET TOKEN = TOKEN + 1 WHERE WORKER_ID = ? RETURNING WORKER_ID";
    let free = format!("worker id {worker_id} is free in UIDRING_LEASE");
    let prevented = match session.begin_with(lock, &[worker_id.into()]).await {
        Ok(rows) if rows.is_empty() => {
            let sight = look_for(session, "UIDRING_LEASE", "WORKER_ID", worker_id.into()).await?;
            (sight.is_there && sight.is_secured).then(|| by_policy(&free))
        }
        Ok(_) => {
            let changed = session.query(update, &[worker_id.into()]).await?;
            let nothing = || by_trigger(&format!("{free}, and a change of it changes nothing"));
            changed.is_empty().then(nothing)
        }
        Err(problem) if problem.is_locked() => None,
        Err(problem) => return Err(problem),
    };
    session.rollback().await?;
    prevented.map_or(Ok(()), Err)
}

/// Sets the layout of the table unless it has one, in a transaction. Returns whether it had none.
pub async fn set_layout(session: &mut Session, fingerprint: &str) -> Result<bool, Problem> {
    let insert = format!("{} ON CONFLICT DO NOTHING", DIALECT.insert_layout());
    Ok(session.execute(&insert, &[fingerprint.into()]).await? == 1)
}
