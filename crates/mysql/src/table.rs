//! What is done with the table `WORKER_NODE`, in SQL.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error as Failure, Row};
use uidring::clock::{Clock, SystemClock};
use uidring::{Error, Layout, Timestamp};
use uidring_store::{Counts, NodeIdentity, Pruned, WorkerNode, WorkerUsage, age};

use super::MySqlStore;
use super::explain::{Table, WORKER_NODE, with_note};
use super::inspection::Session;
use super::session::{Problem, Work, column};

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

/// The clock is that of the transaction's own rows. Its milliseconds are counted in UTC: a local
/// time comes twice when summer ends.
const NEWEST_AND_CLOCK: &str = "SELECT MAX(ID), \
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000 FROM WORKER_NODE";

const NOTHING: &str = "the server gave no answer to a count";

/// What a server calls the lack of the table.
const NO_SUCH_TABLE: u16 = 1146;

/// Characters that `HOST_NAME` and `PORT` hold.
const NAME_CHARS: usize = 64;

/// Rows that one statement removes: a lock that starts do not notice.
const PRUNE_ROWS: u64 = 10_000;

/// Makes the table, unless it is there.
pub struct Create;

impl Work for Create {
    const TABLE: Table = WORKER_NODE;

    type Done = ();

    async fn run(&self, conn: &mut Session) -> Result<(), Problem> {
        Ok(conn.query_drop(CREATE_TABLE).await?)
    }
}

/// Inserts a row, and has its key for a worker id.
pub struct Assign {
    pub node: NodeIdentity,
    pub layout: Layout,
    pub create_table: bool,
    pub max_clock_difference: Option<Duration>,
}

impl Work for Assign {
    const TABLE: Table = WORKER_NODE;

    type Done = u64;

    /// The table is made only where it is missing: an account that may not make it can then use
    /// the one that is there.
    async fn run(&self, conn: &mut Session) -> Result<u64, Problem> {
        match self.insert(conn).await {
            Err(problem) if is_no_table(&problem) && self.create_table => {
                // It ends the transaction that met the lack.
                Create.run(conn).await?;
                self.insert(conn).await
            }
            done => done,
        }
    }
}

impl Assign {
    /// In a transaction, whatever the server's `autocommit` is: a row that nobody commits goes when
    /// the connection does, and an older server would hand out its key again after a restart.
    async fn insert(&self, conn: &mut Conn) -> Result<u64, Problem> {
        begin(conn).await?;
        // Before the insert: every key that another start has been given by now is below the one
        // that the server's counter gives us.
        let newest = self.look(conn).await?;
        let id = insert_node(conn, &self.node, newest).await?;
        if self.layout.check_worker_id(id).is_err() {
            return Err(Problem::UsedUp { row: id, max: self.layout.max_worker_id() });
        }
        conn.query_drop("COMMIT").await?;
        Ok(id)
    }

    /// The greatest id, with a look at the server's clock where there is a limit.
    async fn look(&self, conn: &mut Conn) -> Result<Option<i64>, Problem> {
        let Some(limit) = self.max_clock_difference else {
            return newest(conn).await;
        };
        let before = SystemClock.now();
        let row: Option<Row> = conn.query_first(NEWEST_AND_CLOCK).await?;
        let after = SystemClock.now();
        let mut row = row.ok_or_else(|| Problem::Refused(NOTHING.into()))?;
        let theirs = Timestamp::from_millis(column(&mut row, 1)?);
        // Theirs was read at some time in between; in favour of both clocks, at the best one.
        let ours = theirs.max(before).min(after);
        if ours.saturating_since(theirs).max(theirs.saturating_since(ours)) > limit {
            return Err(Problem::ClockDiffers { ours, theirs, limit });
        }
        column(&mut row, 0)
    }
}

pub fn is_no_table(problem: &Problem) -> bool {
    matches!(problem, Problem::Driver(Failure::Server(error)) if error.code == NO_SUCH_TABLE)
}

/// A new row's key, which is above `newest`.
pub async fn insert_node(
    conn: &mut Conn,
    node: &NodeIdentity,
    newest: Option<i64>,
) -> Result<u64, Problem> {
    conn.exec_drop(
        "INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED)
         VALUES (?, ?, ?, UTC_DATE(), CURRENT_TIMESTAMP, CURRENT_TIMESTAMP)",
        (shortened(&node.host), shortened(&node.port), node.kind as i64),
    )
    .await?;
    // The driver says None for 0, which is what a server says that generated no key.
    let Some(id) = conn.last_insert_id() else {
        return Err(Problem::Refused(
            "the row got no generated key, so there is no worker id: the column ID of \
             WORKER_NODE must be AUTO_INCREMENT"
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
    Ok(id)
}

/// Whatever the server's own level of isolation is: some servers refuse to write below this one, and
/// above it a SELECT would lock rows against other starts.
pub async fn begin(conn: &mut Conn) -> Result<(), Problem> {
    conn.query_drop("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").await?;
    Ok(conn.query_drop("START TRANSACTION").await?)
}

async fn newest(conn: &mut Conn) -> Result<Option<i64>, Problem> {
    match conn.query_first::<Row, _>("SELECT MAX(ID) FROM WORKER_NODE").await? {
        Some(mut row) => column(&mut row, 0),
        None => Ok(None),
    }
}

/// A name as far as the column holds it. It tells people who has the worker id; a start must not
/// fail over its length or its letters, nor a lenient server cut it for us.
fn shortened(name: &str) -> String {
    // A column may be ASCII only.
    let plain = |letter| if matches!(letter, ' '..='~') { letter } else { '?' };
    name.chars().take(NAME_CHARS).map(plain).collect()
}

/// All rows.
pub struct List;

impl Work for List {
    const TABLE: Table = WORKER_NODE;

    type Done = Vec<WorkerNode>;

    async fn run(&self, conn: &mut Session) -> Result<Vec<WorkerNode>, Problem> {
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
    const TABLE: Table = WORKER_NODE;

    type Done = WorkerUsage;

    async fn run(&self, conn: &mut Session) -> Result<WorkerUsage, Problem> {
        let counts: Option<Row> = conn
            .exec_first(
                "SELECT COUNT(*), MAX(ID), CAST(UNIX_TIMESTAMP() AS SIGNED),
                 MAX(CASE WHEN CREATED < CURRENT_TIMESTAMP - INTERVAL ? DAY THEN ID END)
                 FROM WORKER_NODE",
                (WorkerUsage::WINDOW_DAYS,),
            )
            .await?;
        let mut counts = counts.ok_or_else(|| Problem::Refused(NOTHING.into()))?;
        let first: Option<Row> = conn
            .exec_first(
                "SELECT ID, CAST(FLOOR(UNIX_TIMESTAMP(CREATED)) AS SIGNED) FROM WORKER_NODE
                 WHERE CREATED >= CURRENT_TIMESTAMP - INTERVAL ? DAY ORDER BY ID LIMIT 1",
                (WorkerUsage::WINDOW_DAYS,),
            )
            .await?;
        let first = match first {
            Some(mut row) => Some((column(&mut row, 0)?, timestamp(&mut row, 1)?)),
            None => None,
        };
        Ok(WorkerUsage::new(Counts {
            rows: column(&mut counts, 0)?,
            newest: column(&mut counts, 1)?,
            now: timestamp(&mut counts, 2)?,
            before: column(&mut counts, 3)?,
            first,
        }))
    }
}

/// A column of whole seconds since 1970.
fn timestamp(row: &mut Row, index: usize) -> Result<Timestamp, Problem> {
    column::<i64>(row, index).map(|seconds| Timestamp::from_millis(seconds.saturating_mul(1_000)))
}

/// Removes old rows, but not the newest: part by part, each with the server's whole deadline.
pub async fn prune(server: &MySqlStore, older_than: Duration) -> Result<Pruned, Error> {
    let mut removed = 0;
    let newest = server.run(&Newest).await?;
    if let Some(newest) = newest {
        let part = PrunePart { newest, age: age(older_than) };
        loop {
            let rows = server.run(&part).await.map_err(|error| counted(error, removed))?;
            removed += rows;
            if rows < PRUNE_ROWS {
                break;
            }
        }
    }
    Ok(Pruned { removed, newest })
}

struct Newest;

impl Work for Newest {
    const TABLE: Table = WORKER_NODE;

    type Done = Option<i64>;

    async fn run(&self, conn: &mut Session) -> Result<Option<i64>, Problem> {
        newest(conn).await
    }
}

/// The rows that one statement removes.
struct PrunePart {
    newest: i64,
    /// In seconds.
    age: u64,
}

impl Work for PrunePart {
    const TABLE: Table = WORKER_NODE;

    type Done = u64;

    async fn run(&self, conn: &mut Session) -> Result<u64, Problem> {
        begin(conn).await?;
        conn.exec_drop(
            "DELETE FROM WORKER_NODE WHERE ID < ? AND CREATED <= CURRENT_TIMESTAMP - INTERVAL ? SECOND
             ORDER BY ID LIMIT ?",
            (self.newest, self.age, PRUNE_ROWS),
        )
        .await?;
        let rows = conn.affected_rows();
        conn.query_drop("COMMIT").await?;
        Ok(rows)
    }
}

/// What is gone is gone, whatever came then.
fn counted(error: Error, removed: u64) -> Error {
    if removed == 0 {
        return error;
    }
    with_note(error, &format!("; rows removed before: {removed}"))
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
