//! Leases of worker ids from a SQLite file.

use std::mem;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Transaction, named_params};

use super::file::{Kind, StoreFile};
use super::{begin, insert_node};
use crate::clock::Deadline;
use crate::error::Error;
use crate::layout::Layout;
use crate::store::leases::{
    self, Answer, Ask, Asker, Denial, Held, HeldRow, LeaseOptions, LeaseRow, LeaseTable, Place,
    Present, RawRow, Shortage, Unusable,
};
use crate::timestamp::Timestamp;
use crate::worker::Lease;

/// The columns are those on a server; times are texts in UTC, which compare as the times do.
const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS UIDRING_LEASE (
    WORKER_ID INTEGER PRIMARY KEY NOT NULL,
    OWNER VARCHAR(255) NOT NULL,
    TOKEN BIGINT NOT NULL,
    LEASE_END DATETIME,
    HORIZON_TICK BIGINT,
    HORIZON_SEQUENCE BIGINT,
    LAYOUT VARCHAR(255) NOT NULL,
    CREATED DATETIME NOT NULL,
    RENEWED DATETIME NOT NULL
)";

/// The present time, by this host's clock.
macro_rules! now {
    () => {
        "strftime('%Y-%m-%d %H:%M:%f', 'now')"
    };
}

/// The end of a lease that begins now and lasts `:seconds`.
macro_rules! end {
    () => {
        "strftime('%Y-%m-%d %H:%M:%f', 'now', :seconds || ' seconds')"
    };
}

macro_rules! is_free {
    () => {
        concat!("(LEASE_END IS NULL OR LEASE_END <= ", now!(), ")")
    };
}

/// The table `UIDRING_LEASE` in a SQLite file, for processes of one host.
///
/// The file is that of [`SqliteWorkerNodes`](super::SqliteWorkerNodes), and what is said there of
/// keeping it holds here. Leases end by this host's clock: where it is set, a lease may end early or
/// late. Uids stay unique, since whoever comes next starts above the horizon.
///
/// SQLite does not like forks: a child of a process that has leases leaves the file alone, or it calls
/// `exec` first.
///
/// ```
/// use uidring::store::{LeaseOptions, LeaseTable};
/// use uidring::{CachedUidGenerator, Layout, SqliteLeases, UidGenerator};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("workers.db");
/// let layout = Layout::SNOWFLAKE;
/// let lease = SqliteLeases::new(path).acquire(&layout, &LeaseOptions::default())?;
/// let generator = CachedUidGenerator::builder().layout(layout).worker(lease).build()?;
/// println!("{}", generator.next_uid()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SqliteLeases {
    file: StoreFile,
}

impl SqliteLeases {
    /// The table in this file, which is made, with its folder, by the first lease.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { file: StoreFile::new(Kind::Workers, path.into()) }
    }

    /// The table in the user's own file: `uidring/workers.db` in the user's data directory
    /// (`$XDG_DATA_HOME`, or `~/.local/share`, on Linux).
    ///
    /// # Errors
    ///
    /// [`Error::NoDataDirectory`].
    pub fn in_data_directory() -> Result<Self, Error> {
        Ok(Self { file: StoreFile::in_data_directory(Kind::Workers)? })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    fn place(&self) -> String {
        self.file.path().display().to_string()
    }

    /// Works in a transaction in which the tables are there, and commits it where the work says `Ok`.
    fn change<T, E>(
        &self,
        connection: &mut Connection,
        work: impl FnOnce(&Transaction<'_>) -> Result<Result<T, E>, Error>,
    ) -> Result<Result<T, E>, Error> {
        let explain = |error: rusqlite::Error| self.file.sqlite_error("written", &error);
        let transaction = begin(&self.file, connection)?;
        transaction.execute_batch(CREATE_TABLE).map_err(explain)?;
        let done = work(&transaction)?;
        if done.is_ok() {
            transaction.commit().map_err(explain)?;
        }
        Ok(done)
    }

    /// Executes a statement on one row; says whether it met it, and what stands there now.
    fn end(&self, worker_id: u64, statement: &str) -> Result<LeaseRow, Error> {
        let place = self.place();
        let id = worker_id.cast_signed();
        let is_done = self.file.read(|connection| Ok(connection.execute(statement, [id])? == 1))?;
        let row = self.list()?.into_iter().find(|row| row.worker_id == id);
        match row {
            Some(row) => row.ended(is_done, place),
            None => Err(Error::NoSuchLease { place, worker_id }),
        }
    }
}

impl LeaseTable for SqliteLeases {
    fn create(&self) -> Result<(), Error> {
        let mut connection = self.file.open_or_create()?;
        self.change(&mut connection, |_| Ok(Ok(())))?
    }

    fn acquire(&self, layout: &Layout, options: &LeaseOptions) -> Result<Lease, Error> {
        let asking = Asking { leases: self.clone(), lasts: options.lasts, opened: None };
        leases::acquire(asking, layout, options)
    }

    fn list(&self) -> Result<Vec<LeaseRow>, Error> {
        self.file.read(|connection| {
            connection
                .prepare(concat!(
                    "SELECT WORKER_ID, OWNER, TOKEN,
                     CAST(ROUND(UNIXEPOCH(LEASE_END, 'subsec') * 1000) AS INTEGER), ",
                    is_free!(),
                    ", HORIZON_TICK, HORIZON_SEQUENCE, LAYOUT,
                     CAST(ROUND(UNIXEPOCH(CREATED, 'subsec') * 1000) AS INTEGER),
                     CAST(ROUND(UNIXEPOCH(RENEWED, 'subsec') * 1000) AS INTEGER)
                     FROM UIDRING_LEASE ORDER BY WORKER_ID"
                ))?
                .query_map([], |row| {
                    Ok(LeaseRow::from(RawRow {
                        worker_id: row.get(0)?,
                        owner: row.get(1)?,
                        token: row.get(2)?,
                        lease_end: row.get(3)?,
                        is_over: row.get(4)?,
                        horizon: (row.get(5)?, row.get(6)?),
                        layout: row.get(7)?,
                        created: row.get(8)?,
                        renewed: row.get(9)?,
                    }))
                })?
                .collect()
        })
    }

    fn fence(&self, worker_id: u64) -> Result<LeaseRow, Error> {
        let fence = concat!(
            "UPDATE UIDRING_LEASE SET TOKEN = TOKEN + 1, RENEWED = ",
            now!(),
            ", LEASE_END = CASE WHEN LEASE_END IS NOT NULL THEN ",
            now!(),
            " END WHERE WORKER_ID = ?1"
        );
        self.end(worker_id, fence)
    }

    fn release(&self, worker_id: u64) -> Result<LeaseRow, Error> {
        let free = concat!(
            "UPDATE UIDRING_LEASE SET TOKEN = TOKEN + 1, LEASE_END = NULL, RENEWED = ",
            now!(),
            " WHERE WORKER_ID = ?1 AND ",
            is_free!()
        );
        self.end(worker_id, free)
    }

    fn reuse(
        &self,
        worker_ids: RangeInclusive<u64>,
        layout: &Layout,
        used_until: Timestamp,
    ) -> Result<(), Error> {
        let explain = |error: rusqlite::Error| self.file.sqlite_error("written", &error);
        let horizon = leases::used_until(layout, &worker_ids, used_until)?;
        let fingerprint = layout.to_string();
        let mut connection = self.file.open()?;
        let done = self.change(&mut connection, |transaction| {
            add_used(transaction, &worker_ids, &fingerprint, horizon).map_err(explain)
        })?;
        done.map_err(|denial| denial.error(self.place(), &fingerprint))
    }
}

/// Adds free rows, unless something is against it.
fn add_used(
    transaction: &Transaction<'_>,
    worker_ids: &RangeInclusive<u64>,
    fingerprint: &str,
    horizon: Place,
) -> rusqlite::Result<Result<(), Denial>> {
    if let Some(denial) = foreign(transaction, fingerprint)? {
        return Ok(Err(denial));
    }
    let (first, last) = (*worker_ids.start(), *worker_ids.end());
    let newest: Option<i64> =
        transaction.query_row("SELECT MAX(ID) FROM WORKER_NODE", [], |row| row.get(0))?;
    let newest = newest.map(i64::unsigned_abs);
    if let Some(unused) = Unusable::never_handed_out(first, last, newest) {
        return Ok(Err(Denial::Unusable(unused)));
    }
    let mut insert = transaction.prepare(concat!(
        "INSERT OR IGNORE INTO UIDRING_LEASE (WORKER_ID, OWNER, TOKEN, HORIZON_TICK,
         HORIZON_SEQUENCE, LAYOUT, CREATED, RENEWED) VALUES (?1, '', 0, ?2, ?3, ?4, ",
        now!(),
        ", ",
        now!(),
        ")"
    ))?;
    let Place { tick, sequence } = horizon;
    for worker_id in worker_ids.clone() {
        let values = [worker_id, tick, sequence].map(u64::cast_signed);
        if insert.execute((values[0], values[1], values[2], fingerprint))? != 1 {
            return Ok(Err(Denial::Unusable(Unusable::leased(worker_id))));
        }
    }
    Ok(Ok(()))
}

/// The file, in which worker ids are asked for.
struct Asking {
    leases: SqliteLeases,
    lasts: Duration,
    /// The connection of the last attempt.
    opened: Option<Connection>,
}

impl Asker for Asking {
    type Row = Row;

    fn place(&self) -> String {
        self.leases.place()
    }

    fn ask(&mut self, ask: &Ask) -> Result<Answer, Error> {
        let mut connection = self.leases.file.open_or_create()?;
        let explain = |error: rusqlite::Error| self.leases.file.sqlite_error("written", &error);
        let done = self.leases.change(&mut connection, |transaction| {
            if let Some(denial) = foreign(transaction, &ask.fingerprint).map_err(explain)? {
                return Ok(Err(denial));
            }
            if let Some(held) = take_row(transaction, ask).map_err(explain)? {
                return Ok(Ok(held));
            }
            match self.add_row(transaction, ask)? {
                Some(held) => Ok(Ok(held)),
                None => Ok(Err(Denial::Short(shortage(transaction, ask).map_err(explain)?))),
            }
        })?;
        self.opened = Some(connection);
        Ok(done)
    }

    fn keep(self) -> Row {
        let Self { leases, lasts, opened } = self;
        let file = leases.file.with_patience(lasts / 3);
        let opened = opened.filter(|connection| connection.busy_timeout(lasts / 3).is_ok());
        Row {
            file,
            seconds: seconds(lasts),
            opened,
            opened_until: Deadline::after(Some(STAYS_OPEN)),
            process: process::id(),
        }
    }
}

impl Asking {
    /// A worker id that nobody had before: the next key of `WORKER_NODE`. `None` if there are no more.
    fn add_row(&self, transaction: &Transaction<'_>, ask: &Ask) -> Result<Option<Held>, Error> {
        let Ask { layout, fingerprint, node, owner, .. } = ask;
        let explain = |error: rusqlite::Error| self.leases.file.sqlite_error("written", &error);
        let key = insert_node(&self.leases.file, transaction, node)?;
        if layout.check_worker_id(key).is_err() {
            // The whole transaction is rolled back.
            return Ok(None);
        }
        let newest: Option<i64> = transaction
            .query_row("SELECT MAX(WORKER_ID) FROM UIDRING_LEASE", [], |row| row.get(0))
            .map_err(explain)?;
        if newest >= Some(key.cast_signed()) {
            let problem = format!(
                "WORKER_NODE generated the key {key}, which is not above all in UIDRING_LEASE: its \
                 counter went backwards, and a worker id might come twice; name another file"
            );
            return Err(self.leases.file.error("used", problem));
        }
        let insert = concat!(
            "INSERT INTO UIDRING_LEASE (WORKER_ID, OWNER, TOKEN, LEASE_END, LAYOUT, CREATED, RENEWED)
             VALUES (:id, :owner, 1, ",
            end!(),
            ", :layout, ",
            now!(),
            ", ",
            now!(),
            ")"
        );
        let values = named_params! {
            ":id": key.cast_signed(),
            ":owner": owner,
            ":seconds": seconds(ask.lasts),
            ":layout": fingerprint,
        };
        transaction.execute(insert, values).map_err(explain)?;
        Ok(Some(held(ask, key, 1, None)))
    }
}

fn foreign(transaction: &Transaction<'_>, fingerprint: &str) -> rusqlite::Result<Option<Denial>> {
    transaction
        .query_row(
            "SELECT WORKER_ID, LAYOUT FROM UIDRING_LEASE WHERE LAYOUT <> ?1 LIMIT 1",
            [fingerprint],
            |row| Ok(Denial::Foreign { worker_id: row.get(0)?, layout: row.get(1)? }),
        )
        .optional()
}

/// The lowest row that nobody holds, and that was not used too far ahead.
fn take_row(transaction: &Transaction<'_>, ask: &Ask) -> rusqlite::Result<Option<Held>> {
    transaction
        .query_row(
            concat!(
                "UPDATE UIDRING_LEASE SET OWNER = :owner, TOKEN = TOKEN + 1, LEASE_END = ",
                end!(),
                ", RENEWED = ",
                now!(),
                " WHERE WORKER_ID = (SELECT MIN(WORKER_ID) FROM UIDRING_LEASE WHERE WORKER_ID >= 0
                 AND (HORIZON_TICK IS NULL OR HORIZON_TICK <= :last) AND ",
                is_free!(),
                ") RETURNING WORKER_ID, TOKEN, HORIZON_TICK, HORIZON_SEQUENCE"
            ),
            named_params! {
                ":owner": ask.owner,
                ":seconds": seconds(ask.lasts),
                ":last": ask.last_tick.cast_signed(),
            },
            |row| {
                let worker_id: i64 = row.get(0)?;
                let before = Held::place(row.get(2)?, row.get(3)?);
                Ok(held(ask, worker_id.cast_unsigned(), row.get(1)?, before))
            },
        )
        .optional()
}

fn held(ask: &Ask, worker_id: u64, token: i64, before: Option<Place>) -> Held {
    Held { worker_id, layout: ask.layout, owner: ask.owner.clone(), token, before }
}

fn shortage(transaction: &Transaction<'_>, ask: &Ask) -> rusqlite::Result<Shortage> {
    let (held, ends_in): (i64, Option<i64>) = transaction.query_row(
        concat!(
            "SELECT COUNT(*), CAST(ROUND((UNIXEPOCH(MIN(LEASE_END), 'subsec')
             - UNIXEPOCH('subsec')) * 1000) AS INTEGER) FROM UIDRING_LEASE WHERE NOT ",
            is_free!()
        ),
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let ahead = transaction
        .query_row(
            concat!(
                "SELECT WORKER_ID, HORIZON_TICK FROM UIDRING_LEASE WHERE HORIZON_TICK > ?1 AND ",
                is_free!(),
                " ORDER BY HORIZON_TICK LIMIT 1"
            ),
            [ask.last_tick.cast_signed()],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let ends_in = ends_in.map(|millis| u64::try_from(millis).unwrap_or_default());
    Ok(Shortage { held: held.unsigned_abs(), ends_in, ahead })
}

/// As SQLite's functions of time want it.
fn seconds(lasts: Duration) -> String {
    format!("+{:.3}", lasts.as_secs_f64())
}

/// The first renewal comes right behind the acquire, and has the same connection: to close one, and to
/// open another, takes longer than the rest.
const STAYS_OPEN: Duration = Duration::from_secs(1);

/// A row that is held. The file is opened each time after the first: one that was removed is noticed.
struct Row {
    file: StoreFile,
    seconds: String,
    opened: Option<Connection>,
    opened_until: Deadline,
    /// In another process, a forked child, the connection is the parent's.
    process: u32,
}

impl Drop for Row {
    fn drop(&mut self) {
        if process::id() != self.process {
            mem::forget(self.opened.take());
        }
    }
}

impl Row {
    /// Executes a statement that changes the row as long as it is ours.
    fn change(
        &mut self,
        held: &Held,
        statement: &str,
        values: &[(&str, &dyn rusqlite::ToSql)],
    ) -> Result<Result<(), Present>, Error> {
        let is_open = self.opened_until.remaining() != Some(Duration::ZERO);
        if let Some(mut connection) = self.opened.take().filter(|_| is_open) {
            let done = self.change_in(&mut connection, held, statement, values);
            // Closing writes the log back into the file. Nobody has to wait for that.
            let close = move || drop(connection);
            let _ = thread::Builder::new().name("uidring-sqlite".into()).spawn(close);
            return done;
        }
        self.change_in(&mut self.file.open()?, held, statement, values)
    }

    fn change_in(
        &self,
        connection: &mut Connection,
        held: &Held,
        statement: &str,
        values: &[(&str, &dyn rusqlite::ToSql)],
    ) -> Result<Result<(), Present>, Error> {
        let file = &self.file;
        let explain = |error: rusqlite::Error| file.sqlite_error("written", &error);
        let id = held.worker_id.cast_signed();
        let transaction = file.begin(connection)?;
        let present: Present = transaction
            .query_row("SELECT OWNER, TOKEN FROM UIDRING_LEASE WHERE WORKER_ID = ?1", [id], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()
            .map_err(explain)?;
        match present {
            Some((owner, token)) if owner == held.owner && token == held.token => {}
            other => return Ok(Err(other)),
        }
        let values: Vec<_> = values.iter().copied().chain([(":id", &id as _)]).collect();
        transaction.execute(statement, &values[..]).map_err(explain)?;
        transaction.commit().map_err(explain)?;
        Ok(Ok(()))
    }
}

impl HeldRow for Row {
    fn renew(&mut self, held: &Held, horizon: Place) -> Result<Result<(), Present>, Error> {
        let [tick, sequence] = [horizon.tick, horizon.sequence].map(u64::cast_signed);
        let seconds = self.seconds.clone();
        let renew = concat!(
            "UPDATE UIDRING_LEASE SET LEASE_END = ",
            end!(),
            ", RENEWED = ",
            now!(),
            ", HORIZON_TICK = MAX(COALESCE(HORIZON_TICK, 0), :tick),
             HORIZON_SEQUENCE = IIF(HORIZON_TICK > :tick, HORIZON_SEQUENCE, :sequence)
             WHERE WORKER_ID = :id"
        );
        let values: [(&str, &dyn rusqlite::ToSql); 3] =
            [(":seconds", &seconds), (":tick", &tick), (":sequence", &sequence)];
        self.change(held, renew, &values)
    }

    fn release(&mut self, held: &Held, last: Option<Place>) -> Result<Result<(), Present>, Error> {
        let tick = last.map(|place| place.tick.cast_signed());
        let sequence = last.map(|place| place.sequence.cast_signed());
        let free = concat!(
            "UPDATE UIDRING_LEASE SET LEASE_END = NULL, TOKEN = TOKEN + 1, HORIZON_TICK = :tick,
             HORIZON_SEQUENCE = :sequence, RENEWED = ",
            now!(),
            " WHERE WORKER_ID = :id"
        );
        self.change(held, free, &[(":tick", &tick), (":sequence", &sequence)])
    }
}
