//! The register of worker ids: in one process no two live generators of a namespace and layout have the
//! same worker id, and a later one starts above what an earlier one has issued.
//!
//! Entries are never removed, and their state is in atomics, so that a forked child, which must not
//! wait for a lock of its parent's, reads what the parent held. Of each process, the first that uses
//! the register makes a [`Process`] with a lock of its own.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ptr;

use crate::error::Error;
use crate::layout::Layout;
use crate::sync::{AtomicBool, AtomicU64, ForkGuarded, ForkToken, Ordering, PushList};
use crate::uid::Uid;
use crate::worker::IssueHorizon;

/// The namespace of generators that stand for other processes, in simulations: nothing is registered.
#[cfg(any(test, feature = "simulation"))]
pub const ELSEWHERE: &str = "\0elsewhere";

/// A namespace with a layout. A named namespace gets one only; without a name, each layout has a space.
struct Space {
    namespace: Box<str>,
    layout: Layout,
    /// Whether a generator was built in it. Written with the process's lock held.
    is_used: AtomicBool,
}

/// A worker id that this process, or one that it was forked from, has used.
struct Entry {
    space: &'static Space,
    worker_id: u64,
    /// The number of the registration that holds it, or 0.
    holder: AtomicU64,
    /// No uid from this number on has been issued by earlier holders.
    above: AtomicU64,
}

/// By the hash of the namespace.
static SPACES: [PushList<Space>; 1_024] = [const { PushList::new() }; 1_024];

/// By the hash of space and worker id.
static ENTRIES: [PushList<Entry>; 4_096] = [const { PushList::new() }; 4_096];

/// The list that has what belongs to a key.
fn list<T>(lists: &'static [PushList<T>], key: impl Hash) -> &'static PushList<T> {
    // It has no random seed, so a child finds what its parent has put there.
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    &lists[hasher.finish() as usize % lists.len()]
}

/// Pushes a value. The lock is held, except in a forked child: another thread of the parent may have been here
/// at the fork.
fn push<T: Sync>(list: &PushList<T>, make: impl Fn() -> T) -> &'static T {
    loop {
        if let Some(value) = list.push_after(list.newest(), make()) {
            return value;
        }
    }
}

impl Space {
    fn of(namespace: &str, layout: &Layout) -> &'static Self {
        let list = list(&SPACES, namespace);
        let found =
            list.iter().find(|space| *space.namespace == *namespace && space.layout == *layout);
        found.unwrap_or_else(|| {
            push(list, || Self {
                namespace: namespace.into(),
                layout: *layout,
                is_used: AtomicBool::new(false),
            })
        })
    }

    fn entry(&'static self, worker_id: u64) -> &'static Entry {
        let list = list(&ENTRIES, (ptr::from_ref(self).addr(), worker_id));
        let found =
            list.iter().find(|entry| ptr::eq(entry.space, self) && entry.worker_id == worker_id);
        found.unwrap_or_else(|| {
            push(list, || Entry {
                space: self,
                worker_id,
                holder: AtomicU64::new(0),
                above: AtomicU64::new(0),
            })
        })
    }
}

/// The next registration's number.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Per-process state. A forked child replaces the copy it inherits.
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
    issue_horizon: IssueHorizon,
}

impl Leased {
    /// The first number that will never be issued, once the lease is lost.
    fn end(&self) -> Option<u64> {
        let layout = &self.entry.space.layout;
        let last = self.issue_horizon.lost_at()?.min(layout.max_tick());
        Some(layout.pack(last, self.entry.worker_id, layout.max_sequence()).get() + 1)
    }
}

static PROCESSES: PushList<Process> = PushList::new();

impl Process {
    /// This process.
    fn current() -> &'static Self {
        loop {
            let newest = PROCESSES.newest();
            if let Some(process) = newest.filter(|process| !process.leased.is_forked()) {
                return process;
            }
            // Relaxed: registrations of this process come after the push, and a number only grows.
            let first = NEXT.load(Ordering::Relaxed);
            let process =
                Self { first, leased: ForkGuarded::new(ForkToken::current(), Vec::new()) };
            if let Some(process) = PROCESSES.push_after(newest, process) {
                return process;
            }
        }
    }
}

/// A worker id that is a generator's own in this process, until it is released or dropped.
///
/// `mem::forget` keeps the worker id registered, because threads or handles may still use the generator. It is
/// boxed, to be one word beside those that takers read.
pub(super) struct Registration(Option<Box<Held>>);

struct Held {
    number: u64,
    entry: &'static Entry,
    process: &'static Process,
    /// Nothing has been issued from here on.
    above: u64,
}

/// Refuses a layout for a named namespace that has another one.
pub(super) fn check(namespace: &str, layout: &Layout) -> Result<(), Error> {
    if namespace.is_empty() {
        return Ok(());
    }
    // Relaxed: it matters under the lock alone, and a child has what was stored before the fork.
    let other = list(&SPACES, namespace).iter().find(|space| {
        *space.namespace == *namespace
            && space.layout != *layout
            && space.is_used.load(Ordering::Relaxed)
    });
    other.map_or(Ok(()), |other| {
        Err(Error::NamespaceLayout {
            namespace: namespace.into(),
            layout: layout.to_string(),
            used: other.layout.to_string(),
        })
    })
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
    loop {
        let process = Process::current();
        if let Ok(leased) = process.leased.lock() {
            check(namespace, layout)?;
            let held = process.register(&leased, Space::of(namespace, layout), worker_id)?;
            return Ok(Registration(Some(Box::new(held))));
        }
    }
}

impl Process {
    fn register(
        &'static self,
        leased: &[Leased],
        space: &'static Space,
        worker_id: u64,
    ) -> Result<Held, Error> {
        let entry = space.entry(worker_id);
        // Acquire: pairs with the Release in `Entry::end`: what was issued is known.
        let holder = entry.holder.load(Ordering::Acquire);
        if holder != 0 {
            let (layout, namespace) = (space.layout.to_string(), space.namespace.to_string());
            if holder < self.first {
                return Err(Error::WorkerIdOfParent { worker_id, layout, namespace });
            }
            let leased = leased.iter().find(|leased| leased.registration == holder);
            match leased.and_then(Leased::end) {
                // A generator that has lost its lease starts no more ticks.
                Some(end) => entry.end(holder, end),
                None => return Err(Error::WorkerIdInUse { worker_id, layout, namespace }),
            }
        }
        // Relaxed, all: the lock orders registrations, and a child reads what was stored before the fork.
        let above = entry.above.load(Ordering::Relaxed);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        entry.holder.store(number, Ordering::Relaxed);
        Ok(Held { number, entry, process: self, above })
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
    /// The greatest uid that earlier ones may have issued.
    pub(super) fn last(&self) -> Option<Uid> {
        self.0.as_deref()?.above.checked_sub(1).map(Uid::from_layout)
    }

    /// The generator issues as far as this lease allows.
    pub(super) fn leased(&self, issue_horizon: &IssueHorizon) {
        let Some(Held { number, entry, process, .. }) = self.0.as_deref() else { return };
        let Ok(mut leased) = process.leased.lock() else { return };
        // Relaxed: a registration that is seen too late to be over goes with the next lease.
        leased.retain(|one| one.entry.holder.load(Ordering::Relaxed) == one.registration);
        let issue_horizon = issue_horizon.clone();
        leased.push(Leased { registration: *number, entry, issue_horizon });
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

    /// The generator is built: its namespace has this layout from now on. Refuses after a fork, and where a
    /// build with another layout came first.
    pub(super) fn confirm(&self) -> Result<(), Error> {
        let Some(Held { entry, process, .. }) = self.0.as_deref() else { return Ok(()) };
        let Ok(_locked) = process.leased.lock() else {
            return Err(Error::Forked { what: "generator" });
        };
        let space = entry.space;
        check(&space.namespace, &space.layout)?;
        space.is_used.store(true, Ordering::Relaxed);
        Ok(())
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
