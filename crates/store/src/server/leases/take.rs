//! Takes a row of `UIDRING_LEASE`, in SQL.
//!
//! Free rows are read first. One statement, in a transaction of its own, then takes a row if all that was read still
//! holds. So the row needs no lock in between, and what was read may be old.

use std::time::Duration;

use tokio::time::sleep;

use super::rows::{flaw, set_layout};
use crate::leases::{AcquireRequest, Acquired, Denial, LeasedRow, Shortage, is_sound};
use crate::server::connection::Operation;
use crate::server::nodes::insert_node;
use crate::server::problem::Problem;
use crate::server::range::{look_for_range, recorded};
use crate::server::row::only;
use crate::server::session::{Done, Session};
use crate::server::tables::{Table, UIDRING_LEASE};
use crate::sql::{Dialect, TABLE_LAYOUT};
use crate::{Fitting, WorkerRange};

/// How many free rows are read, and how many of them are tried before reading again: when many start at once, most are
/// soon taken.
const CANDIDATES: u64 = 1_024;
const TRIES: usize = 16;

/// How often a start may read the same rows and take none, and the pause in between: whoever has locked a row is about
/// to take it.
const PATIENCE: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// An attempt fails after waiting for the locks of this many rows.
const LOCKED_ROWS: usize = 3;

/// Takes a free row, or adds one.
pub struct Acquire<'a> {
    pub request: &'a AcquireRequest,
}

/// A free row, as read.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Candidate {
    worker_id: u64,
    token: i64,
    tick: Option<i64>,
    sequence: Option<i64>,
}

impl Operation for Acquire<'_> {
    const TABLE: Table = UIDRING_LEASE;

    type Done = Acquired;

    /// Tries the lowest free row first, so that few worker ids serve many starts. If another start was faster,
    /// continues in random order, so that starts do not collide again. Adds a row only if none is free.
    async fn run(&self, session: &mut dyn Session) -> Done<Self::Done> {
        // A range recorded after this finds the rows that are outside it, or waits for them.
        let range = look_for_range(session).await?;
        let (mut locked, mut before, mut patience) = (Vec::new(), Vec::new(), PATIENCE);
        while patience > 0 {
            let mut candidates = match self.candidates(session, range).await? {
                Ok(candidates) => candidates,
                Err(denial) => return Ok(Err(denial)),
            };
            candidates.retain(|row| !locked.contains(&row.worker_id));
            let Some((_, rest)) = candidates.split_first_mut() else {
                if let Some(done) = self.add_row(session).await? {
                    return Ok(done);
                }
                patience -= 1;
                sleep(PAUSE).await;
                continue;
            };
            fastrand::shuffle(rest);
            candidates.truncate(TRIES);
            for row in &candidates {
                match self.take_row(session, row).await {
                    Ok(Some(held)) => return Ok(Ok(held)),
                    Ok(None) => {}
                    Err(problem) if problem.is_locked() => {
                        locked.push(row.worker_id);
                        if locked.len() >= LOCKED_ROWS {
                            return Err(problem);
                        }
                    }
                    Err(problem) => return Err(problem),
                }
            }
            // A row that has not changed was not taken by a faster start.
            if candidates.iter().any(|row| before.contains(row)) {
                patience -= 1;
                sleep(PAUSE).await;
            }
            before = candidates;
        }
        let Some(row) = before.first() else {
            return Err(Problem::Denied(
                "the row of UIDRING_LEASE with WORKER_ID -1, which sets the table's layout, can be neither added nor \
                 seen: a trigger, rule or policy of the table prevents it; remove it"
                    .into(),
            ));
        };
        session.check_changeable(row.worker_id).await?;
        Err(Problem::Busy("other transactions have all free rows of UIDRING_LEASE locked".into()))
    }
}

impl Acquire<'_> {
    async fn candidates(
        &self,
        session: &mut dyn Session,
        range: Option<WorkerRange>,
    ) -> Done<Result<Vec<Candidate>, Denial>> {
        let AcquireRequest { layout, fingerprint, owner, last_tick, .. } = self.request;
        // Rows of another layout come first. Then our own, which an attempt without a reply has taken.
        let select = format!(
            "SELECT WORKER_ID, LAYOUT, TOKEN, HORIZON_TICK, HORIZON_SEQUENCE FROM UIDRING_LEASE
             WHERE LAYOUT <> ? OR (({} OR OWNER = ?)
             AND (HORIZON_TICK IS NULL OR HORIZON_TICK <= ?) AND {})
             ORDER BY LAYOUT = ?, OWNER <> ?, WORKER_ID LIMIT ?",
            session.dialect().is_free(),
            is_sound(layout, range)
        );
        let (owner, layout) = (owner.into(), fingerprint.into());
        let values = [layout, owner, (*last_tick).into(), layout, owner, CANDIDATES.into()];
        let rows = session.look(&select, &values).await?;
        let mut candidates = Vec::with_capacity(rows.len());
        for row in rows {
            let layout = row.text(1)?;
            if layout != fingerprint {
                return Ok(Err(Denial::Foreign(layout.into())));
            }
            candidates.push(Candidate {
                worker_id: row.unsigned(0)?,
                token: row.int(2)?,
                tick: row.optional_int(3)?,
                sequence: row.optional_int(4)?,
            });
        }
        Ok(Ok(candidates))
    }

    /// Takes a row; `None` if it has changed since it was read.
    async fn take_row(
        &self,
        session: &mut dyn Session,
        row: &Candidate,
    ) -> Done<Option<LeasedRow>> {
        let AcquireRequest { fingerprint, owner, lasts, .. } = self.request;
        let Candidate { worker_id, token, tick, sequence } = *row;
        let Dialect { now, now_plus, same, unlocked, .. } = session.dialect();
        let is_as_read = unlocked(&format!(
            "WORKER_ID = ? AND TOKEN = ? AND LAYOUT = ? AND HORIZON_TICK {same} ?
             AND HORIZON_SEQUENCE {same} ? AND ({} OR OWNER = ?)",
            session.dialect().is_free()
        ));
        let update = format!(
            "UPDATE UIDRING_LEASE SET OWNER = ?, TOKEN = TOKEN + 1{}, LEASE_END = {now_plus},
             RENEWED = {now} WHERE {is_as_read}",
            session.server_mark()
        );
        let (owner, lasts) = (owner.into(), (lasts.as_micros() as u64).into());
        let (id, layout) = (worker_id.into(), fingerprint.into());
        let values = [owner, lasts, id, token.into(), layout, tick.into(), sequence.into(), owner];
        let changed = session.change(&update, &values).await?;
        match changed.rows {
            0 => Ok(None),
            1 => {
                let before = LeasedRow::horizon(tick, sequence);
                Ok(Some(self.request.taken(worker_id, token + 1, before, changed.server)))
            }
            rows => Err(Problem::Refused(format!(
                "a change of worker id {worker_id} met {rows} rows and not 1: UIDRING_LEASE needs \
                 WORKER_ID for its primary key"
            ))),
        }
    }

    /// Adds a new worker id: the next key of `WORKER_NODE`. `None` if the leases must be read again, because another
    /// start has set their layout.
    async fn add_row(&self, session: &mut dyn Session) -> Done<Option<Acquired>> {
        let AcquireRequest { layout, fingerprint, node, owner, lasts, .. } = self.request;
        let select = format!(
            "SELECT (SELECT MAX(ID) FROM WORKER_NODE),
             (SELECT MAX(WORKER_ID) FROM UIDRING_LEASE WHERE WORKER_ID <= {}), {}, {TABLE_LAYOUT}, {}",
            layout.max_worker_id(),
            session.identity(),
            session.has_range()
        );
        let row = only(session.begin_with(&select, &[]).await?)?;
        // The table's layout has worker id -1.
        let leased = row.optional_int(1)?.and_then(|id| u64::try_from(id).ok());
        let newest = row.optional_unsigned(0)?.max(leased).unwrap_or(0);
        let server = row.server(2)?;
        // Check before a key is used up.
        let is_ours = match row.optional_text(3)? {
            Some(found) => found == fingerprint,
            None => set_layout(session, fingerprint).await?,
        };
        if !is_ours {
            session.rollback().await?;
            return Ok(None);
        }
        let range = recorded(session, row.int(4)? != 0).await?;
        let fitting = Fitting::new(layout, range);
        // Do not ask for a key that would be refused, since it would be used up.
        let key = match newest < fitting.last() {
            true => Some(insert_node(session, node, Some(newest)).await?),
            false => None,
        };
        let Some(key) = key.filter(|key| *key <= fitting.last()) else {
            session.rollback().await?;
            return Ok(Some(Err(Denial::Short(self.shortage(session, fitting).await?))));
        };
        if !fitting.has(key) {
            return Err(Problem::Unfit { row: key, fitting });
        }
        let lasts = lasts.as_micros() as u64;
        let values = [key.into(), owner.into(), lasts.into(), fingerprint.into()];
        session.execute(&session.dialect().insert_held_lease(), &values).await?;
        session.commit().await?;
        Ok(Some(Ok(LeasedRow { range, ..self.request.taken(key, 1, None, server) })))
    }

    async fn shortage(&self, session: &mut dyn Session, fitting: Fitting) -> Done<Shortage> {
        let counts =
            only(session.begin_with(&session.dialect().count_leases(fitting), &[]).await?)?;
        let is_sound = is_sound(&self.request.layout, fitting.range);
        let least_ahead = session.dialect().least_ahead(&is_sound);
        let ahead = session.query(&least_ahead, &[self.request.last_tick.into()]).await?;
        let ahead =
            ahead.first().map(|row| Ok((row.unsigned(0)?, row.unsigned(1)?))).transpose()?;
        let flaw = flaw(session, &is_sound).await?;
        session.rollback().await?;
        let ends_in = counts.optional_int(1)?.map(|millis| u64::try_from(millis).unwrap_or(0));
        Ok(Shortage {
            leased: counts.unsigned(2)?,
            held: counts.unsigned(0)?,
            ends_in: ends_in.map(Duration::from_millis),
            ahead,
            flaw,
            range: fitting.range,
        })
    }
}
