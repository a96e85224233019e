//! How a holder uses the table `UIDRING_LEASE`.

use std::mem;
use std::process;
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Params, Row, Transaction};
use uidring::adapter::Deadline;
use uidring::{Error, Layout, Timestamp};
use uidring_store::leases::{
    AcquireRequest, Acquired, Denial, Horizon, LeaseColumns, LeaseRow, LeaseStore, LeasedRow, Loss,
    RowStore, Shortage, flaw_of, is_sound,
};
use uidring_store::sql::Dialect;
use uidring_store::{Fitting, WorkerRange, WorkerTable, WorkerUsage};

use crate::columns::{millis, optional_unsigned, unsigned};
use crate::dedicated::{Dedicated, dedicate};
use crate::dialect::DIALECT;
use crate::file::{Opened, StoreFile};
use crate::format::{self, Problem};
use crate::range;
use crate::worker_nodes::{SqliteWorkerNodes, insert_node};

/// The acquisition of a lease from a file.
pub struct Acquiring {
    file: StoreFile,
    lasts: Duration,
    /// The file's only worker id, if it is for one.
    only: Option<u64>,
    /// The connection of the last attempt.
    opened: Option<Opened>,
}

impl Acquiring {
    pub fn new(file: StoreFile, lasts: Duration) -> Self {
        Self { file, lasts, only: None, opened: None }
    }

    /// Sets the worker id, for a file that has no other.
    pub fn only(self, worker_id: u64) -> Self {
        Self { only: Some(worker_id), ..self }
    }
}

impl LeaseStore for Acquiring {
    type Rows = Rows;

    fn location(&self) -> String {
        self.file.path.display().to_string()
    }

    fn usage(&mut self) -> Result<WorkerUsage, Error> {
        SqliteWorkerNodes::of(self.file.clone()).usage()
    }

    fn acquire(&mut self, request: &AcquireRequest) -> Result<Acquired, Error> {
        let mut connection = self.file.open_to_use()?;
        let acquired = self.file.write(&mut connection, |transaction| {
            if let Some(worker_id) = self.only
                && dedicate(transaction, worker_id)? == Dedicated::Now
            {
                return insert_row(transaction, request, worker_id).map(Ok);
            }
            if let Some(denial) = foreign(transaction, &request.fingerprint)? {
                return Ok(Err(denial));
            }
            if let Some(row) = take_row(transaction, request)? {
                return Ok(Ok(row));
            }
            let row = match self.only {
                Some(_) => None,
                None => add_row(transaction, request)?,
            };
            if let Some(row) = row {
                return Ok(Ok(row));
            }
            let shortage = shortage(transaction, request)?;
            match shortage.flaw {
                // The file has no other row.
                Some(flaw) if self.only.is_some() => format::unusable(flaw),
                _ => Ok(Err(Denial::Short(shortage))),
            }
        })?;
        self.opened = Some(connection);
        Ok(acquired)
    }

    fn hold(self) -> Rows {
        let Self { file, lasts, opened, .. } = self;
        let file = StoreFile { patience: file.patience.at_most(lasts / 3), ..file };
        let opened = opened.filter(|connection| connection.busy_timeout(lasts / 3).is_ok());
        Rows {
            file,
            seconds: seconds(lasts),
            opened,
            opened_until: Deadline::after(Some(STAYS_OPEN)),
            process: process::id(),
        }
    }
}

/// Returns a denial if a row has another layout.
pub fn foreign(connection: &Connection, fingerprint: &str) -> rusqlite::Result<Option<Denial>> {
    let foreign =
        "SELECT LAYOUT FROM UIDRING_LEASE WHERE LAYOUT <> ? AND TYPEOF(LAYOUT) = 'text' LIMIT 1";
    connection.query_row(foreign, [fingerprint], |row| row.get(0).map(Denial::Foreign)).optional()
}

/// Returns the condition that a row can be used. SQLite stores values of any type in a column: texts compare above all
/// numbers, and a floating point number may be within the limits.
fn is_usable(layout: &Layout, range: Option<WorkerRange>) -> String {
    format!(
        "({} AND TYPEOF(TOKEN) = 'integer' AND TYPEOF(HORIZON_TICK) IN ('integer', 'null')
         AND TYPEOF(HORIZON_SEQUENCE) IN ('integer', 'null') AND TYPEOF(LAYOUT) = 'text')",
        is_sound(layout, range)
    )
}

/// Takes the lowest row that nobody holds and that is not too far ahead.
fn take_row(
    transaction: &Transaction<'_>,
    request: &AcquireRequest,
) -> rusqlite::Result<Option<LeasedRow>> {
    let range = range::recorded(transaction)?;
    let Dialect { now, now_plus, .. } = DIALECT;
    let update = format!(
        "UPDATE UIDRING_LEASE SET OWNER = ?, TOKEN = TOKEN + 1, LEASE_END = {now_plus}, RENEWED = {now}
         WHERE WORKER_ID = (SELECT MIN(WORKER_ID) FROM UIDRING_LEASE WHERE WORKER_ID >= 0
         AND (HORIZON_TICK IS NULL OR HORIZON_TICK <= ?) AND {} AND {})
         RETURNING WORKER_ID, TOKEN, HORIZON_TICK, HORIZON_SEQUENCE",
        DIALECT.is_free(),
        is_usable(&request.layout, range)
    );
    let values = (&request.owner, seconds(request.lasts), request.last_tick.cast_signed());
    transaction
        .query_row(&update, values, |row| {
            let before = LeasedRow::horizon(row.get(2)?, row.get(3)?);
            Ok(request.taken(unsigned(row, 0)?, row.get(1)?, before, None))
        })
        .optional()
}

/// Adds a worker id that nobody had before: the next key of `WORKER_NODE`. Returns `None` if no more fit.
fn add_row(
    transaction: &Transaction<'_>,
    request: &AcquireRequest,
) -> Result<Option<LeasedRow>, Problem> {
    let range = range::recorded(transaction)?;
    let key = insert_node(transaction, &request.node)?;
    if !Fitting::new(&request.layout, range).has(key) {
        // The caller rolls the transaction back.
        return Ok(None);
    }
    let newest = "SELECT MAX(WORKER_ID) FROM UIDRING_LEASE WHERE WORKER_ID <= ?";
    let max = request.layout.max_worker_id().cast_signed();
    let newest: Option<i64> = transaction.query_row(newest, [max], |row| row.get(0))?;
    if newest >= Some(key.cast_signed()) {
        return format::unusable(format!(
            "WORKER_NODE generated the key {key}, which is not above all in UIDRING_LEASE: its \
             counter went backwards, and a worker id might come twice; name another file"
        ));
    }
    insert_row(transaction, request, key).map(|row| Some(LeasedRow { range, ..row }))
}

/// Adds the row of a worker id that nobody had before.
fn insert_row(
    transaction: &Transaction<'_>,
    request: &AcquireRequest,
    worker_id: u64,
) -> Result<LeasedRow, Problem> {
    let AcquireRequest { fingerprint, owner, lasts, .. } = request;
    let values = (worker_id.cast_signed(), owner, seconds(*lasts), fingerprint);
    transaction.execute(&DIALECT.insert_held_lease(), values)?;
    Ok(request.taken(worker_id, 1, None, None))
}

fn shortage(transaction: &Transaction<'_>, request: &AcquireRequest) -> rusqlite::Result<Shortage> {
    let range = range::recorded(transaction)?;
    let count = DIALECT.count_leases(Fitting::new(&request.layout, range));
    let (held, ends_in, leased): (u64, Option<i64>, u64) =
        transaction
            .query_row(&count, [], |row| Ok((unsigned(row, 0)?, row.get(1)?, unsigned(row, 2)?)))?;
    let last_tick = [request.last_tick.cast_signed()];
    let is_usable = is_usable(&request.layout, range);
    let ahead = transaction
        .query_row(&DIALECT.least_ahead(&is_usable), last_tick, |row| {
            Ok((unsigned(row, 0)?, unsigned(row, 1)?))
        })
        .optional()?;
    let ends_in = ends_in.map(|millis| u64::try_from(millis).unwrap_or_default());
    let flawed = DIALECT.find_flawed_lease(&is_usable);
    let flawed = transaction.query_row(&flawed, [], read).optional()?;
    let flaw = flawed.map(flaw_of);
    Ok(Shortage { leased, held, ends_in, ahead, flaw, range })
}

/// Reads a lease, or says what is wrong with its columns. SQLite stores values of any type in a column, and an integer
/// beyond 2^63 - 1 as a floating point number.
pub fn read(row: &Row<'_>) -> rusqlite::Result<Result<LeaseRow, String>> {
    match columns(row) {
        Ok(columns) => Ok(columns.read()),
        Err(rusqlite::Error::InvalidColumnType(_, column, found)) => {
            let id: i64 = row.get(0)?;
            Ok(Err(format!(
                "UIDRING_LEASE, row with WORKER_ID {id}: {column} is of type {found}; set it right"
            )))
        }
        Err(error) => Err(error),
    }
}

fn columns(row: &Row<'_>) -> rusqlite::Result<LeaseColumns> {
    Ok(LeaseColumns {
        worker_id: unsigned(row, 0)?,
        owner: row.get(1)?,
        token: row.get(2)?,
        lease_end: row.get::<_, Option<i64>>(3)?.map(Timestamp::from_millis),
        is_over: row.get(4)?,
        horizon: (row.get(5)?, row.get(6)?),
        layout: row.get(7)?,
        created: millis(row, 8)?,
        renewed: millis(row, 9)?,
    })
}

/// Returns a duration for SQLite's time functions.
fn seconds(lasts: Duration) -> String {
    format!("+{:.3}", lasts.as_secs_f64())
}

/// How long the connection of the acquisition is kept for the first renewal, which follows at once. Reopening the file
/// takes longer than the rest.
const STAYS_OPEN: Duration = Duration::from_secs(1);

/// Renews and releases a row. Every change but the first opens the file again, so it notices a file that was removed.
pub struct Rows {
    file: StoreFile,
    seconds: String,
    opened: Option<Opened>,
    opened_until: Deadline,
    /// The process that opened the connection. A forked child must not close it.
    process: u32,
}

impl Drop for Rows {
    fn drop(&mut self) {
        if process::id() != self.process {
            mem::forget(self.opened.take());
        }
    }
}

impl Rows {
    /// Runs a statement on the row if this process still holds it. Fails unless the row then has this horizon or a
    /// later one.
    fn change(
        &mut self,
        row: &LeasedRow,
        horizon: StoredHorizon,
        statement: &str,
        values: impl Params,
    ) -> Result<(), Error> {
        let is_open = self.opened_until.remaining() != Some(Duration::ZERO);
        if let Some(mut connection) = self.opened.take().filter(|_| is_open) {
            let done = self.change_in(&mut connection, row, horizon, statement, values);
            // Closing writes the log back into the file. Nobody should wait for that.
            let close = move || drop(connection);
            let _ = thread::Builder::new().name("uidring-sqlite".into()).spawn(close);
            return done;
        }
        self.change_in(&mut *self.file.open("UIDRING_LEASE")?, row, horizon, statement, values)
    }

    fn change_in(
        &self,
        connection: &mut Connection,
        held: &LeasedRow,
        horizon: StoredHorizon,
        statement: &str,
        values: impl Params,
    ) -> Result<(), Error> {
        let done = self.file.write(connection, |transaction| {
            let present: Option<((String, i64), Option<u64>)> = transaction
                .query_row(
                    "SELECT OWNER, TOKEN, HORIZON_TICK FROM UIDRING_LEASE WHERE WORKER_ID = ?1",
                    [held.worker_id.cast_signed()],
                    |row| Ok(((row.get(0)?, row.get(1)?), optional_unsigned(row, 2)?)),
                )
                .optional()?;
            match present {
                Some(((owner, token), found)) if owner == held.owner && token == held.token => {
                    if let Some(confirmed) = held.confirmed
                        && found < Some(confirmed)
                    {
                        return Ok(Err(Loss::Forgotten { confirmed, found }));
                    }
                }
                other => return Ok(Err(Loss::of(other.map(|(present, _)| present)))),
            }
            let rows = transaction.execute(statement, values)?;
            if rows != 1 {
                return format::unusable(format!(
                    "a change of worker id {} in UIDRING_LEASE changed {rows} rows and not 1: the table has to be \
                     without triggers",
                    held.worker_id
                ));
            }
            let select = "SELECT HORIZON_TICK, HORIZON_SEQUENCE FROM UIDRING_LEASE WHERE WORKER_ID = ?1";
            let stored: Option<StoredHorizon> = transaction
                .query_row(select, [held.worker_id.cast_signed()], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })
                .optional()?;
            if stored.is_none_or(|stored| stored < horizon) {
                let shown = |(tick, sequence): StoredHorizon| {
                    let [tick, sequence] = [tick, sequence]
                        .map(|number| number.map_or_else(|| "NULL".into(), |n| n.to_string()));
                    format!("tick {tick} and sequence number {sequence}")
                };
                return format::unusable(format!(
                    "the horizon of worker id {} was to be {}, and reads {}: UIDRING_LEASE has to be without \
                     triggers that change its rows",
                    held.worker_id,
                    shown(horizon),
                    stored.map_or_else(|| "nothing".into(), shown)
                ));
            }
            Ok(Ok(()))
        })?;
        done.map_err(|loss| Error::LeaseLost {
            worker_id: held.worker_id,
            place: self.file.path.display().to_string(),
            why: held.why(loss),
        })
    }
}

/// A tick and a sequence number, each from a column that may be NULL.
type StoredHorizon = (Option<i64>, Option<i64>);

impl RowStore for Rows {
    fn renew(&mut self, row: &LeasedRow, horizon: Horizon) -> Result<(), Error> {
        let [id, tick, sequence] =
            [row.worker_id, horizon.tick, horizon.sequence].map(u64::cast_signed);
        let Dialect { now, now_plus, .. } = DIALECT;
        let renew = format!(
            "UPDATE UIDRING_LEASE SET LEASE_END = {now_plus}, RENEWED = {now},
             HORIZON_TICK = MAX(COALESCE(HORIZON_TICK, 0), ?2),
             HORIZON_SEQUENCE = IIF(HORIZON_TICK > ?2, HORIZON_SEQUENCE, ?3) WHERE WORKER_ID = ?4"
        );
        let seconds = self.seconds.clone();
        self.change(row, (Some(tick), Some(sequence)), &renew, (seconds, tick, sequence, id))
    }

    fn release(&mut self, row: &LeasedRow, last: Option<Horizon>) -> Result<(), Error> {
        let tick = last.map(|horizon| horizon.tick.cast_signed());
        let sequence = last.map(|horizon| horizon.sequence.cast_signed());
        let free = format!(
            "UPDATE UIDRING_LEASE SET LEASE_END = NULL, TOKEN = TOKEN + 1, HORIZON_TICK = ?,
             HORIZON_SEQUENCE = ?, RENEWED = {} WHERE WORKER_ID = ?",
            DIALECT.now
        );
        // Release even into an older file that has lost its count: the last horizon belongs there.
        let held = LeasedRow { confirmed: None, ..row.clone() };
        self.change(&held, (tick, sequence), &free, (tick, sequence, row.worker_id.cast_signed()))
    }
}
