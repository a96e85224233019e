//! Errors of the tables, and of the servers of any engine, and what to do about each.

use std::path::PathBuf;
use std::time::Duration;

use uidring::adapter::{Chain, error_traits};
use uidring::{Error, StoreError, StoreErrorKind, Timestamp};

use crate::fitting::{Fitting, Shortage};
use crate::range::{RangeRefusal, WorkerRange};

/// Why an operation on a table of worker ids, leases or segments failed, in any store.
///
/// It is the cause of a [`StoreError`]; [`Error::store`] returns it. A `place` is the store's file, its cluster, or
/// host, port and name of its database.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// A start would get a worker id that the layout or the recorded range does not have: starts have used up all that
    /// they have, or the counter went backwards.
    #[error("{place}: {}", Fitting { max: *max, range: *range }.why_not(*next))]
    NoneFits {
        /// The store's place.
        place: String,
        /// The next worker id.
        next: u64,
        /// The greatest worker id of the layout.
        max: u64,
        /// The recorded range.
        range: Option<WorkerRange>,
    },

    /// The range of worker ids was not recorded, or a start does not obey it.
    #[error("{place}: {}", why.text(*range))]
    RangeRefused {
        /// The store's place.
        place: String,
        /// The range to record, or the recorded one that a start ignores.
        range: WorkerRange,
        /// What is in its way.
        why: RangeRefusal,
    },

    /// All worker ids of the layout are held, or used up by starts.
    #[error("{place}: no worker id is free: {}", shortage.text(*max))]
    NoFreeWorkerId {
        /// The store's place.
        place: String,
        /// The greatest worker id of the layout.
        max: u64,
        /// Who has them.
        shortage: Shortage,
    },

    /// The leases are for another layout.
    #[error(
        "{place}: its leases are for layout {found}, this is {layout}: use the same layout, or another \
         store, which has another file, database or prefix"
    )]
    LeaseTableLayout {
        /// The store's place.
        place: String,
        /// The layout of the leases.
        found: String,
        /// The layout that was asked for.
        layout: String,
    },

    /// The worker id to free is held.
    #[error(
        "{place}: worker id {worker_id} is held by {owner} until {until}: if that is dead, fence it, \
         or wait until then"
    )]
    LeaseHeld {
        /// The store's place.
        place: String,
        /// The worker id.
        worker_id: u64,
        /// Who holds it.
        owner: String,
        /// When the lease ends, by the store's clock.
        until: Timestamp,
    },

    /// The worker id that a start waited for is in use: its holder has renewed the lease meanwhile.
    #[error(
        "{place}: worker id {worker_id} is held by {owner}, which is alive: it has renewed its lease while this start \
         waited, until {until}; end that process, or give this one another worker id and file"
    )]
    HolderAlive {
        /// The store's place.
        place: String,
        /// The worker id.
        worker_id: u64,
        /// Who holds it.
        owner: String,
        /// When the lease ends unless it is renewed again, by the store's clock.
        until: Timestamp,
    },

    /// The worker id has no lease.
    #[error("{place}: worker id {worker_id} was never leased")]
    NoSuchLease {
        /// The store's place.
        place: String,
        /// The worker id.
        worker_id: u64,
    },

    /// [`LeaseTable::reuse`](crate::LeaseTable::reuse) cannot allow leases of this worker id.
    #[error("{place}: worker id {worker_id} is not to be reused: {why}")]
    NotReusable {
        /// The store's place.
        place: String,
        /// The worker id.
        worker_id: u64,
        /// Why not.
        why: &'static str,
    },

    /// An argument, an environment variable or a file's text is wrong.
    #[error("{problem}")]
    Invalid {
        /// What is wrong. It repeats nothing that may be secret.
        problem: String,
    },

    /// The user's data directory, where embedded stores keep their files by default, is not known or relative.
    #[error("{problem}")]
    DataDirectory {
        /// What is wrong.
        problem: String,
    },

    /// The tag to create exists.
    #[error(
        "there is a tag `{tag}` already, at max_id {max_id} with step {step}; \
         it was left as it is: choose another tag, or use this one"
    )]
    TagExists {
        /// The tag as the table has it; its collation may ignore case.
        tag: String,
        /// Its position.
        max_id: i64,
        /// Its step.
        step: i64,
    },

    /// A column of the tag's row is not an integer, so nobody knows which ids are in use.
    #[error(
        "the {column} of tag `{tag}` {problem}: its row of leaf_alloc was left as it is; set it right, with a max_id above \
         all ids of the tag that are in use"
    )]
    UnreadableTag {
        /// The tag.
        tag: String,
        /// The column, `max_id` or `step`.
        column: &'static str,
        /// What is wrong, such as `is NULL`.
        problem: &'static str,
    },

    /// There is no such tag.
    #[error("there is no tag `{tag}`")]
    NoSuchTag {
        /// The tag.
        tag: String,
    },

    /// A URL was given where a path belongs. It may hold a password, so it is not repeated.
    #[error(
        "{what} was to be named by its path, and that is a URL, not a path; \
         name a file, or give the URL where one belongs"
    )]
    UrlForPath {
        /// What the file should hold.
        what: &'static str,
    },

    /// The store does not have what was asked for.
    #[error("{place} has {has}, and no {what}")]
    Lacks {
        /// The file, or the address of the server.
        place: String,
        /// What it has.
        has: &'static str,
        /// What is wanted.
        what: &'static str,
    },

    /// A file that the connection needs cannot be used.
    #[error("{what} could not be read from {}", path.display())]
    DatabaseFile {
        /// What the file should hold.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What went wrong, such as an [`io::Error`](std::io::Error).
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

error_traits!(TableError);

impl TableError {
    fn kind(&self) -> StoreErrorKind {
        match self {
            // The counter went backwards.
            Self::NoneFits { next, max, range: Some(range), .. }
                if *next < range.first() && range.first() <= *max =>
            {
                StoreErrorKind::Corrupt
            }
            Self::NoneFits { .. }
            | Self::NoFreeWorkerId { shortage: Shortage { held: 0, .. }, .. } => {
                StoreErrorKind::Exhausted
            }
            Self::NoFreeWorkerId { .. } | Self::LeaseHeld { .. } | Self::HolderAlive { .. } => {
                StoreErrorKind::Held
            }
            Self::LeaseTableLayout { .. } | Self::UnreadableTag { .. } => StoreErrorKind::Corrupt,
            Self::NoSuchLease { .. } | Self::NoSuchTag { .. } => StoreErrorKind::NotFound,
            Self::NotReusable { .. } | Self::TagExists { .. } | Self::RangeRefused { .. } => {
                StoreErrorKind::Conflict
            }
            Self::Invalid { .. }
            | Self::DataDirectory { .. }
            | Self::UrlForPath { .. }
            | Self::Lacks { .. }
            | Self::DatabaseFile { .. } => StoreErrorKind::Invalid,
        }
    }
}

impl Fitting {
    /// Returns the error of a start that would get the worker id `next`, which does not fit.
    pub fn error(self, place: String, next: u64) -> Error {
        let Self { max, range } = self;
        TableError::NoneFits { place, next, max, range }.into()
    }
}

impl RangeRefusal {
    /// Returns the error for callers.
    pub fn error(self, place: String, range: WorkerRange) -> Error {
        TableError::RangeRefused { place, range, why: self }.into()
    }
}

impl From<TableError> for Error {
    fn from(error: TableError) -> Self {
        StoreError::new(error.kind(), error).into()
    }
}

/// Why a server could not be used, whatever its engine.
///
/// It is the cause of a [`StoreError`]; [`Error::store`] returns it. The engines' crates re-export it under names of
/// their own.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address of a server is wrong. It may hold a password, so it is not repeated.
    #[error("{what}, {place}, is wrong: {problem}; write {form}")]
    Address {
        /// What the address is for.
        what: &'static str,
        /// Where it was found.
        place: String,
        /// How such an address is written.
        form: &'static str,
        /// What is wrong with it.
        problem: String,
    },

    /// Options contradict each other, or do not fit their purpose.
    #[error("{problem} (URL {place})")]
    Options {
        /// Which ones, and why.
        problem: String,
        /// Where the URL was found.
        place: String,
    },

    /// A server could not be reached, refused, or gave an answer that must not be used.
    #[error("{engine} {server}: {problem}")]
    Server {
        /// The engine's common name.
        engine: &'static str,
        /// Host, port and name; of several hosts, each.
        server: String,
        /// What to do, and what went wrong unless `source` says it.
        problem: String,
        /// The kind of error.
        kind: StoreErrorKind,
        /// What the driver, the server or the system said: an error of the driver's crate or an
        /// [`io::Error`](std::io::Error), for example.
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },

    /// The clocks of a database and of this host differ by more than the limit.
    #[error(
        "database {server}: its clock says {theirs}, this host's says {ours}: {:?} apart, where \
         {limit:?} is allowed; set the wrong one right, or allow more",
        theirs.saturating_since(*ours).max(ours.saturating_since(*theirs))
    )]
    ClockDiffers {
        /// Host, port and name of the database.
        server: String,
        /// This host's clock.
        ours: Timestamp,
        /// The server's clock at that time.
        theirs: Timestamp,
        /// How far they may differ.
        limit: Duration,
    },
}

error_traits!(ServerError);

impl ServerError {
    fn kind(&self) -> StoreErrorKind {
        match self {
            Self::Address { .. } | Self::Options { .. } => StoreErrorKind::Invalid,
            Self::Server { kind, .. } => *kind,
            Self::ClockDiffers { .. } => StoreErrorKind::Clock,
        }
    }
}

impl From<ServerError> for Error {
    fn from(error: ServerError) -> Self {
        StoreError::new(error.kind(), error).into()
    }
}
