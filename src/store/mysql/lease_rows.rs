//! What holders do with the table `UIDRING_LEASE`, in SQL.
//!
//! Renewing and giving back are one statement each, which commits by itself: a process that
//! is paused between two statements holds no lock that others wait for.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error as Failure, Row};

use super::explain::{Table, UIDRING_LEASE};
use super::session::{Problem, Work, column};
use super::table::{self, insert_node, is_no_table};
use crate::store::leases::{Answer, Ask, Denial, Held, Place, Present, Shortage};

/// Letters compare byte by byte, as in the layout's text they must.
const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS UIDRING_LEASE (
    WORKER_ID BIGINT NOT NULL COMMENT 'worker id, of one holder at a time',
    OWNER VARCHAR(255) NOT NULL COMMENT 'who holds it, or was the last to',
    TOKEN BIGINT NOT NULL COMMENT 'grows with every change of the holder',
    LEASE_END DATETIME(3) NULL COMMENT 'UTC, by the clock of this server; NULL where it is free',
    HORIZON_TICK BIGINT NULL COMMENT 'last tick that may have been issued',
    HORIZON_SEQUENCE BIGINT NULL COMMENT 'last sequence number of it',
    LAYOUT VARCHAR(255) NOT NULL COMMENT 'bits, tick and epoch of the uids',
    CREATED DATETIME(3) NOT NULL COMMENT 'UTC',
    RENEWED DATETIME(3) NOT NULL COMMENT 'UTC, last change',
    PRIMARY KEY (WORKER_ID)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin";

/// What a server says that does not know the words `SKIP LOCKED`.
const SYNTAX_ERROR: u16 = 1064;

/// Rows that are tried at a time.
const CANDIDATES: u64 = 64;

/// Whether a row may be taken, as far as its holder goes. One that names our own acquire was taken by
/// an attempt whose answer was lost.
const IS_FREE: &str = "(LEASE_END IS NULL OR LEASE_END <= UTC_TIMESTAMP(3) OR OWNER = ?)";

/// The end of a lease that begins now and lasts so many microseconds.
const END: &str = "UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND";

/// Makes the tables, unless they are there.
pub struct CreateLeases;

impl Work for CreateLeases {
    const TABLE: Table = UIDRING_LEASE;

    type Done = ();

    async fn run(&self, conn: &mut Conn) -> Result<(), Problem> {
        table::Create.run(conn).await?;
        Ok(conn.query_drop(CREATE_TABLE).await?)
    }
}

/// Takes the lowest row that nobody holds, else adds one.
pub struct Take<'a> {
    pub ask: &'a Ask,
    pub create_tables: bool,
}

impl Work for Take<'_> {
    const TABLE: Table = UIDRING_LEASE;

    type Done = Answer;

    async fn run(&self, conn: &mut Conn) -> Result<Answer, Problem> {
        match self.take(conn).await {
            Err(problem) if self.create_tables && is_no_table(&problem) => {
                CreateLeases.run(conn).await?;
                self.take(conn).await
            }
            done => done,
        }
    }
}

impl Take<'_> {
    /// A row's lock is taken one at a time, and only of rows that are free: nobody who renews has to
    /// wait for a start. Others that start pass over a locked row where the server can.
    async fn take(&self, conn: &mut Conn) -> Result<Answer, Problem> {
        let Ask { fingerprint, owner, last_tick, .. } = self.ask;
        let rows: Vec<Row> = conn
            .exec(
                format!(
                    "SELECT WORKER_ID, LAYOUT FROM UIDRING_LEASE WHERE LAYOUT <> ? OR ({IS_FREE}
                     AND (HORIZON_TICK IS NULL OR HORIZON_TICK <= ?))
                     ORDER BY LAYOUT = ?, WORKER_ID LIMIT ?"
                ),
                (fingerprint, owner, last_tick, fingerprint, CANDIDATES),
            )
            .await?;
        let mut skip = " SKIP LOCKED";
        for mut row in rows {
            let (worker_id, layout) = (column(&mut row, 0)?, text(&mut row, 1)?);
            if layout != *fingerprint {
                return Ok(Err(Denial::Foreign { worker_id, layout }));
            }
            let taken = match self.take_row(conn, worker_id, skip).await {
                Err(Problem::Driver(Failure::Server(error))) if error.code == SYNTAX_ERROR => {
                    skip = "";
                    conn.query_drop("ROLLBACK").await?;
                    self.take_row(conn, worker_id, skip).await
                }
                done => done,
            };
            if let Some(held) = taken? {
                return Ok(Ok(held));
            }
        }
        match self.add_row(conn).await? {
            Some(held) => Ok(Ok(held)),
            None => Ok(Err(Denial::Short(self.shortage(conn).await?))),
        }
    }

    async fn take_row(
        &self,
        conn: &mut Conn,
        worker_id: i64,
        skip: &str,
    ) -> Result<Option<Held>, Problem> {
        let Ask { fingerprint, owner, last_tick, lasts, .. } = self.ask;
        conn.query_drop("START TRANSACTION").await?;
        let row: Option<Row> = conn
            .exec_first(
                format!(
                    "SELECT TOKEN, HORIZON_TICK, HORIZON_SEQUENCE FROM UIDRING_LEASE
                     WHERE WORKER_ID = ? AND LAYOUT = ? AND {IS_FREE}
                     AND (HORIZON_TICK IS NULL OR HORIZON_TICK <= ?) FOR UPDATE{skip}"
                ),
                (worker_id, fingerprint, owner, last_tick),
            )
            .await?;
        let Some(mut row) = row else {
            conn.query_drop("ROLLBACK").await?;
            return Ok(None);
        };
        let token: i64 = column(&mut row, 0)?;
        let before = Held::place(column(&mut row, 1)?, column(&mut row, 2)?);
        let update = format!(
            "UPDATE UIDRING_LEASE SET OWNER = ?, TOKEN = TOKEN + 1, LEASE_END = {END},
             RENEWED = UTC_TIMESTAMP(3) WHERE WORKER_ID = ? AND TOKEN = ?"
        );
        conn.exec_drop(update, (owner, lasts.as_micros() as u64, worker_id, token)).await?;
        one_row(conn, worker_id)?;
        conn.query_drop("COMMIT").await?;
        Ok(Some(self.held(worker_id, token + 1, before)?))
    }

    /// A worker id that nobody had before: the next key of `WORKER_NODE`. `None` if there are no more.
    async fn add_row(&self, conn: &mut Conn) -> Result<Option<Held>, Problem> {
        let Ask { layout, fingerprint, node, owner, lasts, .. } = self.ask;
        conn.query_drop("START TRANSACTION").await?;
        let row: Option<Row> = conn
            .query_first(
                "SELECT GREATEST(COALESCE((SELECT MAX(ID) FROM WORKER_NODE), 0),
                 COALESCE((SELECT MAX(WORKER_ID) FROM UIDRING_LEASE), 0))",
            )
            .await?;
        let newest: i64 = row.map(|mut row| column(&mut row, 0)).transpose()?.unwrap_or_default();
        // A key that would be refused is not asked for: it would be spent.
        let key = match layout.check_worker_id(newest.unsigned_abs() + 1) {
            Ok(()) => Some(insert_node(conn, node, Some(newest)).await?),
            Err(_) => None,
        };
        let Some(key) = key.filter(|key| layout.check_worker_id(*key).is_ok()) else {
            conn.query_drop("ROLLBACK").await?;
            return Ok(None);
        };
        let insert = format!(
            "INSERT INTO UIDRING_LEASE (WORKER_ID, OWNER, TOKEN, LEASE_END, LAYOUT, CREATED, RENEWED)
             VALUES (?, ?, 1, {END}, ?, UTC_TIMESTAMP(3), UTC_TIMESTAMP(3))"
        );
        conn.exec_drop(insert, (key, owner, lasts.as_micros() as u64, fingerprint)).await?;
        conn.query_drop("COMMIT").await?;
        Ok(Some(self.held(key.cast_signed(), 1, None)?))
    }

    fn held(&self, worker_id: i64, token: i64, before: Option<Place>) -> Result<Held, Problem> {
        let Ask { layout, owner, .. } = self.ask;
        let worker_id = u64::try_from(worker_id)
            .map_err(|_| Problem::Refused(format!("there is a row of worker id {worker_id}")))?;
        Ok(Held { worker_id, layout: *layout, owner: owner.clone(), token, before })
    }

    async fn shortage(&self, conn: &mut Conn) -> Result<Shortage, Problem> {
        let row: Option<Row> = conn
            .query_first(
                "SELECT COUNT(*),
                 TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(3), MIN(LEASE_END)) DIV 1000
                 FROM UIDRING_LEASE WHERE LEASE_END > UTC_TIMESTAMP(3)",
            )
            .await?;
        let (held, ends_in) = match row {
            Some(mut row) => (column(&mut row, 0)?, column(&mut row, 1)?),
            None => (0, None),
        };
        let row: Option<Row> = conn
            .exec_first(
                "SELECT WORKER_ID, HORIZON_TICK FROM UIDRING_LEASE
                 WHERE (LEASE_END IS NULL OR LEASE_END <= UTC_TIMESTAMP(3)) AND HORIZON_TICK > ?
                 ORDER BY HORIZON_TICK LIMIT 1",
                (self.ask.last_tick,),
            )
            .await?;
        let ahead = match row {
            Some(mut row) => Some((column(&mut row, 0)?, column(&mut row, 1)?)),
            None => None,
        };
        Ok(Shortage { held, ends_in, ahead })
    }
}

/// Renews a lease. The rows that a change counts are those that it finds: the connection asks for that.
pub struct Renew<'a> {
    pub held: &'a Held,
    pub horizon: Place,
    pub lasts_micros: u64,
}

impl Work for Renew<'_> {
    const TABLE: Table = UIDRING_LEASE;

    type Done = Result<(), Present>;

    async fn run(&self, conn: &mut Conn) -> Result<Self::Done, Problem> {
        let Held { worker_id, owner, token, .. } = self.held;
        let Place { tick, sequence } = self.horizon;
        // From left to right: where the tick is compared it is still the old one.
        let update = format!(
            "UPDATE UIDRING_LEASE SET LEASE_END = {END}, RENEWED = UTC_TIMESTAMP(3),
             HORIZON_SEQUENCE = IF(HORIZON_TICK > ?, HORIZON_SEQUENCE, ?),
             HORIZON_TICK = GREATEST(COALESCE(HORIZON_TICK, 0), ?)
             WHERE WORKER_ID = ? AND TOKEN = ? AND OWNER = ?"
        );
        let values = (self.lasts_micros, tick, sequence, tick, worker_id, token, owner);
        conn.exec_drop(update, values).await?;
        let is_done = conn.affected_rows() == 1;
        // What stands there is read again: a column of a smaller type, or a trigger, may have made
        // something else of it, and somebody else may have it by now.
        let Some(row) = read(conn, *worker_id).await? else { return Ok(Err(None)) };
        if (row.token, &row.owner) != (*token, owner) {
            return Ok(Err(Some((row.owner, row.token))));
        }
        if !is_done || row.horizon < Some(self.horizon) {
            return Err(Problem::Refused(format!(
                "the horizon of worker id {worker_id} was to be tick {tick}, and reads {:?}: \
                 UIDRING_LEASE has to be as `uidring worker init --leases` makes it, without \
                 triggers",
                row.horizon.map(|place| place.tick)
            )));
        }
        Ok(Ok(()))
    }
}

/// Gives a worker id back.
pub struct GiveBack<'a> {
    pub held: &'a Held,
    pub last: Option<Place>,
}

impl Work for GiveBack<'_> {
    const TABLE: Table = UIDRING_LEASE;

    type Done = Result<(), Present>;

    async fn run(&self, conn: &mut Conn) -> Result<Self::Done, Problem> {
        let Held { worker_id, owner, token, .. } = self.held;
        let (tick, sequence) = (self.last.map(|p| p.tick), self.last.map(|p| p.sequence));
        conn.exec_drop(
            "UPDATE UIDRING_LEASE SET LEASE_END = NULL, TOKEN = TOKEN + 1, HORIZON_TICK = ?,
             HORIZON_SEQUENCE = ?, RENEWED = UTC_TIMESTAMP(3)
             WHERE WORKER_ID = ? AND TOKEN = ? AND OWNER = ?",
            (tick, sequence, worker_id, token, owner),
        )
        .await?;
        if conn.affected_rows() == 1 {
            return Ok(Ok(()));
        }
        Ok(match read(conn, *worker_id).await? {
            // An attempt of ours whose answer was lost.
            Some(row)
                if row.is_free
                    && (row.token, &row.owner) == (token + 1, owner)
                    && row.horizon == self.last =>
            {
                Ok(())
            }
            Some(row) => Err(Some((row.owner, row.token))),
            None => Err(None),
        })
    }
}

/// Who has a row now.
struct Standing {
    owner: String,
    token: i64,
    is_free: bool,
    horizon: Option<Place>,
}

async fn read(conn: &mut Conn, worker_id: u64) -> Result<Option<Standing>, Problem> {
    let row: Option<Row> = conn
        .exec_first(
            "SELECT OWNER, TOKEN, LEASE_END IS NULL, HORIZON_TICK, HORIZON_SEQUENCE
             FROM UIDRING_LEASE WHERE WORKER_ID = ?",
            (worker_id,),
        )
        .await?;
    row.map(|mut row| {
        Ok(Standing {
            owner: text(&mut row, 0)?,
            token: column(&mut row, 1)?,
            is_free: column(&mut row, 2)?,
            horizon: Held::place(column(&mut row, 3)?, column(&mut row, 4)?),
        })
    })
    .transpose()
}

fn one_row(conn: &Conn, worker_id: i64) -> Result<(), Problem> {
    match conn.affected_rows() {
        1 => Ok(()),
        rows => Err(Problem::Refused(format!(
            "a change of worker id {worker_id} met {rows} rows and not 1: UIDRING_LEASE needs \
             WORKER_ID for its primary key"
        ))),
    }
}

pub fn text(row: &mut Row, index: usize) -> Result<String, Problem> {
    column::<Vec<u8>>(row, index).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}
