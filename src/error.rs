//! The two errors: [`Error`] for everything that is set up, [`TakeError`] for the hot path.

mod take;

pub(crate) use self::take::rarely;
pub use self::take::{FillError, TakeError};

use std::ops::RangeInclusive;
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
        /// The binary logarithm of the greatest capacity allowed.
        max_bits: u32,
    },

    /// Memory that a generator needs is not to be had.
    #[error(
        "the system has no memory for {bytes} bytes of the generator's: a ring is smaller with a \
         lower boost power"
    )]
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

    /// A generator of this process may issue the same uids.
    #[error(
        "worker id {worker_id} of layout {layout} is in use: a generator of this process with worker id \
         {holder} of layout {holder_layout} may issue the same uids{}; drop or close that one first, or \
         use another worker id; if uids of the two never meet, give each a namespace",
        in_namespace(namespace)
    )]
    WorkerIdInUse {
        /// The worker id that was asked for.
        worker_id: u64,
        /// The widths of its layout.
        layout: String,
        /// The worker id that is in use.
        holder: u64,
        /// The widths of its layout.
        holder_layout: String,
        /// The namespace of both; empty for the one that all share.
        namespace: String,
    },

    /// A generator of the process that this one was forked from may issue the same uids.
    #[error(
        "worker id {worker_id} of layout {layout} is the parent's: when this process was forked, a \
         generator with worker id {holder} of layout {holder_layout}, which may issue the same uids, was \
         in use{}; use another worker id, or fork before that generator is built",
        in_namespace(namespace)
    )]
    WorkerIdOfParent {
        /// The worker id that was asked for.
        worker_id: u64,
        /// The widths of its layout.
        layout: String,
        /// The worker id that was in use at the fork.
        holder: u64,
        /// The widths of its layout.
        holder_layout: String,
        /// The namespace of both; empty for the one that all share.
        namespace: String,
    },

    /// This process is a forked child of the one that made what it would go on with, whose ids
    /// would come twice.
    #[error(
        "this process was forked from the one that made the {what}; make another one after the fork"
    )]
    Forked {
        /// What was made.
        what: &'static str,
    },

    /// The padder thread could not be started.
    #[error("the padder thread did not start: {0}; is the process at its limit of threads?")]
    PadderThread(#[source] std::io::Error),

    /// The thread that renews a lease could not be started.
    #[error(
        "the thread that renews the lease did not start: {0}; is the process at its limit of threads?"
    )]
    LeaseThread(#[source] std::io::Error),

    /// A lease is for uids of another layout than the generator's.
    #[error(
        "the lease of worker id {worker_id} is for layout {leased}, this generator has {layout}: \
         take both from the same layout"
    )]
    LeaseLayout {
        /// The worker id.
        worker_id: u64,
        /// The lease's layout.
        leased: String,
        /// The generator's.
        layout: String,
    },

    /// All worker ids that the layout has are held by others, or were used up by starts.
    #[error(
        "{place}: no worker id is free: {held} are held{}, and the layout has no new one; wait, release \
         what nobody uses, or use a layout with more worker bits",
        ends_in.map_or_else(String::new, |time| format!(", the first for {time:?} more"))
    )]
    LeasesHeld {
        /// The file, or host, port and name of the database.
        place: String,
        /// How many are held.
        held: u64,
        /// When the first of the leases ends, unless it is renewed.
        ends_in: Option<Duration>,
    },

    /// The table of leases is for another layout.
    #[error(
        "{place}: its leases are for layout {found} (that of worker id {worker_id}), this is {layout}: \
         use the same layout, or another database"
    )]
    LeaseTableLayout {
        /// The file, or host, port and name of the database.
        place: String,
        /// A row with another layout.
        worker_id: i64,
        /// Its layout.
        found: String,
        /// The layout that a worker id was asked for.
        layout: String,
    },

    /// The lease of a worker id is lost.
    #[error("{place}: the lease of worker id {worker_id} is lost: {why}")]
    LeaseLost {
        /// The worker id.
        worker_id: u64,
        /// The file, or host, port and name of the database.
        place: String,
        /// What became of it.
        why: String,
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

    /// Earlier holders of the worker id may have issued uids of the future.
    #[error(
        "worker id {worker_id} may have been used up to {until}, and the clock says {now}: that is \
         over {limit:?} ahead; set the clock right, wait, or allow more"
    )]
    UsedAhead {
        /// The worker id.
        worker_id: u64,
        /// The end of what may have been issued.
        until: Timestamp,
        /// What the clock said.
        now: Timestamp,
        /// How far ahead that may be.
        limit: Duration,
    },
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

    /// The user's data directory, where the embedded stores' files stand by default, is not known.
    #[error("no data directory is known for this user (is HOME set?): name the file")]
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

    /// The file of segments could not be used.
    #[error("the segment file {} could not be {action}: {problem}", path.display())]
    SegmentFile {
        /// The file.
        path: PathBuf,
        /// What was being done: `created`, `opened`, `read`, `written`.
        action: &'static str,
        /// What went wrong, and what to do.
        problem: String,
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

    /// A URL was given where a tag belongs. It is not repeated here: it may hold a password.
    #[error("a URL was given for a tag, which is a name of your choice, such as `orders`")]
    UrlForTag,

    /// The tag to be created is there.
    #[error(
        "there is a tag `{tag}` already, at max_id {max_id} with step {step}; \
         it was left as it is: choose another tag, or use this one"
    )]
    TagExists {
        /// The tag as it stands in the table, whose collation may take another case for the same.
        tag: String,
        /// Its position.
        max_id: i64,
        /// Its step.
        step: i64,
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

    /// What names a registry, or an instance in it, cannot be a name there.
    #[error("`{name}` cannot be the name of a {what}: {problem}")]
    LeafName {
        /// What it was to name: `registry` or `instance`.
        what: &'static str,
        /// The name.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },

    /// The text that names a registry's servers is wrong. It is not repeated here: it may hold a
    /// password.
    #[error(
        "the servers of the registry are wrong: {problem}; write HOST:PORT,HOST:PORT, or with a \
         path behind them HOST:PORT/PATH"
    )]
    RegistryServers {
        /// What is wrong with it.
        problem: &'static str,
    },

    /// What should be user and password of a registry is not.
    #[error("user and password of the registry, {place}, are wrong; write USER:PASSWORD")]
    RegistryAuth {
        /// Where it was found.
        place: &'static str,
    },

    /// A registry could not be reached, refused, or holds what must not be used.
    #[error("registry {registry}: {problem}")]
    Registry {
        /// Its servers, and the path in it.
        registry: String,
        /// What went wrong, and what to do.
        problem: String,
    },

    /// All worker ids of the layout are in the registry already.
    #[error(
        "registry {registry}: number {number} is over the layout's greatest worker id, {max}: \
         use a layout with more worker bits, or a new name with an earlier epoch"
    )]
    RegistryFull {
        /// Its servers, and the path in it.
        registry: String,
        /// The number of the instance.
        number: u64,
        /// The greatest worker id of the layout.
        max: u64,
    },

    /// Another process has, or had meanwhile, the name of this instance.
    #[error(
        "instance {instance} is in use: {holder}; stop the other process, or give each an instance \
         name of its own"
    )]
    InstanceInUse {
        /// The instance.
        instance: String,
        /// What is known of the other one.
        holder: String,
    },

    /// The clock stands before a time that was reached already.
    #[error(
        "the clock says {now}, {:?} before the time in {place}, {stored}, up to which ids may have \
         been issued: set the clock right, or wait until it has passed",
        stored.saturating_since(*now)
    )]
    ClockBehindStored {
        /// The node or file.
        place: String,
        /// The time in it.
        stored: Timestamp,
        /// What the clock said.
        now: Timestamp,
    },

    /// This host's clock and those of the other instances are further apart than is allowed.
    #[error(
        "this host's clock is {:?} {} the median of {peers} live instances', where {limit:?} is \
         allowed; set the wrong one right, or allow more",
        Duration::from_millis(by_millis.unsigned_abs()),
        if *by_millis < 0 { "behind" } else { "ahead of" }
    )]
    PeerClocksDiffer {
        /// How many instances there were to compare with.
        peers: usize,
        /// How far this clock is ahead of theirs, in milliseconds.
        by_millis: i64,
        /// How far it may be.
        limit: Duration,
    },

    /// The servers of a registry end sessions too soon for the outage that an instance is to
    /// survive: another could have its name before it has stopped.
    #[error(
        "registry {registry}: the servers grant sessions of {granted:?}, of which an outage may take \
         nine tenths, less than {max_outage:?}; allow a shorter one, or ask for longer sessions \
         within the servers' maxSessionTimeout"
    )]
    SessionTooShort {
        /// Its servers, and the path in it.
        registry: String,
        /// The session timeout that the servers grant.
        granted: Duration,
        /// The outage that was to be survived.
        max_outage: Duration,
    },

    /// The local file that stands in for a registry could not be used.
    #[error("the cache file {} {problem}", path.display())]
    CacheFile {
        /// The file.
        path: PathBuf,
        /// What went wrong, and what to do.
        problem: String,
    },
}

/// Whether a number that was given for an option is in its range.
pub(crate) fn check_option<N: Copy + Into<u64>>(
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

/// [`check_option`] for a time, in milliseconds.
pub(crate) fn check_millis(
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
