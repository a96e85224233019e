//! Takers that are threads or forked children, and the memory in which they meet and report.
// std has no fork, and no memory that a child shares.
#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use crate::promise::{Promise, Seen, check_distinct};
use crate::work::{FILL, Run, Work};

pub const MAX_TAKERS: usize = 16;

/// Most ids that one taker shows to be checked.
const SAMPLE: usize = 2 * FILL;

/// A hanging child or thread ends the program after so long.
const LIMIT: Duration = Duration::from_secs(60);

/// What threads and forked children share. Zeroed at first.
pub struct Page {
    /// How many takers have reached a meeting; counts on from the first to the second.
    arrived: CachePadded<AtomicU64>,
    /// Portions that nobody has claimed.
    left: CachePadded<AtomicU64>,
    /// The counter that is measured.
    pub counter: CachePadded<AtomicU64>,
    reports: [Report; MAX_TAKERS],
}

struct Report {
    before: AtomicU64,
    /// In nanoseconds since the work began.
    start: AtomicU64,
    end: AtomicU64,
    portions: AtomicU64,
    sample: [AtomicU64; SAMPLE],
}

impl Page {
    /// Maps a new one, and never unmaps it.
    pub fn map() -> &'static Self {
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, aligned to pages. It consists of atomics, which may be zero, and it stays.
        unsafe {
            let page = libc::mmap(ptr::null_mut(), size_of::<Self>(), access, kind, -1, 0);
            assert_ne!(page, libc::MAP_FAILED, "no memory");
            &*page.cast()
        }
    }

    /// Waits until so many takers have come here. Yields, because there may be more takers than cores.
    pub fn meet(&self, all: usize) {
        self.arrived.fetch_add(1, Release);
        self.wait_for(all);
    }

    /// As `meet`, for who is not one of them.
    pub fn wait_for(&self, all: usize) {
        let start = Instant::now();
        while self.arrived.load(Acquire) < all as u64 {
            assert!(start.elapsed() < LIMIT, "a taker is missing");
            thread::yield_now();
        }
    }

    pub fn forget_arrivals(&self) {
        self.arrived.store(0, Relaxed);
    }
}

/// What takers are.
#[derive(Clone, Copy)]
pub enum Kind {
    Threads,
    Processes,
}

/// Returns the work of all takers on one source, timed from the first start to the last end. They claim portions from a
/// common budget, so that all take until the end.
///
/// `open` makes a taker's function, in its thread or process. The function takes a portion, and shows its ids if they are
/// asked for. `count` returns how many ids the source has given in total, if it knows.
pub fn work<T: FnMut(Option<&mut Vec<u64>>)>(
    page: &'static Page,
    (kind, takers): (Kind, usize),
    portion: u64,
    mut count: impl FnMut() -> Option<u64> + 'static,
    open: impl Fn() -> T + Sync + 'static,
) -> Work {
    Box::new(move |ids| {
        page.left.store(ids.div_ceil(portion), Relaxed);
        page.forget_arrivals();
        let (counted, origin) = (count(), Instant::now());
        let take = |index| take(page, index, takers, origin, open());
        match kind {
            Kind::Threads => thread::scope(|scope| {
                (0..takers).for_each(|index| drop(scope.spawn(move || take(index))));
            }),
            Kind::Processes => {
                let children: Vec<_> = (0..takers).map(|index| fork(|| take(index))).collect();
                children.into_iter().for_each(|child| assert_eq!(child.wait(), 0, "it failed"));
            }
        }
        let reports = &page.reports[..takers];
        let timed = reports.iter().map(|report| report.portions.load(Relaxed) * portion).sum();
        if let (Some(before), Some(after)) = (counted, count()) {
            assert_eq!(after - before, timed + 3 * portion * takers as u64, "the count is wrong");
        }
        let seen: Vec<_> = reports.iter().map(|report| report.seen(portion)).collect();
        seen.iter().for_each(|seen| Promise::Increasing.check(seen));
        check_distinct(&seen);
        let start = reports.iter().map(|report| report.start.load(Relaxed)).min();
        let end = reports.iter().map(|report| report.end.load(Relaxed)).max();
        let nanos = end.zip(start).map(|(end, start)| end - start).expect("there are takers");
        Run { ids: timed, elapsed: Duration::from_nanos(nanos) }
    })
}

impl Report {
    fn seen(&self, portion: u64) -> Seen {
        let sample = self.sample[..2 * portion as usize].iter();
        let after = sample.map(|id| id.load(Relaxed).into()).collect();
        let timed = self.portions.load(Relaxed) * portion;
        Seen { before: self.before.load(Relaxed).into(), timed, after }
    }
}

/// What each taker does, the same for all contestants: three portions are not timed, and the ids of two are checked.
fn take(
    page: &Page,
    index: usize,
    takers: usize,
    origin: Instant,
    mut take: impl FnMut(Option<&mut Vec<u64>>),
) {
    pin(index);
    let report = &page.reports[index];
    let mut ids = Vec::with_capacity(SAMPLE);
    take(Some(&mut ids));
    report.before.store(*ids.last().expect("a portion has ids"), Relaxed);
    ids.clear();
    page.meet(takers);
    let start = origin.elapsed();
    let mut portions = 0;
    while page.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
        take(None);
        portions += 1;
    }
    let end = origin.elapsed();
    // The sample is most useful while all of them take.
    page.meet(2 * takers);
    take(Some(&mut ids));
    take(Some(&mut ids));
    report.start.store(start.as_nanos() as u64, Relaxed);
    report.end.store(end.as_nanos() as u64, Relaxed);
    report.portions.store(portions, Relaxed);
    ids.iter().zip(&report.sample).for_each(|(id, place)| place.store(*id, Relaxed));
}

/// Pins takers to cores in turn.
pub fn pin(index: usize) {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    if !cores.is_empty() {
        core_affinity::set_for_current(cores[index % cores.len()]);
    }
}

pub struct Child(libc::pid_t);

/// Does the work in a child, which then ends without running destructors: they are the parent's.
pub fn fork(work: impl FnOnce()) -> Child {
    // SAFETY: the child allocates, which glibc allows after a fork, and ends here.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "no child");
        if child == 0 {
            libc::alarm(LIMIT.as_secs() as libc::c_uint);
            libc::_exit(catch_unwind(AssertUnwindSafe(work)).is_err().into());
        }
        Child(child)
    }
}

impl Child {
    /// Returns its status: 0 if it did all of its work.
    pub fn wait(self) -> i32 {
        let mut status = 0;
        // SAFETY: a valid place for the status.
        assert_eq!(unsafe { libc::waitpid(self.0, &raw mut status, 0) }, self.0);
        status
    }

    pub fn kill(self) {
        // SAFETY: it is our child, and nobody has waited for it.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
        self.wait();
    }
}

/// Sleeps until this process is killed.
pub fn sleep() {
    // SAFETY: no preconditions.
    unsafe { libc::pause() };
}

/// Returns the processor time of this process.
pub fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the time.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) }, 0);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}
