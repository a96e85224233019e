//! The table `WORKER_NODE`, in SQL.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use uidring::clock::{Clock, SystemClock};
use uidring_store::server::{
    Assign, CreateNodes, ListNodes, Newest, Operation, PrunePart, Table, Usage, WORKER_NODE,
    clock_difference, node_columns,
};
use uidring_store::sql::NEWEST_NODE;
use uidring_store::{Counts, NodeIdentity, WorkerNode, WorkerUsage};

use crate::MySqlStore;
use crate::columns::{column, millis, only, seconds, text};
use crate::dialect::DIALECT;
use crate::problem::Problem;
use crate::session::Session;

/// The columns of Baidu's UidGenerator. Both times have a default, which its own script lacks: a
/// strict server refuses the second one otherwise.
const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS WORKER_NODE (
    ID BIGINT NOT NULL AUTO_INCREMENT COMMENT 'worker id, used by one start',
    HOST_NAME VARCHAR(64) NOT NULL COMMENT 'host name or address',
    PORT VARCHAR(64) NOT NULL COMMENT 'port, or time and random number',
    TYPE INT NOT NULL COMMENT '1 container, 2 actual machine',
    LAUNCH_DATE DATE NOT NULL COMMENT 'day of the start, UTC',
    MODIFIED TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP COMMENT 'last change',
    CREATED TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP COMMENT 'time of the start',
    PRIMARY KEY (ID)
) ENGINE = InnoDB COMMENT 'uidring version 1: worker ids'";

impl Operation<MySqlStore> for CreateNodes {
    const TABLE: Table = WORKER_NODE;

    type Done = ();

    async fn run(&self, conn: &mut Session) -> Result<(), Problem> {
        Ok(conn.query_drop(CREATE_TABLE).await?)
    }
}

impl Operation<MySqlStore> for Assign {
    const TABLE: Table = WORKER_NODE;

    type Done = u64;

    /// The table is made only where it is missing: an account that may not make it can then use
    /// the one that is there.
    async fn run(&self, conn: &mut Session) -> Result<u64, Problem> {
        match insert(self, conn).await {
            Err(problem) if self.create_table && problem.is_no_table() => {
                // It ends the transaction that found no table.
                CreateNodes.run(conn).await?;
                insert(self, conn).await
            }
            done => done,
        }
    }
}

/// Works in a transaction, whatever the server's `autocommit` is: a row that is not committed goes
/// with the connection, and an older server would hand out its key again after a restart.
async fn insert(work: &Assign, conn: &mut Session) -> Result<u64, Problem> {
    let before = conn.written().await?;
    begin(conn).await?;
    // Before the insert: every key that another start has been given by now is below the one
    // that the server's counter gives us.
    let newest = look(work, conn).await?;
    let id = insert_node(conn, &work.node, newest).await?;
    if work.layout.check_worker_id(id).is_err() {
        return Err(Problem::UsedUp { row: id, max: work.layout.max_worker_id() });
    }
    conn.commit(before).await?;
    Ok(id)
}

/// The greatest id, with a look at the server's clock where there is a limit.
async fn look(work: &Assign, conn: &mut Conn) -> Result<Option<u64>, Problem> {
    let Some(limit) = work.max_clock_difference else {
        return newest(conn).await;
    };
    let before = SystemClock.now();
    // One statement, in which the clock is that of the server whose rows are read.
    let clock = (DIALECT.millis)(DIALECT.now);
    let select = format!("SELECT MAX(ID), {clock} FROM WORKER_NODE");
    let row: Option<Row> = conn.query_first(select).await?;
    let after = SystemClock.now();
    let mut row = only(row)?;
    let theirs = millis(&mut row, 1)?;
    clock_difference([before, after], theirs, limit).map_err(Problem::ClockDiffers)?;
    column(&mut row, 0)
}

/// Inserts a row and returns its key, which is above `newest`.
pub async fn insert_node(
    conn: &mut Conn,
    node: &NodeIdentity,
    newest: Option<u64>,
) -> Result<u64, Problem> {
    conn.exec_drop(DIALECT.insert_node(), node_columns(node)).await?;
    // The driver says None for 0, which is what a server says that generated no key.
    let Some(id) = conn.last_insert_id() else {
        return Err(Problem::Refused(
            "the row got no generated key, so there is no worker id: the column ID of \
             WORKER_NODE must be AUTO_INCREMENT"
                .into(),
        ));
    };
    if let Some(newest) = newest.filter(|newest| id <= *newest) {
        return Err(Problem::Refused(format!(
            "the generated key {id} is not above the greatest in WORKER_NODE, {newest}: its \
             AUTO_INCREMENT went backwards, and a worker id might come twice; set it above \
             {newest} with ALTER TABLE WORKER_NODE AUTO_INCREMENT"
        )));
    }
    Ok(id)
}

/// Whatever the server's own level of isolation is: some servers refuse to write below this one, and
/// above it a SELECT would lock rows against other starts.
pub async fn begin(conn: &mut Conn) -> Result<(), Problem> {
    conn.query_drop("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").await?;
    Ok(conn.query_drop("START TRANSACTION").await?)
}

async fn newest(conn: &mut Conn) -> Result<Option<u64>, Problem> {
    match conn.query_first::<Row, _>(NEWEST_NODE).await? {
        Some(mut row) => column(&mut row, 0),
        None => Ok(None),
    }
}

impl Operation<MySqlStore> for ListNodes {
    const TABLE: Table = WORKER_NODE;

    type Done = Vec<WorkerNode>;

    async fn run(&self, conn: &mut Session) -> Result<Vec<WorkerNode>, Problem> {
        conn.query_drop("SET time_zone = '+00:00'").await?;
        let rows: Vec<Row> = conn.query(DIALECT.list_nodes()).await?;
        rows.into_iter()
            .map(|mut row| {
                Ok(WorkerNode {
                    id: column(&mut row, 0)?,
                    host_name: text(&mut row, 1)?,
                    port: text(&mut row, 2)?,
                    kind: column(&mut row, 3)?,
                    launch_date: text(&mut row, 4)?,
                    modified: text(&mut row, 5)?,
                    created: text(&mut row, 6)?,
                })
            })
            .collect()
    }
}

impl Operation<MySqlStore> for Usage {
    const TABLE: Table = WORKER_NODE;

    type Done = WorkerUsage;

    async fn run(&self, conn: &mut Session) -> Result<WorkerUsage, Problem> {
        let mut counts =
            only(conn.exec_first(DIALECT.count_nodes(), (WorkerUsage::WINDOW_DAYS,)).await?)?;
        let first: Option<Row> =
            conn.exec_first(DIALECT.first_node(), (WorkerUsage::WINDOW_DAYS,)).await?;
        let first = match first {
            Some(mut row) => Some((column(&mut row, 0)?, seconds(&mut row, 1)?)),
            None => None,
        };
        Ok(WorkerUsage::new(Counts {
            rows: column(&mut counts, 0)?,
            newest: column(&mut counts, 1)?,
            now: seconds(&mut counts, 2)?,
            before: column(&mut counts, 3)?,
            first,
        }))
    }
}

impl Operation<MySqlStore> for Newest {
    const TABLE: Table = WORKER_NODE;

    type Done = Option<u64>;

    async fn run(&self, conn: &mut Session) -> Result<Option<u64>, Problem> {
        newest(conn).await
    }
}

impl Operation<MySqlStore> for PrunePart {
    const TABLE: Table = WORKER_NODE;

    type Done = u64;

    async fn run(&self, conn: &mut Session) -> Result<u64, Problem> {
        let before = conn.written().await?;
        begin(conn).await?;
        conn.exec_drop(
            format!("{} ORDER BY ID LIMIT ?", DIALECT.prune_nodes()),
            (self.newest, self.age, Self::ROWS),
        )
        .await?;
        let rows = conn.affected_rows();
        if rows > 0 {
            conn.commit(before).await?;
        } else {
            conn.query_drop("ROLLBACK").await?;
        }
        Ok(rows)
    }
}
