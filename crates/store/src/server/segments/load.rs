//! Reserves a range of a tag, in SQL.

use uidring::segment::{LoadError, LoadedSegment, SegmentRequest};

use super::tag_row::row_of;
use crate::server::connection::Operation;
use crate::server::problem::{Problem, State};
use crate::server::session::{Done, Session};
use crate::server::tables::{LEAF_ALLOC, Table};

/// Reserves a range.
///
/// A fault of the row is no fault of the connection, and is not retried.
pub struct Load<'a> {
    /// The tag and the number of ids.
    pub request: &'a SegmentRequest,
    pub waits: Waits,
    /// The only server that may answer, if there is one.
    pub only_server: Option<u64>,
}

/// Whether to wait for a locked row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// As long as the session's limit.
    Briefly,
    Not,
}

/// A reserved range.
#[derive(Clone, Copy)]
pub struct Loaded {
    pub range: LoadedSegment,
    /// The number of the server that reserved it; 0 if it has none.
    pub server: u64,
}

/// Why no range was reserved.
pub enum NotLoaded {
    /// The row does not allow it.
    Row(LoadError),
    Locked(Problem),
    /// The server has no NOWAIT.
    MustWait,
}

impl Operation for Load<'_> {
    const TABLE: Table = LEAF_ALLOC;

    type Done = Result<Loaded, NotLoaded>;

    /// If the reply to the COMMIT is lost, the range may or may not be reserved. It is given up, and another attempt
    /// reserves another one.
    async fn run(&self, session: &mut dyn Session) -> Done<Self::Done> {
        let done = match self.reserve(session).await {
            Ok(done) => done,
            Err(problem) if problem.is_locked() => Err(NotLoaded::Locked(problem)),
            Err(problem) if problem.state() == Some(State::Syntax) && self.waits == Waits::Not => {
                Err(NotLoaded::MustWait)
            }
            Err(problem) => return Err(problem),
        };
        match done {
            Ok(_) => session.commit().await?,
            Err(_) => session.rollback().await?,
        }
        Ok(done)
    }
}

impl Load<'_> {
    /// The SELECT reads the committed row and locks it until the transaction ends, so no other load or new step comes
    /// before the UPDATE. The UPDATE does not rely on that: it names what was read, so even a table without
    /// transactions reserves no range twice. The row is then read back, since a smaller column type or a trigger may
    /// have changed it.
    async fn reserve(&self, session: &mut dyn Session) -> Done<Result<Loaded, NotLoaded>> {
        let tag = &self.request.tag;
        let nowait = if self.waits == Waits::Not { " NOWAIT" } else { "" };
        let select = format!(
            "SELECT biz_tag, max_id, step, {} FROM leaf_alloc WHERE biz_tag = ? FOR UPDATE{nowait}",
            session.identity()
        );
        let rows = session.begin_with(&select, &[tag.into()]).await?;
        let Some(row) = row_of(session, &rows, tag).await? else {
            return Ok(Err(NotLoaded::Row(LoadError::NoSuchTag { tag: tag.clone() })));
        };
        let server = row.unsigned(3)?;
        check_server(self.only_server, server)?;
        let range = match self.request.range(row.tag_number(1), row.tag_number(2)) {
            Ok(range) => range,
            Err(refusal) => return Ok(Err(NotLoaded::Row(refusal))),
        };
        let update = "UPDATE leaf_alloc SET max_id = ?, update_time = CURRENT_TIMESTAMP
             WHERE biz_tag = ? AND max_id = ? AND step = ?";
        let values = [range.end.into(), tag.into(), range.start.into(), range.table_step.into()];
        let look = "SELECT max_id FROM leaf_alloc WHERE biz_tag = ?";
        let (changed, found) =
            session.change_and_look((update, &values), (look, &[tag.into()])).await?;
        if changed != 1 {
            return Err(session.miscounted(&format!("a load of tag `{tag}`"), changed));
        }
        let now = found.first().map(|row| row.int(0)).transpose()?;
        if now != Some(range.end.cast_signed()) {
            let now = now.map_or_else(|| "nothing".into(), |now| now.to_string());
            return Err(session.not_read_back(format!(
                "max_id of tag `{tag}` was set to {} and reads {now}: the column has to be a BIGINT, \
                 without triggers{}",
                range.end,
                session.dialect().in_engine
            )));
        }
        Ok(Ok(Loaded { range, server }))
    }
}

/// Refuses every server but the only one that may answer.
pub fn check_server(only: Option<u64>, server: u64) -> Result<(), Problem> {
    match only {
        Some(only) if only != server => Err(Problem::Refused(
            "another server answers than at the start of this process: that may be a failover which has \
             lost commits, and ids may come twice; see that every max_id is above all ids in use, and \
             start anew"
                .into(),
        )),
        _ => Ok(()),
    }
}
