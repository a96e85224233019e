//! The table `UIDRING_LEASE`, and how a row of it is taken, in SQL.
//!
//! Taking a row, renewing and giving it back are one statement each, which commits by itself: a
//! process that is paused between two statements holds no lock that others wait for. What came of it
//! is in the statement's own answer, in the count of rows that it met: a proxy that splits reads from
//! writes would answer a SELECT from a replica. What has to be read is read in a transaction, which
//! such a proxy leaves on the primary.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use uidring_store::leases::{Answer, Ask, Denial, Held, Place, Shortage};

use super::explain::{Table, UIDRING_LEASE, is_locked};
use super::inspection::Session;
use super::session::{Problem, Work, column};
use super::table::{self, insert_node, is_no_table};

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
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin
    COMMENT 'uidring version 1: worker ids that are leased'";

/// Free rows that are read at a time, and how many of them are tried before that is done anew: when
/// many start at once, most of what was read is soon taken.
const CANDIDATES: u64 = 1_024;
const TRIES: usize = 16;

/// How often they are read before it is said that none can be taken.
const READINGS: usize = 1_000;

/// Of so many rows that somebody keeps locked none is waited for any more.
const LOCKED_ROWS: usize = 3;

/// Whether a row may be taken, as far as its holder goes. One that names our own acquire was taken by
/// an attempt whose answer was lost.
const IS_FREE: &str = "(LEASE_END IS NULL OR LEASE_END <= UTC_TIMESTAMP(3) OR OWNER = ?)";

/// The end of a lease that begins now and lasts so many microseconds.
pub const END: &str = "UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND";

/// Makes the tables, unless they are there.
pub struct CreateLeases;

impl Work for CreateLeases {
    const TABLE: Table = UIDRING_LEASE;

    type Done = ();

    async fn run(&self, conn: &mut Session) -> Result<(), Problem> {
        table::Create.run(conn).await?;
        Ok(conn.query_drop(CREATE_TABLE).await?)
    }
}

/// Takes a row that nobody holds, else adds one.
pub struct Take<'a> {
    pub ask: &'a Ask,
    pub create_tables: bool,
}

/// A free row as it was read.
struct Candidate {
    worker_id: i64,
    token: i64,
    tick: Option<i64>,
    sequence: Option<i64>,
}

impl Work for Take<'_> {
    const TABLE: Table = UIDRING_LEASE;

    type Done = Answer;

    async fn run(&self, conn: &mut Session) -> Result<Answer, Problem> {
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
    /// The lowest free row is tried first, so that few worker ids do for many starts. Who finds that
    /// somebody was faster goes on at random: starts that all went the same way would meet at each
    /// row. A new row is added only when no row is free.
    async fn take(&self, conn: &mut Session) -> Result<Answer, Problem> {
        let mut locked = Vec::new();
        for _ in 0..READINGS {
            conn.query_drop("START TRANSACTION").await?;
            let read = self.candidates(conn).await;
            conn.query_drop("ROLLBACK").await?;
            let mut candidates = match read? {
                Ok(candidates) => candidates,
                Err(denial) => return Ok(Err(denial)),
            };
            candidates.retain(|row| !locked.contains(&row.worker_id));
            let Some((_, rest)) = candidates.split_first_mut() else {
                return match self.add_row(conn).await? {
                    Some(held) => Ok(Ok(held)),
                    None => Ok(Err(Denial::Short(self.shortage(conn).await?))),
                };
            };
            fastrand::shuffle(rest);
            for row in candidates.iter().take(TRIES) {
                match self.take_row(conn, row).await {
                    Ok(Some(held)) => return Ok(Ok(held)),
                    Ok(None) => {}
                    Err(problem) if is_locked(&problem) => {
                        locked.push(row.worker_id);
                        if locked.len() >= LOCKED_ROWS {
                            return Err(problem);
                        }
                    }
                    Err(problem) => return Err(problem),
                }
            }
        }
        Err(Problem::Refused(
            "no free row of UIDRING_LEASE can be taken: it has to be as `uidring worker init \
             --leases` makes it"
                .into(),
        ))
    }

    async fn candidates(
        &self,
        conn: &mut Session,
    ) -> Result<Result<Vec<Candidate>, Denial>, Problem> {
        let Ask { fingerprint, owner, last_tick, .. } = self.ask;
        // Our own comes first: an attempt whose answer was lost has taken it.
        let rows: Vec<Row> = conn
            .exec(
                format!(
                    "SELECT WORKER_ID, LAYOUT, TOKEN, HORIZON_TICK, HORIZON_SEQUENCE
                     FROM UIDRING_LEASE WHERE LAYOUT <> ? OR ({IS_FREE}
                     AND (HORIZON_TICK IS NULL OR HORIZON_TICK <= ?))
                     ORDER BY LAYOUT = ?, OWNER <> ?, WORKER_ID LIMIT ?"
                ),
                (fingerprint, owner, last_tick, fingerprint, owner, CANDIDATES),
            )
            .await?;
        let mut candidates = Vec::with_capacity(rows.len());
        for mut row in rows {
            let (worker_id, layout) = (column(&mut row, 0)?, text(&mut row, 1)?);
            if layout != *fingerprint {
                return Ok(Err(Denial::Foreign { worker_id, layout }));
            }
            let (tick, sequence) = (column(&mut row, 3)?, column(&mut row, 4)?);
            candidates.push(Candidate { worker_id, token: column(&mut row, 2)?, tick, sequence });
        }
        Ok(Ok(candidates))
    }

    /// `None` if the row is not any more as it was read. The statement names all that was read, so
    /// that it need not be locked in between, and that what was read may be old.
    async fn take_row(&self, conn: &mut Session, row: &Candidate) -> Result<Option<Held>, Problem> {
        let Ask { fingerprint, owner, lasts, .. } = self.ask;
        let Candidate { worker_id, token, tick, sequence } = *row;
        let update = format!(
            "UPDATE UIDRING_LEASE SET OWNER = ?, TOKEN = TOKEN + 1 + {SERVER}, LEASE_END = {END},
             RENEWED = UTC_TIMESTAMP(3) WHERE WORKER_ID = ? AND TOKEN = ? AND LAYOUT = ?
             AND HORIZON_TICK <=> ? AND HORIZON_SEQUENCE <=> ? AND {IS_FREE}",
            SERVER = identified(conn)
        );
        let lasts = lasts.as_micros() as u64;
        let values = (owner, lasts, worker_id, token, fingerprint, tick, sequence, owner);
        conn.exec_drop(update, values).await?;
        let server = conn.last_insert_id();
        match conn.affected_rows() {
            0 => Ok(None),
            1 => {
                let before = Held::place(tick, sequence);
                self.held(worker_id, token + 1, before, server).map(Some)
            }
            rows => Err(Problem::Refused(format!(
                "a change of worker id {worker_id} met {rows} rows and not 1: UIDRING_LEASE needs \
                 WORKER_ID for its primary key"
            ))),
        }
    }

    /// A worker id that nobody had before: the next key of `WORKER_NODE`. `None` if there are no more.
    async fn add_row(&self, conn: &mut Session) -> Result<Option<Held>, Problem> {
        let Ask { layout, fingerprint, node, owner, lasts, .. } = self.ask;
        conn.query_drop("START TRANSACTION").await?;
        let select = format!(
            "SELECT GREATEST(COALESCE((SELECT MAX(ID) FROM WORKER_NODE), 0),
             COALESCE((SELECT MAX(WORKER_ID) FROM UIDRING_LEASE), 0)), {}",
            conn.identity()
        );
        let (newest, server): (i64, u64) = match conn.query_first::<Row, _>(select).await? {
            Some(mut row) => (column(&mut row, 0)?, column(&mut row, 1)?),
            None => (0, 0),
        };
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
        let server = Some(server).filter(|server| *server > 0);
        Ok(Some(self.held(key.cast_signed(), 1, None, server)?))
    }

    fn held(
        &self,
        worker_id: i64,
        token: i64,
        before: Option<Place>,
        server: Option<u64>,
    ) -> Result<Held, Problem> {
        let Ask { layout, owner, .. } = self.ask;
        let worker_id = u64::try_from(worker_id)
            .map_err(|_| Problem::Refused(format!("there is a row of worker id {worker_id}")))?;
        let (layout, owner) = (*layout, owner.clone());
        Ok(Held { worker_id, layout, owner, token, before, confirmed: None, server })
    }

    async fn shortage(&self, conn: &mut Conn) -> Result<Shortage, Problem> {
        conn.query_drop("START TRANSACTION").await?;
        let shortage = self.count(conn).await;
        conn.query_drop("ROLLBACK").await?;
        shortage
    }

    async fn count(&self, conn: &mut Conn) -> Result<Shortage, Problem> {
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

/// A term of 0, by whose way the answer to an UPDATE tells which server has executed it. It changes
/// nothing, so that a replica which executes the statement again does the same.
pub fn identified(conn: &Session) -> String {
    format!("0 * LAST_INSERT_ID({})", conn.identity())
}

pub fn text(row: &mut Row, index: usize) -> Result<String, Problem> {
    column::<Vec<u8>>(row, index).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}
