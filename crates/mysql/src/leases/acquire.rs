//! The table `UIDRING_LEASE`, and how a row of it is taken, in SQL.
//!
//! Taking a row, renewing and giving it back are one statement each, which commits by itself: a
//! process that is paused between two statements holds no lock that others wait for. What came of it
//! is in the statement's own answer, in the count of rows that it met: a proxy that splits reads from
//! writes would answer a SELECT from a replica. What has to be read is read in a transaction, which
//! such a proxy leaves on the primary.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use uidring_store::leases::{AcquireRequest, Acquired, Denial, LeasedRow, Shortage, is_sound};
use uidring_store::server::{Acquire, CreateLeases, CreateNodes, Operation, Table, UIDRING_LEASE};
use uidring_store::sql::{Dialect, TABLE_LAYOUT};

use super::admin::{flaw, set_layout};
use crate::MySqlStore;
use crate::columns::{column, only, optional_text, text};
use crate::dialect::DIALECT;
use crate::problem::Problem;
use crate::session::Session;
use crate::worker_nodes::rows::{begin, insert_node};

/// Texts compare byte by byte, because the case of letters in a layout's text matters.
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

/// How often they are read before the acquire fails.
const READINGS: usize = 1_000;

/// After this many locked rows the attempt fails; the client repeats it until its deadline.
const LOCKED_ROWS: usize = 3;

impl Operation<MySqlStore> for CreateLeases {
    const TABLE: Table = UIDRING_LEASE;

    type Done = ();

    async fn run(&self, conn: &mut Session) -> Result<(), Problem> {
        CreateNodes.run(conn).await?;
        Ok(conn.query_drop(CREATE_TABLE).await?)
    }
}

/// A free row as it was read.
struct Candidate {
    worker_id: u64,
    token: i64,
    tick: Option<i64>,
    sequence: Option<i64>,
}

impl Operation<MySqlStore> for Acquire<'_> {
    const TABLE: Table = UIDRING_LEASE;

    type Done = Acquired;

    async fn run(&self, conn: &mut Session) -> Result<Acquired, Problem> {
        match Taking(self.request).take(conn).await {
            Err(problem) if self.create_tables && problem.is_no_table() => {
                CreateLeases.run(conn).await?;
                Taking(self.request).take(conn).await
            }
            done => done,
        }
    }
}

/// Takes a row for this request.
struct Taking<'a>(&'a AcquireRequest);

impl Taking<'_> {
    /// Tries the lowest free row first, so that few worker ids serve many starts. If another start was
    /// faster, it goes on at random: starts that all went the same way would meet at each row. Adds a
    /// row only if no row is free.
    async fn take(&self, conn: &mut Session) -> Result<Acquired, Problem> {
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
                match self.add_row(conn).await? {
                    Some(done) => return Ok(done),
                    None => continue,
                }
            };
            fastrand::shuffle(rest);
            for row in candidates.iter().take(TRIES) {
                match self.take_row(conn, row).await {
                    Ok(Some(held)) => return Ok(Ok(held)),
                    Ok(None) => {}
                    Err(problem) if problem.is_locked() => {
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
        let AcquireRequest { fingerprint, owner, last_tick, .. } = self.0;
        // Our own comes first: an attempt whose answer was lost has taken it.
        let rows: Vec<Row> = conn
            .exec(
                format!(
                    "SELECT WORKER_ID, LAYOUT, TOKEN, HORIZON_TICK, HORIZON_SEQUENCE
                     FROM UIDRING_LEASE WHERE LAYOUT <> ? OR ({}
                     AND (HORIZON_TICK IS NULL OR HORIZON_TICK <= ?) AND {})
                     ORDER BY LAYOUT = ?, OWNER <> ?, WORKER_ID LIMIT ?",
                    free_or_own(),
                    is_sound(&self.0.layout)
                ),
                (fingerprint, owner, last_tick, fingerprint, owner, CANDIDATES),
            )
            .await?;
        let mut candidates = Vec::with_capacity(rows.len());
        for mut row in rows {
            let layout = text(&mut row, 1)?;
            if layout != *fingerprint {
                return Ok(Err(Denial::Foreign(layout)));
            }
            let (worker_id, token) = (column(&mut row, 0)?, column(&mut row, 2)?);
            let (tick, sequence) = (column(&mut row, 3)?, column(&mut row, 4)?);
            candidates.push(Candidate { worker_id, token, tick, sequence });
        }
        Ok(Ok(candidates))
    }

    /// Takes a row; `None` if it has changed since it was read. The statement compares all that was
    /// read, so the row needs no lock in between, and what was read may be old.
    async fn take_row(
        &self,
        conn: &mut Session,
        row: &Candidate,
    ) -> Result<Option<LeasedRow>, Problem> {
        let AcquireRequest { fingerprint, owner, lasts, .. } = self.0;
        let Candidate { worker_id, token, tick, sequence } = *row;
        let Dialect { now, now_plus, .. } = DIALECT;
        let update = format!(
            "UPDATE UIDRING_LEASE SET OWNER = ?, TOKEN = TOKEN + 1 + {}, LEASE_END = {now_plus},
             RENEWED = {now} WHERE WORKER_ID = ? AND TOKEN = ? AND LAYOUT = ?
             AND HORIZON_TICK <=> ? AND HORIZON_SEQUENCE <=> ? AND {}",
            identified(conn),
            free_or_own()
        );
        let lasts = lasts.as_micros() as u64;
        let values = (owner, lasts, worker_id, token, fingerprint, tick, sequence, owner);
        let written = conn.written().await?;
        conn.exec_drop(update, values).await?;
        let server = conn.last_insert_id();
        match conn.affected_rows() {
            0 => Ok(None),
            1 => {
                conn.assure_written(written).await?;
                let before = LeasedRow::horizon(tick, sequence);
                Ok(Some(self.0.taken(worker_id, token + 1, before, server)))
            }
            rows => Err(Problem::Refused(format!(
                "a change of worker id {worker_id} met {rows} rows and not 1: UIDRING_LEASE needs \
                 WORKER_ID for its primary key"
            ))),
        }
    }

    /// Adds a worker id that nobody had before: the next key of `WORKER_NODE`. `None` if the leases have to be
    /// looked at again, since another start has set their layout.
    async fn add_row(&self, conn: &mut Session) -> Result<Option<Acquired>, Problem> {
        let AcquireRequest { layout, fingerprint, node, owner, lasts, .. } = self.0;
        let before = conn.written().await?;
        begin(conn).await?;
        let select = format!(
            "SELECT GREATEST(COALESCE((SELECT MAX(ID) FROM WORKER_NODE), 0),
             COALESCE((SELECT MAX(WORKER_ID) FROM UIDRING_LEASE WHERE WORKER_ID <= {}), 0)),
             {}, {TABLE_LAYOUT}",
            layout.max_worker_id(),
            conn.identity()
        );
        let mut row = only(conn.query_first(select).await?)?;
        let (newest, server): (u64, u64) = (column(&mut row, 0)?, column(&mut row, 1)?);
        // Before a key is spent.
        let is_ours = match optional_text(&mut row, 2)? {
            Some(found) => found == *fingerprint,
            None => set_layout(conn, fingerprint).await?,
        };
        if !is_ours {
            conn.query_drop("ROLLBACK").await?;
            return Ok(None);
        }
        // A key that would be refused is not asked for: it would be spent.
        let key = match layout.check_worker_id(newest + 1) {
            Ok(()) => Some(insert_node(conn, node, Some(newest)).await?),
            Err(_) => None,
        };
        let Some(key) = key.filter(|key| layout.check_worker_id(*key).is_ok()) else {
            conn.query_drop("ROLLBACK").await?;
            return Ok(Some(Err(Denial::Short(self.shortage(conn).await?))));
        };
        let values = (key, owner, lasts.as_micros() as u64, fingerprint);
        conn.exec_drop(DIALECT.insert_held_lease(), values).await?;
        conn.commit(before).await?;
        let server = Some(server).filter(|server| *server > 0);
        Ok(Some(Ok(self.0.taken(key, 1, None, server))))
    }

    async fn shortage(&self, conn: &mut Conn) -> Result<Shortage, Problem> {
        conn.query_drop("START TRANSACTION").await?;
        let shortage = self.count(conn).await;
        conn.query_drop("ROLLBACK").await?;
        shortage
    }

    async fn count(&self, conn: &mut Conn) -> Result<Shortage, Problem> {
        let mut row = only(conn.query_first(DIALECT.count_leases()).await?)?;
        let ends_in = column::<Option<i64>>(&mut row, 1)?;
        let (held, leased) = (column(&mut row, 0)?, column(&mut row, 2)?);
        let row: Option<Row> = conn
            .exec_first(DIALECT.least_ahead(&is_sound(&self.0.layout)), (self.0.last_tick,))
            .await?;
        let ahead = match row {
            Some(mut row) => Some((column(&mut row, 0)?, column(&mut row, 1)?)),
            None => None,
        };
        let ends_in = ends_in.map(|millis| u64::try_from(millis).unwrap_or(0));
        let flaw = flaw(conn, &self.0.layout).await?;
        Ok(Shortage { leased, held, ends_in, ahead, flaw })
    }
}

/// Returns a term of 0 that makes the answer to an UPDATE tell which server executed it. It changes
/// nothing, so a replica that executes the statement again does the same.
pub fn identified(conn: &Session) -> String {
    format!("0 * LAST_INSERT_ID({})", conn.identity())
}

/// Whether nobody holds a row, or an attempt of the same acquire took it whose answer was lost.
fn free_or_own() -> String {
    format!("({} OR OWNER = ?)", DIALECT.is_free())
}
