//! Leases of worker ids from a SQLite file.

use std::ops::RangeInclusive;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Transaction};
use uidring::worker::Lease;
use uidring::{Error, Layout, Timestamp, Worker, WorkerRequest, WorkerSource};
use uidring_store::TableError;
use uidring_store::leases::{
    self, Denial, LeaseOptions, LeaseRow, LeaseTable, Place, RawRow, Unusable,
};

use self::rows::Asking;
use super::file::StoreFile;

/// The columns are those on a server; times are texts in UTC, which compare as the times do.
pub const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS UIDRING_LEASE (
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

// Behind the words that it uses.
mod rows;

/// The table `UIDRING_LEASE` in a SQLite file, for processes of one host.
///
/// The file is that of [`SqliteWorkerNodes`](super::SqliteWorkerNodes), and what is said there of
/// keeping it holds here. Leases end by this host's clock: where it is set, a lease may end early or
/// late. Uids stay unique, since whoever comes next starts above the horizon.
///
/// A forked child is refused if its parent had a SQLite file open when it forked: SQLite cannot be carried
/// across a fork. The child may call `exec`.
///
/// ```
/// use uidring::{CachedUidGenerator, Layout};
/// use uidring_sqlite::SqliteStore;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("workers.db");
/// let generator = CachedUidGenerator::builder()
///     .layout(Layout::SNOWFLAKE)
///     .worker_from(SqliteStore::new(path).leases())
///     .build()?;
/// println!("{}", generator.next_uid()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SqliteLeases {
    file: StoreFile,
    options: LeaseOptions,
}

impl SqliteLeases {
    pub(crate) fn of(file: StoreFile) -> Self {
        Self { file, options: LeaseOptions::default() }
    }

    /// How worker ids are leased by generators; the defaults of [`LeaseOptions`] if not set.
    #[must_use]
    pub fn options(mut self, options: LeaseOptions) -> Self {
        self.options = options;
        self
    }

    /// The table as it is by another clock than the system's, for the model of leases.
    #[cfg(feature = "simulation")]
    #[doc(hidden)]
    #[must_use]
    pub fn with_clock(mut self, clock: impl uidring::clock::Clock + 'static) -> Self {
        self.file = self.file.with_clock(clock);
        self
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    fn place(&self) -> String {
        self.file.path().display().to_string()
    }

    /// Works in a transaction, and commits it where the work says `Ok`.
    fn change<T, E>(
        &self,
        connection: &mut Connection,
        work: impl FnOnce(&Transaction<'_>) -> Result<Result<T, E>, Error>,
    ) -> Result<Result<T, E>, Error> {
        let explain = |error: rusqlite::Error| self.file.sqlite_error("written", error);
        let transaction = self.file.begin(connection)?;
        let done = work(&transaction)?;
        if done.is_ok() {
            transaction.commit().map_err(explain)?;
        }
        Ok(done)
    }

    /// Executes a statement on one row; says whether it met it, and what stands there now.
    fn end(&self, worker_id: u64, statement: &str) -> Result<LeaseRow, Error> {
        let place = self.place();
        let explain = |error: rusqlite::Error| self.file.sqlite_error("written", error);
        let id = worker_id.cast_signed();
        let mut connection = self.file.open("UIDRING_LEASE")?;
        let transaction = self.file.begin(&mut connection)?;
        let is_done = transaction.execute(statement, [id]).map_err(explain)? == 1;
        transaction.commit().map_err(explain)?;
        drop(connection);
        let row = self.list()?.into_iter().find(|row| row.worker_id == id);
        match row {
            Some(row) => row.ended(is_done, place),
            None => Err(Error::from(TableError::NoSuchLease { place, worker_id })),
        }
    }
}

impl WorkerSource for SqliteLeases {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        self.lease(request, &self.options).map(Worker::from)
    }
}

impl LeaseTable for SqliteLeases {
    fn create(&self) -> Result<(), Error> {
        let mut connection = self.file.open_or_create()?;
        self.change(&mut connection, |_| Ok(Ok(())))?
    }

    fn lease(&self, request: &WorkerRequest, options: &LeaseOptions) -> Result<Lease, Error> {
        let asking = Asking::new(self.clone(), options.length());
        leases::acquire(asking, request, options)
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
        let explain = |error: rusqlite::Error| self.file.sqlite_error("written", error);
        let horizon = leases::used_until(layout, &worker_ids, used_until)?;
        let fingerprint = layout.to_string();
        let mut connection = self.file.open("WORKER_NODE")?;
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

fn foreign(transaction: &Transaction<'_>, fingerprint: &str) -> rusqlite::Result<Option<Denial>> {
    transaction
        .query_row(
            "SELECT WORKER_ID, LAYOUT FROM UIDRING_LEASE WHERE LAYOUT <> ?1 LIMIT 1",
            [fingerprint],
            |row| Ok(Denial::Foreign { worker_id: row.get(0)?, layout: row.get(1)? }),
        )
        .optional()
}
