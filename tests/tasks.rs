//! Takes by tasks: futures that leave their thread to others, on several runtimes and by hand.

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use futures_executor::{LocalPool, block_on};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use uidring::clock::ManualClock;
use uidring::generator::{CachedBuilder, ClockPolicy};
use uidring::policy::{TakeDecision, TakePolicy};
use uidring::segment::{
    Loaded, MemorySegments, SegmentError, SegmentRequest, SegmentStore, SegmentTag,
};
use uidring::worker::{FixedWorkerId, Lease, LeaseBackend, LeaseTerms, RenewError};
use uidring::{
    AsyncUidGenerator, Bits, CachedUidGenerator, ClockedUidGenerator, Error, Layout,
    LocalGenerator, PerThreadGenerator, SegmentGenerator, TakeError, Tick, Timestamp, Uid, Worker,
    WorkerRequest, WorkerSource,
};
use uidring_testkit::namespace::fresh;

/// Counts the allocations of a thread.
struct Counting;

thread_local!(static ALLOCATIONS: Cell<usize> = const { Cell::new(0) });

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[allow(unsafe_code)]
// SAFETY: passes every call on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller upholds the same contract.
        unsafe { System.alloc(memory) }
    }

    unsafe fn dealloc(&self, place: *mut u8, memory: Memory) {
        // SAFETY: the caller upholds the same contract.
        unsafe { System.dealloc(place, memory) }
    }
}

/// More than a busy machine needs.
const LIMIT: Duration = Duration::from_secs(30);

/// Counts its wake-ups, and may do more.
#[derive(Default)]
struct Bell {
    rings: AtomicUsize,
    more: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rings.fetch_add(1, Ordering::Relaxed);
        let more = self.more.lock().expect("no panic").take();
        if let Some(more) = more {
            more();
        }
    }
}

impl Bell {
    fn new(more: impl FnOnce() + Send + 'static) -> Arc<Self> {
        Arc::new(Self { rings: AtomicUsize::new(0), more: Mutex::new(Some(Box::new(more))) })
    }

    fn wait(&self, rings: usize) {
        let start = Instant::now();
        while self.rings.load(Ordering::Relaxed) < rings {
            assert!(start.elapsed() < LIMIT, "nobody wakes the task");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn poll<F: Future>(future: &mut Pin<&mut F>, bell: &Arc<Bell>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(bell))))
}

/// Returns the result of a future that is ready at its first poll.
fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("pending"),
    }
}

/// 64 uids a second, none ahead of the clock.
fn strict(clock: &ManualClock) -> CachedBuilder {
    let bits = Bits { time: 40, worker: 16, sequence: 6 };
    let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
    let builder = CachedUidGenerator::builder().layout(layout).worker_id(1).namespace(fresh());
    builder.max_borrow(Duration::ZERO).refresh(Duration::from_millis(1)).clock(clock.clone())
}

fn manual() -> ManualClock {
    ManualClock::new(Timestamp::from_millis(1_000_000_000))
}

/// Takes all that a generator has. Returns it with its last uid.
fn dry(builder: CachedBuilder) -> (Arc<CachedUidGenerator>, Uid) {
    let generator = builder.build().expect("builds");
    let mut last = Uid::default();
    let start = Instant::now();
    loop {
        match generator.try_next_uid() {
            Ok(uid) => last = uid,
            Err(TakeError::BorrowLimit { .. }) => return (Arc::new(generator), last),
            Err(_) => assert!(start.elapsed() < LIMIT, "the borrow limit is reached"),
        }
    }
}

/// A segment store that needs permission for each load.
struct Gated(MemorySegments, Arc<Mutex<()>>);

impl SegmentStore for Gated {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        self.0.tags()
    }

    fn load(&mut self, requests: &[SegmentRequest], report: &mut Loaded<'_>) {
        drop(self.1.lock());
        self.0.load(requests, report);
    }
}

fn segments(step: i64, gate: &Arc<Mutex<()>>) -> SegmentGenerator {
    let table = MemorySegments::new();
    table.create(SegmentTag::new("orders").step(step)).expect("new");
    let builder = SegmentGenerator::builder(Gated(table, Arc::clone(gate)));
    builder.step_factor(1).build().expect("builds")
}

#[test]
fn what_is_ready_is_taken_at_the_first_poll_without_an_allocation() {
    let cached =
        Arc::new(CachedUidGenerator::builder().worker_id(1).namespace(fresh()).build().unwrap());
    let snowflake =
        ClockedUidGenerator::snowflake().worker_id(1).namespace(fresh()).build().unwrap();
    let mut local = LocalGenerator::new(Arc::clone(&cached));
    let per_thread = PerThreadGenerator::new(Arc::clone(&cached));
    let segments = segments(1_000, &Arc::default());
    let orders = segments.tag("orders").unwrap();
    block_on(orders.next_id_async()).expect("waits");
    block_on(per_thread.next_uid_async()).expect("waits");
    let mut uids = Vec::with_capacity(200);
    let mut ids = Vec::with_capacity(200);
    let before = ALLOCATIONS.get();
    let uids_of_two = [(); 2].map(|()| at_once(cached.next_uid_async()).expect("ready"));
    assert!(uids_of_two.is_sorted());
    at_once(local.next_uid_async()).expect("ready");
    at_once(per_thread.next_uid_async()).expect("ready");
    at_once(cached.fill_async(&mut uids, 100)).expect("ready");
    at_once(per_thread.fill_async(&mut uids, 100)).expect("ready");
    at_once(segments.next_id_async("orders")).expect("ready");
    at_once(orders.next_id_async()).expect("ready");
    at_once(orders.fill_async(&mut ids, 100)).expect("ready");
    assert_eq!(ALLOCATIONS.get() - before, 0);
    assert_eq!((uids.len(), ids.len()), (200, 100));
    assert!(uids[..100].is_sorted() && uids[100..].is_sorted() && ids.is_sorted());
    // This millisecond may have none left.
    block_on(snowflake.next_uid_async()).expect("waits");
    at_once(cached.close_async());
    assert_eq!(at_once(cached.next_uid_async()), Err(TakeError::Closed));
}

#[test]
fn a_local_taker_goes_on_where_it_was_in_whatever_way_it_is_asked() {
    let generator = strict(&manual()).build().expect("builds");
    let mut local = generator.local();
    let mut uids = Vec::new();
    for _ in 0..5 {
        uids.push(at_once(local.next_uid_async()).expect("ready"));
        uids.push(at_once(local.next_uid_async()).expect("ready"));
        uids.push(local.next_uid().expect("ready"));
        uids.push(local.try_next_uid().expect("ready"));
    }
    assert!(uids.is_sorted_by(|a, b| a.get() + 1 == b.get()), "{uids:?}");
}

#[test]
fn a_fill_leaves_the_threads_block_alone_if_it_adds_nothing() {
    let handle = PerThreadGenerator::new(Arc::new(strict(&manual()).build().expect("builds")));
    let first = block_on(handle.next_uid_async()).expect("taken");
    // The fill does not own the last one.
    at_once(handle.fill_async(&mut vec![Uid::MAX], 0)).expect("there is nothing to do");
    let next = at_once(handle.next_uid_async()).expect("taken");
    assert_eq!(first.get() + 1, next.get());
}

#[test]
fn futures_can_be_sent_to_other_threads() {
    fn sent(_: impl Send) {}
    let cached = Arc::new(strict(&manual()).build().unwrap());
    let snowflake =
        ClockedUidGenerator::snowflake().worker_id(1).namespace(fresh()).build().unwrap();
    let segments = segments(10, &Arc::default());
    let (mut uids, mut ids) = (Vec::new(), Vec::new());
    sent(cached.next_uid_async());
    sent(cached.fill_async(&mut uids, 1));
    sent(cached.close_async());
    sent(snowflake.next_uid_async());
    sent(LocalGenerator::new(Arc::clone(&cached)).next_uid_async());
    sent(PerThreadGenerator::new(Arc::clone(&cached)).next_uid_async());
    sent(segments.next_id_async("orders"));
    sent(segments.fill_async("orders", &mut ids, 1));
    sent(segments.refresh_async());
    sent(segments.close_async());
    sent(CachedUidGenerator::builder().build_async());
    sent(ClockedUidGenerator::snowflake().build_async());
    sent(FixedWorkerId(1).acquire_async(WorkerRequest::new(Layout::SNOWFLAKE)));
}

/// Takes from any generator in a task.
fn spawn(
    runtime: &Runtime,
    generator: impl AsyncUidGenerator + Send + 'static,
) -> JoinHandle<Result<Vec<Uid>, TakeError>> {
    runtime.spawn(async move {
        let mut uids = vec![generator.next_uid_async().await?];
        generator.fill_async(&mut uids, 1_000).await?;
        Ok(uids)
    })
}

#[test]
fn generic_code_takes_in_tasks_of_tokio() {
    let builder = || CachedUidGenerator::builder().worker_id(1).namespace(fresh());
    let cached = Arc::new(builder().build().expect("builds"));
    let snowflake = ClockedUidGenerator::snowflake().worker_id(1).namespace(fresh()).build();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
    let runtime = runtime.expect("a runtime");
    let tasks = [
        spawn(&runtime, Arc::clone(&cached)),
        spawn(&runtime, PerThreadGenerator::new(Arc::clone(&cached))),
        spawn(&runtime, Box::new(snowflake.expect("builds"))),
        spawn(&runtime, builder().build().expect("builds")),
    ];
    for task in tasks {
        let uids = runtime.block_on(task).expect("no panic").expect("waits");
        assert_eq!(uids.len(), 1_001);
    }
    let mut uids = Vec::with_capacity(10);
    let before = ALLOCATIONS.get();
    at_once(AsyncUidGenerator::fill_async(&&cached, &mut uids, 10)).expect("ready");
    assert_eq!(ALLOCATIONS.get() - before, 0);
}

/// The longest delay of a heart-beat.
#[derive(Clone, Default)]
struct Beat {
    last: Arc<Mutex<Option<Instant>>>,
    longest: Arc<Mutex<Duration>>,
}

impl Beat {
    fn now(&self) {
        let now = Instant::now();
        if let Some(last) = self.last.lock().unwrap().replace(now) {
            let mut longest = self.longest.lock().unwrap();
            *longest = longest.max(now - last);
        }
    }
}

const TAKES: usize = 20_000;

/// 8,192 uids a second by the system's clock, none ahead of it. So 20,000 takes wait for the clock at least twice, for
/// a second each.
fn by_the_clock() -> Arc<CachedUidGenerator> {
    let builder = CachedUidGenerator::builder().worker_id(1).namespace(fresh());
    Arc::new(builder.max_borrow(Duration::ZERO).build().expect("builds"))
}

/// A thread blocked for a tick would delay the heart-beat by nearly a second. A busy machine may too, but not each
/// time. Each run returns the longest gap.
fn beats_in_one_of_ten(mut run: impl FnMut() -> Duration) {
    let longest: Vec<_> =
        (0..10).map_while(|_| Some(run()).filter(|gap| *gap >= STOPPED)).collect();
    assert!(longest.len() < 10, "{longest:?}");
}

const STOPPED: Duration = Duration::from_millis(500);

/// Returns the longest gap between two heart-beats.
fn check(mut uids: Vec<Uid>, generator: &CachedUidGenerator, beat: &Beat) -> Duration {
    uids.sort_unstable();
    uids.dedup();
    assert_eq!(uids.len(), TAKES);
    assert!(generator.stats().waits > 0, "the borrow limit was reached");
    // Includes a heart that never beat again.
    beat.now();
    let longest = *beat.longest.lock().unwrap();
    println!("the longest gap between two heart-beats: {longest:?}");
    longest
}

async fn take(generator: Arc<CachedUidGenerator>, count: usize) -> Vec<Uid> {
    let mut uids = Vec::new();
    for _ in 0..count {
        uids.push(generator.next_uid_async().await.expect("waits"));
    }
    assert!(uids.is_sorted());
    uids
}

async fn take_in_tokio(tasks: usize) -> Duration {
    let (generator, beat) = (by_the_clock(), Beat::default());
    let beats = beat.clone();
    let heart = tokio::spawn(async move {
        loop {
            beats.now();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    let takers = (0..tasks).map(|_| tokio::spawn(take(Arc::clone(&generator), TAKES / tasks)));
    let takers: Vec<_> = takers.collect();
    let mut uids = Vec::new();
    for taker in takers {
        uids.extend(taker.await.expect("no panic"));
    }
    heart.abort();
    check(uids, &generator, &beat)
}

#[test]
fn takes_at_the_borrow_limit_leave_other_tasks_running_in_tokio_with_one_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    beats_in_one_of_ten(|| runtime.block_on(take_in_tokio(1)));
    beats_in_one_of_ten(|| runtime.block_on(take_in_tokio(TAKES)));
}

#[test]
fn takes_at_the_borrow_limit_leave_other_tasks_running_in_tokio_with_many_threads() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_time().build().unwrap();
    beats_in_one_of_ten(|| runtime.block_on(take_in_tokio(1_000)));
}

#[test]
fn takes_at_the_borrow_limit_leave_other_tasks_running_in_another_executor() {
    beats_in_one_of_ten(take_in_another_executor);
}

fn take_in_another_executor() -> Duration {
    use futures_executor::LocalSpawner;

    fn spawn(spawner: &LocalSpawner, task: impl Future<Output = ()> + 'static) {
        use futures_task::{LocalFutureObj, LocalSpawn};
        spawner.spawn_local_obj(LocalFutureObj::new(Box::new(task))).expect("runs");
    }
    let (generator, beat) = (by_the_clock(), Beat::default());
    let mut pool = LocalPool::new();
    let uids = Arc::new(Mutex::new(Vec::new()));
    let (own, theirs, beats) = (Arc::clone(&generator), Arc::clone(&uids), beat.clone());
    spawn(&pool.spawner(), async move {
        let taken = take(own, TAKES).await;
        theirs.lock().unwrap().extend(taken);
    });
    // It has no timer: the heart beats whenever the takes leave it the thread.
    pool.run_until(poll_fn(|context| {
        beats.now();
        thread::sleep(Duration::from_micros(100));
        context.waker().wake_by_ref();
        if uids.lock().unwrap().len() == TAKES { Poll::Ready(()) } else { Poll::Pending }
    }));
    check(std::mem::take(&mut uids.lock().unwrap()), &generator, &beat)
}

/// Futures are polled up to three times, some are notified meanwhile, and all are dropped.
#[test]
fn dropped_futures_lose_no_uid_and_leave_no_waker() {
    for polls in 0..4 {
        for notified in [false, true] {
            let clock = manual();
            let (generator, last) = dry(strict(&clock));
            let bell = Arc::<Bell>::default();
            let mut local = LocalGenerator::new(Arc::clone(&generator));
            let per_thread = PerThreadGenerator::new(Arc::clone(&generator));
            let mut uids = Vec::new();
            let mut futures: Vec<Pin<Box<dyn Future<Output = ()>>>> = vec![
                Box::pin(async {
                    let _ = generator.next_uid_async().await;
                }),
                Box::pin(async {
                    let _ = generator.next_uid_async().await;
                }),
                Box::pin(async {
                    let _ = generator.fill_async(&mut uids, 9).await;
                }),
                Box::pin(async {
                    let _ = local.next_uid_async().await;
                }),
                Box::pin(async {
                    let _ = per_thread.next_uid_async().await;
                }),
            ];
            let waker = Waker::from(Arc::clone(&bell));
            for _ in 0..polls {
                for future in &mut futures {
                    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                }
            }
            if notified {
                clock.advance(Duration::from_secs(1));
                bell.wait(polls.min(1));
            }
            drop((futures, waker));
            assert_eq!(Arc::strong_count(&bell), 1, "after {polls} polls");
            if !notified {
                clock.advance(Duration::from_secs(1));
            }
            assert!(uids.is_empty());
            let next = generator.next_uid().expect("waits");
            // The tick's first, because the sequence starts at 0 in the next tick.
            assert_eq!(next.get() & 63, 0);
            assert!(next.get() >> 22 == (last.get() >> 22) + 1, "{last} {next}");
            let rings = bell.rings.load(Ordering::Relaxed);
            let most = if notified && polls > 0 { 5 } else { 0 };
            assert!(rings <= most, "{rings} after {polls} polls");
        }
    }
}

/// Ten tasks wait, and each tick has two uids: only those that get one are woken.
#[test]
fn as_many_tasks_are_woken_as_there_are_uids_for() {
    let bits = Bits { time: 40, worker: 22, sequence: 1 };
    let layout = Layout::new(bits, Tick::Millisecond, Timestamp::default()).expect("possible");
    let clock = manual();
    // A refresh wakes others if the called ones do not come.
    let builder = strict(&clock).layout(layout).refresh(Duration::from_secs(3_600));
    let (generator, _) = dry(builder);
    let bells = [(); 10].map(|()| Arc::<Bell>::default());
    let rings = || bells.iter().map(|bell| bell.rings.load(Ordering::Relaxed)).sum::<usize>();
    let mut futures = [(); 10].map(|()| Box::pin(generator.next_uid_async()));
    for (future, bell) in futures.iter_mut().zip(&bells) {
        assert!(poll(&mut future.as_mut(), bell).is_pending());
    }
    for tick in 0..3 {
        clock.advance(Duration::from_millis(1));
        for place in [2 * tick, 2 * tick + 1] {
            bells[place].wait(1);
            assert_eq!(rings(), place + 1);
            assert!(poll(&mut futures[place].as_mut(), &bells[place]).is_ready());
        }
    }
    assert_eq!(rings(), 6);
    // What a dropped task leaves goes to the next.
    clock.advance(Duration::from_millis(1));
    bells[6].wait(1);
    let [.., seventh, _, _, _] = &mut futures;
    seventh.set(generator.next_uid_async());
    bells[7].wait(1);
    generator.close();
    bells[9].wait(1);
}

/// What a dropped fill has appended is valid, and the rest is still there.
#[test]
fn a_dropped_fill_keeps_what_it_has_appended() {
    let clock = manual();
    let (generator, _) = dry(strict(&clock));
    let bell = Arc::<Bell>::default();
    let mut uids = vec![Uid::default()];
    let mut filling = Box::pin(generator.fill_async(&mut uids, 100));
    assert!(poll(&mut filling.as_mut(), &bell).is_pending());
    clock.advance(Duration::from_secs(1));
    bell.wait(1);
    assert!(poll(&mut filling.as_mut(), &bell).is_pending());
    drop(filling);
    assert_eq!(uids.len(), 65);
    clock.advance(Duration::from_secs(1));
    let next = generator.next_uid().expect("waits");
    assert!(uids.is_sorted() && uids[64] < next);
    assert_eq!(next.get() >> 22, (uids[64].get() >> 22) + 1, "nothing is left out");
}

/// Wakers are the caller's code: they may take ids, drop other tasks, close the generator or panic.
#[test]
fn wakers_may_do_what_they_like() {
    let clock = manual();
    let (generator, _) = dry(strict(&clock));
    let taken = Arc::new(OnceLock::new());
    let (own, theirs) = (Arc::clone(&generator), Arc::clone(&taken));
    let takes = Bell::new(move || {
        let _ = theirs.set((own.next_uid(), own.try_next_uid()));
    });
    let victim = Arc::<Bell>::default();
    let own = Arc::clone(&generator);
    let mut dropped = Box::pin(async move { own.next_uid_async().await });
    assert!(poll(&mut dropped.as_mut(), &victim).is_pending());
    let drops = Bell::new(move || drop(dropped));
    let panics = Bell::new(|| panic!("a waker's fault"));
    let last = Arc::<Bell>::default();
    let bells = [takes, drops, panics, last];
    let mut futures = [(); 4].map(|()| Box::pin(generator.next_uid_async()));
    for (future, bell) in futures.iter_mut().zip(&bells) {
        assert!(poll(&mut future.as_mut(), bell).is_pending());
    }
    clock.advance(Duration::from_secs(1));
    bells[3].wait(1);
    let (first, second) = taken.get().expect("it has been woken");
    assert!(first.expect("ready") < second.expect("ready"));
    for (future, bell) in futures.iter_mut().zip(&bells) {
        assert!(matches!(poll(&mut future.as_mut(), bell), Poll::Ready(Ok(_))));
    }
    assert_eq!(Arc::strong_count(&victim), 1, "its task is gone");
    // The padder goes on.
    clock.advance(Duration::from_secs(1));
    generator.next_uid().expect("waits");
}

#[test]
fn a_waker_may_close_its_generator() {
    let clock = manual();
    let (generator, _) = dry(strict(&clock));
    let own = Arc::clone(&generator);
    let bell = Bell::new(move || own.close());
    let mut future = pin!(generator.next_uid_async());
    assert!(poll(&mut future, &bell).is_pending());
    clock.advance(Duration::from_secs(1));
    bell.wait(1);
    let start = Instant::now();
    while generator.try_next_uid() != Err(TakeError::Closed) {
        assert!(start.elapsed() < LIMIT);
    }
    assert_eq!(poll(&mut future, &bell), Poll::Ready(Err(TakeError::Closed)));
}

#[test]
fn a_task_takes_what_its_policy_says() {
    let limit = |taken| matches!(taken, Err(TakeError::BorrowLimit { .. }));
    let clock = manual();
    let (generator, _) = dry(strict(&clock).take_policy(TakePolicy::Reject));
    let bell = Arc::<Bell>::default();
    assert!(limit(at_once(generator.next_uid_async())));
    assert_eq!(generator.stats().rejects, 1);

    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let policy = TakePolicy::handler(move |take| {
        assert_eq!(take.attempts as usize, count.fetch_add(1, Ordering::Relaxed) + 1);
        if take.attempts < 3 { TakeDecision::Retry } else { TakeDecision::GiveUp }
    });
    let (generator, _) = dry(strict(&clock).take_policy(policy));
    let mut future = pin!(generator.next_uid_async());
    // The second try is within the first poll.
    assert!(poll(&mut future, &bell).is_pending());
    assert_eq!(bell.rings.load(Ordering::Relaxed), 1, "it is to be polled again at once");
    assert!(matches!(poll(&mut future, &bell), Poll::Ready(taken) if limit(taken)));
    assert_eq!(asked.load(Ordering::Relaxed), 3);

    let time = Duration::from_millis(50);
    let (generator, _) = dry(strict(&clock).take_policy(TakePolicy::WaitFor(time)));
    let start = Instant::now();
    assert!(limit(block_on(generator.next_uid_async())));
    assert!((time..LIMIT).contains(&start.elapsed()));
    let stats = generator.stats();
    assert_eq!((stats.waits, stats.rejects), (1, 1));
}

#[test]
fn a_close_releases_tasks() {
    let (generator, _) = dry(strict(&manual()));
    let bell = Arc::<Bell>::default();
    let mut futures = [(); 3].map(|()| Box::pin(generator.next_uid_async()));
    for future in &mut futures {
        assert!(poll(&mut future.as_mut(), &bell).is_pending());
    }
    generator.close();
    bell.wait(3);
    for future in &mut futures {
        assert_eq!(poll(&mut future.as_mut(), &bell), Poll::Ready(Err(TakeError::Closed)));
    }
}

/// Only their own timer tells when a tick begins.
#[test]
fn tasks_wait_for_the_next_tick_of_a_generator_on_the_clock() {
    beats_in_one_of_ten(wait_for_the_next_tick);

    // A millisecond tick ends sooner than a timer can tell.
    let snowflake =
        ClockedUidGenerator::snowflake().worker_id(1).namespace(fresh()).build().unwrap();
    let mut uids = Vec::new();
    block_on(snowflake.fill_async(&mut uids, 50_000)).expect("waits");
    assert!(uids.len() == 50_000 && uids.is_sorted_by(|a, b| a < b));
}

fn wait_for_the_next_tick() -> Duration {
    let bits = Bits { time: 40, worker: 16, sequence: 6 };
    let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
    let builder = ClockedUidGenerator::builder().layout(layout).worker_id(1).namespace(fresh());
    let generator = Arc::new(builder.build().expect("builds"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let beat = Beat::default();
    let (beats, own) = (beat.clone(), Arc::clone(&generator));
    let uids = runtime.block_on(async {
        let heart = tokio::spawn(async move {
            loop {
                beats.now();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let takers = [(); 50].map(|()| {
            let generator = Arc::clone(&own);
            tokio::spawn(async move {
                let mut uids = Vec::new();
                generator.fill_async(&mut uids, 3).await.expect("waits");
                uids.push(generator.next_uid_async().await.expect("waits"));
                assert!(uids.is_sorted());
                uids
            })
        });
        let mut uids = Vec::new();
        for taker in takers {
            uids.extend(taker.await.expect("no panic"));
        }
        heart.abort();
        uids
    });
    let mut apart = uids.clone();
    apart.sort_unstable();
    apart.dedup();
    assert_eq!(apart.len(), 200, "more than three ticks have");
    *beat.longest.lock().unwrap()
}

#[test]
fn tasks_wait_for_a_clock_that_is_a_little_behind() {
    let clock = ManualClock::new("2026-06-01".parse().expect("a time"));
    let builder = ClockedUidGenerator::leaf_snowflake().worker_id(1).namespace(fresh());
    let generator = builder
        .clock(clock.clone())
        .clock_policy(ClockPolicy::WaitUpTo(Duration::from_secs(20)))
        .build()
        .expect("builds");
    let first = generator.next_uid().expect("ready");
    clock.set("2026-05-31T23:59:55Z".parse().expect("a time"));
    let bell = Arc::<Bell>::default();
    let mut future = pin!(generator.next_uid_async());
    assert!(poll(&mut future, &bell).is_pending());
    bell.wait(1);
    assert!(poll(&mut future, &bell).is_pending());
    clock.advance(Duration::from_secs(6));
    bell.wait(2);
    assert!(matches!(poll(&mut future, &bell), Poll::Ready(Ok(uid)) if uid > first));
    // But not for a clock that is far behind.
    clock.set("2026-05-01".parse().expect("a time"));
    let taken = at_once(generator.next_uid_async());
    assert!(matches!(taken, Err(TakeError::ClockBackwards { .. })));
}

#[test]
fn tasks_wait_for_segments() {
    let gate = Arc::<Mutex<()>>::default();
    let generator = segments(10, &gate);
    let orders = generator.tag("orders").expect("there");
    let shut = gate.lock().expect("no panic");
    let bell = Arc::<Bell>::default();
    let mut ids = Vec::new();
    {
        let mut dropped = [(); 3].map(|()| Box::pin(orders.next_id_async()));
        for future in &mut dropped {
            assert!(poll(&mut future.as_mut(), &bell).is_pending());
        }
    }
    assert_eq!(Arc::strong_count(&bell), 1);
    let mut filling = Box::pin(orders.fill_async(&mut ids, 25));
    assert!(poll(&mut filling.as_mut(), &bell).is_pending());
    drop(shut);
    bell.wait(1);
    block_on(filling).expect("waits");
    assert_eq!(ids, (1..=25).collect::<Vec<_>>(), "the dropped ones took none");
    assert_eq!(block_on(generator.next_id_async("orders")).expect("waits"), 26);
    block_on(generator.fill_async("orders", &mut ids, 5)).expect("waits");
    assert_eq!(ids[25..], [27, 28, 29, 30, 31], "appended");
    assert!(matches!(
        at_once(generator.next_id_async("customers")),
        Err(SegmentError::UnknownTag(_))
    ));
    block_on(generator.refresh_async()).expect("reads");
    // Each waits for a load now and then.
    let generator = Arc::new(generator);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let mut ids = runtime.block_on(async {
        let takers = [(); 20].map(|()| {
            let generator = Arc::clone(&generator);
            tokio::spawn(async move {
                let mut ids = Vec::new();
                for _ in 0..100 {
                    ids.push(generator.next_id_async("orders").await.expect("waits"));
                }
                ids
            })
        });
        let mut ids = Vec::new();
        for taker in takers {
            ids.extend(taker.await.expect("no panic"));
        }
        ids
    });
    ids.sort_unstable();
    assert_eq!(ids, (32..2_032).collect::<Vec<_>>());
    let shut = gate.lock().expect("no panic");
    let mut future = Box::pin(async {
        loop {
            if let Err(error) = orders.next_id_async().await {
                return error;
            }
        }
    });
    assert!(poll(&mut future.as_mut(), &bell).is_pending());
    generator.close();
    assert!(matches!(block_on(future), SegmentError::Closed));
    drop(shut);
    block_on(generator.close_async());
    assert!(matches!(block_on(generator.refresh_async()), Err(SegmentError::Closed)));
}

#[test]
fn a_generator_of_segments_that_is_closed_has_dropped_its_store() {
    let gate = Arc::<Mutex<()>>::default();
    let generator = segments(10, &gate);
    let orders = generator.tag("orders").expect("there");
    assert_eq!(orders.next_id().expect("waits"), 1);
    block_on(generator.close_async());
    assert!(matches!(orders.next_id(), Err(SegmentError::Closed)));
    assert_eq!(Arc::strong_count(&gate), 1, "the store is gone");
}

/// A slow lease that counts its releases.
#[derive(Clone, Default)]
struct Slow {
    pause: Duration,
    /// How often others ran. If set, also waits for some of that.
    others: Option<Arc<AtomicUsize>>,
    held: Arc<AtomicUsize>,
    released: Arc<AtomicUsize>,
}

struct Held {
    by: Slow,
    is_released: bool,
}

impl LeaseBackend for Held {
    fn renew(&mut self, _: u64) -> Result<(), RenewError> {
        Ok(())
    }

    fn release(&mut self, _: Option<Uid>) -> Result<(), Error> {
        self.by.pause();
        self.is_released = true;
        self.by.released.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_released {
            let _ = self.release(None);
        }
    }
}

impl WorkerSource for Slow {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        self.held.fetch_add(1, Ordering::Relaxed);
        self.pause();
        let held = Held { by: self.clone(), is_released: false };
        Ok(Lease::new(request.layout, 1, None, LeaseTerms::default(), held)?.into())
    }
}

impl Slow {
    fn new(millis: u64) -> Self {
        Self { pause: Duration::from_millis(millis), ..Self::default() }
    }

    fn pause(&self) {
        thread::sleep(self.pause);
        let Some(others) = &self.others else { return };
        let (start, before) = (Instant::now(), others.load(Ordering::Relaxed));
        while others.load(Ordering::Relaxed) < before + 10 {
            assert!(start.elapsed() < LIMIT, "other tasks do not run");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn wait_until_released(&self, count: usize) {
        let start = Instant::now();
        while self.released.load(Ordering::Relaxed) < count {
            assert!(start.elapsed() < LIMIT, "it is not given back");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn a_build_and_a_close_leave_other_tasks_running() {
    let beats = Arc::new(AtomicUsize::new(0));
    let source = Slow { others: Some(Arc::clone(&beats)), ..Slow::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let heart = tokio::spawn(async move {
            loop {
                beats.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let builder = CachedUidGenerator::builder().namespace(fresh());
        let generator = builder.worker_from(source.clone()).build_async().await.expect("builds");
        generator.next_uid_async().await.expect("ready");
        generator.close_async().await;
        assert_eq!(source.released.load(Ordering::Relaxed), 1, "the close has waited");
        drop(generator);
        let builder = ClockedUidGenerator::snowflake().namespace(fresh());
        let generator = builder.worker_from(source.clone()).build_async().await.expect("builds");
        generator.close_async().await;
        assert_eq!(source.released.load(Ordering::Relaxed), 2);
        heart.abort();
    });
}

#[test]
fn what_a_dropped_future_acquires_is_given_back() {
    let source = Slow::new(100);
    let request = WorkerRequest::new(Layout::SNOWFLAKE);
    let build = || {
        CachedUidGenerator::builder().namespace(fresh()).worker_from(source.clone()).build_async()
    };
    // Not begun.
    drop((build(), source.clone().acquire_async(request.clone())));
    assert_eq!(source.held.load(Ordering::Relaxed), 0);
    // Under way, and done.
    let mut released = 0;
    for is_done in [false, true] {
        let bell = Arc::<Bell>::default();
        let mut building = Box::pin(build());
        let mut acquiring = Box::pin(source.clone().acquire_async(request.clone()));
        assert!(poll(&mut building.as_mut(), &bell).is_pending());
        assert!(poll(&mut acquiring.as_mut(), &bell).is_pending());
        if is_done {
            bell.wait(2);
        }
        let start = Instant::now();
        drop((building, acquiring));
        assert!(start.elapsed() < source.pause, "what blocks is another thread's");
        released += 2;
        source.wait_until_released(released);
    }
    assert_eq!(source.held.load(Ordering::Relaxed), 4);
    let worker = block_on(source.clone().acquire_async(request)).expect("acquires");
    assert_eq!(worker.id(), 1);
}

#[test]
fn a_panic_in_a_call_is_an_error() {
    struct Panics;
    impl WorkerSource for Panics {
        fn acquire(&self, _: &WorkerRequest) -> Result<Worker, Error> {
            panic!("a source's fault");
        }
    }
    let builder = CachedUidGenerator::builder().namespace(fresh()).worker_from(Panics);
    assert!(matches!(block_on(builder.build_async()), Err(Error::CallPanicked)));
    let error = block_on(CachedUidGenerator::builder().build_async());
    assert!(matches!(error, Err(Error::NoWorkerId)));
}

/// In code that the padder calls, a take that would wait for itself fails at once.
#[test]
fn a_task_in_the_padders_own_thread_does_not_wait() {
    let clock = manual();
    let (generator, _) = dry(strict(&clock));
    let taken = Arc::new(OnceLock::new());
    let (own, theirs) = (Arc::clone(&generator), Arc::clone(&taken));
    let bell = Bell::new(move || {
        let taken = (0..100).map(|_| block_on(own.next_uid_async())).find(Result::is_err);
        let _ = theirs.set(taken);
    });
    let mut future = pin!(generator.next_uid_async());
    assert!(poll(&mut future, &bell).is_pending());
    clock.advance(Duration::from_secs(1));
    let start = Instant::now();
    while taken.get().is_none() {
        assert!(start.elapsed() < LIMIT, "the padder waits for itself");
        thread::sleep(Duration::from_millis(1));
    }
    let error = taken.get().copied().flatten();
    assert!(matches!(error, Some(Err(TakeError::Empty | TakeError::BorrowLimit { .. }))));
}

/// Another task of the thread begins a block while a fill waits. What comes after the fill is above it, even if the
/// fill is dropped and leaves what it got.
#[test]
fn a_thread_goes_on_above_a_fill_that_waited() {
    for is_dropped in [false, true] {
        let generator = CachedUidGenerator::builder().worker_id(5).namespace(fresh()).build();
        let handle = PerThreadGenerator::new(Arc::new(generator.expect("built")));
        let bell = Arc::<Bell>::default();
        let mut uids = Vec::new();
        {
            let mut fill = pin!(handle.fill_async(&mut uids, 200_000));
            assert!(poll(&mut fill.as_mut(), &bell).is_pending(), "it lets others run");
            let others: Vec<_> = (0..10).map(|_| handle.next_uid().expect("ready")).collect();
            assert!(others.is_sorted_by(|a, b| a < b));
            while poll(&mut fill.as_mut(), &bell).is_pending() && !is_dropped {}
        }
        assert_eq!(uids.len() < 200_000, is_dropped);
        assert!(uids.is_sorted_by(|a, b| a < b));
        assert!(handle.next_uid().expect("ready") > uids[uids.len() - 1]);
    }
}
