//! The two errors: [`Error`] for set-up, and [`TakeError`] for the hot path, which converts into it.

mod store;
mod take;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

pub use self::store::{StoreError, StoreErrorKind};
pub(crate) use self::take::rarely;
pub use self::take::{FillError, Millis, TakeError};
pub use crate::chain::{Chain, error_traits};
use crate::timestamp::{ParseTimeError, TimeRangeError, Timestamp};
use crate::uid::{ParseUidError, UidRangeError};

/// Why something could not be set up, composed or read; with `?`, also why an id was not taken.
///
/// Each variant carries the values that led to it. Its text says what happened and what to do. Clones share the causes.
///
/// As for all errors of these crates, `{:?}` prints the text and its causes on one line. So a `main` that returns it
/// prints `Error: ` and what to do.
///
/// ```
/// use uidring::{Error, Layout, StoreErrorKind};
///
/// fn is_worth_a_retry(error: &Error) -> bool {
///     match error {
///         Error::Store(error) => error.kind() == StoreErrorKind::Unreachable,
///         Error::UsedAhead { .. } => true,
///         _ => false,
///     }
/// }
/// let error = Layout::UID_GENERATOR.check_worker_id(1 << 22).unwrap_err();
/// assert!(!is_worth_a_retry(&error.clone()));
/// assert!(matches!(error, Error::WorkerIdOutOfRange { max: 4_194_303, .. }));
/// ```
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The three fields of a layout do not fit, or one is empty.
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

    /// The text is not a layout, or not the expected part of one.
    #[error("`{text}` is not a {what}: write {form}")]
    InvalidLayout {
        /// What was read.
        text: String,
        /// What was expected: `layout` or `tick`.
        what: &'static str,
        /// How to write that.
        form: &'static str,
    },

    /// The text is no point in time.
    #[error(transparent)]
    InvalidTime(#[from] ParseTimeError),

    /// A time does not fit in another type.
    #[error(transparent)]
    TimeOutOfRange(#[from] TimeRangeError),

    /// The text is no uid.
    #[error(transparent)]
    InvalidUid(#[from] ParseUidError),

    /// The number is no uid.
    #[error(transparent)]
    UidOutOfRange(#[from] UidRangeError),

    /// A value is too large for its field of the layout.
    #[error("{field} {value} is out of range: this layout holds 0 to {max}")]
    FieldOutOfRange {
        /// The field: `tick` or `sequence`.
        field: &'static str,
        /// The value.
        value: u64,
        /// The field's greatest value.
        max: u64,
    },

    /// A worker id does not fit in the layout.
    #[error(
        "worker id {worker_id} is out of range: this layout holds 0 to {max}; \
         choose one of these, or a layout with more worker bits"
    )]
    WorkerIdOutOfRange {
        /// The worker id that was requested or assigned.
        worker_id: u64,
        /// The layout's greatest worker id.
        max: u64,
    },

    /// A uid has bits above the layout's fields, so it is not of this layout.
    #[error("uid {uid} is not of this layout: the greatest uid it can hold is {max}")]
    UidOutOfLayout {
        /// The uid.
        uid: u64,
        /// The layout's greatest uid.
        max: u64,
    },

    /// The wall clock is before the layout's epoch.
    #[error(
        "the clock says {now}, before the layout's epoch {epoch}: \
         set the clock right, or choose an earlier epoch"
    )]
    ClockBeforeEpoch {
        /// The clock's time.
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
        /// The time to express.
        now: Timestamp,
    },

    /// An option's number is out of range.
    #[error("{option} {value} is out of range: {min} to {max} are allowed")]
    OptionOutOfRange {
        /// The option, named as its setter.
        option: &'static str,
        /// The value.
        value: u64,
        /// The least value allowed.
        min: u64,
        /// The greatest value allowed.
        max: u64,
    },

    /// The ring would be too large.
    #[error(
        "a ring of 2^{} uids is too large; at most 2^{} uids are allowed: lower the boost power \
         ({boost_power}) or the layout's sequence bits ({sequence_bits})",
        u32::from(*sequence_bits) + boost_power, max_bits
    )]
    RingTooLarge {
        /// The layout's sequence bits.
        sequence_bits: u8,
        /// The boost power.
        boost_power: u32,
        /// The memory of the slots, in bytes.
        memory: u128,
        /// The base-2 logarithm of the greatest capacity allowed.
        max_bits: u32,
    },

    /// The generator's memory could not be allocated.
    #[error(
        "the system has no memory for {bytes} bytes of the generator's: a ring is smaller with a \
         lower boost power"
    )]
    OutOfMemory {
        /// The number of bytes.
        bytes: u64,
    },

    /// The padder's core is not one that this process may use.
    #[error("there is no core {core} for the padder; this process may use {available:?}")]
    NoSuchCore {
        /// The core that was requested.
        core: usize,
        /// The cores that the process may use.
        available: Vec<usize>,
    },

    /// The builder has no worker id.
    #[error(
        "no worker id was given: call worker_id(N), or worker_from(source) with a source that hands one out"
    )]
    NoWorkerId,

    /// `on_clock_back(NewWorkerId)` needs a source of disposable worker ids.
    #[error(
        "on_clock_back(NewWorkerId) needs a source of disposable worker ids: {found}; set worker_from to such a \
         source, or leave on_clock_back at StayAhead"
    )]
    NoNewWorkerId {
        /// What was found instead.
        found: &'static str,
    },

    /// The generator's ring cannot be [shared](crate::generator::CachedBuilder::shared).
    #[error("the generator's ring cannot be shared: {problem}")]
    Shared {
        /// Why.
        problem: String,
    },

    /// The descriptors are not those of a [shared ring](crate::SharedRing::attach).
    #[error("cannot attach to a shared ring: {problem}")]
    Attach {
        /// What was found.
        problem: String,
    },

    /// The uid to start after belongs to another worker, or no uid is left above it.
    #[error("cannot start after uid {uid}: {problem}")]
    StartAfter {
        /// The uid to start after.
        uid: u64,
        /// Why that is impossible.
        problem: String,
    },

    /// Another generator of this process has this worker id and layout.
    #[error(
        "worker id {worker_id} of layout {layout} is in use by another generator of this process{}; drop or \
         close that one first, or use another worker id; if their uids are never compared, give each a \
         namespace",
        in_namespace(namespace)
    )]
    WorkerIdInUse {
        /// The worker id.
        worker_id: u64,
        /// The layout of both.
        layout: String,
        /// The namespace of both; empty if unnamed.
        namespace: String,
    },

    /// A generator of this process's parent has this worker id and layout.
    #[error(
        "worker id {worker_id} of layout {layout} is the parent's: when this process was forked, a generator \
         of the parent was using it{}; use another worker id, or fork before that generator is built",
        in_namespace(namespace)
    )]
    WorkerIdOfParent {
        /// The worker id.
        worker_id: u64,
        /// The layout of both.
        layout: String,
        /// The namespace of both; empty if unnamed.
        namespace: String,
    },

    /// The namespace has another layout. A namespace has only one.
    #[error(
        "namespace `{namespace}` has layout {used} in this process, and cannot have layout {layout} as well; \
         use the same layout, or another namespace"
    )]
    NamespaceLayout {
        /// The namespace.
        namespace: String,
        /// The layout that was requested.
        layout: String,
        /// The namespace's layout.
        used: String,
    },

    /// This process is a forked child of the one that made the object, so its ids would repeat.
    #[error(
        "this process was forked from the one that made the {what}; make another one after the fork"
    )]
    Forked {
        /// The object.
        what: &'static str,
    },

    /// The start stopped waiting because the process is about to end.
    #[error("the start was interrupted while it waited")]
    Interrupted,

    /// A thread could not be started.
    #[error("the {what} did not start; is the process at its limit of threads?")]
    Thread {
        /// Which thread.
        what: &'static str,
        /// The operating system's error.
        source: Arc<std::io::Error>,
    },

    /// The lease is for uids of another layout.
    #[error(
        "the lease of worker id {worker_id} is for layout {leased}, this generator has {layout}: \
         take both from the same layout"
    )]
    LeaseLayout {
        /// The worker id.
        worker_id: u64,
        /// The lease's layout.
        leased: String,
        /// The generator's layout.
        layout: String,
    },

    /// The lease of a worker id is lost.
    #[error("{place}: the lease of worker id {worker_id} is lost: {why}")]
    LeaseLost {
        /// The worker id.
        worker_id: u64,
        /// The file, or the database's host, port and name.
        place: String,
        /// What happened to it.
        why: String,
    },

    /// Future uids may have been issued with the worker id, further ahead of the clock than the generator may start.
    #[error(
        "worker id {worker_id} may have been used up to {until} by {why}, {:?} ahead of the clock, which says \
         {now}; with what it may borrow and wait, a start may be {limit:?} ahead: set the clock right, wait, or \
         raise max_borrow or max_start_wait",
        until.saturating_since(*now)
    )]
    UsedAhead {
        /// The worker id.
        worker_id: u64,
        /// The time up to which uids may have been issued.
        until: Timestamp,
        /// Who may have issued them.
        why: &'static str,
        /// The clock's time.
        now: Timestamp,
        /// How far ahead that may be: what the generator may be ahead, plus how long its start may wait.
        limit: Duration,
    },

    /// The thread of an asynchronous call panicked, in a source of worker ids, a store or a clock.
    #[error("the thread of an asynchronous call panicked; its message says where and why")]
    CallPanicked,

    /// The environment does not say which worker id to use.
    #[error("{problem}")]
    Environment {
        /// What was read, what is wrong, and what to set.
        problem: String,
    },

    /// No uid was handed out.
    #[error(transparent)]
    Take(#[from] TakeError),

    /// A slice was not filled.
    #[error(transparent)]
    Fill(#[from] FillError),

    /// A store of worker ids or segments failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

error_traits!(Error);

impl Error {
    pub(crate) fn thread(what: &'static str, source: std::io::Error) -> Self {
        Self::Thread { what, source: Arc::new(source) }
    }

    /// Returns the error of a store's crate, if it is of this type.
    pub fn store<E: std::error::Error + 'static>(&self) -> Option<&E> {
        match self {
            Self::Store(error) => error.downcast_ref(),
            _ => None,
        }
    }

    /// Returns whether the same call may succeed later without anybody's intervention.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Store(error) => error.may_pass(),
            Self::Take(error) | Self::Fill(FillError { error, .. }) => error.may_pass(),
            Self::UsedAhead { .. } => true,
            _ => false,
        }
    }
}

/// Checks the number given for an option.
///
/// # Errors
///
/// [`Error::OptionOutOfRange`].
pub fn check_option<N: Copy + Into<u64>>(
    option: &'static str,
    value: N,
    range: RangeInclusive<N>,
) -> Result<(), Error> {
    let [value, min, max] = [value, *range.start(), *range.end()].map(Into::into);
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(Error::OptionOutOfRange { option, value, min, max })
    }
}

/// [`check_option`] for a time in milliseconds.
///
/// # Errors
///
/// [`Error::OptionOutOfRange`].
pub fn check_millis(
    option: &'static str,
    time: Duration,
    range: RangeInclusive<u64>,
) -> Result<(), Error> {
    check_option(option, u64::try_from(time.as_millis()).unwrap_or(u64::MAX), range)
}

fn in_namespace(namespace: &str) -> String {
    if namespace.is_empty() { String::new() } else { format!(" in namespace `{namespace}`") }
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
}
