//! What the program does with a database.

#[cfg(feature = "server")]
use std::path::PathBuf;
use std::time::Duration;

use uidring::segment::SegmentStore;
#[cfg(feature = "server")]
use uidring::{Error, Layout};
use uidring_store::{LeaseOptions, LeaseTable, SegmentTable, WorkerTable};

/// A database, which has a table of each kind.
pub trait Database {
    /// The table of worker ids. The option is how far the database's clock may be from this host's.
    fn worker_table(&self, max_clock_difference: Option<Duration>) -> Box<dyn WorkerTable + Send>;

    /// The table of leases, with options for those that a generator acquires.
    fn leases(&self, options: LeaseOptions) -> Box<dyn LeaseTable + Send>;

    /// The table of tags, for people.
    fn segment_table(&self) -> Box<dyn SegmentTable + Send + Sync>;

    /// The table of tags, for a generator.
    fn segment_store(&self) -> Box<dyn SegmentStore>;

    /// Fails as a start that gets a worker id would, and changes nothing; `leases` is the layout of one that leases
    /// it. A server is not asked.
    #[cfg(feature = "server")]
    fn check_workers(&self, _leases: Option<&Layout>) -> Result<(), Error> {
        Ok(())
    }

    /// The same for segments. Returns the names of the tags.
    #[cfg(feature = "server")]
    fn check_segments(&self) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    /// The file of the worker ids; none on a server.
    #[cfg(feature = "server")]
    fn worker_file(&self) -> Option<PathBuf> {
        None
    }
}
