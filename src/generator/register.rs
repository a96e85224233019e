//! The register of worker ids. In one process, no two live generators of a namespace and layout have the same worker
//! id, and a later generator starts above what an earlier one issued.
//!
//! A forked child must not wait for a lock of its parent, but needs to know what the parent held. So entries are never
//! removed, and their state is in atomics. The first use in each process makes a [`Process`] with a new lock.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ptr;

use crate::error::Error;
use crate::layout::Layout;
use crate::sync::{AtomicBool, AtomicU64, ForkGuarded, ForkToken, Ordering, PushList};
use crate::uid::Uid;
use crate::worker::IssueHorizon;

/// The namespace of generators that stand for other processes in simulations. Nothing is registered.
#[cfg(any(test, feature = "simulation"))]
pub const ELSEWHERE: &str = "\0elsewhere";

/// A namespace with a layout. A named namespace has one layout; the unnamed one has a space per layout.
struct Space {
    namespace: Box<str>,
    layout: Layout,
    /// Whether a generator was built in it. Written under the process's lock.
    is_used: AtomicBool,
}

/// A worker id that was used by this process, or by one that it was forked from.
struct Entry {
    space: &'static Space,
    worker_id: u64,
    /// The number of the registration that holds it, or 0.
    holder: AtomicU64,
    /// Earlier holders issued no uid from this number on.
    above: AtomicU64,
}

/// By the hash of the namespace.
static SPACES: [PushList<Space>; 1_024] = [const { PushList::new() }; 1_024];

/// By the hash of space and worker id.
static ENTRIES: [PushList<Entry>; 4_096] = [const { PushList::new() }; 4_096];

fn list<T>(lists: &'static [PushList<T>], key: impl Hash) -> &'static PushList<T> {
    // The hasher has no random seed, so a child finds what its parent pushed.
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    &lists[hasher.finish() as usize % lists.len()]
}

/// Pushes a value. The lock is held, except in a forked child: another thread of the parent may have been here
/// at the fork.
fn push<T: Send + Sync>(list: &'static PushList<T>, make: impl Fn() -> T) -> &'static T {
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

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Per-process state. A forked child replaces the copy it inherits.
struct Process {
    /// Registrations with lower numbers belong to processes that this one was forked from.
    first: u64,
    /// Locked during a registration, while no user code runs. In a forked child the lock fails, because this `Process`
    /// is the parent's.
    leased: ForkGuarded<Vec<Leased>>,
}

/// A leased generator. Its lease may end before it does.
struct Leased {
    registration: u64,
    entry: &'static Entry,
    issue_horizon: IssueHorizon,
}

impl Leased {
    /// Returns the number from which on nothing will be issued, once the lease is lost.
    fn end(&self) -> Option<u64> {
        let layout = &self.entry.space.layout;
        let last = self.issue_horizon.lost_at()?.min(layout.max_tick());
        Some(layout.pack(last, self.entry.worker_id, layout.max_sequence()).get() + 1)
    }
}

static PROCESSES: PushList<Process> = PushList::new();

impl Process {
    fn current() -> &'static Self {
        let make = || {
            // Relaxed: registrations of this process come after the push, and the number only grows.
            let first = NEXT.load(Ordering::Relaxed);
            Self { first, leased: ForkGuarded::new(ForkToken::current(), Vec::new()) }
        };
        PROCESSES.newest_or(|process| !process.leased.is_forked(), make)
    }
}

/// Keeps a worker id for one generator of this process, until it is released or dropped.
///
/// A generator that is leaked by `mem::forget` stays registered: threads or handles may still use it. Boxed, to be one
/// word next to those that takers read.
pub(super) struct Registration(Option<Box<Held>>);

struct Held {
    number: u64,
    entry: &'static Entry,
    process: &'static Process,
    /// Earlier holders issued nothing from here on.
    above: u64,
}

/// Refuses a layout for a named namespace that has another one.
pub(super) fn check(namespace: &str, layout: &Layout) -> Result<(), Error> {
    if namespace.is_empty() {
        return Ok(());
    }
    // Relaxed: the value only matters under the lock, and a child has what was stored before the fork.
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

/// Registers a worker id for a generator that is about to be built. Call it before any user code, such as a clock, except
/// the id's source.
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
        // Acquire: pairs with the Release in `Entry::end`, so that `above` includes what that holder issued.
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
        // Relaxed, all three: the lock orders registrations, and a child reads what was stored before the fork.
        let above = entry.above.load(Ordering::Relaxed);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        entry.holder.store(number, Ordering::Relaxed);
        Ok(Held { number, entry, process: self, above })
    }
}

impl Entry {
    /// Ends a registration that issued nothing from `above` on.
    fn end(&self, registration: u64, above: u64) {
        self.above.fetch_max(above, Ordering::Relaxed);
        // Release: pairs with the Acquire in `Process::register`, so that the next holder starts above. Does nothing if
        // another registration holds the entry.
        let _ = self.holder.compare_exchange(registration, 0, Ordering::Release, Ordering::Relaxed);
    }
}

impl Registration {
    /// Returns the greatest uid that earlier holders may have issued.
    pub(super) fn last(&self) -> Option<Uid> {
        self.0.as_deref()?.above.checked_sub(1).map(Uid::from_layout)
    }

    /// Notes that the generator issues only as far as this lease allows.
    pub(super) fn leased(&self, issue_horizon: &IssueHorizon) {
        let Some(Held { number, entry, process, .. }) = self.0.as_deref() else { return };
        let Ok(mut leased) = process.leased.lock() else { return };
        // Relaxed: an ended registration that is still seen as held is removed with the next lease.
        leased.retain(|one| one.entry.holder.load(Ordering::Relaxed) == one.registration);
        let issue_horizon = issue_horizon.clone();
        leased.push(Leased { registration: *number, entry, issue_horizon });
    }

    /// Fails if this process was forked since the registration, because the parent keeps the worker id.
    pub(super) fn check(&self) -> Result<(), Error> {
        match &self.0 {
            Some(held) if held.process.leased.is_forked() => {
                Err(Error::Forked { what: "generator" })
            }
            _ => Ok(()),
        }
    }

    /// Fixes the namespace's layout once the generator is built. Fails after a fork, or if one with another layout was
    /// built first.
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

    /// Frees the worker id. Call it once the generator issues nothing more; `last` is the greatest uid that it may have
    /// issued, `None` if it issued none. Frees nothing if called again, or in a forked child.
    pub(super) fn release(&self, last: Option<Uid>) {
        // In a child, the parent keeps it.
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

/// For a generator that was not built. One that was built has released it already.
impl Drop for Registration {
    fn drop(&mut self) {
        self.release(None);
    }
}
