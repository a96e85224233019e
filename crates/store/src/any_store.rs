//! A store of any engine.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use uidring::segment::SegmentStore;
use uidring::worker::Ordinal;
use uidring::{Error, Layout, WorkerSource};

use crate::{LeaseOptions, LeaseTable, SegmentTable, TableError, WorkerTable};

/// A store of any engine: what programs do with it whose users choose the engine. Its text is its place.
///
/// An engine that does not have something answers with [`TableError::Lacks`], which says what it has.
pub trait AnyStore: fmt::Display {
    /// Returns what it has, as in `worker ids and leases`.
    fn has(&self) -> &'static str;

    /// Returns how long an operation may take, with all its attempts.
    fn deadline(&self) -> Duration {
        Duration::from_secs(10)
    }

    /// Returns its worker ids that each start uses up. The option is how far the server's clock may be from this
    /// host's; a file has none of its own.
    ///
    /// # Errors
    ///
    /// [`TableError::Lacks`], as of all methods here.
    fn worker_table(
        &self,
        max_clock_difference: Option<Duration>,
    ) -> Result<Box<dyn WorkerTable + Send>, Error> {
        let _ = max_clock_difference;
        Err(self.lacks("worker ids that each start uses up"))
    }

    /// Returns its worker ids that are leased, with the options for generators.
    ///
    /// # Errors
    ///
    /// As above.
    fn lease_table(&self, options: LeaseOptions) -> Result<Box<dyn LeaseTable + Send>, Error> {
        let _ = options;
        Err(self.lacks("worker ids that are leased"))
    }

    /// Returns the worker id of an ordinal.
    ///
    /// # Errors
    ///
    /// As above.
    fn worker_of(
        &self,
        ordinal: Ordinal,
        options: LeaseOptions,
    ) -> Result<Box<dyn WorkerSource + Send>, Error> {
        let _ = (ordinal, options);
        Err(self.lacks("worker ids of ordinals"))
    }

    /// Returns its tags, for people.
    ///
    /// # Errors
    ///
    /// As above.
    fn segment_table(&self) -> Result<Box<dyn SegmentTable + Send + Sync>, Error> {
        Err(self.lacks("segments"))
    }

    /// Returns its segments, for a generator.
    ///
    /// # Errors
    ///
    /// As above.
    fn segment_store(&self) -> Result<Box<dyn SegmentStore>, Error> {
        Err(self.lacks("segments"))
    }

    /// Fails as a start that gets a worker id would, as far as that shows without asking a server, and changes
    /// nothing; `leases` is the layout of one that leases it.
    ///
    /// # Errors
    ///
    /// What the store says.
    fn check_workers(&self, leases: Option<&Layout>) -> Result<(), Error> {
        let _ = leases;
        Ok(())
    }

    /// The same for segments. Returns the names of the tags.
    ///
    /// # Errors
    ///
    /// What the store says.
    fn check_segments(&self) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    /// Returns the file of the worker ids; none on a server.
    fn worker_file(&self) -> Option<PathBuf> {
        None
    }

    /// Returns the error of a store that does not have this.
    #[doc(hidden)]
    fn lacks(&self, what: &'static str) -> Error {
        TableError::Lacks { place: self.to_string(), has: self.has(), what }.into()
    }
}
