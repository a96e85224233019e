//! Errors of the tables, and what to do about each.

use std::path::PathBuf;
use std::time::Duration;

use uidring::adapter::{Chain, error_traits};
use uidring::{Error, StoreError, StoreErrorKind, Timestamp};

use crate::fitting::{Fitting, outside, reuse};
use crate::range::{RangeRefusal, WorkerRange};

/// Why an operation on a table of worker ids, leases or segments failed, in any store.
///
/// It is the cause of a [`StoreError`]; [`Error::store`] returns it. A `place` is the store's file, its cluster, or
/// host, port and name of its database.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Starts have used up all worker ids of the layout.
    #[error(
        "{place}: each start has used up a worker id, and the next, {next}, is over the layout's greatest, \
         {max}; start with --worker lease, and if none is free, {}; or use a layout with more worker bits, or a fresh \
         table with an earlier epoch",
        reuse("FIRST LAST")
    )]
    WorkerIdsUsedUp {
        /// The store's place.
        place: String,
        /// The next worker id.
        next: u64,
        /// The greatest worker id of the layout.
        max: u64,
    },

    /// The next worker id is outside the recorded range: starts have used it up, or the counter went backwards.
    #[error("{place}: {}", outside(*next, *range))]
    OutsideRange {
        /// The store's place.
        place: String,
        /// The next worker id.
        next: u64,
        /// The recorded range.
        range: WorkerRange,
    },

    /// The layout has no worker id of the recorded range.
    #[error(
        "{place}: the worker ids of this store are {range}, and the layout's greatest is {max}: use a layout with more \
         worker bits, or a new database with a lower range"
    )]
    RangeBeyondLayout {
        /// The store's place.
        place: String,
        /// The recorded range.
        range: WorkerRange,
        /// The greatest worker id of the layout.
        max: u64,
    },

    /// The store has recorded another range of worker ids.
    #[error(
        "{place}: the worker ids of this store were recorded as {recorded}, not {range}; nothing was changed: keep \
         {recorded}, or use another store for {range}"
    )]
    OtherRange {
        /// The store's place.
        place: String,
        /// The range to record.
        range: WorkerRange,
        /// The recorded range.
        recorded: WorkerRange,
    },

    /// The store has handed out worker ids outside the range to record.
    #[error(
        "{place}: worker ids up to {newest} may be in use there, and {range} does not include all of them; nothing was \
         recorded: record a range from 1 to {newest} or above, or use a new store for {range}"
    )]
    RangeInUse {
        /// The store's place.
        place: String,
        /// The range to record.
        range: WorkerRange,
        /// The greatest worker id so far.
        newest: u64,
    },

    /// A start has a worker id outside the recorded range.
    #[error(
        "{place}: the range {range} is recorded, but a start has worker id {worker_id}, which is outside it: it began \
         before it could see the range, or ignores ranges, as Baidu's Java client does; end it and delete the rows of \
         its worker id from WORKER_NODE and UIDRING_LEASE, or use a new database"
    )]
    RangeIgnored {
        /// The store's place.
        place: String,
        /// The recorded range.
        range: WorkerRange,
        /// The start's worker id.
        worker_id: u64,
    },

    /// All worker ids of the layout are held, or used up by starts.
    #[error(
        "{place}: no worker id is free: {}{}",
        Fitting::of(*max, *range).who_has_them(*leased, *held, *ends_in),
        flaw.as_ref().map_or_else(String::new, |flaw| format!("; one cannot be used: {flaw}"))
    )]
    NoFreeWorkerId {
        /// The store's place.
        place: String,
        /// The greatest worker id of the layout.
        max: u64,
        /// The recorded range; without one, worker ids begin at 1.
        range: Option<WorkerRange>,
        /// How many have a lease, held or not. Starts without a lease have used up the others.
        leased: u64,
        /// How many are held.
        held: u64,
        /// How soon the first of these leases ends, unless it is renewed.
        ends_in: Option<Duration>,
        /// What is wrong with an unusable free row, if any.
        flaw: Option<String>,
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

    /// Only one of the two variables that name a node is set.
    #[error(
        "the environment names only half of a node: {set} is set, {missing} is not; set both or none"
    )]
    NodeIdentity {
        /// The variable that is set.
        set: &'static str,
        /// The variable that is not.
        missing: &'static str,
    },

    /// The user's data directory is not known. Embedded stores keep their files there by default.
    #[error("no data directory is known for this user (is HOME set?): name the file")]
    NoDataDirectory,

    /// The user's data directory is a relative path, so it would be another one in each working directory.
    #[error(
        "{variable} is not an absolute path, and so {} would be another file in each folder: correct \
         {variable}, or name the file",
        folder.display()
    )]
    RelativeDataDirectory {
        /// The environment variable.
        variable: &'static str,
        /// The data directory that it sets.
        folder: PathBuf,
    },

    /// The name or description of a new tag does not fit its column.
    #[error("the {what} of a segment is {length} characters long: {min} to {max} are allowed")]
    TagText {
        /// `tag` or `description`.
        what: &'static str,
        /// Its length in characters.
        length: usize,
        /// The least length allowed.
        min: usize,
        /// The greatest length allowed.
        max: usize,
    },

    /// A new tag is blank or has control characters.
    #[error("a segment's tag is blank, or has control characters; choose a name that can be seen")]
    InvisibleTag,

    /// A URL was given where a tag belongs. It may hold a password, so it is not repeated.
    #[error("a URL was given for a tag, which is a name of your choice, such as `orders`")]
    UrlForTag,

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

    /// User and password are not written as `USER:PASSWORD`. They are not repeated.
    #[error("{what}, in the file, are wrong; write USER:PASSWORD")]
    Credentials {
        /// Whose they are.
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

    /// A file's path is empty.
    #[error("{what} was to be named by its path, and the path is empty; name a file")]
    EmptyPath {
        /// What the file should hold.
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
            Self::WorkerIdsUsedUp { .. }
            | Self::RangeBeyondLayout { .. }
            | Self::NoFreeWorkerId { held: 0, .. } => StoreErrorKind::Exhausted,
            Self::OutsideRange { next, range, .. } if *next > range.last() => {
                StoreErrorKind::Exhausted
            }
            Self::NoFreeWorkerId { .. } | Self::LeaseHeld { .. } | Self::HolderAlive { .. } => {
                StoreErrorKind::Held
            }
            Self::LeaseTableLayout { .. }
            | Self::UnreadableTag { .. }
            | Self::OutsideRange { .. } => StoreErrorKind::Corrupt,
            Self::NoSuchLease { .. } | Self::NoSuchTag { .. } => StoreErrorKind::NotFound,
            Self::NotReusable { .. }
            | Self::TagExists { .. }
            | Self::OtherRange { .. }
            | Self::RangeIgnored { .. }
            | Self::RangeInUse { .. } => StoreErrorKind::Conflict,
            Self::NodeIdentity { .. }
            | Self::NoDataDirectory
            | Self::RelativeDataDirectory { .. }
            | Self::TagText { .. }
            | Self::InvisibleTag
            | Self::UrlForTag
            | Self::UrlForPath { .. }
            | Self::EmptyPath { .. }
            | Self::Credentials { .. }
            | Self::Lacks { .. }
            | Self::DatabaseFile { .. } => StoreErrorKind::Invalid,
        }
    }
}

impl Fitting {
    /// Returns the error of a start that would get the worker id `next`, which does not fit.
    pub fn error(self, place: String, next: u64) -> Error {
        Error::from(match self.range() {
            Some(range) if range.first() > self.max() => {
                TableError::RangeBeyondLayout { place, range, max: self.max() }
            }
            Some(range) if next <= self.max() => TableError::OutsideRange { place, next, range },
            _ => TableError::WorkerIdsUsedUp { place, next, max: self.max() },
        })
    }
}

impl RangeRefusal {
    /// Returns the error for callers.
    pub fn error(self, place: String, range: WorkerRange) -> Error {
        Error::from(match self {
            Self::Other(recorded) => TableError::OtherRange { place, range, recorded },
            Self::Used(newest) => TableError::RangeInUse { place, range, newest },
            Self::Ignored(worker_id) => TableError::RangeIgnored { place, range, worker_id },
        })
    }
}

impl From<TableError> for Error {
    fn from(error: TableError) -> Self {
        StoreError::new(error.kind(), error).into()
    }
}
