//! The table `WORKER_NODE`, in SQL.

use uidring::clock::{Clock, SystemClock};
use uidring_store::server::{
    Assign, CreateNodes, ListNodes, Newest, Operation, PrunePart, Table, Usage, WORKER_NODE,
    clock_difference, node_columns,
};
use uidring_store::sql::NEWEST_NODE;
use uidring_store::{Counts, NodeIdentity, WorkerNode, WorkerUsage};

use crate::PostgresStore;
use crate::columns::{column, int, millis, optional_unsigned, seconds, unsigned};
use crate::dialect::DIALECT;
use crate::prevented::by_trigger;
use crate::problem::Problem;
use crate::session::Session;
use crate::tables::CREATE_WORKER_NODE;

impl Operation<PostgresStore> for CreateNodes {
    const TABLE: Table = WORKER_NODE;

    type Done = ();

    async fn run(&self, session: &mut Session) -> Result<(), Problem> {
        session.create_table("WORKER_NODE", CREATE_WORKER_NODE).await
    }
}

impl Operation<PostgresStore> for Assign {
    const TABLE: Table = WORKER_NODE;

    type Done = u64;

    async fn run(&self, session: &mut Session) -> Result<u64, Problem> {
        match insert(self, session).await {
            Err(problem) if self.create_table && problem.is_no_table() => {
                session.rollback().await?;
                CreateNodes.run(session).await?;
                insert(self, session).await
            }
            done => done,
        }
    }
}

async fn insert(work: &Assign, session: &mut Session) -> Result<u64, Problem> {
    let clock = (DIALECT.millis)(DIALECT.now);
    let before = SystemClock.now();
    // Before the insert: every key that another start has been given by now is below the one
    // that the server's counter gives us.
    let look = format!("SELECT MAX(ID), {clock} FROM WORKER_NODE");
    let rows = session.begin_with(&look, &[]).await?;
    let after = SystemClock.now();
    let (newest, theirs) = match rows.first() {
        Some(row) => (optional_unsigned(row, 0)?, millis(row, 1)?),
        None => return Err(Problem::Refused("the server gave no answer to a count".into())),
    };
    if let Some(limit) = work.max_clock_difference {
        clock_difference([before, after], theirs, limit).map_err(Problem::ClockDiffers)?;
    }
    let id = insert_node(session, &work.node, newest).await?;
    if work.layout.check_worker_id(id).is_err() {
        return Err(Problem::UsedUp { row: id, max: work.layout.max_worker_id() });
    }
    session.commit().await?;
    Ok(id)
}

/// Inserts a row and returns its key, which is above `newest`, if the row has stayed as it is.
pub async fn insert_node(
    session: &mut Session,
    node: &NodeIdentity,
    newest: Option<u64>,
) -> Result<u64, Problem> {
    let (host, port, kind) = node_columns(node);
    let insert = format!("{} RETURNING ID", DIALECT.insert_node());
    let rows = session.query(&insert, &[(&host).into(), (&port).into(), kind.into()]).await?;
    let Some(row) = rows.first() else {
        return Err(by_trigger("an INSERT into WORKER_NODE adds nothing"));
    };
    let id = unsigned(row, 0)?;
    if id == 0 || newest.is_some_and(|newest| id <= newest) {
        let newest = newest.unwrap_or(0);
        return Err(Problem::Refused(format!(
            "the generated key {id} is not above the greatest in WORKER_NODE, {newest}: its counter went \
             backwards, or is cached in several sessions, and a worker id might come twice; set it above \
             {newest} with ALTER TABLE WORKER_NODE ALTER COLUMN ID RESTART WITH …, and SET CACHE 1"
        )));
    }
    if session.query("SELECT 1 FROM WORKER_NODE WHERE ID = ?", &[id.into()]).await?.len() != 1 {
        return Err(Problem::Refused(format!(
            "a row with the generated key {id} was added to WORKER_NODE, and the table has none then: it has \
             to be without triggers that change its rows, and this account has to see all of them"
        )));
    }
    Ok(id)
}

impl Operation<PostgresStore> for ListNodes {
    const TABLE: Table = WORKER_NODE;

    type Done = Vec<WorkerNode>;

    async fn run(&self, session: &mut Session) -> Result<Vec<WorkerNode>, Problem> {
        let rows = session.query(&DIALECT.list_nodes(), &[]).await?;
        rows.iter()
            .map(|row| {
                Ok(WorkerNode {
                    id: unsigned(row, 0)?,
                    host_name: column(row, 1)?,
                    port: column(row, 2)?,
                    kind: int(row, 3)?,
                    launch_date: column(row, 4)?,
                    modified: column(row, 5)?,
                    created: column(row, 6)?,
                })
            })
            .collect()
    }
}

impl Operation<PostgresStore> for Usage {
    const TABLE: Table = WORKER_NODE;

    type Done = WorkerUsage;

    async fn run(&self, session: &mut Session) -> Result<WorkerUsage, Problem> {
        let window = [i64::from(WorkerUsage::WINDOW_DAYS).into()];
        let counts = session.one(&DIALECT.count_nodes(), &window).await?;
        let first = session.query(&DIALECT.first_node(), &window).await?;
        let first = match first.first() {
            Some(row) => Some((unsigned(row, 0)?, seconds(row, 1)?)),
            None => None,
        };
        Ok(WorkerUsage::new(Counts {
            rows: unsigned(&counts, 0)?,
            newest: optional_unsigned(&counts, 1)?,
            now: seconds(&counts, 2)?,
            before: optional_unsigned(&counts, 3)?,
            first,
        }))
    }
}

impl Operation<PostgresStore> for Newest {
    const TABLE: Table = WORKER_NODE;

    type Done = Option<u64>;

    async fn run(&self, session: &mut Session) -> Result<Option<u64>, Problem> {
        optional_unsigned(&session.one(NEWEST_NODE, &[]).await?, 0)
    }
}

impl Operation<PostgresStore> for PrunePart {
    const TABLE: Table = WORKER_NODE;

    type Done = u64;

    async fn run(&self, session: &mut Session) -> Result<u64, Problem> {
        let old = format!("ID < ? AND CREATED <= {}", DIALECT.seconds_ago);
        let delete = format!(
            "DELETE FROM WORKER_NODE WHERE ID IN
             (SELECT ID FROM WORKER_NODE WHERE {old} ORDER BY ID LIMIT ?) RETURNING ID"
        );
        let values = [self.newest.into(), self.age.into(), Self::ROWS.into()];
        Ok(session.change(&delete, &values).await?.len() as u64)
    }
}
