//! Operations on the table `WORKER_NODE`, in SQL.

use std::time::Duration;

use uidring::Layout;
use uidring::clock::{Clock, SystemClock};

use crate::server::clocks;
use crate::server::connection::Operation;
use crate::server::problem::Problem;
use crate::server::range::{look_for_range, recorded};
use crate::server::row::only;
use crate::server::session::{Done, Session};
use crate::server::tables::{Table, WORKER_NODE};
use crate::sql::NEWEST_NODE;
use crate::{Fitting, NodeIdentity, WorkerNode, WorkerRange, WorkerUsage};

/// Inserts a row, whose key is the worker id.
pub struct Assign {
    pub node: NodeIdentity,
    /// The layout that must have the key.
    pub layout: Layout,
    pub max_clock_difference: Option<Duration>,
}

impl Operation for Assign {
    const TABLE: Table = WORKER_NODE;

    type Done = (u64, Option<WorkerRange>);

    async fn run(&self, session: &mut dyn Session) -> Done<Self::Done> {
        let dialect = session.dialect();
        // One statement reads the rows and the clock of their server. All keys that other starts have by now are below
        // the one that the counter generates after this.
        let now = (dialect.millis)(dialect.now);
        let look = format!("SELECT MAX(ID), {now}, {} FROM WORKER_NODE", session.has_range());
        let before = SystemClock.now();
        let row = only(session.begin_with(&look, &[]).await?)?;
        let after = SystemClock.now();
        let (newest, theirs) = (row.optional_unsigned(0)?, row.millis(1)?);
        if let Some(limit) = self.max_clock_difference {
            clocks::compare([before, theirs, after], limit)?;
        }
        let range = recorded(session, row.int(2)? != 0).await?;
        let id = insert_node(session, &self.node, newest).await?;
        let fitting = Fitting::new(&self.layout, range);
        if !fitting.has(id) {
            return Err(Problem::Unfit { row: id, fitting });
        }
        session.commit().await?;
        Ok((id, range))
    }
}

/// Inserts a row in a transaction, and returns its key. Checks that the key is above `newest`, and that the row can be
/// read back.
pub async fn insert_node(
    session: &mut dyn Session,
    node: &NodeIdentity,
    newest: Option<u64>,
) -> Done<u64> {
    let (host, port) = (shortened(&node.host), shortened(&node.port));
    let values = [(&host).into(), (&port).into(), (node.kind as i64).into()];
    let id = session.insert_node(&session.dialect().insert_node(), &values).await?;
    let Some(id) = id.filter(|id| *id > 0) else {
        return Err(Problem::Refused(format!(
            "the row got no generated key, so there is no worker id: {}",
            session.dialect().generated_key
        )));
    };
    if let Some(newest) = newest.filter(|newest| id <= *newest) {
        return Err(Problem::Refused(format!(
            "the generated key {id} is not above the greatest in WORKER_NODE, {newest}: the table's counter \
             went backwards, and a worker id might come twice; set it above {newest} with {}",
            session.dialect().set_counter
        )));
    }
    // No parameter, because MySQL would prepare the statement first.
    let look = format!("SELECT ID FROM WORKER_NODE WHERE ID = {id}");
    if session.query(&look, &[]).await?.len() != 1 {
        return Err(session.not_read_back(format!(
            "a row with the generated key {id} was added to WORKER_NODE, and the table has none then: it has to \
             be without triggers that change its rows, and this account has to see all of them"
        )));
    }
    Ok(id)
}

/// The width of `HOST_NAME` and `PORT`, in characters.
const NAME_CHARS: usize = 64;

/// Shortens a name to fit the column. It only tells people who has the worker id, so a start must not fail because of
/// it.
fn shortened(name: &str) -> String {
    // A column may hold ASCII only.
    let plain = |letter| if matches!(letter, ' '..='~') { letter } else { '?' };
    name.chars().take(NAME_CHARS).map(plain).collect()
}

pub struct ListNodes;

impl Operation for ListNodes {
    const TABLE: Table = WORKER_NODE;

    type Done = Vec<WorkerNode>;

    async fn run(&self, session: &mut dyn Session) -> Done<Self::Done> {
        let rows = session.look(&session.dialect().list_nodes(), &[]).await?;
        rows.iter()
            .map(|row| {
                Ok(WorkerNode {
                    id: row.unsigned(0)?,
                    host_name: row.text(1)?.into(),
                    port: row.text(2)?.into(),
                    kind: row.int(3)?,
                    launch_date: row.text(4)?.into(),
                    modified: row.text(5)?.into(),
                    created: row.text(6)?.into(),
                })
            })
            .collect()
    }
}

pub struct Usage;

impl Operation for Usage {
    const TABLE: Table = WORKER_NODE;

    type Done = WorkerUsage;

    async fn run(&self, session: &mut dyn Session) -> Done<Self::Done> {
        let dialect = session.dialect();
        let window = [i64::from(WorkerUsage::WINDOW_DAYS).into()];
        let counts = only(session.look(&dialect.count_nodes(), &window).await?)?;
        let first = session.look(&dialect.first_node(), &window).await?;
        let first = first.first().map(|row| Ok((row.unsigned(0)?, row.seconds(1)?))).transpose()?;
        let usage = WorkerUsage {
            rows: counts.unsigned(0)?,
            newest: counts.optional_unsigned(1)?,
            last_key: session.last_key().await?,
            per_day: None,
            range: look_for_range(session).await?,
            now: counts.seconds(2)?,
        };
        Ok(usage.with_rate(counts.optional_unsigned(3)?, first))
    }
}

pub struct Newest;

impl Operation for Newest {
    const TABLE: Table = WORKER_NODE;

    type Done = Option<u64>;

    async fn run(&self, session: &mut dyn Session) -> Done<Self::Done> {
        only(session.look(NEWEST_NODE, &[]).await?)?.optional_unsigned(0)
    }
}

/// Removes up to [`ROWS`](Self::ROWS) old rows below the newest, and returns how many.
pub struct PrunePart {
    pub newest: u64,
    /// In seconds.
    pub age: u64,
}

impl PrunePart {
    /// How many rows one statement removes. Few enough that starts do not notice its locks.
    pub const ROWS: u64 = 10_000;
}

impl Operation for PrunePart {
    const TABLE: Table = WORKER_NODE;

    type Done = u64;

    async fn run(&self, session: &mut dyn Session) -> Done<Self::Done> {
        let values = [self.newest.into(), self.age.into(), Self::ROWS.into()];
        Ok(session.change(&session.dialect().prune_nodes(), &values).await?.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_short() {
        assert_eq!(shortened("db-1.example"), "db-1.example");
        assert_eq!(shortened("h\u{f4}te\u{7}\n\u{202e}~ x\u{7f}"), "h?te???~ x?");
        assert_eq!(shortened(&"\u{e9}".repeat(70)), "?".repeat(64));
    }
}
