//! The handle that threads share, with a block for each thread.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::mpsc;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::{Clock, ManualClock};
use uidring::generator::{CachedBuilder, SequenceStart};
use uidring::policy::TakePolicy;
use uidring::{
    Bits, CachedUidGenerator, Layout, PerThreadGenerator, TakeError, Tick, Timestamp, Uid,
    UidGenerator,
};
use uidring_testkit::namespace;

/// More than a busy machine needs.
const LIMIT: Duration = Duration::from_secs(60);

type Shared = PerThreadGenerator<Arc<CachedUidGenerator>>;

fn builder() -> CachedBuilder {
    let bits = Bits { time: 40, worker: 13, sequence: 10 };
    let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
    CachedUidGenerator::builder().layout(layout).worker_id(1).namespace(namespace::fresh())
}

fn shared(builder: CachedBuilder) -> Arc<Shared> {
    Arc::new(PerThreadGenerator::new(Arc::new(builder.build().expect("builds"))))
}

/// Asserts that all uids differ. Returns their number.
fn assert_distinct(all: impl IntoIterator<Item = Uid>) -> usize {
    let mut uids: Vec<_> = all.into_iter().collect();
    let count = uids.len();
    uids.sort_unstable();
    uids.dedup();
    assert_eq!(uids.len(), count, "a uid was issued twice");
    count
}

/// Returns the position of a uid among all of its worker.
fn position(generator: &CachedUidGenerator, uid: Uid) -> u64 {
    let fields = generator.decode(uid).expect("of this layout");
    fields.tick * generator.layout().uids_per_tick() + fields.sequence
}

#[test]
fn threads_that_share_a_handle_get_different_uids_each_in_order() {
    let handle = shared(builder());
    let mut all = Vec::new();
    let threads: Vec<_> = (0..16_u64)
        .map(|thread| {
            let handle = Arc::clone(&handle);
            thread::spawn(move || {
                let mut uids = Vec::new();
                let mut batch = [Uid::default(); 700];
                while uids.len() < 40_000 {
                    for _ in 0..=thread * 50 {
                        uids.push(handle.next_uid().expect("waits"));
                    }
                    let length = (uids.len() * 7) % batch.len();
                    handle.fill(&mut batch[..length]).expect("waits");
                    uids.extend(&batch[..length]);
                }
                uids
            })
        })
        .collect();
    // The other forms, beside it.
    let mut local = handle.generator().local();
    for _ in 0..40_000 {
        all.push(handle.generator().next_uid().expect("waits"));
        all.push(local.next_uid().expect("waits"));
    }
    for thread in threads {
        let uids = thread.join().expect("no panic");
        assert!(uids.is_sorted_by(|a, b| a < b), "a thread's uids increase");
        all.extend(uids);
    }
    assert!(assert_distinct(all) >= 16 * 40_000 + 80_000);
}

#[test]
fn threads_come_and_go_by_the_ten_thousand_and_waste_next_to_nothing() {
    let handle = shared(builder());
    let first = handle.generator().next_uid().expect("waits");
    let mut all = Vec::new();
    for _ in 0..1_250 {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let handle = Arc::clone(&handle);
                thread::spawn(move || [(); 3].map(|()| handle.next_uid().expect("waits")))
            })
            .collect();
        for thread in threads {
            let uids = thread.join().expect("no panic");
            assert!(uids.is_sorted_by(|a, b| a < b), "a thread's uids increase");
            all.extend(uids);
        }
    }
    assert_eq!(assert_distinct(all), 30_000);
    let last = handle.generator().next_uid().expect("waits");
    // The 30,000, and what became stale on a slow machine. A run for each thread would be 2,560,000.
    let generator = handle.generator();
    let spent = position(generator, last) - position(generator, first);
    let discarded = generator.stats().ring.discarded;
    assert!(spent - discarded < 300_000, "{spent} numbers, {discarded} discarded");
}

#[test]
fn what_a_thread_left_is_the_next_ones() {
    let handle = shared(builder().max_lag(None));
    // One thread after another. Other tests' threads may take thread numbers in between; then it goes on elsewhere,
    // which the count tolerates.
    let mut seen = BTreeSet::new();
    let mut neighbours = 0;
    for _ in 0..100 {
        let theirs = Arc::clone(&handle);
        let uid = thread::spawn(move || theirs.next_uid().expect("waits")).join().expect("ends");
        neighbours += usize::from(seen.contains(&(uid.get() - 1)));
        assert!(seen.insert(uid.get()), "twice");
    }
    assert!(neighbours > 10, "{neighbours} of 100 followed on another thread's");
}

#[test]
fn what_is_stale_is_given_up() {
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000));
    let handle = shared(builder().clock(clock.clone()).refresh(Duration::from_millis(1)));
    let before = handle.next_uid().expect("ready");
    clock.advance(Duration::from_secs(100));
    let now = clock.now();
    let start = Instant::now();
    // The padder must see the time first.
    loop {
        let uid = handle.next_uid().expect("waits");
        assert!(uid > before);
        let time = handle.generator().decode(uid).expect("of this layout").timestamp;
        if now.saturating_since(time) <= Duration::from_secs(2) {
            break;
        }
        assert!(start.elapsed() < LIMIT, "still {time}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_close_ends_every_threads_run() {
    let handle = shared(builder());
    let (taken, takes) = mpsc::channel();
    let barrier = Arc::new(Barrier::new(5));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (handle, barrier) = (Arc::clone(&handle), Arc::clone(&barrier));
            let taken = taken.clone();
            thread::spawn(move || {
                taken.send(handle.next_uid().expect("ready")).expect("is heard");
                barrier.wait();
                barrier.wait();
                let mut batch = [Uid::default(); 2];
                (handle.next_uid(), handle.fill(&mut batch).map_err(|error| error.error))
            })
        })
        .collect();
    barrier.wait();
    handle.generator().close();
    barrier.wait();
    for thread in threads {
        let (next, fill) = thread.join().expect("no panic");
        assert_eq!(next, Err(TakeError::Closed));
        assert_eq!(fill, Err(TakeError::Closed));
    }
    assert_eq!(assert_distinct(takes.try_iter()), 4);
}

/// A clock whose readers take from a handle, once it has one.
#[derive(Clone, Debug, Default)]
struct TakingClock(Arc<Mutex<Option<Taken>>>);

/// The handle, and what was taken from it.
type Taken = (Arc<Shared>, Vec<Uid>);

impl Clock for TakingClock {
    fn now(&self) -> Timestamp {
        if let Ok(mut state) = self.0.try_lock()
            && let Some((handle, taken)) = &mut *state
            && let Ok(uid) = handle.next_uid()
        {
            taken.push(uid);
        }
        uidring::clock::SystemClock.now()
    }
}

#[test]
fn a_clock_that_takes_leaves_a_thread_in_order() {
    let clock = TakingClock::default();
    let handle = shared(builder().clock(clock.clone()));
    *clock.0.lock().expect("no panic") = Some((Arc::clone(&handle), Vec::new()));
    let mine: Vec<_> = (0..200_000).map(|_| handle.next_uid().expect("waits")).collect();
    let (_, theirs) = clock.0.lock().expect("no panic").take().expect("is there");
    assert!(mine.is_sorted_by(|a, b| a < b), "a thread's uids increase");
    assert_distinct(mine.into_iter().chain(theirs));
}

#[test]
fn destructors_of_a_thread_may_take_too() {
    struct Last(Arc<Shared>, mpsc::Sender<Uid>);
    impl Drop for Last {
        fn drop(&mut self) {
            for _ in 0..10 {
                self.1.send(self.0.next_uid().expect("waits")).expect("is heard");
            }
        }
    }
    thread_local!(static LAST: RefCell<Option<Last>> = const { RefCell::new(None) });

    let handle = shared(builder());
    let (sender, receiver) = mpsc::channel();
    for take_first in [true, false].repeat(50) {
        let (handle, sender) = (Arc::clone(&handle), sender.clone());
        let thread = thread::spawn(move || {
            let take = || sender.send(handle.next_uid().expect("waits")).expect("is heard");
            // Which destructor runs first depends on the order of first use.
            if take_first {
                take();
            }
            LAST.set(Some(Last(Arc::clone(&handle), sender.clone())));
            take();
        });
        thread.join().expect("no panic");
    }
    drop(sender);
    assert_eq!(assert_distinct(receiver.iter()), 50 * 12 + 50 * 11);
}

/// A single-threaded handle also fills and tries like the generator. Nobody else takes, so it gets a whole tick in a
/// row.
#[test]
fn a_handle_uses_up_its_block_before_it_takes_from_the_ring() {
    let build = || {
        let clock = ManualClock::new(Timestamp::from_millis(5_000));
        let builder = builder().sequence_start(SequenceStart::Zero).clock(clock);
        let builder = builder.max_borrow(Duration::ZERO).take_policy(TakePolicy::Reject);
        builder.build().expect("builds")
    };
    let generator = build();
    let handle = generator.per_thread();
    let handle: &dyn UidGenerator = &handle;
    let mut uids = vec![handle.try_next_uid().expect("ready")];
    let mut batch = [Uid::default(); 300];
    handle.fill(&mut batch[..5]).expect("ready");
    uids.extend(&batch[..5]);
    assert_eq!(handle.try_fill(&mut batch), Ok(300), "its block, and more");
    uids.extend(&batch);
    uids.push(handle.next_uid().expect("ready"));
    let mut rest = vec![Uid::default(); 1_024];
    let error = handle.fill(&mut rest).expect_err("less than a tick is left");
    uids.extend(&rest[..error.filled]);
    assert_eq!(uids.len(), 1_024);
    assert!(uids.is_sorted_by(|a, b| a.get() + 1 == b.get()));
    let is_limit = |error| matches!(error, TakeError::BorrowLimit { .. });
    assert!(handle.try_fill(&mut rest).is_err_and(is_limit));

    let generator = build();
    let handle = generator.per_thread();
    let handle: &dyn UidGenerator = &handle;
    handle.next_uid().expect("ready");
    while generator.try_next_uid().is_ok() {}
    assert_eq!(handle.try_fill(&mut rest), Ok(254), "what is left of its block");
    handle.close();
    assert_eq!(generator.try_next_uid(), Err(TakeError::Closed));
}

#[test]
fn handles_fill_and_try_without_waiting() {
    let clock = ManualClock::new(Timestamp::from_millis(5_000));
    let generator = builder()
        .sequence_start(SequenceStart::Zero)
        .max_borrow(Duration::ZERO)
        .take_policy(TakePolicy::Reject)
        .clock(clock)
        .build()
        .expect("builds");
    let (mut local, handle) = (generator.local(), generator.per_thread());
    let mut uids = [Uid::default(); 1_000];
    local.fill(&mut uids).expect("of the present tick");
    assert!(uids.is_sorted());
    let rest = std::iter::from_fn(|| local.try_next_uid().ok()).collect::<Vec<_>>();
    assert_distinct(uids.iter().chain(&rest).copied());
    assert_eq!((rest.len(), rest.is_sorted() && uids[999] < rest[0]), (24, true));
    let is_limit = |error| matches!(error, TakeError::BorrowLimit { .. });
    assert!(local.try_next_uid().is_err_and(is_limit));
    assert!(handle.try_next_uid().is_err_and(is_limit));
    assert!(local.fill(&mut uids).is_err_and(|error| error.filled == 0 && is_limit(error.error)));
}
