//! The two errors: [`Error`] for everything that is set up, [`TakeError`] for the hot path.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::timestamp::{ParseTimeError, Timestamp};

/// Why something could not be set up, composed or read.
///
/// Each variant carries the values that led to it; its text says what happened and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The three fields of a layout do not fit, or one of them is empty.
    #[error(
        "layout {time}/{worker}/{sequence} (time/worker/sequence bits) is not possible: \
         each field needs 1 bit or more and all three together at most 63"
    )]
    LayoutBits {
        /// Bits of the time field.
        time: u8,
        /// Bits of the worker field.
        worker: u8,
        /// Bits of the sequence field.
        sequence: u8,
    },

    /// The text is not `TIME/WORKER/SEQUENCE`.
    #[error("`{text}` is not a layout: write TIME/WORKER/SEQUENCE in bits, as in 28/22/13")]
    InvalidLayout {
        /// What was read.
        text: String,
    },

    /// The text is no point in time.
    #[error(transparent)]
    InvalidTime(#[from] ParseTimeError),

    /// A value is too large for its field of the layout.
    #[error("{field} {value} is out of range: this layout holds 0 to {max}")]
    FieldOutOfRange {
        /// The field: `tick` or `sequence`.
        field: &'static str,
        /// The value that was asked for.
        value: u64,
        /// The greatest value that the field holds.
        max: u64,
    },

    /// A worker id does not fit the layout.
    #[error(
        "worker id {worker_id} is out of range: this layout holds 0 to {max}; \
         use a layout with more worker bits, or a fresh worker table with an earlier epoch"
    )]
    WorkerIdOutOfRange {
        /// The worker id that was asked for or assigned.
        worker_id: u64,
        /// The greatest worker id of the layout.
        max: u64,
    },

    /// A uid has bits above the layout's fields, so this layout did not make it.
    #[error("uid {uid} is not of this layout: the greatest uid it can hold is {max}")]
    UidOutOfLayout {
        /// The uid.
        uid: u64,
        /// The layout's greatest uid.
        max: u64,
    },

    /// The wall clock stands before the layout's epoch.
    #[error(
        "the clock says {now}, before the layout's epoch {epoch}: \
         set the clock right, or choose an earlier epoch"
    )]
    ClockBeforeEpoch {
        /// What the clock said.
        now: Timestamp,
        /// The layout's epoch.
        epoch: Timestamp,
    },

    /// The layout's time field is used up.
    #[error(
        "the layout ended on {} ({ended}) and can hold no later time (the clock says {now}): \
         choose a later epoch or more time bits",
        ended.date()
    )]
    LayoutExhausted {
        /// The layout's last instant.
        ended: Timestamp,
        /// The time that was to be expressed.
        now: Timestamp,
    },

    /// A number outside its range was given for an option.
    #[error("{option} {value} is out of range: {min} to {max} are allowed")]
    OptionOutOfRange {
        /// The option, as its setter is named.
        option: &'static str,
        /// What was asked for.
        value: u64,
        /// The least value allowed.
        min: u64,
        /// The greatest value allowed.
        max: u64,
    },

    /// The ring would be too large.
    #[error(
        "a ring of 2^{} uids would take {} MiB of memory; at most 2^{} uids are allowed: \
         lower the boost power ({boost_power}) or the layout's sequence bits ({sequence_bits})",
        u32::from(*sequence_bits) + boost_power, memory >> 20, max_bits
    )]
    RingTooLarge {
        /// The layout's sequence bits.
        sequence_bits: u8,
        /// The boost power.
        boost_power: u32,
        /// The memory of the slots, in bytes.
        memory: u128,
        /// The binary logarithm of the greatest capacity allowed.
        max_bits: u32,
    },

    /// The ring's memory is not to be had.
    #[error("there is no memory for a ring of {bytes} bytes: lower the boost power")]
    OutOfMemory {
        /// What was asked for.
        bytes: u64,
    },

    /// The core to pin the padder to is not one that this process may use.
    #[error("there is no core {core} for the padder; this process may use {available:?}")]
    NoSuchCore {
        /// The core that was asked for.
        core: usize,
        /// The cores that the process may use.
        available: Vec<usize>,
    },

    /// A generator was built without a worker id.
    #[error("no worker id was given: pass one, or let an assigner hand one out")]
    NoWorkerId,

    /// The uid to start after belongs to another worker.
    #[error(
        "cannot start after uid {uid}: it is of worker {found}, this generator is worker {worker_id}"
    )]
    ForeignStart {
        /// The uid to start after.
        uid: u64,
        /// The worker id in the uid.
        found: u64,
        /// The generator's own worker id.
        worker_id: u64,
    },

    /// Nothing is left above the uid to start after.
    #[error(
        "nothing is left to issue after uid {uid}: the layout ends on {} ({ended})",
        ended.date()
    )]
    NothingAfter {
        /// The uid to start after.
        uid: u64,
        /// The layout's last instant.
        ended: Timestamp,
    },

    /// The padder thread could not be started.
    #[error("the padder thread did not start: {0}; is the process at its limit of threads?")]
    PadderThread(#[source] std::io::Error),

    /// The thread that loads segments could not be started.
    #[error(
        "the thread that loads segments did not start: {0}; is the process at its limit of threads?"
    )]
    SegmentThread(#[source] std::io::Error),

    /// An environment variable that should hold a worker id holds something else, or nothing.
    #[error(
        "the environment variable {variable} {problem}; set it to a worker id, a whole number from 0"
    )]
    WorkerIdVariable {
        /// The variable's name.
        variable: &'static str,
        /// What is wrong with it.
        problem: String,
    },

    /// Of the two variables that name a container's node, only one is set.
    #[error(
        "the environment names a node by half: {set} is set, {missing} is not; set both or none"
    )]
    NodeIdentity {
        /// The variable that is set.
        set: &'static str,
        /// The variable that is not.
        missing: &'static str,
    },

    /// The user's data directory, where the worker file stands by default, is not known.
    #[error("no data directory is known for this user (is HOME set?): name the worker file")]
    NoDataDirectory,

    /// The file of worker ids could not be used.
    #[error("the worker file {} could not be {action}: {problem}", path.display())]
    WorkerFile {
        /// The file.
        path: PathBuf,
        /// What was being done: `created`, `opened`, `read`, `written`.
        action: &'static str,
        /// What went wrong, and what to do.
        problem: String,
    },

    /// The URL of a database is not one. It is not repeated here: it may hold a password.
    #[error(
        "the URL of the database, {place}, is wrong: {problem}; \
         write mysql://USER:PASSWORD@HOST:PORT/DATABASE"
    )]
    DatabaseUrl {
        /// Where it was found.
        place: &'static str,
        /// What is wrong with it.
        problem: &'static str,
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

    /// A file that a database is reached by could not be used.
    #[error("{what} could not be read from {}: {problem}", path.display())]
    DatabaseFile {
        /// What the file should hold.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What went wrong.
        problem: String,
    },

    /// A database could not be reached, refused, or gave what must not be used.
    #[error("database {server}: {problem}")]
    Database {
        /// Its host, port and name.
        server: String,
        /// What went wrong, and what to do.
        problem: String,
    },

    /// A database's clock and this host's are further apart than is allowed.
    #[error(
        "database {server}: its clock says {theirs}, this host's says {ours}: {:?} apart, where \
         {limit:?} is allowed; set the wrong one right, or allow more",
        theirs.saturating_since(*ours).max(ours.saturating_since(*theirs))
    )]
    ClockDiffers {
        /// Host, port and name of the database.
        server: String,
        /// What this host's clock said.
        ours: Timestamp,
        /// What the server's clock said meanwhile.
        theirs: Timestamp,
        /// How far they may be apart.
        limit: Duration,
    },

    /// The table of worker ids has gone over what the layout can hold.
    #[error(
        "database {server}: row {row} of WORKER_NODE is over the layout's greatest worker id, \
         {max}: use a layout with more worker bits, or a fresh table with an earlier epoch"
    )]
    WorkerIdsUsedUp {
        /// Host, port and name of the database.
        server: String,
        /// The key that was generated.
        row: u64,
        /// The greatest worker id of the layout.
        max: u64,
    },
}

/// Why no uid was handed out.
///
/// It is small and `Copy`, and costs nothing as long as all goes well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TakeError {
    /// Nothing is ready now: the padder, or the clock, has to catch up first. Trying again later
    /// is fine.
    Empty,
    /// Nothing was ready within the deadline of the take policy.
    DeadlineExceeded,
    /// The next tick is further ahead of the clock than the generator may borrow. Once the clock
    /// has caught up, uids flow again.
    BorrowLimit {
        /// How far the next tick is ahead of the clock, in milliseconds; 49 days at the most.
        lead_millis: u32,
        /// How far it may be; likewise.
        limit_millis: u32,
    },
    /// The layout's last uid has been issued. This is for good.
    TimeExhausted,
    /// The clock stands behind the last uid issued. Nothing was changed; once the clock has caught
    /// up, uids flow again.
    ClockBackwards {
        /// By how many milliseconds, in whole ticks of the layout.
        by_millis: u64,
    },
    /// The clock stands before the layout's epoch.
    ClockBeforeEpoch,
    /// This process is a forked child of the one that built the generator, whose uids would come
    /// twice. This is for good; the parent is not affected.
    Forked,
    /// The generator, or the producer of its ring, is gone.
    Closed,
}

impl TakeError {
    /// Whether a later take may succeed without anybody doing anything, so that a take policy
    /// decides what to do meanwhile.
    pub(crate) fn may_pass(self) -> bool {
        matches!(self, Self::Empty | Self::BorrowLimit { .. })
    }
}

impl fmt::Display for TakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("no uid is ready at this moment; try again, or use a waiting take policy"),
            Self::DeadlineExceeded => f.write_str(
                "no uid was ready within the take policy's deadline; allow more time, or give the layout more sequence bits",
            ),
            Self::BorrowLimit { lead_millis, limit_millis } => write!(
                f,
                "the next uid would be {:?} ahead of the clock, and may be {:?}; wait, or allow to \
                 borrow more, or use a layout with more uids a second",
                Duration::from_millis((*lead_millis).into()),
                Duration::from_millis((*limit_millis).into())
            ),
            Self::TimeExhausted => f.write_str(
                "the layout's time field is used up, for good; choose a later epoch or more time bits",
            ),
            Self::ClockBackwards { by_millis } => write!(
                f,
                "the clock moved backwards: it is {:?} behind the last uid issued; set it right or wait",
                Duration::from_millis(*by_millis)
            ),
            Self::ClockBeforeEpoch => {
                f.write_str("the clock stands before the layout's epoch; set it right")
            }
            Self::Forked => f.write_str(
                "this process was forked from the generator's; build one after the fork, with a worker id of its own",
            ),
            Self::Closed => f.write_str("the generator is closed"),
        }
    }
}

impl std::error::Error for TakeError {}

/// Why [`fill`](crate::UidGenerator::fill) stopped early.
///
/// The first [`filled`](Self::filled) ids of the slice are good and must not be thrown away
/// unless the caller means to: they will not come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("only {filled} ids were filled in: {error}")]
#[non_exhaustive]
pub struct FillError<E: std::error::Error + 'static = TakeError> {
    /// How many ids stand at the beginning of the slice.
    pub filled: usize,
    /// Why there are no more.
    #[source]
    pub error: E,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_lower_case_without_a_full_stop() {
        let errors: [&dyn std::error::Error; 5] = [
            &TakeError::Empty,
            &TakeError::DeadlineExceeded,
            &TakeError::ClockBackwards { by_millis: 2_000 },
            &Error::NoWorkerId,
            &Error::RingTooLarge {
                sequence_bits: 20,
                boost_power: 16,
                memory: 1 << 36,
                max_bits: 29,
            },
        ];
        for error in errors {
            let text = error.to_string();
            assert!(text.starts_with(|c: char| c.is_lowercase()), "{text}");
            assert!(!text.ends_with('.'), "{text}");
        }
    }

    #[test]
    fn a_take_fits_two_registers() {
        assert!(size_of::<Result<u64, TakeError>>() <= 16);
    }
}
