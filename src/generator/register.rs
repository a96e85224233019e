//! The register of worker ids: in one process no two live generators issue the same uids, and a
//! later one starts above what an earlier one has issued.
//!
//! It knows numbers alone: which bits of its uids a worker fixes, and up to where it has got. Epochs
//! and ticks say nothing about that, since clocks can be set and layouts chosen at will.
//!
//! Entries are never removed, and their state is in atomics, so that a forked child, which must not
//! wait for a lock of its parent's, reads what the parent held. Of each process, the first that uses
//! the register makes a [`Process`] with a lock of its own.

use std::fmt;

use super::position::Position;
use crate::error::Error;
use crate::layout::{Bits, Layout};
use crate::sync::{AtomicU64, ForkGuarded, Life, Ordering, PushList};
use crate::uid::Uid;
use crate::worker::IssueHorizon;

/// The namespace of generators that stand for other processes, in simulations: nothing is registered.
#[cfg(any(test, feature = "simulation"))]
pub(crate) const ELSEWHERE: &str = "\0elsewhere";

/// The uids of one worker of one layout, as far as their bits tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Uids {
    bits: Bits,
    worker_id: u64,
}

impl Uids {
    pub(super) fn of(layout: &Layout, worker_id: u64) -> Self {
        Self { bits: layout.bits(), worker_id }
    }

    /// Whether some number is a uid of both. A uid's worker bits are fixed, those above its fields
    /// are 0, and all others can be anything: so it is, unless a bit is fixed to 1 by one and to 0
    /// by the other.
    pub(super) fn overlap(self, other: Self) -> bool {
        let ((mask, value), (others_mask, others_value)) = (self.fixed(), other.fixed());
        (value ^ others_value) & mask & others_mask == 0
    }

    /// The bits that are the same in all of the uids, and what they are.
    fn fixed(self) -> (u64, u64) {
        let Bits { time, worker, sequence } = self.bits;
        let above = u64::MAX << (time + worker + sequence);
        let worker_bits = ((1 << worker) - 1) << sequence;
        (above | worker_bits, self.worker_id << sequence)
    }
}

/// The workers of one namespace and layout that this process, or one that it was forked from, has
/// used.
struct Space {
    namespace: Box<str>,
    bits: Bits,
    /// By the worker id's last bits.
    entries: [PushList<Entry>; Self::LISTS],
}

struct Entry {
    worker_id: u64,
    /// The number of the registration that holds it, or 0.
    holder: AtomicU64,
    /// No uid from this number on has been issued by earlier holders.
    above: AtomicU64,
}

/// By the hash of the namespace.
static SPACES: [PushList<Space>; 64] = [const { PushList::new() }; 64];

/// The list that has the spaces of a namespace.
fn spaces(namespace: &str) -> &'static PushList<Space> {
    // FNV-1a: the same in a child, which a hasher with a random seed of the thread's need not be.
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let hash = namespace.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    &SPACES[(hash >> 32) as usize % SPACES.len()]
}

impl Space {
    const LISTS: usize = 64;

    fn entries(&self, worker_id: u64) -> &PushList<Entry> {
        &self.entries[worker_id as usize % Self::LISTS]
    }

    /// The entries whose uids may be some of these.
    fn overlapping(&'static self, uids: Uids) -> impl Iterator<Item = &'static Entry> {
        // With the same fields, only those of the same worker.
        let lists = if self.bits == uids.bits {
            let list = uids.worker_id as usize % Self::LISTS;
            &self.entries[list..=list]
        } else {
            &self.entries[..]
        };
        let bits = self.bits;
        lists
            .iter()
            .flat_map(PushList::iter)
            .filter(move |entry: &&Entry| Uids { bits, worker_id: entry.worker_id }.overlap(uids))
    }
}

/// The next registration's number.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// What processes do not share, though a child inherits it.
struct Process {
    /// Claims with lower numbers are those of processes that this one was forked from.
    first: u64,
    /// Locked during a registration. No caller's code runs meanwhile. In a forked child the lock fails: this
    /// process is not the child's.
    leased: ForkGuarded<Vec<Leased>>,
}

/// A generator with a lease, which may end before the generator does.
struct Leased {
    registration: u64,
    entry: &'static Entry,
    layout: Layout,
    issue_horizon: IssueHorizon,
}

impl Leased {
    /// The first number that will never be issued, once the lease is lost.
    fn end(&self) -> Option<u64> {
        let last = self.issue_horizon.lost_at()?.min(self.layout.max_tick());
        let last = self.layout.pack(last, self.entry.worker_id, self.layout.max_sequence());
        Some(last.get() + 1)
    }
}

static PROCESSES: PushList<Process> = PushList::new();

impl Process {
    /// This process.
    fn current() -> Result<&'static Self, Error> {
        loop {
            let newest = PROCESSES.newest();
            if let Some(process) = newest.filter(|process| !process.leased.is_forked()) {
                return Ok(process);
            }
            let life = Life::new().ok_or(Error::OutOfMemory { bytes: 64 })?;
            // Relaxed: registrations of this process come after the push, and a number only grows.
            let first = NEXT.load(Ordering::Relaxed);
            let process = Self { first, leased: ForkGuarded::new(life, Vec::new()) };
            if let Some(process) = PROCESSES.push_after(newest, process) {
                return Ok(process);
            }
        }
    }
}

/// A worker id that is a generator's own in this process, until it is released or dropped.
///
/// A forgotten registration stays: its generator's threads and borrowers may go on. It is boxed, to be one word
/// beside those that takers read.
pub(super) struct Registration(Option<Box<Held>>);

struct Held {
    number: u64,
    entry: &'static Entry,
    process: &'static Process,
    /// Nothing has been issued from here on.
    above: u64,
}

/// Claims a worker id for a generator that is about to be built. This comes before any caller's code,
/// such as a clock, except for the source of the id.
pub(super) fn register(
    namespace: &str,
    layout: &Layout,
    worker_id: u64,
) -> Result<Registration, Error> {
    #[cfg(any(test, feature = "simulation"))]
    if namespace == ELSEWHERE {
        return Ok(Registration(None));
    }
    let uids = Uids::of(layout, worker_id);
    loop {
        let process = Process::current()?;
        if let Ok(leased) = process.leased.lock() {
            let held = process.register(&leased, namespace, uids)?;
            return Ok(Registration(Some(Box::new(held))));
        }
    }
}

impl Process {
    fn register(
        &'static self,
        leased: &[Leased],
        namespace: &str,
        uids: Uids,
    ) -> Result<Held, Error> {
        let list = spaces(namespace);
        let spaces = || list.iter().filter(|space| *space.namespace == *namespace);
        let mut above = 0;
        let mut lost = Vec::new();
        for space in spaces() {
            for entry in space.overlapping(uids) {
                // Acquire: pairs with the Release in `Entry::end`: what was issued is known.
                match entry.holder.load(Ordering::Acquire) {
                    0 => {}
                    number if number < self.first => {
                        return Err(uids.of_parent(space.bits, entry, namespace));
                    }
                    number => match leased.iter().find(|leased| leased.registration == number) {
                        Some(Leased { issue_horizon, .. }) if issue_horizon.lost_at().is_some() => {
                            lost.push(number);
                        }
                        _ => return Err(uids.in_use(space.bits, entry, namespace)),
                    },
                }
                above = above.max(entry.above.load(Ordering::Relaxed));
            }
        }
        // A generator that has lost its lease starts no more ticks.
        for leased in leased.iter().filter(|leased| lost.contains(&leased.registration)) {
            if let Some(end) = leased.end() {
                above = above.max(end);
                leased.entry.end(leased.registration, end);
            }
        }
        let space = match spaces().find(|space| space.bits == uids.bits) {
            Some(space) => space,
            None => push(list, || Space {
                namespace: namespace.into(),
                bits: uids.bits,
                entries: [const { PushList::new() }; Space::LISTS],
            }),
        };
        let entries = space.entries(uids.worker_id);
        let entry = match entries.iter().find(|entry| entry.worker_id == uids.worker_id) {
            Some(entry) => entry,
            None => push(entries, || Entry {
                worker_id: uids.worker_id,
                holder: AtomicU64::new(0),
                above: AtomicU64::new(0),
            }),
        };
        // Relaxed, both: the lock orders registrations, and a child reads what was stored before the fork.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        entry.holder.store(number, Ordering::Relaxed);
        Ok(Held { number, entry, process: self, above })
    }
}

/// Called with the lock held, except that in a child a thread of the parent may have been in here at the
/// fork.
fn push<T: Sync>(list: &PushList<T>, make: impl Fn() -> T) -> &'static T {
    loop {
        if let Some(value) = list.push_after(list.newest(), make()) {
            return value;
        }
    }
}

impl Uids {
    fn in_use(self, bits: Bits, entry: &Entry, namespace: &str) -> Error {
        Error::WorkerIdInUse {
            worker_id: self.worker_id,
            layout: self.bits.to_string(),
            holder: entry.worker_id,
            holder_layout: bits.to_string(),
            namespace: namespace.into(),
        }
    }

    fn of_parent(self, bits: Bits, entry: &Entry, namespace: &str) -> Error {
        Error::WorkerIdOfParent {
            worker_id: self.worker_id,
            layout: self.bits.to_string(),
            holder: entry.worker_id,
            holder_layout: bits.to_string(),
            namespace: namespace.into(),
        }
    }
}

impl Entry {
    /// Ends a registration, of which nothing from this number on was issued.
    fn end(&self, registration: u64, above: u64) {
        self.above.fetch_max(above, Ordering::Relaxed);
        // Release: who registers it next, and acquires this, starts above. If another registration holds it,
        // that one goes on.
        let _ = self.holder.compare_exchange(registration, 0, Ordering::Release, Ordering::Relaxed);
    }
}

impl Registration {
    /// Where the generator has to start to be above what earlier ones have issued; it may be above
    /// the layout's last tick.
    pub(super) fn start(&self, layout: &Layout) -> Option<(Position, u64)> {
        let Held { entry, above, .. } = self.0.as_deref()?;
        let last = above.checked_sub(1)?;
        Some((Position::from(layout, entry.worker_id, *above), last))
    }

    /// The generator issues as far as this lease allows.
    pub(super) fn leased(&self, layout: &Layout, issue_horizon: &IssueHorizon) {
        let Some(Held { number, entry, process, .. }) = self.0.as_deref() else { return };
        let Ok(mut leased) = process.leased.lock() else { return };
        // Relaxed: a registration that is seen too late to be over goes with the next lease.
        leased.retain(|one| one.entry.holder.load(Ordering::Relaxed) == one.registration);
        let (layout, issue_horizon) = (*layout, issue_horizon.clone());
        leased.push(Leased { registration: *number, entry, layout, issue_horizon });
    }

    /// Refuses if this process was forked since the registration: the parent goes on with the same.
    pub(super) fn check(&self) -> Result<(), Error> {
        match &self.0 {
            Some(held) if held.process.leased.is_forked() => {
                Err(Error::Forked { what: "generator" })
            }
            _ => Ok(()),
        }
    }

    /// Gives the worker id free for others: the generator issues nothing any more, and has issued
    /// nothing above `last`. Only the first call counts.
    pub(super) fn release(&self, last: Option<Uid>) {
        // In a child the parent goes on with it.
        let Some(held) = self.0.as_ref().filter(|held| !held.process.leased.is_forked()) else {
            return;
        };
        held.entry.end(held.number, last.map_or(0, |last| last.get() + 1));
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let worker_id = self.0.as_ref().map(|held| held.entry.worker_id);
        f.debug_struct("Registration").field("worker_id", &worker_id).finish_non_exhaustive()
    }
}

/// Of a generator that was not built.
impl Drop for Registration {
    fn drop(&mut self) {
        self.release(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Tick;
    use crate::timestamp::Timestamp;

    /// All layouts of up to six bits, all workers of both: two overlap if, and only if, some number
    /// is a uid of both.
    #[test]
    fn small_layouts_overlap_as_their_uids_do() {
        let mut all = Vec::new();
        for total in 3..=6 {
            for worker in 1..=total - 2 {
                for sequence in 1..=total - worker - 1 {
                    let bits = Bits { time: total - worker - sequence, worker, sequence };
                    let layout = Layout::new(bits, Tick::Second, Timestamp::default());
                    let layout = layout.expect("possible");
                    for worker_id in 0..layout.workers() {
                        let mut numbers = 0_u64;
                        for tick in 0..=layout.max_tick() {
                            for sequence in 0..=layout.max_sequence() {
                                numbers |= 1 << layout.pack(tick, worker_id, sequence).get();
                            }
                        }
                        all.push((Uids::of(&layout, worker_id), numbers));
                    }
                }
            }
        }
        let (mut overlapping, mut apart) = (0, 0);
        for (one, theirs) in &all {
            for (two, others) in &all {
                let do_overlap = theirs & others != 0;
                assert_eq!(one.overlap(*two), do_overlap, "{one:?} {two:?}");
                *if do_overlap { &mut overlapping } else { &mut apart } += 1;
            }
        }
        assert!(all.len() > 50 && overlapping > 100 && apart > 100);
    }

    #[test]
    fn the_first_place_from_a_number() {
        let bits = Bits { time: 3, worker: 2, sequence: 3 };
        let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
        for worker_id in 0..4 {
            let mut uids = Vec::new();
            for tick in 0..=layout.max_tick() + 1 {
                for sequence in 0..=layout.max_sequence() {
                    uids.push((tick << 5 | worker_id << 3 | sequence, Position { tick, sequence }));
                }
            }
            for number in 0..=layout.max_uid().get() + 1 {
                let expected =
                    uids.iter().find(|(uid, _)| *uid >= number).expect("one more tick").1;
                assert_eq!(Position::from(&layout, worker_id, number), expected, "{number}");
            }
        }
    }

    #[test]
    fn the_widest_layouts_fit() {
        let layouts = [(61, 1, 1), (1, 61, 1), (1, 1, 61)].map(|(time, worker, sequence)| {
            let bits = Bits { time, worker, sequence };
            Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible")
        });
        for one in &layouts {
            for two in &layouts {
                let (first, last) = (Uids::of(one, 0), Uids::of(two, two.max_worker_id()));
                assert!(first.overlap(Uids::of(two, 0)) && last.overlap(last));
            }
            let last = one.max_uid().get();
            let position = Position::from(one, one.max_worker_id(), last);
            assert_eq!(position, Position { tick: one.max_tick(), sequence: one.max_sequence() });
            assert!(Position::from(one, one.max_worker_id(), last + 1).tick > one.max_tick());
        }
    }
}
