//! A store of any engine.

use std::fmt;
use std::fs;
use std::path::{PathBuf, absolute};
use std::time::Duration;

use uidring::segment::SegmentStore;
use uidring::worker::Ordinal;
use uidring::{Error, Timestamp, WorkerSource};

use crate::{Findings, LeaseOptions, LeaseTable, SegmentTable, StoreUse, TableError, WorkerTable};

/// A store of the engine that a program's user chose. It displays as the path of its file or the address of its server.
///
/// A method that the engine does not support returns [`TableError::Lacks`], which says what the engine has.
pub trait AnyStore: fmt::Display {
    /// Returns what this engine has, such as `worker ids and leases`, for errors.
    fn has(&self) -> &'static str;

    /// Returns how long an operation may take, including retries.
    fn deadline(&self) -> Duration {
        Duration::from_secs(10)
    }

    /// Returns the table of disposable worker ids.
    ///
    /// # Errors
    ///
    /// [`TableError::Lacks`].
    fn worker_table(&self) -> Result<Box<dyn WorkerTable + Send>, Error> {
        Err(self.lacks("worker ids that each start uses up"))
    }

    /// Returns the table of leased worker ids. Generators lease with these options.
    ///
    /// # Errors
    ///
    /// [`TableError::Lacks`].
    fn lease_table(&self, options: LeaseOptions) -> Result<Box<dyn LeaseTable + Send>, Error> {
        let _ = options;
        Err(self.lacks("worker ids that are leased"))
    }

    /// Returns the source of an ordinal's worker id.
    ///
    /// # Errors
    ///
    /// [`TableError::Lacks`].
    fn worker_of(
        &self,
        ordinal: Ordinal,
        options: LeaseOptions,
    ) -> Result<Box<dyn WorkerSource + Send>, Error> {
        let _ = (ordinal, options);
        Err(self.lacks("worker ids of ordinals: for these, name a SQLite file on the pod's volume"))
    }

    /// Returns the source of worker ids if the engine assigns them in its own way
    /// ([`StoreKind::has_own_workers`](crate::StoreKind::has_own_workers)), as a registry of instances does.
    ///
    /// # Errors
    ///
    /// [`TableError::Lacks`]; [`Error::Environment`] if the environment must name this process and does not.
    fn own_workers(&self) -> Result<Box<dyn WorkerSource + Send>, Error> {
        Err(self.lacks("worker ids of instances"))
    }

    /// Returns the instances of a registry, by number.
    ///
    /// # Errors
    ///
    /// [`TableError::Lacks`], or the store's error.
    fn instances(&self) -> Result<Vec<LeafNode>, Error> {
        Err(self.lacks("registry of instances"))
    }

    /// Returns the table of tags, for administration.
    ///
    /// # Errors
    ///
    /// [`TableError::Lacks`].
    fn segment_table(&self) -> Result<Box<dyn SegmentTable + Send + Sync>, Error> {
        Err(self.lacks("segments"))
    }

    /// Returns the source of a generator's segments.
    ///
    /// # Errors
    ///
    /// [`TableError::Lacks`].
    fn segment_store(&self) -> Result<Box<dyn SegmentStore>, Error> {
        Err(self.lacks("segments"))
    }

    /// Checks whether a start could get what it needs, without changing anything. Reads files, but asks no servers.
    ///
    /// # Errors
    ///
    /// The error that the start would get.
    fn check(&self, wanted: StoreUse) -> Result<(), Error> {
        let _ = wanted;
        Ok(())
    }

    /// Does the same check for segments, and returns the names of the tags; none for a server.
    ///
    /// # Errors
    ///
    /// The error that the start would get.
    fn check_segments(&self) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    /// Looks for what makes such a start fail now or later, as far as the engine alone can tell. Changes nothing and
    /// uses up no worker id.
    fn examine(&self, wanted: StoreUse) -> Findings;

    /// Returns a text that identifies this store: the canonical path of its file, or the address of its server.
    fn identity(&self) -> String {
        match self.worker_file() {
            Some(file) => canonical(file).display().to_string(),
            None => self.to_string(),
        }
    }

    /// Returns the file that holds the worker ids; `None` for a server.
    fn worker_file(&self) -> Option<PathBuf> {
        None
    }

    /// Returns the error for something that this engine does not have.
    #[doc(hidden)]
    fn lacks(&self, what: &'static str) -> Error {
        TableError::Lacks { place: self.to_string(), has: self.has(), what }.into()
    }
}

/// The node of an instance in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafNode {
    /// The number, which is the worker id. Negative if the registry's counter has overflowed.
    pub number: i64,
    /// The instance's name; Leaf uses `ip:port`.
    pub instance: String,
    /// Its address when it last started.
    pub ip: String,
    /// Its port when it last started.
    pub port: String,
    /// When it last uploaded, if the node says so.
    pub timestamp: Option<Timestamp>,
    /// Whether it is running now. A Java Leaf does not tell, and never counts as running.
    pub is_live: bool,
    /// Whether it issues only what the registry holds. False for a Java Leaf, and for an instance that risks repeats in
    /// outages.
    pub is_bounded: bool,
}

/// Resolves the links of a path, as far as it exists.
fn canonical(path: PathBuf) -> PathBuf {
    fs::canonicalize(&path).or_else(|_| absolute(&path)).unwrap_or(path)
}
