//! The cost for callers of generators, for all ways to call.

use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
use uidring::SharedRing;
use uidring::clock::{Clock, ManualClock, SystemClock, TickerClock};
use uidring::generator::{CachedBuilder, OnClockBack};
use uidring::padding::{Padder, PadderCore, PadderIdle, PadderOptions};
use uidring::worker::{Lease, LeaseBackend, LeaseTerms, RenewError};
use uidring::{
    Bits, CachedUidGenerator, ClockedUidGenerator, Error, Layout, PerThreadGenerator, Tick, Uid,
    UidGenerator, Worker, WorkerRequest, WorkerSource,
};

use super::timing::{
    BATCH, add, additions, batches, median, per_id, store, stores, tail_latency, takes,
};
use super::{Comparison, with_additions};
use uidring_any::AnyGenerator;
use uidring_testkit::namespace::fresh;

pub fn comparisons() -> impl Iterator<Item = Comparison> {
    let mut all = Vec::new();
    all.extend(with_additions("next_uid", &[1, 2, 4, 16], |threads, ids| {
        next_uids(pinned(), threads, ids)
    }));
    all.extend(with_additions("per-thread next_uid", &[1, 2, 16], |threads, ids| {
        let handle = per_thread();
        let take = || handle.next_uid().expect("waits").get();
        takes(threads, ids, take, || pinned().next_uid().expect("waits").get())
    }));
    all.extend(with_additions("next_uid after a new worker id", &[1, 2], |threads, ids| {
        next_uids(gone_back(), threads, ids)
    }));
    all.push(Comparison::new("local next_uid / register increment", local_takes, increments));
    all.extend([1, 2].map(|threads| {
        Comparison::new(
            format!("AnyGenerator::next_uid / next_uid, threads: {threads}"),
            move |ids| takes(threads, ids, any, any),
            move |ids| next_uids(pinned(), threads, ids),
        )
    }));
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    all.extend([1, 2, 16].map(|threads| {
        Comparison::new(
            format!("next_uid of a shared ring / next_uid, threads: {threads}"),
            move |ids| takes(threads, ids, shared, shared),
            move |ids| next_uids(pinned(), threads, ids),
        )
    }));
    all.extend(with_additions("next_uid by the ticker clock", &[1, 2, 16], |threads, ids| {
        next_uids(ticking(), threads, ids)
    }));
    all.push(Comparison::new("fill(4096) of a ready ring / store loop", ready_fills, ready_stores));
    all.push(Comparison::new("fill(4096) sustained / store loop", fills, stores));
    all.push(Comparison::new(
        "p99.99 of next_uid / of fetch_add, timer included",
        |ids| tail_latency(ids, one_take),
        |ids| tail_latency(ids, add),
    ));
    all.push(Comparison::new(
        "16 takes after 200 us of idling / 16 fetch_add",
        |ids| after_idling(ids, one_take),
        |ids| after_idling(ids, add),
    ));
    all.push(Comparison::new(
        "burst of a ring's size / as many fetch_add",
        |ids| bursts(ids, |size| next_uids(pinned(), 1, size)),
        |ids| bursts(ids, |size| additions(1, size)),
    ));
    all.push(Comparison::new("build() / starting a thread", builds, thread_starts));
    // The second layout has 2,000 uids a second.
    for (sequence, share) in [(12, 1), (1, 2_048)] {
        for threads in [1, 512] {
            let rate = 1 << sequence;
            all.push(Comparison::new(
                format!("next_uid at the borrow limit / {rate} a ms, threads: {threads}"),
                move |ids| next_uids(&limited(sequence), threads, (ids / share).max(threads)),
                move |_| 1e6 / f64::from(rate),
            ));
        }
    }
    for threads in [1, 2, 16] {
        all.push(Comparison::new(
            format!("next_uid, padder pinned / unpinned, threads: {threads}"),
            move |ids| next_uids(pinned(), threads, ids),
            move |ids| next_uids(unpinned(), threads, ids),
        ));
        all.push(Comparison::new(
            format!("next_uid, padder busy-polling / sleeping, threads: {threads}"),
            move |ids| next_uids(&polled(), threads, ids),
            move |ids| next_uids(pinned(), threads, ids),
        ));
    }
    for count in [1, 8, 64] {
        all.push(Comparison::new(
            format!("next_uid of many in turn, one padder / one each, generators: {count}"),
            move |ids| takes_in_turn(&sharing(count), ids),
            move |ids| takes_in_turn(&separate(count), ids),
        ));
    }
    for threads in [1, 2] {
        all.push(Comparison::new(
            format!("next_uid of a leased worker / of a plain one, threads: {threads}"),
            move |ids| next_uids(leased(), threads, ids),
            move |ids| next_uids(pinned(), threads, ids),
        ));
    }
    all.push(Comparison::new(
        "next_uid by the clock, of a leased worker / of a plain one",
        |ids| next_uids(&by_the_clock(lease(wide())), 1, ids),
        |ids| next_uids(&by_the_clock(1.into()), 1, ids),
    ));
    all.into_iter()
}

fn builder() -> CachedBuilder {
    // The default layout has 2 trillion uids until 2034; a benchmark run takes about 3 billion. Takers are pinned from
    // the first core on.
    CachedUidGenerator::builder().worker_id(1).namespace(fresh()).padder_core(PadderCore::Last)
}

fn build(builder: CachedBuilder) -> CachedUidGenerator {
    builder.build().expect("builds")
}

pub fn pinned() -> &'static CachedUidGenerator {
    static GENERATOR: OnceLock<CachedUidGenerator> = OnceLock::new();
    GENERATOR.get_or_init(|| build(builder()))
}

fn unpinned() -> &'static CachedUidGenerator {
    static GENERATOR: OnceLock<CachedUidGenerator> = OnceLock::new();
    GENERATOR.get_or_init(|| build(builder().padder_core(PadderCore::Unpinned)))
}

/// A generator behind `AnyGenerator`, as from a URL.
fn any() -> u64 {
    static GENERATOR: OnceLock<AnyGenerator> = OnceLock::new();
    let generator = GENERATOR.get_or_init(|| AnyGenerator::Cached(build(builder())));
    generator.next_uid().expect("waits").get()
}

/// A ring that processes may share. Its threads take as they do.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn shared() -> u64 {
    static RING: OnceLock<(CachedUidGenerator, SharedRing)> = OnceLock::new();
    let (_, ring) = RING.get_or_init(|| {
        let generator = build(builder().shared());
        let ring = generator.shared_ring().expect("shared");
        (generator, ring)
    });
    ring.next_uid().expect("waits").get()
}

pub fn per_thread() -> &'static PerThreadGenerator<&'static CachedUidGenerator> {
    static HANDLE: OnceLock<PerThreadGenerator<&CachedUidGenerator>> = OnceLock::new();
    HANDLE.get_or_init(|| pinned().per_thread())
}

/// A generator with a leased worker id. It sets `max_borrow`, because a benchmark run gets ten hours ahead of the clock
/// and the default limit is ten minutes.
fn leased() -> &'static CachedUidGenerator {
    static GENERATOR: OnceLock<CachedUidGenerator> = OnceLock::new();
    GENERATOR.get_or_init(|| {
        let decades = Duration::from_secs(100 * 365 * 86_400);
        build(builder().worker(lease(Layout::UID_GENERATOR)).max_borrow(decades))
    })
}

pub fn ticking() -> &'static ClockedUidGenerator<TickerClock> {
    static GENERATOR: OnceLock<ClockedUidGenerator<TickerClock>> = OnceLock::new();
    GENERATOR.get_or_init(|| {
        let clock = TickerClock::start().expect("a thread");
        let builder = ClockedUidGenerator::snowflake().layout(wide()).worker_id(1);
        builder.namespace(fresh()).clock(clock).build().expect("builds")
    })
}

fn by_the_clock(worker: Worker) -> ClockedUidGenerator {
    let builder = ClockedUidGenerator::snowflake().layout(wide()).worker(worker);
    builder.namespace(fresh()).build().expect("builds")
}

/// A layout with so many uids a millisecond that no take waits.
fn wide() -> Layout {
    let bits = Bits { time: 41, worker: 1, sequence: 21 };
    Layout::new(bits, Tick::Millisecond, Layout::SNOWFLAKE.epoch()).expect("possible")
}

/// A lease from a store that agrees at once, so that its answers add nothing to takes.
fn lease(layout: Layout) -> Worker {
    let mut terms = LeaseTerms::default();
    terms.lasts = Some(Duration::from_secs(30));
    Lease::new(layout, 1, None, terms, Agreeing).expect("in range").into()
}

struct Agreeing;

impl LeaseBackend for Agreeing {
    fn renew(&mut self, _: u64) -> Result<(), RenewError> {
        Ok(())
    }

    fn release(&mut self, _: Option<Uid>) -> Result<(), Error> {
        Ok(())
    }
}

/// A generator that got a new worker id because its clock was a day ahead.
fn gone_back() -> &'static CachedUidGenerator {
    static GENERATOR: OnceLock<CachedUidGenerator> = OnceLock::new();
    GENERATOR.get_or_init(|| {
        let now = SystemClock.now();
        let clock = ManualClock::new(now.saturating_add(Duration::from_secs(86_400)));
        let new = builder().worker_from(Numbers(AtomicU64::new(1))).clock(clock.clone());
        let generator = build(new.on_clock_back(OnClockBack::NewWorkerId));
        clock.set(now);
        while generator.worker_id() == 1 {
            thread::sleep(Duration::from_millis(1));
        }
        generator
    })
}

/// Gives a new worker id each time.
struct Numbers(AtomicU64);

impl WorkerSource for Numbers {
    fn acquire(&self, _: &WorkerRequest) -> Result<Worker, Error> {
        Ok(self.0.fetch_add(1, Ordering::Relaxed).into())
    }
}

/// Not kept: its padder would occupy a core.
fn polled() -> CachedUidGenerator {
    build(builder().padder_idle(PadderIdle::BusyPoll))
}

fn sharing(count: usize) -> Vec<CachedUidGenerator> {
    let padder = Padder::start(PadderOptions::default()).expect("starts");
    (0..count).map(|_| build(builder().padder(&padder))).collect()
}

fn separate(count: usize) -> Vec<CachedUidGenerator> {
    (0..count).map(|_| build(builder())).collect()
}

/// A generator that does not borrow.
fn limited(sequence: u8) -> CachedUidGenerator {
    let bits = Bits { time: 41, worker: 22 - sequence, sequence };
    let layout = Layout::new(bits, Tick::Millisecond, Layout::SNOWFLAKE.epoch()).expect("possible");
    build(builder().layout(layout).max_borrow(Duration::ZERO))
}

fn next_uids(generator: &(impl UidGenerator + Sync), threads: u64, ids: u64) -> f64 {
    let take = || generator.next_uid().expect("waits").get();
    takes(threads, ids, take, take)
}

fn takes_in_turn(generators: &[CachedUidGenerator], ids: u64) -> f64 {
    let rounds = ids / generators.len() as u64;
    let start = Instant::now();
    for _ in 0..rounds {
        for generator in generators {
            black_box(generator.next_uid().expect("waits"));
        }
    }
    per_id(start.elapsed(), rounds * generators.len() as u64)
}

fn local_takes(ids: u64) -> f64 {
    let mut local = pinned().local();
    let first = local.next_uid().expect("waits");
    let start = Instant::now();
    for _ in 0..ids {
        black_box(local.next_uid().expect("waits"));
    }
    let time = start.elapsed();
    assert!(local.next_uid().expect("waits").get() > first.get() + ids);
    per_id(time, ids)
}

fn increments(ids: u64) -> f64 {
    let mut counter = 0_u64;
    let start = Instant::now();
    for _ in 0..ids {
        counter += 1;
        black_box(counter);
    }
    per_id(start.elapsed(), ids)
}

fn fills(ids: u64) -> f64 {
    let mut uids = [Uid::default(); BATCH];
    let batches = batches(ids);
    let start = Instant::now();
    for _ in 0..batches {
        pinned().fill(&mut uids).expect("waits");
        black_box(&mut uids);
    }
    let time = start.elapsed();
    assert!(uids.is_sorted_by(|a, b| a < b));
    per_id(time, batches * BATCH as u64)
}

/// So few fills leave a full ring above its padding factor, so only fills are measured.
const READY_FILLS: u64 = 5;

fn ready_fills(ids: u64) -> f64 {
    let mut uids = [Uid::default(); BATCH];
    timed_portions(ids, wait_for_full_ring, || {
        for _ in 0..READY_FILLS {
            pinned().fill(&mut uids).expect("ready");
            black_box(&mut uids);
        }
    })
}

fn ready_stores(ids: u64) -> f64 {
    let (mut numbers, mut next) = ([0_u64; BATCH], 0);
    // The same waits and the same caches as for fills.
    let prepare = || {
        let mut uids = [Uid::default(); BATCH];
        for _ in 0..READY_FILLS {
            pinned().fill(&mut uids).expect("ready");
        }
        wait_for_full_ring();
    };
    timed_portions(ids, prepare, || {
        for _ in 0..READY_FILLS {
            store(&mut numbers, &mut next);
        }
    })
}

/// Times short portions, each after a preparation. Returns the median portion.
fn timed_portions(ids: u64, prepare: impl Fn(), mut portion: impl FnMut()) -> f64 {
    let ids_a_portion = READY_FILLS * BATCH as u64;
    let portions = (ids / ids_a_portion).clamp(1, 200);
    median((0..portions).map(|_| {
        prepare();
        let start = Instant::now();
        portion();
        per_id(start.elapsed(), ids_a_portion)
    }))
}

/// Fills the ring. Single takes first empty it below its padding factor, which wakes the padder.
fn wait_for_full_ring() {
    let generator = pinned();
    loop {
        let ring = generator.stats().ring;
        if ring.available + generator.layout().uids_per_tick() > ring.capacity {
            return;
        }
        // At least one run: its last take wakes the padder.
        for _ in 0..ring.available.saturating_sub(ring.capacity / 2).max(256) {
            generator.next_uid().expect("waits");
        }
        thread::sleep(Duration::from_micros(50));
    }
}

fn after_idling<T>(ids: u64, mut call: impl FnMut() -> T) -> f64 {
    let rounds = (ids / 10_000).clamp(1, 300);
    median((0..rounds).map(|_| {
        thread::sleep(Duration::from_micros(200));
        let start = Instant::now();
        for _ in 0..16 {
            call();
        }
        per_id(start.elapsed(), 16)
    }))
}

/// The cost of bursts, each as large as a full ring.
fn bursts(ids: u64, burst: impl Fn(u64) -> f64) -> f64 {
    let size = pinned().stats().ring.capacity;
    median((0..(ids / size).clamp(1, 50)).map(|_| {
        wait_for_full_ring();
        burst(size - 2)
    }))
}

fn builds(ids: u64) -> f64 {
    some_times(ids, || build(builder()))
}

/// The operating system's share of a build.
fn thread_starts(ids: u64) -> f64 {
    some_times(ids, || thread::spawn(|| ()))
}

/// Results are dropped after the time is taken.
fn some_times<T>(ids: u64, make: impl Fn() -> T) -> f64 {
    median((0..(ids / 10_000).clamp(5, 100)).map(|_| {
        let start = Instant::now();
        let made = make();
        let time = start.elapsed();
        drop(made);
        per_id(time, 1)
    }))
}

fn one_take() {
    let _ = black_box(pinned().next_uid());
}
