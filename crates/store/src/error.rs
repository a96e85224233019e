//! What goes wrong, with the values and what to do.

use std::path::PathBuf;
use std::time::Duration;

use uidring::adapter::{Chain, error_traits};
use uidring::{Error, StoreError, StoreErrorKind, Timestamp};

use crate::fitting::{Fitting, outside, reuse};
use crate::range::{RangeRefusal, WorkerRange};

/// Why an operation on a table of worker ids, leases or segments failed, in any store.
///
/// It is the cause of a [`StoreError`]; [`Error::store`] gets it back.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Starts have used up all worker ids that the layout has.
    #[error(
        "{place}: each start has used up a worker id, and the next, {next}, is over the layout's greatest, \
         {max}; start with --worker lease, and if none is free, {}; or use a layout with more worker bits, or a fresh \
         table with an earlier epoch",
        reuse("FIRST LAST")
    )]
    WorkerIdsUsedUp {
        /// The file, the cluster, or host, port and name of the database.
        place: String,
        /// The next worker id.
        next: u64,
        /// The greatest worker id of the layout.
        max: u64,
    },

    /// The next worker id is outside the range that was recorded in the store: starts have used up all of it, or the
    /// counter went backwards.
    #[error("{place}: {}", outside(*next, *range))]
    OutsideRange {
        /// The file, the cluster, or host, port and name of the database.
        place: String,
        /// The next worker id.
        next: u64,
        /// The worker ids of this store.
        range: WorkerRange,
    },

    /// The layout has no worker id of the range that was recorded in the store.
    #[error(
        "{place}: the worker ids of this store are {range}, and the layout's greatest is {max}: use a layout with more \
         worker bits, or a new database with a lower range"
    )]
    RangeBeyondLayout {
        /// The file, the cluster, or host, port and name of the database.
        place: String,
        /// The worker ids of this store.
        range: WorkerRange,
        /// The greatest worker id of the layout.
        max: u64,
    },

    /// The store has recorded another range of worker ids.
    #[error(
        "{place}: the worker ids of this store were recorded as {recorded}, not {range}; nothing was changed: keep \
         {recorded}, or use another database (in etcd, another prefix) for {range}"
    )]
    OtherRange {
        /// The file, the cluster, or host, port and name of the database.
        place: String,
        /// The range to be recorded.
        range: WorkerRange,
        /// The range of the store.
        recorded: WorkerRange,
    },

    /// The store has handed out worker ids outside the range to be recorded.
    #[error(
        "{place}: worker ids up to {newest} may be in use there, and {range} does not include all of them; nothing was \
         recorded: record a range from 1 to {newest} or above, or use a new database (in etcd, another prefix) for \
         {range}"
    )]
    RangeInUse {
        /// The file, the cluster, or host, port and name of the database.
        place: String,
        /// The range to be recorded.
        range: WorkerRange,
        /// The greatest worker id so far.
        newest: u64,
    },

    /// A start has a worker id outside the range that is recorded.
    #[error(
        "{place}: the range {range} is recorded, but a start has worker id {worker_id}, which is outside it: it began \
         before it could see the range, or ignores ranges, as Baidu's Java client does; end it and delete the rows of \
         its worker id from WORKER_NODE and UIDRING_LEASE, or use a new database"
    )]
    RangeIgnored {
        /// Host, port and name of the database.
        place: String,
        /// The worker ids of this store.
        range: WorkerRange,
        /// A worker id of a start.
        worker_id: u64,
    },

    /// All worker ids that the layout has are held by others, or were used up by starts.
    #[error(
        "{place}: no worker id is free: {}{}",
        Fitting::of(*max, *range).who_has_them(*leased, *held, *ends_in),
        flaw.as_ref().map_or_else(String::new, |flaw| format!("; one cannot be used: {flaw}"))
    )]
    NoFreeWorkerId {
        /// The file, or host, port and name of the database.
        place: String,
        /// The greatest worker id of the layout.
        max: u64,
        /// The worker ids of this store, if they were recorded. Otherwise the lowest is 1.
        range: Option<WorkerRange>,
        /// How many have a lease, held or not. Starts without a lease have used up the others.
        leased: u64,
        /// How many are held.
        held: u64,
        /// When the first of the leases ends, unless it is renewed.
        ends_in: Option<Duration>,
        /// What is wrong with a row that nobody holds, if there is one that cannot be used.
        flaw: Option<String>,
    },

    /// The table of leases is for another layout.
    #[error(
        "{place}: its leases are for layout {found}, this is {layout}: use the same layout, or another \
         store: a new file (sqlite:PATH?mode=rwc), another database, or in etcd another prefix"
    )]
    LeaseTableLayout {
        /// The file, or host, port and name of the database.
        place: String,
        /// The layout of the leases there.
        found: String,
        /// The layout that a worker id was asked for.
        layout: String,
    },

    /// A worker id to be freed is held.
    #[error(
        "{place}: worker id {worker_id} is held by {owner} until {until}: if that is dead, fence it, \
         or wait until then"
    )]
    LeaseHeld {
        /// The file, or host, port and name of the database.
        place: String,
        /// The worker id.
        worker_id: u64,
        /// Who holds it.
        owner: String,
        /// When the lease ends, by the store's clock.
        until: Timestamp,
    },

    /// The worker id that a start waited for is held by a process that has renewed its lease meanwhile.
    #[error(
        "{place}: worker id {worker_id} is held by {owner}, which is alive: it has renewed its lease while this start \
         waited, until {until}; end that process, or give this one another worker id and file"
    )]
    HolderAlive {
        /// The file, or host, port and name of the database.
        place: String,
        /// The worker id.
        worker_id: u64,
        /// Who holds it.
        owner: String,
        /// When the lease ends unless it is renewed again, by the store's clock.
        until: Timestamp,
    },

    /// There is no lease of this worker id.
    #[error("{place}: worker id {worker_id} was never leased")]
    NoSuchLease {
        /// The file, or host, port and name of the database.
        place: String,
        /// The worker id.
        worker_id: u64,
    },

    /// A worker id cannot be leased that was used by one start.
    #[error("{place}: worker id {worker_id} is not to be reused: {why}")]
    NotReusable {
        /// The file, or host, port and name of the database.
        place: String,
        /// The worker id.
        worker_id: u64,
        /// Why not.
        why: &'static str,
    },

    /// Only one of the two variables that name a container's node is set.
    #[error(
        "the environment names only half of a node: {set} is set, {missing} is not; set both or none"
    )]
    NodeIdentity {
        /// The variable that is set.
        set: &'static str,
        /// The variable that is not.
        missing: &'static str,
    },

    /// The user's data directory, where the embedded stores' files stand by default, is not known.
    #[error("no data directory is known for this user (is HOME set?): name the file")]
    NoDataDirectory,

    /// The user's data directory is not an absolute path, and would be another in each folder.
    #[error(
        "{variable} is not an absolute path, and so {} would be another file in each folder: correct \
         {variable}, or name the file",
        folder.display()
    )]
    RelativeDataDirectory {
        /// The environment variable.
        variable: &'static str,
        /// What follows from it.
        folder: PathBuf,
    },

    /// What a new tag was to be called, or described as, does not fit its column.
    #[error("the {what} of a segment is {length} characters long: {min} to {max} are allowed")]
    TagText {
        /// `tag` or `description`.
        what: &'static str,
        /// How long it is.
        length: usize,
        /// The least length allowed.
        min: usize,
        /// The greatest length allowed.
        max: usize,
    },

    /// A new tag could not be told from others, or not be seen.
    #[error("a segment's tag is blank, or has control characters; choose a name that can be seen")]
    InvisibleTag,

    /// A URL was given where a tag belongs. It is not repeated here: it may hold a password.
    #[error("a URL was given for a tag, which is a name of your choice, such as `orders`")]
    UrlForTag,

    /// The tag to be created exists.
    #[error(
        "there is a tag `{tag}` already, at max_id {max_id} with step {step}; \
         it was left as it is: choose another tag, or use this one"
    )]
    TagExists {
        /// The tag as the table has it, whose collation may treat another case as the same.
        tag: String,
        /// Its position.
        max_id: i64,
        /// Its step.
        step: i64,
    },

    /// The row of a tag holds no integer where it should, so that nobody knows which of its ids are in use.
    #[error(
        "the {column} of tag `{tag}` {problem}: its row of leaf_alloc was left as it is; set it right, with a max_id above \
         all ids of the tag that are in use"
    )]
    UnreadableTag {
        /// The tag.
        tag: String,
        /// The column, `max_id` or `step`.
        column: &'static str,
        /// What the column is, such as `is NULL`.
        problem: &'static str,
    },

    /// There is no such tag.
    #[error("there is no tag `{tag}`")]
    NoSuchTag {
        /// The tag.
        tag: String,
    },

    /// A URL was given where a path belongs. It is not repeated here: it may hold a password.
    #[error(
        "{what} was to be named by its path, and that is a URL, not a path; \
         name a file, or give the URL where one belongs"
    )]
    UrlForPath {
        /// What the file should hold.
        what: &'static str,
    },

    /// A user and a password are written wrongly. They are not repeated here.
    #[error("{what}, in the file, are wrong; write USER:PASSWORD")]
    Credentials {
        /// Whose they are.
        what: &'static str,
    },

    /// A store does not have what is wanted of it.
    #[error("{place} has {has}, and no {what}")]
    Lacks {
        /// The file, or the address of the server.
        place: String,
        /// What it has.
        has: &'static str,
        /// What is wanted.
        what: &'static str,
    },

    /// A file has an empty path.
    #[error("{what} was to be named by its path, and the path is empty; name a file")]
    EmptyPath {
        /// What the file should hold.
        what: &'static str,
    },

    /// A file that a database is reached by could not be used.
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
    /// Returns the error of a start whose worker id would be this, which is none of them.
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
