//! What is done with the table `leaf_alloc`, in SQL.

use tokio_postgres::Row;
use uidring::Error;
use uidring::segment::{LoadError, SegmentTag};
use uidring_store::server::{
    Change, CreateTag, LEAF_ALLOC, Load, Loaded, NotLoaded, Operation, Table, TagChange, TagStep,
    Tags, Waits,
};
use uidring_store::sql::{DELETE_TAG, INSERT_TAG, SET_STEP};
use uidring_store::{NewSegmentTag, tag_number};

use crate::PostgresStore;
use crate::columns::{column, int, optional_int};
use crate::dialect::DIALECT;
use crate::prevented::{by_policy, by_trigger, look_for};
use crate::problem::Problem;
use crate::session::Session;
use crate::tables::CREATE_LEAF_ALLOC;
use crate::value::Value;

impl Operation<PostgresStore> for Load<'_> {
    const TABLE: Table = LEAF_ALLOC;

    type Done = Result<Loaded, NotLoaded<Problem>>;

    /// If the answer to the COMMIT is lost, nobody can tell whether the range is reserved: it is
    /// given up, and another attempt reserves another one.
    async fn run(&self, session: &mut Session) -> Result<Self::Done, Problem> {
        let done = match reserve(self, session).await {
            Ok(done) => done,
            Err(problem) if problem.is_locked() => Err(NotLoaded::Locked(problem)),
            Err(problem) => return Err(problem),
        };
        match done {
            Ok(_) => session.commit().await?,
            Err(_) => session.rollback().await?,
        }
        Ok(done)
    }
}

/// The SELECT locks the row until the transaction's end: between it and the UPDATE neither another load nor
/// a person with a new step can come. What then stands in the row is looked at: a column of a smaller type,
/// or a trigger, may have made something else of it.
async fn reserve(
    load: &Load<'_>,
    session: &mut Session,
) -> Result<Result<Loaded, NotLoaded<Problem>>, Problem> {
    let tag = &load.request.tag;
    let nowait = if load.waits == Waits::Not { " NOWAIT" } else { "" };
    let select = format!(
        "SELECT max_id, step, {} FROM leaf_alloc WHERE biz_tag = ? FOR UPDATE{nowait}",
        session.identity()
    );
    let rows = session.begin_with(&select, &[tag.into()]).await?;
    let Some(row) = rows.first() else {
        check_absent(tag, session).await?;
        return Ok(Err(NotLoaded::Row(LoadError::NoSuchTag { tag: tag.clone() })));
    };
    let server = Session::server(row, 2)?.unwrap_or(0);
    if load.only_server.is_some_and(|only| only != server) {
        return Err(Problem::Refused(Load::OTHER_SERVER.into()));
    }
    let (max_id, step) = (optional_int(row, 0)?, optional_int(row, 1)?);
    let range = match load.request.range(tag_number(max_id), tag_number(step)) {
        Ok(range) => range,
        Err(refusal) => return Ok(Err(NotLoaded::Row(refusal))),
    };
    let update = "UPDATE leaf_alloc SET max_id = ?, update_time = CURRENT_TIMESTAMP
        WHERE biz_tag = ? AND max_id = ? AND step = ? RETURNING biz_tag";
    let values = [range.end.into(), tag.into(), Value::Int(max_id), Value::Int(step)];
    // RETURNING would not show what triggers did afterwards.
    let look = "SELECT max_id FROM leaf_alloc WHERE biz_tag = ?";
    let (changed, found) = session.query_twice((update, &values), (look, &[tag.into()])).await?;
    if changed.len() != 1 {
        return Err(miscounted(tag, changed.len() as u64));
    }
    let now = found.first().map(|row| int(row, 0)).transpose()?;
    if now != Some(range.end.cast_signed()) {
        let now = now.map_or_else(|| "nothing".into(), |now| now.to_string());
        return Err(Problem::Refused(format!(
            "max_id of tag `{tag}` was set to {} and reads {now}: the column has to be a BIGINT, without \
             triggers",
            range.end
        )));
    }
    Ok(Ok(Loaded { range, server }))
}

/// A row that could not be locked may be there all the same, where row-level security is active.
async fn check_absent(tag: &str, session: &mut Session) -> Result<(), Problem> {
    let sight = look_for(session, "leaf_alloc", "biz_tag", tag.into()).await?;
    match (sight.is_there, sight.is_secured) {
        (false, false) => Ok(()),
        (true, false) => Err(Problem::Conflict(format!(
            "tag `{tag}` was not there, and was added meanwhile; try again"
        ))),
        (true, true) => Err(by_policy(&format!("tag `{tag}` is in leaf_alloc"))),
        (false, true) => Err(Problem::Denied(format!(
            "this account sees no tag `{tag}` in leaf_alloc, whose row-level security may hide it: let a \
             policy show it, or look as the table's owner whether it is there before you create it"
        ))),
    }
}

/// The row of the tag is locked, and a statement has changed so many rows.
fn miscounted(tag: &str, rows: u64) -> Problem {
    match rows {
        0 => by_trigger(&format!(
            "a change of tag `{tag}` in leaf_alloc, whose row is locked for it, changes nothing"
        )),
        _ => Problem::Conflict(format!(
            "a change of tag `{tag}` changed {rows} rows and not 1: leaf_alloc needs biz_tag for its \
             primary key"
        )),
    }
}

impl Operation<PostgresStore> for Tags {
    const TABLE: Table = LEAF_ALLOC;

    type Done = Vec<SegmentTag>;

    async fn run(&self, session: &mut Session) -> Result<Vec<SegmentTag>, Problem> {
        let rows = match session.query(&DIALECT.list_tags(), &[]).await {
            Err(problem) if self.create_table && problem.is_no_table() => {
                create(session).await?;
                session.query(&DIALECT.list_tags(), &[]).await
            }
            done => done,
        };
        rows?.iter().map(tag_of).collect()
    }
}

async fn create(session: &mut Session) -> Result<(), Problem> {
    session.create_table("leaf_alloc", CREATE_LEAF_ALLOC).await
}

fn tag_of(row: &Row) -> Result<SegmentTag, Problem> {
    Ok(SegmentTag {
        tag: column(row, 0)?,
        max_id: tag_number(optional_int(row, 1)?),
        step: tag_number(optional_int(row, 2)?),
        description: column(row, 3)?,
        update_time: column::<Option<String>>(row, 4)?.unwrap_or_default(),
    })
}

impl Operation<PostgresStore> for CreateTag<'_> {
    const TABLE: Table = LEAF_ALLOC;

    type Done = Result<(), Error>;

    async fn run(&self, session: &mut Session) -> Result<Self::Done, Problem> {
        match insert(self, session).await {
            Err(problem) if self.create_table && problem.is_no_table() => {
                create(session).await?;
                insert(self, session).await
            }
            done => done,
        }
    }
}

/// One that an earlier attempt added, whose answer was lost, is found as one that exists.
async fn insert(work: &CreateTag<'_>, session: &mut Session) -> Result<Result<(), Error>, Problem> {
    let (tag, start, step, description) = work.tag.columns();
    let insert = format!("{INSERT_TAG} ON CONFLICT (biz_tag) DO NOTHING RETURNING biz_tag");
    let values = [tag.into(), start.into(), step.into(), description.into()];
    let is_added = session.change(&insert, &values).await?.len() == 1;
    match find(tag, "", session).await? {
        // Others may have loaded from it by now.
        Some(found) if is_added && found.max_id.is_ok_and(|max_id| max_id >= start) => Ok(Ok(())),
        Some(found) if is_added => Err(Problem::Refused(format!(
            "tag `{tag}` was added with max_id {start}, and is found with {}: leaf_alloc has to be without \
             triggers. Delete the tag before ids of it are used",
            found.max_id.map_or_else(|_| "none".into(), |max_id| max_id.to_string())
        ))),
        Some(found) => Ok(Err(NewSegmentTag::exists(found))),
        None => Err(Problem::Conflict(format!(
            "tag `{tag}` was there, and was deleted while it was to be added; try again"
        ))),
    }
}

async fn find(tag: &str, lock: &str, session: &mut Session) -> Result<Option<SegmentTag>, Problem> {
    let rows = session.query(&format!("{}{lock}", DIALECT.find_tag()), &[tag.into()]).await?;
    rows.first().map(tag_of).transpose()
}

impl Operation<PostgresStore> for TagChange<'_> {
    const TABLE: Table = LEAF_ALLOC;

    type Done = Result<SegmentTag, Error>;

    async fn run(&self, session: &mut Session) -> Result<Self::Done, Problem> {
        session.begin().await?;
        let found = find(self.tag, " FOR UPDATE", session).await?;
        let (before, earlier) = match self.on_row(found.as_ref()) {
            TagStep::Done(done) => {
                // Not where an earlier attempt, whose reply was lost, has deleted it.
                if found.is_none() && done.is_err() {
                    check_absent(self.tag, session).await?;
                }
                session.rollback().await?;
                return Ok(done);
            }
            TagStep::Conflict(why) => return Err(Problem::Conflict(why)),
            TagStep::Found { before, earlier } => (before, earlier),
        };
        let found = found.as_ref();
        let changed = match self.change {
            Change::Step(step) => set_step(self.tag, found, step, session).await,
            Change::Delete => session.execute(DELETE_TAG, &[self.tag.into()]).await,
        };
        let changed = changed.and_then(|rows| match rows {
            1 => Ok(()),
            _ => Err(miscounted(self.tag, rows)),
        });
        if let Err(problem) = changed {
            // The server has answered, so that no later attempt needs to know.
            if problem.code().is_some()
                || matches!(
                    problem,
                    Problem::Conflict(_) | Problem::Refused(_) | Problem::Denied(_)
                )
            {
                self.on_refusal(earlier);
            }
            return Err(problem);
        }
        session.commit().await?;
        Ok(Ok(before))
    }
}

/// Returns how many rows were changed, and refuses one that then is not as it was found, with this step.
async fn set_step(
    tag: &str,
    found: Option<&SegmentTag>,
    step: i64,
    session: &mut Session,
) -> Result<u64, Problem> {
    let update = format!("{SET_STEP} RETURNING biz_tag");
    let look = "SELECT max_id, step FROM leaf_alloc WHERE biz_tag = ?";
    let values = [step.into(), tag.into()];
    let (changed, now) = session.query_twice((&update, &values), (look, &[tag.into()])).await?;
    let Some(row) = now.first().filter(|_| changed.len() == 1) else {
        return Ok(changed.len() as u64);
    };
    let now = (tag_number(optional_int(row, 0)?), tag_number(optional_int(row, 1)?));
    let wanted = (found.map(|found| found.max_id), Ok(step));
    if (Some(now.0), now.1) == wanted {
        return Ok(1);
    }
    let text = |number: Result<i64, _>| number.map_or_else(|_| "none".into(), |n| n.to_string());
    Err(Problem::Refused(format!(
        "the step of tag `{tag}` was set to {step}, and its row reads step {} and max_id {}: leaf_alloc has to be \
         without triggers that change it",
        text(now.1),
        text(now.0)
    )))
}
