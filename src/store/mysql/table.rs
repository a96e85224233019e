//! What is done with the table `WORKER_NODE`, in SQL.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};

use super::session::{Problem, Work, column};
use crate::layout::Layout;
use crate::store::{Pruned, WorkerNode, WorkerUsage};
use crate::timestamp::Timestamp;
use crate::worker::NodeIdentity;

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
) ENGINE = InnoDB";

/// Characters that `HOST_NAME` and `PORT` hold.
const NAME_CHARS: usize = 64;

/// Rows that one statement removes: a lock that starts do not notice.
const PRUNE_ROWS: u64 = 10_000;

/// Makes the table, unless it is there.
pub struct Create;

impl Work for Create {
    type Done = ();

    async fn run(&self, conn: &mut Conn) -> Result<(), Problem> {
        Ok(conn.query_drop(CREATE_TABLE).await?)
    }
}

/// Inserts a row, and has its key for a worker id.
pub struct Assign {
    pub node: NodeIdentity,
    pub layout: Layout,
    pub create_table: bool,
}

impl Work for Assign {
    type Done = u64;

    async fn run(&self, conn: &mut Conn) -> Result<u64, Problem> {
        if self.create_table {
            Create.run(conn).await?;
        }
        insert(conn, &self.node, &self.layout).await
    }
}

/// In a transaction, whatever the server's `autocommit` is: a row that nobody commits goes when
/// the connection does, and an older server would hand out its key again after a restart.
async fn insert(conn: &mut Conn, node: &NodeIdentity, layout: &Layout) -> Result<u64, Problem> {
    conn.query_drop("START TRANSACTION").await?;
    // Before the insert: every key that another start has been given by now is below the one that
    // the server's counter gives us.
    let newest = newest(conn).await?;
    conn.exec_drop(
        "INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED)
         VALUES (?, ?, ?, UTC_DATE(), CURRENT_TIMESTAMP, CURRENT_TIMESTAMP)",
        (shortened(&node.host), shortened(&node.port), node.kind as i64),
    )
    .await?;
    // The driver says None for 0, which is what a server says that generated no key.
    let Some(id) = conn.last_insert_id() else {
        return Err(Problem::Refused(
            "the row got no generated key, so there is no worker id: the column ID of WORKER_NODE \
             must be AUTO_INCREMENT"
                .into(),
        ));
    };
    if i128::from(id) <= newest.map_or(-1, i128::from) {
        let newest = newest.unwrap_or_default();
        return Err(Problem::Refused(format!(
            "the generated key {id} is not above the greatest in WORKER_NODE, {newest}: its \
             AUTO_INCREMENT went backwards, and a worker id might come twice; set it above \
             {newest} with ALTER TABLE WORKER_NODE AUTO_INCREMENT"
        )));
    }
    if layout.check_worker_id(id).is_err() {
        return Err(Problem::UsedUp { row: id, max: layout.max_worker_id() });
    }
    conn.query_drop("COMMIT").await?;
    Ok(id)
}

async fn newest(conn: &mut Conn) -> Result<Option<i64>, Problem> {
    match conn.query_first::<Row, _>("SELECT MAX(ID) FROM WORKER_NODE").await? {
        Some(mut row) => column(&mut row, 0),
        None => Ok(None),
    }
}

/// A name as far as the column holds it. It tells people who has the worker id; a start must not
/// fail over its length, nor a lenient server cut it for us.
fn shortened(name: &str) -> String {
    name.chars().take(NAME_CHARS).collect()
}

/// All rows.
pub struct List;

impl Work for List {
    type Done = Vec<WorkerNode>;

    async fn run(&self, conn: &mut Conn) -> Result<Vec<WorkerNode>, Problem> {
        conn.query_drop("SET time_zone = '+00:00'").await?;
        let rows: Vec<Row> = conn
        .query(
            "SELECT ID, HOST_NAME, PORT, TYPE, CAST(LAUNCH_DATE AS CHAR), CAST(MODIFIED AS CHAR),
             CAST(CREATED AS CHAR) FROM WORKER_NODE ORDER BY ID",
        )
        .await?;
        let text = |row: &mut Row, index| {
            column::<Vec<u8>>(row, index).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        };
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

/// How far the table has come.
pub struct Usage;

impl Work for Usage {
    type Done = WorkerUsage;

    async fn run(&self, conn: &mut Conn) -> Result<WorkerUsage, Problem> {
        const NOTHING: &str = "the server gave no answer to a count";
        let counts = "SELECT COUNT(*), MAX(ID), UNIX_TIMESTAMP() FROM WORKER_NODE";
        let counts: Option<Row> = conn.query_first(counts).await?;
        let mut counts = counts.ok_or_else(|| Problem::Refused(NOTHING.into()))?;
        let first: Option<Row> = conn
            .exec_first(
                "SELECT ID, UNIX_TIMESTAMP(CREATED) FROM WORKER_NODE
             WHERE CREATED >= CURRENT_TIMESTAMP - INTERVAL ? DAY ORDER BY ID LIMIT 1",
                (WorkerUsage::WINDOW_DAYS,),
            )
            .await?;
        let first = match first {
            Some(mut row) => Some((column(&mut row, 0)?, timestamp(&mut row, 1)?)),
            None => None,
        };
        let (rows, newest) = (column(&mut counts, 0)?, column(&mut counts, 1)?);
        Ok(WorkerUsage::new(rows, newest, first, timestamp(&mut counts, 2)?))
    }
}

/// A column of whole seconds since 1970.
fn timestamp(row: &mut Row, index: usize) -> Result<Timestamp, Problem> {
    column::<i64>(row, index).map(|seconds| Timestamp::from_millis(seconds.saturating_mul(1_000)))
}

/// Removes old rows, but not the newest.
pub struct Prune {
    pub older_than: Duration,
}

impl Work for Prune {
    type Done = Pruned;

    async fn run(&self, conn: &mut Conn) -> Result<Pruned, Problem> {
        let newest = newest(conn).await?;
        let mut removed = 0;
        if let Some(newest) = newest {
            loop {
                conn.query_drop("START TRANSACTION").await?;
                conn.exec_drop(
                    "DELETE FROM WORKER_NODE
                 WHERE ID < ? AND CREATED <= CURRENT_TIMESTAMP - INTERVAL ? SECOND
                 ORDER BY ID LIMIT ?",
                    (newest, self.older_than.as_secs(), PRUNE_ROWS),
                )
                .await?;
                let rows = conn.affected_rows();
                conn.query_drop("COMMIT").await?;
                removed += rows;
                if rows < PRUNE_ROWS {
                    break;
                }
            }
        }
        Ok(Pruned { removed, newest })
    }
}
