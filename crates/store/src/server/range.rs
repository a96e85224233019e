//! The table `UIDRING_RANGE`, whose only row is the range of worker ids of a database.
//!
//! Starts obey the range once the comment of `WORKER_NODE` names it: on MySQL, an account without rights on a table
//! cannot tell whether it exists, but whoever may insert into `WORKER_NODE` sees its comment. The statement that sets
//! the comment waits for all starts that have read `WORKER_NODE`, on all nodes of a Galera cluster too, and later
//! starts see it. So reading the rows after it misses no start that did not know the range.

use super::connection::Operation;
use super::problem::{Problem, State};
use super::row::{Row, only};
use super::session::{Done, Session};
use super::tables::{Table, UIDRING_RANGE, WORKER_NODE};
use crate::{RangeRefusal, WorkerRange};

const RANGE: &str = "SELECT FIRST_ID, LAST_ID FROM UIDRING_RANGE";

/// Returns the range. The transaction's first statement must have read `WORKER_NODE` and
/// [`has_range`](Session::has_range), whose value is passed here.
pub async fn recorded(session: &mut dyn Session, has_range: bool) -> Done<Option<WorkerRange>> {
    if !has_range {
        return Ok(None);
    }
    match session.query(RANGE, &[]).await {
        Err(problem) if problem.state() == Some(State::NoTable) => Err(Problem::Refused(
            "its worker ids are of a range, as the comment of WORKER_NODE says, and the table UIDRING_RANGE is gone: \
             restore it with the range that it had (`uidring worker init --workers FIRST-LAST`)"
                .into(),
        )),
        rows => read(&rows?),
    }
}

fn read(rows: &[Row]) -> Result<Option<WorkerRange>, Problem> {
    let Some(row) = rows.first() else { return Ok(None) };
    let (first, last) = (row.unsigned(0)?, row.unsigned(1)?);
    WorkerRange::new(first, last).map(Some).map_err(|_| {
        let problem = format!("UIDRING_RANGE has {first} to {last}, which is no range; correct it");
        Problem::Refused(problem)
    })
}

/// Returns the range, in a transaction of its own. A recorded range never changes.
pub async fn look_for_range(session: &mut dyn Session) -> Done<Option<WorkerRange>> {
    if !is_marked(session).await? {
        return Ok(None);
    }
    session.begin().await?;
    let range = recorded(session, true).await?;
    session.rollback().await?;
    Ok(range)
}

async fn is_marked(session: &mut dyn Session) -> Done<bool> {
    let look = format!("SELECT {}", session.has_range());
    Ok(only(session.look(&look, &[]).await?)?.int(0)? != 0)
}

pub struct Recorded;

impl Operation for Recorded {
    const TABLE: Table = WORKER_NODE;

    type Done = Option<WorkerRange>;

    async fn run(&self, session: &mut dyn Session) -> Done<Self::Done> {
        look_for_range(session).await
    }
}

pub struct Record(pub WorkerRange);

impl Operation for Record {
    const TABLE: Table = UIDRING_RANGE;

    type Done = Result<(), RangeRefusal>;

    async fn run(&self, session: &mut dyn Session) -> Done<Self::Done> {
        let range = self.0;
        let is_marked = is_marked(session).await?;
        // What an interrupted recording left does not count yet.
        let found = match is_marked {
            true => read(&session.look_if_there(RANGE).await?)?,
            false => None,
        };
        if found.is_none() {
            let (lowest, newest) = ends(session).await?;
            // Restores a lost table that starts already obey.
            let fits = lowest.into_iter().chain(newest).all(|id| range.contains(id));
            if !(is_marked && fits)
                && let Err(refusal) = range.check_new(None, newest)
            {
                return Ok(Err(refusal));
            }
        }
        let found = match found {
            None => self.insert(session).await?,
            found => found,
        };
        if let Err(refusal) = range.check_new(found, None) {
            return Ok(Err(refusal));
        }
        Ok(match ends(session).await? {
            (Some(lowest), _) if lowest < range.first() => Err(RangeRefusal::Ignored(lowest)),
            (_, Some(newest)) if newest > range.last() => Err(RangeRefusal::Ignored(newest)),
            _ => Ok(()),
        })
    }
}

impl Record {
    /// Records the range for later starts. Returns another range if that is recorded. The same range may come from an
    /// interrupted recording.
    async fn insert(&self, session: &mut dyn Session) -> Done<Option<WorkerRange>> {
        let Self(range) = *self;
        let insert = "INSERT INTO UIDRING_RANGE (ONE, FIRST_ID, LAST_ID) VALUES (1, ?, ?)";
        session.create_table(&UIDRING_RANGE).await?;
        session.begin().await?;
        let values = [range.first().into(), range.last().into()];
        if session.insert_new(insert, "ONE", &values).await? {
            session.commit().await?;
        } else {
            session.rollback().await?;
            let found = read(&session.look(RANGE, &[]).await?)?;
            if found != Some(range) {
                return Ok(found);
            }
        }
        session.mark_range(range).await?;
        Ok(Some(range))
    }
}

/// Returns the lowest and greatest worker id that were handed out. A lease also has a row of `WORKER_NODE`, unless
/// somebody deleted it. The row below a range does not count.
async fn ends(session: &mut dyn Session) -> Done<(Option<u64>, Option<u64>)> {
    let nodes = "SELECT MIN(ID), MAX(ID) FROM WORKER_NODE WHERE TYPE <> 0";
    let leases = "SELECT MIN(WORKER_ID), MAX(WORKER_ID) FROM UIDRING_LEASE WHERE WORKER_ID >= 0";
    let mut rows = session.look(nodes, &[]).await?;
    rows.append(&mut session.look_if_there(leases).await?);
    let (mut lowest, mut greatest) = (None, None);
    for row in rows {
        lowest = [lowest, row.optional_unsigned(0)?].into_iter().flatten().min();
        greatest = greatest.max(row.optional_unsigned(1)?);
    }
    Ok((lowest, greatest))
}
