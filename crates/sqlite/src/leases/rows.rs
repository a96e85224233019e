//! Leases in a file: acquired, renewed and released.

use std::mem;
use std::process;
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, Transaction};
use uidring::adapter::Deadline;
use uidring::{Error, Layout, Timestamp};
use uidring_store::leases::{
    AcquireRequest, Acquired, Denial, Horizon, LeaseRow, LeaseState, LeaseStore, LeasedRow,
    RowStore, Shortage, flaw_of, is_sound, unreadable,
};
use uidring_store::sql::Dialect;
use uidring_store::{Fitting, WorkerRange, WorkerTable, WorkerUsage};

use crate::columns::{millis, unsigned};
use crate::dedicated::dedicate;
use crate::dialect::DIALECT;
use crate::file::{Opened, StoreFile};
use crate::format::{self, Problem};
use crate::range;
use crate::worker_nodes::{SqliteWorkerNodes, insert_node};

/// A lease from a file: its acquisition, and then the row that was taken.
pub struct FileLease {
    file: StoreFile,
    lasts: Duration,
    /// The file's only worker id, if it is for one.
    only: Option<u64>,
    /// The connection of the last acquisition, and until when it is kept for the first renewal. Every other change
    /// opens the file again, so it notices a file that was removed.
    opened: Option<(Opened, Deadline)>,
    /// The process that opens the connection. A forked child must not close it.
    process: u32,
}

/// The first renewal follows at once, and reopening the file would take longer than the rest of it.
const STAYS_OPEN: Duration = Duration::from_secs(1);

impl FileLease {
    pub fn new(file: StoreFile, lasts: Duration, only: Option<u64>) -> Self {
        Self { file, lasts, only, opened: None, process: process::id() }
    }

    /// Changes columns of the row by `set`, where `?1` is the lease's length, and `?2` and `?3` are the horizon. The
    /// row must have this owner and token, and no horizon below the confirmed one. Fails unless it then has this
    /// horizon or a later one.
    fn change(
        &mut self,
        held: &LeasedRow,
        horizon: Option<Horizon>,
        set: &str,
    ) -> Result<(), Error> {
        let LeasedRow { worker_id, owner, token, confirmed, .. } = held;
        let (id, confirmed) = (worker_id.cast_signed(), confirmed.map(u64::cast_signed));
        let tick = horizon.map(|horizon| horizon.tick.cast_signed());
        let sequence = horizon.map(|horizon| horizon.sequence.cast_signed());
        let update = format!(
            "UPDATE UIDRING_LEASE SET {set} WHERE WORKER_ID = ?4 AND OWNER = ?5 AND TOKEN = ?6
             AND (?7 IS NULL OR TYPEOF(HORIZON_TICK) = 'integer' AND HORIZON_TICK >= ?7)"
        );
        let values = (seconds(self.lasts), tick, sequence, id, owner, token, confirmed);
        let place = self.file.place();
        let is_kept = |(_, until): &(_, Deadline)| until.remaining() != Some(Duration::ZERO);
        let kept = self.opened.take().filter(is_kept);
        let is_first = kept.is_some();
        let mut opened = match kept {
            Some((opened, _)) => opened,
            None => self.file.open("UIDRING_LEASE")?,
        };
        let done = self.file.write(&mut opened, |transaction| {
            if transaction.execute(&update, values)? != 1 {
                let why = match row(transaction, *worker_id) {
                    Ok(row) => LeaseRow::loss(row.as_ref(), held).map_err(Problem::Unusable)?,
                    // A damaged row is lost, too.
                    Err(Problem::Unusable(why)) => unreadable(&why),
                    Err(problem) => return Err(problem),
                };
                return Err(Error::LeaseLost { worker_id: *worker_id, place, why }.into());
            }
            let select = "SELECT HORIZON_TICK, HORIZON_SEQUENCE FROM UIDRING_LEASE WHERE WORKER_ID = ?1";
            let stored: Option<(Option<i64>, Option<i64>)> = transaction
                .query_row(select, [id], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            if stored.is_some_and(|stored| stored >= (tick, sequence)) {
                return Ok(());
            }
            format::unusable(format!(
                "the horizon of worker id {worker_id} was to be {}, and reads {}: UIDRING_LEASE has to be without \
                 triggers that change its rows",
                shown((tick, sequence)),
                stored.map_or_else(|| "nothing".into(), shown)
            ))
        });
        if is_first {
            // Closing writes the log back. Do it on another thread, so that the caller need not wait.
            let close = move || drop(opened);
            let _ = thread::Builder::new().name("uidring-sqlite".into()).spawn(close);
        }
        done
    }
}

fn shown((tick, sequence): (Option<i64>, Option<i64>)) -> String {
    let [tick, sequence] =
        [tick, sequence].map(|number| number.map_or_else(|| "NULL".into(), |n| n.to_string()));
    format!("tick {tick} and sequence number {sequence}")
}

impl LeaseStore for FileLease {
    type Rows = Self;

    fn location(&self) -> String {
        self.file.place()
    }

    fn usage(&mut self) -> Result<WorkerUsage, Error> {
        SqliteWorkerNodes { file: self.file.clone() }.usage()
    }

    fn acquire(&mut self, request: &AcquireRequest) -> Result<Acquired, Error> {
        let mut opened = self.file.open_to_use()?;
        let acquired = self.file.write_if(&mut opened, Result::is_ok, |transaction| {
            let range = range::recorded(transaction)?;
            let is_usable = is_usable(&request.layout, range);
            Attempt { transaction, request, range, is_usable }.acquire(self.only)
        })?;
        self.opened = Some((opened, Deadline::after(Some(STAYS_OPEN))));
        Ok(acquired)
    }

    fn hold(mut self) -> Self {
        self.file.patience = self.file.patience.at_most(self.lasts / 3);
        self
    }
}

impl RowStore for FileLease {
    fn renew(&mut self, row: &LeasedRow, horizon: Horizon) -> Result<(), Error> {
        let Dialect { now, now_plus, .. } = DIALECT;
        let renew = format!(
            "LEASE_END = {now_plus}, RENEWED = {now},
             HORIZON_TICK = MAX(COALESCE(HORIZON_TICK, 0), ?2),
             HORIZON_SEQUENCE = IIF(HORIZON_TICK > ?2, HORIZON_SEQUENCE, ?3)"
        );
        self.change(row, Some(horizon), &renew)
    }

    fn release(&mut self, row: &LeasedRow, last: Option<Horizon>) -> Result<(), Error> {
        let free = format!(
            "LEASE_END = NULL, TOKEN = TOKEN + 1, HORIZON_TICK = ?2, HORIZON_SEQUENCE = ?3, RENEWED = {}",
            DIALECT.now
        );
        // Release even if the file has lost the confirmed horizon: the last one belongs there.
        let held = LeasedRow { confirmed: None, ..row.clone() };
        self.change(&held, last, &free)
    }
}

impl Drop for FileLease {
    fn drop(&mut self) {
        if process::id() != self.process {
            mem::forget(self.opened.take());
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

/// An attempt to acquire a lease.
struct Attempt<'a> {
    transaction: &'a Transaction<'a>,
    request: &'a AcquireRequest,
    range: Option<WorkerRange>,
    is_usable: String,
}

impl Attempt<'_> {
    /// Takes a row or adds one. `only` is the file's only worker id, if it is for one.
    fn acquire(&self, only: Option<u64>) -> Result<Acquired, Problem> {
        if let Some(worker_id) = only
            && dedicate(self.transaction, worker_id)?
        {
            return self.insert_row(worker_id).map(Ok);
        }
        if let Some(denial) = foreign(self.transaction, &self.request.fingerprint)? {
            return Ok(Err(denial));
        }
        if let Some(row) = self.take_row()? {
            return Ok(Ok(row));
        }
        if only.is_none()
            && let Some(row) = self.add_row()?
        {
            return Ok(Ok(row));
        }
        let shortage = self.shortage()?;
        match shortage.flaw {
            // The file has no other row.
            Some(flaw) if only.is_some() => format::unusable(flaw),
            _ => Ok(Err(Denial::Short(shortage))),
        }
    }

    /// Takes the lowest row that nobody holds and that is not too far ahead.
    fn take_row(&self) -> rusqlite::Result<Option<LeasedRow>> {
        let Self { transaction, request, is_usable, .. } = self;
        let Dialect { now, now_plus, .. } = DIALECT;
        let update = format!(
            "UPDATE UIDRING_LEASE SET OWNER = ?, TOKEN = TOKEN + 1, LEASE_END = {now_plus}, RENEWED = {now}
             WHERE WORKER_ID = (SELECT MIN(WORKER_ID) FROM UIDRING_LEASE WHERE WORKER_ID >= 0
             AND (HORIZON_TICK IS NULL OR HORIZON_TICK <= ?) AND {} AND {is_usable})
             RETURNING WORKER_ID, TOKEN, HORIZON_TICK, HORIZON_SEQUENCE",
            DIALECT.is_free()
        );
        let values = (&request.owner, seconds(request.lasts), request.last_tick.cast_signed());
        let taken = transaction.query_row(&update, values, |row| {
            let before = LeasedRow::horizon(row.get(2)?, row.get(3)?);
            Ok(request.taken(unsigned(row, 0)?, row.get(1)?, before, None))
        });
        taken.optional()
    }

    /// Adds a worker id that nobody had before: the next key of `WORKER_NODE`. Returns `None` if no more fit.
    fn add_row(&self) -> Result<Option<LeasedRow>, Problem> {
        let Self { transaction, request, range, .. } = self;
        let key = insert_node(transaction, &request.node)?;
        if !Fitting::new(&request.layout, *range).has(key) {
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
        self.insert_row(key).map(|row| Some(LeasedRow { range: *range, ..row }))
    }

    /// Adds the row of a worker id that nobody had before.
    fn insert_row(&self, worker_id: u64) -> Result<LeasedRow, Problem> {
        let AcquireRequest { fingerprint, owner, lasts, .. } = self.request;
        let values = (worker_id.cast_signed(), owner, seconds(*lasts), fingerprint);
        self.transaction.execute(&DIALECT.insert_held_lease(), values)?;
        Ok(self.request.taken(worker_id, 1, None, None))
    }

    fn shortage(&self) -> rusqlite::Result<Shortage> {
        let Self { transaction, request, range, is_usable } = self;
        let count = DIALECT.count_leases(Fitting::new(&request.layout, *range));
        let (held, ends_in, leased): (u64, Option<i64>, u64) =
            transaction.query_row(&count, [], |row| {
                Ok((unsigned(row, 0)?, row.get(1)?, unsigned(row, 2)?))
            })?;
        let ends_in =
            ends_in.map(|millis| Duration::from_millis(millis.try_into().unwrap_or_default()));
        let last_tick = [request.last_tick.cast_signed()];
        let ahead = transaction.query_row(&DIALECT.least_ahead(is_usable), last_tick, |row| {
            Ok((unsigned(row, 0)?, unsigned(row, 1)?))
        });
        let ahead = ahead.optional()?;
        let flawed = DIALECT.find_flawed_lease(is_usable);
        let flaw = transaction.query_row(&flawed, [], read).optional()?.map(flaw_of);
        Ok(Shortage { leased, held, ends_in, ahead, flaw, range: *range })
    }
}

/// Returns the lease of a worker id.
pub fn row(transaction: &Transaction<'_>, worker_id: u64) -> Result<Option<LeaseRow>, Problem> {
    let id = worker_id.cast_signed();
    let row = transaction.query_row(&DIALECT.list_leases(), (id, id), read).optional()?;
    row.transpose().map_err(Problem::Unusable)
}

/// Reads a lease, or says what is wrong with its columns. SQLite stores values of any type in a column, and an integer
/// beyond 2^63 - 1 as a floating point number.
pub fn read(row: &Row<'_>) -> rusqlite::Result<Result<LeaseRow, String>> {
    match read_columns(row) {
        Err(rusqlite::Error::InvalidColumnType(_, column, found)) => {
            let id: i64 = row.get(0)?;
            Ok(Err(format!(
                "UIDRING_LEASE, row with WORKER_ID {id}: {column} is of type {found}; set it right"
            )))
        }
        read => read,
    }
}

fn read_columns(row: &Row<'_>) -> rusqlite::Result<Result<LeaseRow, String>> {
    let end = row.get::<_, Option<i64>>(3)?.map(Timestamp::from_millis);
    let lease = LeaseRow {
        worker_id: unsigned(row, 0)?,
        owner: row.get(1)?,
        token: row.get(2)?,
        state: LeaseState::of(end, row.get(4)?),
        horizon: None,
        layout: row.get(7)?,
        created: millis(row, 8)?,
        renewed: millis(row, 9)?,
    };
    Ok(lease.with_horizon(row.get(5)?, row.get(6)?))
}

/// Returns a duration for SQLite's time functions.
fn seconds(lasts: Duration) -> String {
    format!("+{:.3}", lasts.as_secs_f64())
}
