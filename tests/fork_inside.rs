//! Forks inside the caller's own code: in a clock, a source of runs, a handler, a store or a log. Parent and child both
//! go on in the middle of a call; the child must not get what the parent gets.
#![cfg(unix)]

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use futures_executor::block_on;
use uidring::generator::ClockPolicy;
use uidring::padding::{NextRun, RingHandle, RunSource};
use uidring::padding::{Padder, PadderOptions};
use uidring::policy::{PutDecision, PutPolicy, TakeDecision, TakePolicy};
use uidring::ring::{RingBuffer, RingOptions};
use uidring::segment::{
    Loaded, MemorySegments, SegmentError, SegmentRequest, SegmentStore, SegmentTag,
};
use uidring::worker::{Lease, LeaseBackend, LeaseTerms, RenewError};
use uidring::{
    Bits, CachedUidGenerator, ClockedUidGenerator, Error, Layout, LocalGenerator,
    PerThreadGenerator, SegmentGenerator, TakeError, Tick, Timestamp, Uid, UidGenerator, Worker,
    WorkerRequest, WorkerSource,
};
use uidring_testkit::fork::{
    FAILED, FORKED, Fork, ForkingClock, LIMIT, OTHER_ERROR, Report, Sides, alone, in_child,
    on_both_sides,
};

/// The caller's code that forks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hook {
    Clock,
    Handler,
    /// A log subscriber, called for a handler that panics.
    Log,
}

const HOOKS: [Hook; 3] = [Hook::Clock, Hook::Handler, Hook::Log];

impl Hook {
    fn policy(self, fork: &Fork) -> TakePolicy {
        let fork = fork.clone();
        match self {
            Self::Clock => TakePolicy::WaitFor(Duration::from_millis(10)),
            Self::Handler => TakePolicy::handler(move |_| {
                fork.here();
                TakeDecision::GiveUp
            }),
            Self::Log => {
                tracing::subscriber::set_global_default(ForkingLog(fork)).expect("the first");
                std::panic::set_hook(Box::new(|_| {}));
                TakePolicy::handler(|_| panic!("a user's mistake"))
            }
        }
    }

    fn clock(self, fork: &Fork) -> ForkingClock {
        match self {
            Self::Clock => ForkingClock::new(fork),
            _ => ForkingClock::new(&Fork::new()),
        }
    }
}

struct ForkingLog(Fork);

impl tracing::Subscriber for ForkingLog {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        self.0.here();
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// The child got the error, at least once, and nothing else.
#[track_caller]
fn check(case: &str, sides: &Sides) {
    let Sides { parent, child } = sides;
    assert!(!child.is_empty(), "{case}: {sides:x?}");
    assert!(child.iter().all(|word| *word == FORKED), "{case}: the child got {sides:x?}");
    assert!(!parent.contains(&FORKED), "{case}: the parent got {sides:x?}");
    assert!(!parent.contains(&FAILED), "{case}: {sides:x?}");
}

/// Whether this entry runs the hook: a try asks no policy.
fn asks(hook: Hook, entry: &str) -> bool {
    hook == Hook::Clock || !["try_next_uid", "try_fill", "wait"].contains(&entry)
}

fn word(taken: Result<Uid, TakeError>) -> u64 {
    match taken {
        Ok(uid) => uid.get(),
        Err(TakeError::Forked) => FORKED,
        Err(_) => OTHER_ERROR,
    }
}

fn words(filled: usize, uids: &[Uid], error: Option<TakeError>) -> Vec<u64> {
    let uids = uids[..filled].iter().map(|uid| uid.get());
    uids.chain(error.map(|error| word(Err(error)))).collect()
}

/// Repeats the call until it forks. Returns what that call got, or `None` if none forks.
fn until_forked(fork: &Fork, mut call: impl FnMut() -> Vec<u64>) -> Option<Vec<u64>> {
    for _ in 0..1_000 {
        let got = call();
        if fork.has_happened() {
            return Some(got);
        }
        if got == [OTHER_ERROR] {
            // Others may have to act first.
            thread::sleep(Duration::from_micros(100));
        }
    }
    None
}

/// The calls of any generator.
type Entry<G> = (&'static str, fn(&G) -> Vec<u64>);

fn entries<G: UidGenerator>() -> [Entry<G>; 7] {
    [
        ("try_next_uid", |generator| vec![word(generator.try_next_uid())]),
        ("next_uid", |generator| vec![word(generator.next_uid())]),
        ("try_fill", |generator| {
            let mut uids = [Uid::default(); 40];
            match generator.try_fill(&mut uids) {
                Ok(filled) => words(filled, &uids, None),
                Err(error) => words(0, &uids, Some(error)),
            }
        }),
        ("fill", |generator| {
            let mut uids = [Uid::default(); 40];
            match generator.fill(&mut uids) {
                Ok(()) => words(40, &uids, None),
                Err(error) => words(error.filled, &uids, Some(error.error)),
            }
        }),
        ("fill nothing", |generator| match generator.fill(&mut []) {
            Ok(()) => vec![word(generator.next_uid())],
            Err(error) => vec![word(Err(error.error))],
        }),
        ("uids", |generator| generator.uids().next().into_iter().map(word).collect()),
        ("wait", |generator| {
            // The child may know what was taken before the fork.
            let _ = generator.try_next_uid();
            generator.wait(Some(Duration::from_micros(10)));
            Vec::new()
        }),
    ]
}

/// The async calls.
macro_rules! async_entries {
    ($generator:ty) => {{
        let entries: [Entry<$generator>; 2] = [
            ("next_uid_async", |generator| vec![word(block_on(generator.next_uid_async()))]),
            ("fill_async", |generator| {
                let mut uids = Vec::new();
                let filled = block_on(generator.fill_async(&mut uids, 100));
                words(uids.len(), &uids, filled.err())
            }),
        ];
        entries
    }};
}

fn layout(sequence: u8) -> Layout {
    let bits = Bits { time: 40, worker: 8, sequence };
    Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible")
}

/// Returns a padder that the source of another ring holds up, so that takers pad for themselves, and fork.
fn away() -> Padder {
    let padder = Padder::start(PadderOptions::default()).expect("starts");
    let inside = Arc::new(AtomicBool::new(false));
    let (entered, mut calls) = (Arc::clone(&inside), 0);
    let source = move || {
        calls += 1;
        if calls > 2 {
            entered.store(true, Ordering::Relaxed);
            loop {
                thread::sleep(Duration::from_secs(1));
            }
        }
        Some(calls)
    };
    let padding = padder.serve(RingOptions::new(1).run_bits(0), source, None).expect("possible");
    while padding.ring().try_take().is_ok() {}
    while !inside.load(Ordering::Relaxed) {
        thread::yield_now();
    }
    // Dropping it would wait for the source.
    std::mem::forget(padding);
    padder
}

/// A generator whose clock or policy forks, and that the padder does not fill.
fn cached(hook: Hook, fork: &Fork, padder: &Padder) -> Arc<CachedUidGenerator> {
    let limit = (hook != Hook::Clock).then_some(Duration::ZERO);
    let builder = CachedUidGenerator::builder().layout(layout(6)).worker_id(1);
    let builder = builder.clock(hook.clock(fork)).take_policy(hook.policy(fork));
    Arc::new(builder.max_borrow(limit).padder(padder).build().expect("builds"))
}

#[test]
fn cached_generators() {
    let _alone = alone();
    for hook in HOOKS {
        let all = entries().into_iter().chain(async_entries!(CachedUidGenerator));
        for (name, entry) in all {
            let mut forks = 0;
            for nth in 1..=3 {
                let sides = on_both_sides(|fork| {
                    let padder = away();
                    let generator = cached(hook, fork, &padder);
                    let mut local = LocalGenerator::new(Arc::clone(&generator));
                    local.next_uid().expect("ready");
                    fork.arm(nth);
                    let Some(mut got) = until_forked(fork, || entry(&generator)) else {
                        return Vec::new();
                    };
                    // The rest of its block is the parent's.
                    let left = word(local.next_uid());
                    got.extend([word(generator.next_uid()), left]);
                    generator.close();
                    std::mem::forget((padder, local, generator));
                    got
                });
                let Some(sides) = sides else { break };
                forks += 1;
                check(&format!("{hook:?} {nth} in {name}"), &sides);
            }
            assert_eq!(forks > 0, asks(hook, name), "{hook:?} in {name}");
        }
    }
}

/// Calls each entry of a handle with a fork in it.
fn handles<H>(
    make: fn(Arc<CachedUidGenerator>) -> H,
    next: fn(&H) -> Result<Uid, TakeError>,
    entries: &[Entry<H>],
) {
    for hook in HOOKS {
        for (name, entry) in entries {
            let mut forks = 0;
            for nth in 1..=3 {
                let sides = on_both_sides(|fork| {
                    let padder = away();
                    let handle = make(cached(hook, fork, &padder));
                    fork.arm(nth);
                    let call = || {
                        // Let the call begin with the rest of a block.
                        let first = next(&handle);
                        [vec![word(first)], entry(&handle)].concat()
                    };
                    let Some(mut got) = until_forked(fork, call) else { return Vec::new() };
                    if got.last() == Some(&FORKED) {
                        // The child may know what was taken before the fork.
                        got.remove(0);
                    }
                    got.push(word(next(&handle)));
                    std::mem::forget((padder, handle));
                    got
                });
                let Some(sides) = sides else { break };
                forks += 1;
                check(&format!("{hook:?} {nth} in {name}"), &sides);
            }
            assert!(forks > 0, "{hook:?} in {name}");
        }
    }
}

#[test]
fn local_takers() {
    let _alone = alone();
    type Local = RefCell<LocalGenerator<Arc<CachedUidGenerator>>>;
    handles(
        |generator| RefCell::new(LocalGenerator::new(generator)),
        |local| local.borrow_mut().next_uid(),
        &[
            ("next_uid", |local: &Local| vec![word(local.borrow_mut().next_uid())]),
            ("next", |local| local.borrow_mut().next().into_iter().map(word).collect()),
            ("next_uid_async", |local| {
                let mut local = local.borrow_mut();
                vec![word(block_on(local.next_uid_async()))]
            }),
        ],
    );
}

#[test]
fn takers_of_a_thread() {
    let _alone = alone();
    type Handle = PerThreadGenerator<Arc<CachedUidGenerator>>;
    let [next_uid_async, fill_async] = async_entries!(Handle);
    handles(
        PerThreadGenerator::new,
        |handle| handle.next_uid(),
        &[
            ("next_uid", |handle: &Handle| vec![word(handle.next_uid())]),
            ("fill", |handle| {
                let mut uids = [Uid::default(); 100];
                match handle.fill(&mut uids) {
                    Ok(()) => words(100, &uids, None),
                    Err(error) => words(error.filled, &uids, Some(error.error)),
                }
            }),
            next_uid_async,
            fill_async,
        ],
    );
}

#[test]
fn generators_on_the_clock() {
    let _alone = alone();
    for hook in HOOKS {
        let all = entries().into_iter().chain(async_entries!(ClockedUidGenerator<ForkingClock>));
        for (name, entry) in all {
            let mut forks = 0;
            for (nth, worker) in [(1, 0), (1, 1), (2, 0), (2, 1), (3, 1)] {
                let sides = on_both_sides(|fork| {
                    let bits = Bits { time: 50, worker: 2, sequence: 4 };
                    let layout = Layout::new(bits, Tick::Millisecond, Timestamp::default());
                    let clock = hook.clock(fork);
                    clock.time.set(Timestamp::default());
                    let generator = ClockedUidGenerator::snowflake()
                        .layout(layout.expect("possible"))
                        .worker_id(worker)
                        .clock_policy(ClockPolicy::WaitUpTo(Duration::from_millis(1)))
                        .take_policy(hook.policy(fork))
                        .clock(clock)
                        .build()
                        .expect("builds");
                    fork.arm(nth);
                    let Some(mut got) = until_forked(fork, || entry(&generator)) else {
                        return Vec::new();
                    };
                    got.push(word(generator.next_uid()));
                    generator.close();
                    got
                });
                let Some(sides) = sides else { break };
                forks += 1;
                check(&format!("{hook:?} {nth} in {name}"), &sides);
            }
            assert_eq!(forks > 0, asks(hook, name), "{hook:?} in {name}");
        }
    }
}

fn id(taken: Result<u64, SegmentError>) -> u64 {
    match taken {
        Ok(id) => id,
        Err(SegmentError::Forked) => FORKED,
        Err(_) => OTHER_ERROR,
    }
}

#[test]
fn segments() {
    let _alone = alone();
    let entries: [Entry<SegmentGenerator>; 8] = [
        ("next_id", |generator| vec![id(generator.next_id("orders"))]),
        ("try_next_id", |generator| vec![id(generator.try_next_id("orders"))]),
        ("handle", |generator| vec![id(generator.tag("orders").and_then(|tag| tag.next_id()))]),
        ("fill", |generator| {
            let mut ids = [0; 10];
            match generator.fill("orders", &mut ids) {
                Ok(()) => ids.to_vec(),
                Err(error) => {
                    let ids = ids[..error.filled].iter().copied();
                    ids.chain([id(Err(error.error))]).collect()
                }
            }
        }),
        ("try_fill", |generator| {
            let (mut ids, orders) = ([0; 10], generator.tag("orders"));
            match orders.and_then(|orders| orders.try_fill(&mut ids)) {
                Ok(filled) => ids[..filled].to_vec(),
                Err(error) => vec![id(Err(error))],
            }
        }),
        ("next_id_async", |generator| vec![id(block_on(generator.next_id_async("orders")))]),
        ("fill_async", |generator| {
            let mut ids = Vec::new();
            let filled = block_on(generator.fill_async("orders", &mut ids, 10));
            ids.into_iter().chain(filled.err().map(|error| id(Err(error)))).collect()
        }),
        ("stats", |generator| {
            let taken = generator.next_id("orders");
            vec![id(generator.stats("orders").and(taken))]
        }),
    ];
    for hook in HOOKS {
        for (name, entry) in entries {
            let mut forks = 0;
            for nth in 1..=4 {
                let sides = on_both_sides(|fork| {
                    let table = MemorySegments::new();
                    table.create(SegmentTag::new("orders").step(4)).expect("positive");
                    let builder = SegmentGenerator::builder(table).max_step(4);
                    let builder = builder.take_policy(match hook {
                        Hook::Clock => TakePolicy::Wait,
                        hook => hook.policy(fork),
                    });
                    let generator = builder.clock(hook.clock(fork)).build().expect("builds");
                    fork.arm(nth);
                    let Some(mut got) = until_forked(fork, || entry(&generator)) else {
                        return Vec::new();
                    };
                    got.push(id(generator.next_id("orders")));
                    got.push(id(generator.refresh().map(|()| 0)));
                    generator.close();
                    got
                });
                let Some(sides) = sides else { break };
                forks += 1;
                check(&format!("{hook:?} {nth} in {name}"), &sides);
            }
            let tries = hook != Hook::Clock && name.starts_with("try_");
            assert_eq!(forks > 0, !tries, "{hook:?} in {name}");
        }
    }
}

/// Forks in one of its calls.
struct Source {
    fork: Fork,
    next: u64,
    in_begin: bool,
}

impl RunSource for Source {
    fn oldest_fresh(&mut self) -> Option<u64> {
        if self.in_begin {
            self.fork.here();
        }
        Some(0)
    }

    fn next_run(&mut self) -> NextRun {
        if !self.in_begin {
            self.fork.here();
        }
        self.next += 2;
        NextRun::Run(self.next)
    }
}

fn served(padder: &Padder, fork: &Fork, in_begin: bool) -> Result<RingHandle, Error> {
    let source = Source { fork: fork.clone(), next: 0, in_begin };
    padder.serve(RingOptions::new(4).run_bits(1), source, None)
}

fn number(taken: Result<u64, TakeError>) -> u64 {
    word(taken.map(|number| Uid::new(number).expect("63 bits")))
}

fn refused(error: &Error) -> u64 {
    if error.to_string().contains("was forked") { FORKED } else { OTHER_ERROR }
}

/// In a taker that helps, and during the first filling of a ring.
#[test]
fn sources_of_runs() {
    let _alone = alone();
    // Seven runs fit beside the open one.
    for (in_begin, nth) in [(true, 1), (false, 1), (false, 2), (false, 7)] {
        let sides = on_both_sides(|fork| {
            let padder = away();
            let padding = served(&padder, fork, in_begin).expect("possible");
            while padding.ring().try_take().is_ok() {}
            fork.arm(nth);
            padding.help();
            let ring = Arc::clone(padding.ring());
            std::mem::forget((padder, padding));
            (0..30).map(|_| number(ring.try_take())).collect()
        });
        check(&format!("help {in_begin} {nth}"), &sides.expect("a fork"));
        let sides = on_both_sides(|fork| {
            let padder = away();
            fork.arm(nth);
            let padding = served(&padder, fork, in_begin);
            std::mem::forget(padder);
            match padding {
                Ok(padding) => {
                    let got = (0..30).map(|_| number(padding.ring().try_take())).collect();
                    std::mem::forget(padding);
                    got
                }
                Err(error) => vec![refused(&error)],
            }
        });
        check(&format!("serve {in_begin} {nth}"), &sides.expect("a fork"));
    }
}

#[test]
fn producers() {
    let _alone = alone();
    for nth in [1, 2, 7] {
        let sides = on_both_sides(|fork| {
            let (mut producer, ring) =
                RingBuffer::new(RingOptions::new(4).run_bits(1)).expect("possible");
            let mut next = 0;
            fork.arm(nth);
            let published = producer.publish(|| {
                fork.here();
                next += 2;
                Some(next..next + 2)
            });
            published.expect("each above the last");
            (0..30).map(|_| number(ring.try_take())).collect()
        });
        check(&format!("publish {nth}"), &sides.expect("a fork"));
    }
    let sides = on_both_sides(|fork| {
        let theirs = fork.clone();
        let policy = PutPolicy::handler(move |put| {
            theirs.here();
            if put.attempts < 3 { PutDecision::Retry } else { PutDecision::Discard }
        });
        let options = RingOptions::new(1).run_bits(0).put_policy(policy);
        let (mut producer, ring) = RingBuffer::new(options).expect("possible");
        fork.arm(1);
        (0..4).for_each(|n| {
            let _ = producer.put(n);
        });
        (0..4).map(|_| number(ring.try_take())).collect()
    });
    check("put", &sides.expect("a fork"));
}

/// If both sides of a fork could build, both would have the same worker id.
#[test]
fn building() {
    let _alone = alone();
    for nth in 1..=8 {
        let sides = on_both_sides(|fork| {
            let clock = ForkingClock::new(fork);
            clock.time.set("2026-01-01".parse().expect("a time"));
            fork.arm(nth);
            let built = CachedUidGenerator::builder().worker_id(1).clock(clock).build();
            match built {
                Ok(generator) => vec![word(generator.next_uid())],
                Err(error) => vec![refused(&error)],
            }
        });
        match sides {
            Some(sides) => check(&format!("cached {nth}"), &sides),
            None => assert!(nth > 2),
        }
        let sides = on_both_sides(|fork| {
            let clock = ForkingClock::new(fork);
            clock.time.set("2026-01-01".parse().expect("a time"));
            fork.arm(nth);
            match ClockedUidGenerator::snowflake().worker_id(1).clock(clock).build() {
                Ok(generator) => vec![word(generator.next_uid())],
                Err(error) => vec![refused(&error)],
            }
        });
        match sides {
            Some(sides) => check(&format!("by the clock {nth}"), &sides),
            None => assert!(nth > 1),
        }
    }
    let sides = on_both_sides(|fork| {
        fork.arm(1);
        let store = ForkingStore { fork: fork.clone(), ..ForkingStore::new() };
        match SegmentGenerator::builder(store).build() {
            Ok(generator) => vec![id(generator.next_id("orders"))],
            Err(error) => vec![refused(&error)],
        }
    });
    check("segments", &sides.expect("a fork"));
    let sides = on_both_sides(|fork| {
        fork.arm(1);
        let lease = lease(ForkingKeeper(fork.clone()));
        match CachedUidGenerator::builder().layout(layout(6)).worker(lease).build() {
            Ok(generator) => vec![word(generator.next_uid())],
            Err(error) => vec![refused(&error)],
        }
    });
    check("a lease", &sides.expect("a fork"));
}

/// Forks while a source of worker ids is asked. Both sides would go on with the same one.
#[test]
fn building_from_a_source() {
    let _alone = alone();
    type Build = fn(&Fork, ForkingClock) -> Vec<u64>;
    let cached: Build = |fork, clock| {
        let source = ForkingSource(fork.clone(), std::process::id());
        match CachedUidGenerator::builder().worker_from(source).clock(clock).build() {
            Ok(generator) => vec![word(generator.next_uid())],
            Err(error) => vec![refused(&error)],
        }
    };
    let clocked: Build = |fork, clock| {
        let source = ForkingSource(fork.clone(), std::process::id());
        match ClockedUidGenerator::snowflake().worker_from(source).clock(clock).build() {
            Ok(generator) => vec![word(generator.next_uid())],
            Err(error) => vec![refused(&error)],
        }
    };
    for (name, build) in [("cached", cached), ("by the clock", clocked)] {
        // Forks in the clock, in the source, at its end, and afterwards.
        for nth in 1..=10 {
            let sides = on_both_sides(|fork| {
                let clock = ForkingClock::new(fork);
                clock.time.set("2026-01-01".parse().expect("a time"));
                fork.arm(nth);
                build(fork, clock)
            });
            match sides {
                Some(sides) => check(&format!("{name}, from a source, {nth}"), &sides),
                None => assert!(nth > 4),
            }
        }
    }
}

/// Always returns the same worker id, as a counter does on both sides of a fork. Only its owner may end it: a child
/// ends neither the source nor the lease.
struct ForkingSource(Fork, u32);

impl WorkerSource for ForkingSource {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        self.0.here();
        struct Owned(u32);
        impl LeaseBackend for Owned {
            fn renew(&mut self, _: u64) -> Result<(), RenewError> {
                Ok(())
            }

            fn release(&mut self, _: Option<Uid>) -> Result<(), Error> {
                assert_eq!(self.0, std::process::id(), "the lease is the parent's");
                Ok(())
            }
        }
        impl Drop for Owned {
            fn drop(&mut self) {
                assert_eq!(self.0, std::process::id(), "the backend is the parent's");
            }
        }
        let owned = Owned(self.1);
        Ok(Lease::new(request.layout, 7, None, LeaseTerms::default(), owned)?.into())
    }
}

impl Drop for ForkingSource {
    fn drop(&mut self) {
        self.0.here();
    }
}

struct ForkingStore {
    fork: Fork,
    table: MemorySegments,
}

impl ForkingStore {
    fn new() -> Self {
        let table = MemorySegments::new();
        table.create(SegmentTag::new("orders").step(4)).expect("positive");
        Self { fork: Fork::new(), table }
    }
}

impl SegmentStore for ForkingStore {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        self.fork.here();
        let row = SegmentTag::new("orders").step(4);
        Ok(vec![row])
    }

    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        self.fork.here();
        self.table.load(wanted, loaded);
        self.fork.here();
    }
}

struct ForkingKeeper(Fork);

impl LeaseBackend for ForkingKeeper {
    fn renew(&mut self, _: u64) -> Result<(), RenewError> {
        self.0.here();
        Ok(())
    }

    fn release(&mut self, _: Option<Uid>) -> Result<(), Error> {
        self.0.here();
        Ok(())
    }
}

fn lease(backend: impl LeaseBackend) -> Lease {
    let mut terms = LeaseTerms::default();
    terms.renew_every = Duration::from_millis(5);
    Lease::new(layout(6), 1, None, terms, backend).expect("in range")
}

/// Waits for a fork. The child ends with the thread that it consists of, and the parent goes on.
fn goes_on(to: &mut Report, fork: &Fork, next: impl Fn() -> bool) {
    fork.arm_all();
    while !fork.has_happened() {
        thread::yield_now();
    }
    to.check(fork.child_ends());
    let start = std::time::Instant::now();
    let mut taken = 0;
    while taken < 2_000 && start.elapsed() < LIMIT / 4 * 3 {
        taken += u64::from(next());
    }
    to.check(taken >= 2_000);
    to.words.push(1);
}

/// A child forked from one of the library's own threads ends with it. It must not go on to pad, load or renew for its
/// parent.
#[test]
fn the_librarys_own_threads() {
    let _alone = alone();
    let words = in_child(|to| {
        let fork = Fork::new();
        let clock = ForkingClock::new(&fork);
        let generator = CachedUidGenerator::builder().layout(layout(6)).worker_id(1);
        let generator = generator.clock(clock).refresh(Duration::from_millis(1));
        let generator = generator.build().expect("builds");
        goes_on(to, &fork, || generator.next_uid().is_ok());
    });
    assert_eq!(words, [1], "the padder, by the clock");
    let words = in_child(|to| {
        let store = ForkingStore::new();
        let fork = store.fork.clone();
        let refresh = Duration::from_millis(1);
        let generator = SegmentGenerator::builder(store).refresh(refresh).build().expect("builds");
        goes_on(to, &fork, || generator.next_id("orders").is_ok());
    });
    assert_eq!(words, [1], "the loader, by its store");
    let words = in_child(|to| {
        let fork = Fork::new();
        let lease = lease(ForkingKeeper(fork.clone()));
        let generator = CachedUidGenerator::builder().layout(layout(6)).worker(lease);
        let generator = generator.build().expect("builds");
        goes_on(to, &fork, || generator.next_uid().is_ok());
    });
    assert_eq!(words, [1], "a lease's thread, by its backend");
}
