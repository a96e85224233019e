//! Leases of worker ids from a SQLite file.

mod rows;

use std::ops::RangeInclusive;
use std::path::Path;

use rusqlite::Transaction;
use uidring::worker::Lease;
use uidring::{Error, Layout, Timestamp, Worker, WorkerRequest, WorkerSource};
use uidring_store::leases::{self, Denial, LeaseOptions, LeaseRow, LeaseTable};
use uidring_store::sql::{LOWEST_LEASE, NEWEST_NODE};

pub use self::rows::FileLease;
use self::rows::{foreign, read, row};
use crate::columns::optional_unsigned;
use crate::dedicated;
use crate::dialect::DIALECT;
use crate::file::StoreFile;
use crate::range;

/// The table `UIDRING_LEASE` in a SQLite file, for the processes of one host.
///
/// Keep the file, as [`SqliteStore`](super::SqliteStore) says. Leases end by this host's clock: if the clock is set, a
/// lease may end early or late. Uids stay unique, because the next holder starts above the horizon.
///
/// A forked child is refused if its parent had a SQLite file open at the fork. The child may call `exec`.
///
/// ```
/// use uidring::{CachedUidGenerator, Layout};
/// use uidring_sqlite::SqliteStore;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("workers.db");
/// let generator = CachedUidGenerator::builder()
///     .layout(Layout::SNOWFLAKE)
///     .worker_from(SqliteStore::new(path).create(true).leases())
///     .build()?;
/// println!("{}", generator.next_uid()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SqliteLeases {
    pub(crate) file: StoreFile,
    pub(crate) options: LeaseOptions,
}

impl SqliteLeases {
    pub(crate) fn of(file: StoreFile) -> Self {
        Self { file, options: LeaseOptions::default() }
    }

    /// Sets how generators lease worker ids. The default is that of [`LeaseOptions`].
    #[must_use]
    pub fn options(mut self, options: LeaseOptions) -> Self {
        self.options = options;
        self
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Fails where a start would fail, as far as can be seen without changing anything. `only` is the worker id of an
    /// ordinal.
    pub(crate) fn check(&self, layout: &Layout, only: Option<u64>) -> Result<(), Error> {
        self.file.check(|connection| {
            if let Some(worker_id) = only {
                dedicated::is_new(connection, worker_id)?;
            }
            match foreign(connection, &layout.to_string())? {
                Some(denial) => Err(denial.error(self.file.place(), layout).into()),
                None => Ok(()),
            }
        })
    }

    /// Runs a statement that fences or frees a worker id.
    fn end(&self, worker_id: u64, update: &str) -> Result<LeaseRow, Error> {
        self.file.write(&mut self.file.open("UIDRING_LEASE")?, |transaction| {
            // Refuse a damaged row: SQLite would turn a token that is too great into a floating point number.
            row(transaction, worker_id)?;
            let changed = transaction.execute(update, [worker_id.cast_signed()])?;
            let row = row(transaction, worker_id)?;
            Ok(leases::changed_row(row, changed == 1, worker_id, self.file.place())?)
        })
    }
}

impl WorkerSource for SqliteLeases {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        self.lease(request, &self.options).map(Worker::from)
    }
}

impl LeaseTable for SqliteLeases {
    fn create(&self) -> Result<(), Error> {
        self.file.write(&mut self.file.open_or_create()?, |_| Ok(()))
    }

    fn lease(&self, request: &WorkerRequest, options: &LeaseOptions) -> Result<Lease, Error> {
        let lease = FileLease::new(self.file.clone(), options.length(), None);
        leases::acquire(lease, request, options)
    }

    fn list(&self) -> Result<Vec<LeaseRow>, Error> {
        let rows: Vec<_> = self.file.read(|connection| {
            let all = [None::<i64>; 2];
            connection.prepare(&DIALECT.list_leases())?.query_map(all, read)?.collect()
        })?;
        Ok(leases::readable(rows, &self.file.place()))
    }

    fn fence(&self, worker_id: u64) -> Result<LeaseRow, Error> {
        self.end(worker_id, &DIALECT.fence())
    }

    fn release(&self, worker_id: u64) -> Result<LeaseRow, Error> {
        self.end(worker_id, &DIALECT.free())
    }

    fn reuse(
        &self,
        worker_ids: RangeInclusive<u64>,
        layout: &Layout,
        used_until: Timestamp,
    ) -> Result<(), Error> {
        let horizon = leases::issued_until(layout, &worker_ids, used_until)?;
        let fingerprint = layout.to_string();
        self.file.write(&mut self.file.open("WORKER_NODE")?, |transaction| {
            if let Some(denial) = denial(transaction, &worker_ids, &fingerprint)? {
                return Err(denial.error(self.file.place(), layout).into());
            }
            let mut insert = transaction.prepare(&DIALECT.insert_free_lease())?;
            for worker_id in worker_ids {
                let [id, tick, sequence] =
                    [worker_id, horizon.tick, horizon.sequence].map(u64::cast_signed);
                insert.execute((id, tick, sequence, &fingerprint))?;
            }
            Ok(())
        })
    }
}

/// Returns why these worker ids cannot be leased: by a layout, a range or an existing row.
fn denial(
    transaction: &Transaction<'_>,
    worker_ids: &RangeInclusive<u64>,
    fingerprint: &str,
) -> rusqlite::Result<Option<Denial>> {
    if let Some(denial) = foreign(transaction, fingerprint)? {
        return Ok(Some(denial));
    }
    let (first, last) = (*worker_ids.start(), *worker_ids.end());
    let newest = transaction.query_row(NEWEST_NODE, [], |row| optional_unsigned(row, 0))?;
    let ids = [first, last].map(u64::cast_signed);
    let leased = transaction.query_row(LOWEST_LEASE, ids, |row| optional_unsigned(row, 0))?;
    let range = range::recorded(transaction)?;
    Ok(Denial::check_reuse(first, last, newest, leased, range).err())
}
