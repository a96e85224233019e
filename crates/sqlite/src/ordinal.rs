//! The worker id of an ordinal, leased from a file on its pod's volume.

use std::time::Duration;

use uidring::clock::{Clock, SystemClock};
use uidring::worker::Ordinal;
use uidring::{Error, Timestamp, Worker, WorkerRequest, WorkerSource};
use uidring_store::leases::{self, LeaseOptions, LeaseState, LeaseTable};
use uidring_store::{LeaseRow, TableError};

use crate::SqliteLeases;
use crate::file::StoreFile;
use crate::leases::FileLease;
use crate::volume::Keeps;

/// How long a start keeps trying after the end of a lease.
const MORE: Duration = Duration::from_secs(5);

/// The worker id of an [`Ordinal`], leased from a file on its pod's volume; of
/// [`SqliteStore::ordinal`](crate::SqliteStore::ordinal).
///
/// The file holds how far each holder may issue, before it does. So a restarted pod continues above all that earlier
/// pods of this ordinal have issued, even if one of them still runs on an unreachable node after a forced deletion.
///
/// A start waits for the end of the previous lease and 5 s longer, or for [`wait_for`](LeaseOptions::wait_for) if that
/// is more. Then it fails: another process with the same ordinal may be alive, with the same volume.
///
/// The file is for that worker id alone, and for one layout. Another ordinal is refused. So is a file in a container's
/// own file system, an `emptyDir` or memory, or on a file system that several hosts may use at once, such as NFS.
///
/// ```
/// use uidring::worker::Ordinal;
/// use uidring::{CachedUidGenerator, Layout};
/// use uidring_sqlite::SqliteStore;
///
/// # let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR"))?;
/// # let path = folder.path().join("uidring.db");
/// let ordinal = Ordinal::of_host("app-3")?; // in a pod: Ordinal::from_env()?
/// let generator = CachedUidGenerator::builder()
///     .layout(Layout::SNOWFLAKE)
///     .worker_from(SqliteStore::new(path).create(true).ordinal(ordinal))
///     .build()?;
/// assert_eq!(generator.worker_id(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SqliteOrdinal {
    leases: SqliteLeases,
    ordinal: Ordinal,
}

impl SqliteOrdinal {
    pub(crate) fn of(file: StoreFile, ordinal: Ordinal) -> Self {
        let file = StoreFile { keeps: Keeps::PodsOrdinal, ..file };
        Self { leases: SqliteLeases::of(file), ordinal }
    }

    /// Sets how the worker id is leased, as [`SqliteLeases::options`] does.
    #[must_use]
    pub fn options(self, options: LeaseOptions) -> Self {
        Self { leases: self.leases.options(options), ..self }
    }

    /// Adds who holds the worker id to the error that none is free. `begun` is when the start began to wait.
    fn explain(&self, worker_id: u64, begun: Timestamp, error: Error) -> Error {
        if !matches!(error.store(), Some(TableError::NoFreeWorkerId { .. })) {
            return error;
        }
        match self.leases.list().as_deref() {
            Ok([LeaseRow { owner, state: LeaseState::Held(until), renewed, .. }]) => {
                let place = self.leases.file.place();
                let (owner, until) = (owner.clone(), *until);
                Error::from(match *renewed > begun {
                    true => TableError::HolderAlive { place, worker_id, owner, until },
                    false => TableError::LeaseHeld { place, worker_id, owner, until },
                })
            }
            _ => error,
        }
    }
}

impl WorkerSource for SqliteOrdinal {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        let worker_id = self.ordinal.worker_id(&request.layout)?;
        let SqliteLeases { file, options } = self.leases.clone();
        let length = options.length();
        let options = options.wait_at_least(length.saturating_add(MORE));
        let lease = FileLease::new(file, length, Some(worker_id));
        let begun = SystemClock.now();
        let lease = leases::acquire(lease, request, &options);
        lease.map(Worker::from).map_err(|error| self.explain(worker_id, begun, error))
    }
}
