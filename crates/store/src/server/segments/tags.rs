//! Operations on the table `leaf_alloc`, in SQL.

use uidring::Error;
use uidring::segment::SegmentTag;

use super::tag_row::{row_of, unique};
use crate::server::connection::Operation;
use crate::server::problem::{Problem, State};
use crate::server::row::Row;
use crate::server::session::{Done, Session};
use crate::server::tables::{LEAF_ALLOC, Table};
use crate::sql::INSERT_TAG;
use crate::{NewSegmentTag, end_of, no_such_tag};

pub struct ListTags;

impl Operation for ListTags {
    const TABLE: Table = LEAF_ALLOC;

    type Done = Vec<SegmentTag>;

    async fn run(&self, session: &mut dyn Session) -> Done<Self::Done> {
        let rows = session.look(&session.dialect().list_tags(), &[]).await?;
        rows.iter().map(tag_of).collect()
    }
}

fn tag_of(row: &Row) -> Result<SegmentTag, Problem> {
    Ok(SegmentTag {
        tag: row.text(0)?.into(),
        max_id: row.tag_number(1),
        step: row.tag_number(2),
        description: row.optional_text(3)?.map(Into::into),
        update_time: row.optional_text(4)?.and_then(|time| time.parse().ok()),
    })
}

pub struct CreateTag<'a>(pub &'a NewSegmentTag);

impl Operation for CreateTag<'_> {
    const TABLE: Table = LEAF_ALLOC;

    type Done = Result<(), Error>;

    /// If an earlier attempt added the tag and its reply was lost, the tag is reported as existing.
    async fn run(&self, session: &mut dyn Session) -> Done<Self::Done> {
        let dialect = session.dialect();
        let (tag, start, step, description) = self.0.columns();
        let insert = format!("{INSERT_TAG}{}", (dialect.or_nothing)("biz_tag"));
        let values = [tag.into(), start.into(), step.into(), description.into()];
        let find = (&*dialect.find_tag(), &[tag.into()][..]);
        session.begin().await?;
        // Check our own row too: a lenient server cuts values that do not fit.
        let (added, rows) = match session.change_and_look((&insert, &values), find).await {
            Err(problem) if problem.state() == Some(State::Duplicate) => {
                (0, session.query(find.0, find.1).await?)
            }
            done => done?,
        };
        match unique(&rows, tag, dialect.one_row)?.map(tag_of).transpose()? {
            Some(found) if added == 0 => {
                session.rollback().await?;
                Ok(Err(NewSegmentTag::exists(found)))
            }
            Some(ours) if (&*ours.tag, ours.max_id, ours.step) == (tag, Ok(start), Ok(step)) => {
                session.commit().await?;
                Ok(Ok(()))
            }
            None if added == 0 => Err(Problem::Conflict(format!(
                "tag `{tag}` was there, and was deleted while it was to be added; try again"
            ))),
            _ => Err(session.not_read_back(format!(
                "tag `{tag}` was added to leaf_alloc, and is not found there as it was added; it was undone: \
                 see the types and character sets of the table's columns, and its triggers"
            ))),
        }
    }
}

/// Changes a tag. Returns it as it was before.
pub struct ChangeTag<'a> {
    pub tag: &'a str,
    pub change: Change,
}

#[derive(Clone, Copy)]
pub enum Change {
    Step(i64),
    /// Deletes it, if its ids still end here.
    Delete {
        max_id: i64,
    },
}

impl Operation for ChangeTag<'_> {
    const TABLE: Table = LEAF_ALLOC;

    type Done = Result<SegmentTag, Error>;

    async fn run(&self, session: &mut dyn Session) -> Done<Self::Done> {
        let tag = self.tag;
        let select = format!("{} FOR UPDATE", session.dialect().find_tag());
        let rows = session.begin_with(&select, &[tag.into()]).await?;
        let Some(row) = row_of(session, &rows, tag).await? else {
            session.rollback().await?;
            return Ok(Err(no_such_tag(tag)));
        };
        let before = tag_of(row)?;
        // Galera writes nothing if the row stays the same, so there would be no commit to check.
        if matches!(self.change, Change::Step(step) if before.step == Ok(step)) {
            session.rollback().await?;
            return Ok(Ok(before));
        }
        let max_id = match end_of(&before) {
            Ok(max_id) => max_id,
            Err(unreadable) => {
                session.rollback().await?;
                return Ok(Err(unreadable));
            }
        };
        self.change(session, max_id).await?;
        session.commit().await?;
        Ok(Ok(before))
    }
}

impl ChangeTag<'_> {
    /// Names what was read, so that nothing else is changed even in a table without transactions or key. Then reads the
    /// row back.
    async fn change(&self, session: &mut dyn Session, max_id: i64) -> Done<()> {
        let tag = self.tag;
        let look = ("SELECT step, max_id FROM leaf_alloc WHERE biz_tag = ?", &[tag.into()][..]);
        let delete = "DELETE FROM leaf_alloc WHERE biz_tag = ? AND max_id = ?";
        let set_step = "UPDATE leaf_alloc SET step = ?, update_time = CURRENT_TIMESTAMP
             WHERE biz_tag = ? AND max_id = ?";
        let (changed, rows, wanted) = match self.change {
            Change::Delete { max_id: end } if end != max_id => {
                return Err(Problem::Conflict(format!(
                    "tag `{tag}` was at max_id {end} when it was to be deleted, and is at {max_id} now: see \
                     whether it is still in use, and try again"
                )));
            }
            Change::Delete { .. } => {
                let values = [tag.into(), max_id.into()];
                let (changed, rows) = session.change_and_look((delete, &values), look).await?;
                (changed, rows, None)
            }
            Change::Step(step) => {
                let values = [step.into(), tag.into(), max_id.into()];
                let (changed, rows) = session.change_and_look((set_step, &values), look).await?;
                (changed, rows, Some((Some(step), Some(max_id))))
            }
        };
        if changed != 1 {
            return Err(session.miscounted(&format!("a change of tag `{tag}`"), changed));
        }
        let now = rows.first().map(|row| Ok((row.optional_int(0)?, row.optional_int(1)?)));
        let now = now.transpose()?;
        if now == wanted {
            return Ok(());
        }
        let text = |row: Option<(Option<i64>, Option<i64>)>| match row {
            None => "no row".to_owned(),
            Some((step, max_id)) => {
                let [step, max_id] = [step, max_id].map(|number| {
                    number.map_or_else(|| "NULL".into(), |number| number.to_string())
                });
                format!("step {step} and max_id {max_id}")
            }
        };
        Err(session.not_read_back(format!(
            "tag `{tag}` was to have {}, and has {}: leaf_alloc has to be without triggers that change it, and \
             its step an INT",
            text(wanted),
            text(now)
        )))
    }
}
