//! Real fork(2): a child must not repeat its parent's uids. Everything that the parent built gives it an error,
//! whatever the parent's threads are doing, and nothing hangs or crashes.
#![cfg(unix)]
// std has no fork, and no waiting for forked children.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::{Clock, ManualClock, TickerClock};
use uidring::generator::{CachedBuilder, OnClockBack};
use uidring::padding::{Padder, PadderOptions};
use uidring::policy::{TakeDecision, TakePolicy};
use uidring::ring::{Producer, PutError, RingBuffer, RingOptions};
use uidring::segment::SegmentChain;
use uidring::segment::{MemorySegments, SegmentError, SegmentHandle, SegmentTag};
use uidring::{
    Bits, CachedUidGenerator, ClockedUidGenerator, Error, Layout, LocalGenerator,
    PerThreadGenerator, SegmentGenerator, TakeError, Tick, Timestamp, Uid, UidGenerator, Worker,
    WorkerRequest, WorkerSource,
};
use uidring_testkit::fork::{FAILED, FORKED, LIMIT, OTHER_ERROR, Report, alone, in_child};
use uidring_testkit::namespace::fresh;

/// Sets a flag on drop, even by a panic: threads that run until then would never end.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[track_caller]
fn all_forked(words: &[u64], count: usize) {
    assert_eq!(words, vec![FORKED; count], "in hexadecimal: {words:x?}");
}

fn builder(worker_id: u64) -> CachedBuilder {
    let bits = Bits { time: 40, worker: 8, sequence: 6 };
    let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
    CachedUidGenerator::builder().layout(layout).worker_id(worker_id).namespace(fresh())
}

fn policies() -> [TakePolicy; 4] {
    let give_up = TakePolicy::handler(|_| TakeDecision::GiveUp);
    [TakePolicy::Wait, TakePolicy::WaitFor(LIMIT), TakePolicy::Reject, give_up]
}

/// A generator, its handle for one owner, and a handle that may hold a block.
struct Owner {
    local: LocalGenerator<Arc<CachedUidGenerator>>,
    per_thread: PerThreadGenerator<Arc<CachedUidGenerator>>,
    generator: Arc<CachedUidGenerator>,
}

impl Owner {
    fn new(builder: CachedBuilder) -> Self {
        let generator = Arc::new(builder.build().expect("builds"));
        Self {
            local: LocalGenerator::new(Arc::clone(&generator)),
            per_thread: PerThreadGenerator::new(Arc::clone(&generator)),
            generator,
        }
    }

    /// Calls everything on the generator, then closes it.
    fn use_up(self, to: &mut Report) {
        let Self { mut local, per_thread, generator } = self;
        // More than a ring and a block hold.
        for _ in 0..600 {
            if local.next_uid() != Err(TakeError::Forked) {
                to.take(generator.next_uid());
            }
        }
        to.take(generator.try_next_uid());
        to.take(generator.next_uid());
        to.take(local.next_uid());
        to.take(per_thread.next_uid());
        let mut uids = [Uid::default(); 3];
        to.take(per_thread.fill(&mut uids).map(|()| uids[0]).map_err(|error| error.error));
        to.fill(&*generator);
        to.take(generator.local().next_uid());
        generator.wait(None);
        let stats = generator.stats();
        to.check(stats.ring.available <= stats.ring.capacity);
        generator.close();
        generator.close();
        to.take(generator.next_uid());
        drop((local, per_thread));
        to.check(Arc::strong_count(&generator) == 1);
    }
}

fn check_child(owner: &mut Option<Owner>) {
    let words = in_child(|to| owner.take().expect("still there").use_up(to));
    all_forked(&words, 8);
}

#[test]
fn a_child_gets_an_error_under_every_policy() {
    let _alone = alone();
    for policy in policies() {
        let mut owner = Some(Owner::new(builder(1).take_policy(policy)));
        let mut last = [Uid::default(); 2];
        for _ in 0..5 {
            check_child(&mut owner);
            let Owner { local, per_thread, generator } = owner.as_mut().expect("the parent's");
            let uids = [local.next_uid(), per_thread.next_uid()].map(|uid| uid.expect("goes on"));
            assert!(last[0] < uids[0] && last[1] < uids[1], "the leases are untouched");
            last = uids;
            generator.next_uid().expect("goes on");
            assert_eq!(generator.stats().rejects, 0);
        }
    }
}

/// With an empty ring, the padder held up and a taker asleep; and after the close.
#[test]
fn a_child_gets_an_error_at_the_horizon_and_after_close() {
    let _alone = alone();
    for policy in policies() {
        let clock = ManualClock::new(Timestamp::from_millis(1_000_000));
        let builder = builder(1).take_policy(policy).clock(clock.clone());
        let mut owner = Some(Owner::new(builder.max_borrow(Duration::ZERO)));
        let generator = Shared((&raw const *owner.as_ref().expect("built").generator).cast_mut());
        let start = Instant::now();
        while !matches!(generator.get().try_next_uid(), Err(TakeError::BorrowLimit { .. })) {
            assert!(start.elapsed() < LIMIT, "there is a horizon");
        }
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    generator.get().wait(Some(Duration::from_micros(100)));
                }
            });
            let _ends = Ends(&stop);
            (0..20).for_each(|_| check_child(&mut owner));
        });
        clock.advance(Duration::from_secs(1));
        while generator.get().try_next_uid().is_err() {
            assert!(start.elapsed() < LIMIT, "the parent goes on");
        }
        generator.get().close();
        check_child(&mut owner);
    }
}

/// The clock went back, and the generator may go on with a new worker id. The child gets uids of neither.
#[test]
fn a_child_gets_an_error_before_amid_and_after_a_new_worker_id() {
    /// For the second worker id, waits until it may go on.
    struct Source(AtomicU64, Arc<AtomicBool>);

    impl WorkerSource for Source {
        fn acquire(&self, _: &WorkerRequest) -> Result<Worker, Error> {
            let worker_id = self.0.fetch_add(1, Ordering::Relaxed);
            while worker_id > 1 && !self.1.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
            Ok(worker_id.into())
        }
    }

    let _alone = alone();
    let clock = ManualClock::new("2026-06-01".parse().expect("a time"));
    let may_go_on = Arc::new(AtomicBool::new(false));
    let new = || {
        let source = Source(AtomicU64::new(1), Arc::clone(&may_go_on));
        let builder = CachedUidGenerator::builder().worker_from(source).clock(clock.clone());
        Owner::new(builder.on_clock_back(OnClockBack::NewWorkerId).namespace(fresh()))
    };
    let mut owner = Some(new());
    let generator = Shared((&raw const *owner.as_ref().expect("built").generator).cast_mut());
    let wait_until = |is_so: &dyn Fn() -> bool| {
        let end = Instant::now() + LIMIT;
        while !is_so() {
            assert!(Instant::now() < end, "it never is");
            thread::sleep(Duration::from_millis(1));
        }
    };
    clock.advance(Duration::from_secs(86_400));
    wait_until(&|| generator.get().stats().lag.is_zero());
    clock.set("2026-06-01".parse().expect("a time"));
    wait_until(&|| generator.get().stats().clock_behind > Duration::ZERO);
    check_child(&mut owner);
    may_go_on.store(true, Ordering::Relaxed);
    let next = || generator.get().next_uid().expect("the parent goes on");
    let worker_of = |uid| generator.get().decode(uid).expect("its own").worker_id;
    // `worker_id` says 2 shortly before the ring of worker id 1 ends.
    wait_until(&|| worker_of(next()) == 2);
    let first = next();
    check_child(&mut owner);
    let second = next();
    assert!(first < second && worker_of(second) == 2);
}

#[test]
fn a_child_gets_an_error_from_the_generator_on_the_clock() {
    let _alone = alone();
    for policy in policies() {
        let generator =
            ClockedUidGenerator::builder().worker_id(1).namespace(fresh()).take_policy(policy);
        let mut generator = Some(generator.build().expect("builds"));
        let first = generator.as_ref().map(|g| g.next_uid().expect("ready"));
        let words = in_child(|to| {
            let generator = generator.take().expect("still there");
            to.take(generator.try_next_uid());
            to.take(generator.next_uid());
            to.fill(&generator);
            generator.wait(None);
            generator.close();
            to.take(generator.next_uid());
        });
        all_forked(&words, 4);
        assert!(first < generator.as_ref().map(|g| g.next_uid().expect("the parent goes on")));
    }
}

#[test]
fn children_of_a_shared_padder_and_their_children() {
    let _alone = alone();
    let padder = Padder::start(PadderOptions::default()).expect("starts");
    let generators =
        [1, 2, 3].map(|worker_id| builder(worker_id).padder(&padder).build().expect("builds"));
    let mut seen: Vec<_> =
        generators.iter().map(|generator| generator.next_uid().expect("waits").get()).collect();
    let (mut theirs, before) = (Some((generators, padder)), seen.clone());
    let words = in_child(|to| {
        let (generators, padder) = theirs.take().expect("still there");
        generators.iter().for_each(|generator| to.take(generator.next_uid()));
        // A generator that is built after the fork works. Its own children get the error from it.
        let own = builder(4).build().expect("builds");
        own.uids().take(40).for_each(|uid| to.take(uid));
        let own = Arc::new(own);
        let grandchildren = Arc::clone(&own);
        let words = in_child(|to| {
            to.take(generators[1].next_uid());
            to.take(grandchildren.next_uid());
            to.fill(&*grandchildren);
            let own = builder(5).build().expect("builds");
            own.uids().take(40).for_each(|uid| to.take(uid));
        });
        to.check(words.len() == 43 && words[..3] == [FORKED; 3]);
        to.words.extend(&words);
        own.uids().take(40).for_each(|uid| to.take(uid));
        drop((own, generators, padder));
    });
    assert_eq!(words.len(), 3 + 40 + 43 + 40);
    all_forked(&words[..3], 3);
    seen.extend(words.iter().filter(|word| **word < FORKED));
    let (generators, _padder) = theirs.take().expect("the parent's are untouched");
    for (generator, before) in generators.iter().zip(before) {
        let uids: Vec<_> =
            generator.uids().take(2_000).map(|uid| uid.expect("waits").get()).collect();
        assert!(before < uids[0] && uids.is_sorted_by(|a, b| a < b));
        seen.extend(uids);
    }
    assert_eq!(seen.len(), 3 + 120 + 6_000);
    seen.sort_unstable();
    assert!(seen.is_sorted_by(|a, b| a < b), "no id comes twice");
}

/// Whatever the parent's takers do, a child cannot build on its parent's padder, nor on other parts that its parent
/// made.
#[test]
fn a_child_cannot_build_on_what_its_parent_made() {
    let _alone = alone();
    let padder = Padder::start(PadderOptions::default()).expect("starts");
    let busy = builder(1).padder(&padder).build().expect("builds");
    let table = MemorySegments::new();
    table.create(SegmentTag::new("orders").step(1)).expect("positive");
    let generator = SegmentGenerator::builder(table.clone()).max_step(1).build().expect("builds");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let ends = Ends(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                busy.next_uid().expect("goes on");
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                generator.next_id("orders").expect("goes on");
            }
        });
        for _ in 0..40 {
            let words = in_child(|to| {
                let clock = ManualClock::new(Timestamp::from_millis(1_000_000));
                let mut refused = |done: Result<(), uidring::Error>| {
                    let forked = |error: uidring::Error| error.to_string().contains("was forked");
                    to.words.push(if done.is_err_and(forked) { FORKED } else { FAILED });
                };
                let built = builder(2).padder(&padder).clock(clock).max_borrow(Duration::ZERO);
                // If it were built, it would pad for itself up to the borrow limit.
                let built = built.build().map(|own| {
                    (0..1_000).for_each(|_| {
                        let _ = own.next_uid();
                    });
                });
                refused(built);
                let served = padder.serve(RingOptions::new(4).run_bits(1), || None, None);
                refused(served.map(drop));
                refused(SegmentGenerator::builder(table.clone()).build().map(drop));
                refused(table.create(SegmentTag::new("more").step(1)).map(drop));
                refused(table.set_step("orders", 1).map(drop));
                to.check(!table.remove("orders"));
                std::mem::forget(padder.clone());
            });
            all_forked(&words, 5);
        }
        drop(ends);
    });
}

/// The parent's threads hold locks most of the time.
#[test]
fn a_child_takes_no_lock_of_its_parents() {
    let _alone = alone();
    let (mut producer, ring) = RingBuffer::new(RingOptions::new(1).run_bits(0)).expect("possible");
    let chain = SegmentChain::new(10).expect("possible");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let ends = Ends(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                producer.wait_for_demand(Some(Duration::from_micros(50)));
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                ring.wait(Some(Duration::from_micros(50)));
            }
        });
        scope.spawn(|| {
            let mut start = 1;
            while !stop.load(Ordering::Relaxed) {
                chain.push(start..start + 1).expect("above");
                chain.wait(Some(Duration::from_micros(1)));
                chain.discard();
                start += 1;
            }
        });
        for _ in 0..60 {
            let words = in_child(|to| {
                // Once for each wake-up that may have been due at the fork.
                for _ in 0..3 {
                    to.check(ring.try_fill(&mut []).is_ok_and(|filled| filled == 0));
                    to.check(chain.push(1 << 60..(1 << 60) + 1).is_err());
                    to.check(!chain.is_low() && chain.try_take() == Err(TakeError::Forked));
                    chain.wait(None);
                    ring.wait(None);
                }
                to.take(ring.try_take().map(|id| Uid::new(id).expect("63 bits")));
            });
            all_forked(&words, 1);
        }
        drop(ends);
    });
}

/// Only the ring; the child has a copy of its producer.
#[test]
fn a_child_can_neither_take_from_a_ring_nor_put() {
    let _alone = alone();
    let (mut producer, ring) = RingBuffer::new(RingOptions::new(4).run_bits(1)).expect("possible");
    (0..4).for_each(|run| producer.put(10 + 2 * run).expect("room"));
    assert_eq!(ring.try_take(), Ok(10));
    let theirs = Arc::clone(&ring);
    let words = in_child(|to| {
        let number = |taken: Result<u64, TakeError>| taken.map(|n| Uid::new(n).expect("63 bits"));
        let refused =
            |producer: &mut Producer| producer.put(50) == Err(PutError::Closed { first: 50 });
        to.take(number(theirs.try_take()));
        to.check(refused(&mut producer));
        to.check(producer.publish(|| Some(60..62)) == Ok(0));
        // If the child had put something, these would find it.
        to.take(number(theirs.try_take()));
        to.take(number(theirs.try_take_block().map(|lease| lease.start)));
        to.take(number(theirs.try_fill(&mut [0; 2]).map(|filled| filled as u64)));
        to.check(theirs.try_fill(&mut []) == Ok(0));
        to.check(producer.is_closed());
        theirs.wait(None);
        theirs.close();
        drop(theirs);
    });
    all_forked(&words, 4);
    let rest: Result<Vec<_>, _> = (0..7).map(|_| ring.try_take()).collect();
    assert_eq!(rest, Ok((11..18).collect()), "the parent's ring is as it was");
    producer.put(18).expect("the parent's producer goes on");
    assert_eq!(ring.try_take(), Ok(18));
}

/// Calls everything on a segment generator, then closes it.
fn use_segments_up(to: &mut Report, generator: SegmentGenerator, orders: SegmentHandle) {
    let mut is_forked = |result: Result<u64, SegmentError>| {
        to.words.push(match result {
            Err(SegmentError::Forked) => FORKED,
            Ok(id) => id,
            Err(_) => OTHER_ERROR,
        });
    };
    is_forked(orders.next_id());
    is_forked(orders.try_next_id());
    is_forked(orders.fill(&mut [0; 3]).map(|()| 0).map_err(|error| error.error));
    is_forked(orders.try_fill(&mut [0; 3]).map(|count| count as u64));
    is_forked(orders.stats().map(|stats| stats.taken));
    is_forked(generator.next_id("orders"));
    is_forked(generator.next_id("unused"));
    is_forked(generator.next_id("unknown"));
    is_forked(generator.tag("orders").map(|_| 0));
    is_forked(generator.refresh().map(|()| 0));
    generator.close();
    is_forked(orders.next_id());
    drop(generator);
    is_forked(orders.clone().next_id());
}

/// While the parent's threads take, wait, load and read the tags.
#[test]
fn a_child_gets_an_error_from_segments() {
    let _alone = alone();
    for policy in policies() {
        let table = MemorySegments::new();
        for (tag, step) in [("orders", 20), ("unused", 1)] {
            assert!(table.create(SegmentTag::new(tag).step(step)).expect("positive"));
        }
        let refresh = Duration::from_millis(1);
        let builder = SegmentGenerator::builder(table).max_step(20).refresh(refresh);
        let generator = builder.take_policy(policy).build().expect("builds");
        let orders = generator.tag("orders").expect("there");
        let (mut theirs, stop) = (Some((generator, orders.clone())), AtomicBool::new(false));
        let mut ids: Vec<u64> = thread::scope(|scope| {
            let takers = [(); 2].map(|()| {
                scope.spawn(|| {
                    let mut ids = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        ids.extend(orders.next_id().ok());
                        if ids.len().is_multiple_of(64) {
                            thread::sleep(Duration::from_micros(50));
                        }
                    }
                    ids
                })
            });
            let ends = Ends(&stop);
            for _ in 0..40 {
                let words = in_child(|to| {
                    let (generator, orders) = theirs.take().expect("still there");
                    use_segments_up(to, generator, orders);
                });
                all_forked(&words, 12);
            }
            drop(ends);
            takers.into_iter().flat_map(|taker| taker.join().expect("no panic")).collect()
        });
        let (generator, _) = theirs.expect("the parent's is untouched");
        generator.refresh().expect("the parent's thread goes on");
        let start = Instant::now();
        while generator.next_id("unused").is_err() {
            assert!(start.elapsed() < LIMIT, "the parent goes on");
        }
        ids.sort_unstable();
        assert!(ids.is_sorted_by(|a, b| a < b), "no id comes twice");
    }
}

/// The segments of one tag, without a generator.
#[test]
fn a_child_gets_an_error_from_a_chain() {
    let _alone = alone();
    let chain = Arc::new(SegmentChain::new(10).expect("possible"));
    chain.push(10..20).expect("a range");
    assert_eq!(chain.try_take(), Ok(10));
    let theirs = Arc::clone(&chain);
    let words = in_child(|to| {
        to.take(theirs.try_take().map(|id| Uid::new(id).expect("63 bits")));
        to.check(theirs.try_fill(&mut [0; 2]) == Err(TakeError::Forked));
        theirs.wait(None);
        to.check(theirs.discard() == 0 && theirs.stats().left == 0);
        theirs.close();
        drop(theirs);
    });
    all_forked(&words, 1);
    assert_eq!(chain.try_take(), Ok(11), "the parent's is as it was");
}

/// A generator shared without a count; in a child only one of its users is left.
#[derive(Clone, Copy)]
struct Shared(*mut CachedUidGenerator);

// SAFETY: the generator itself is `Sync`; the caller of `drop_it` ensures that nobody uses it any more.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    fn get<'a>(self) -> &'a CachedUidGenerator {
        // SAFETY: it comes from a box, and lives until `drop_it`.
        unsafe { &*self.0 }
    }

    fn drop_it(self) {
        // SAFETY: as above; the caller is the last user.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// Only the parent has the clock's thread.
#[test]
fn a_clock_goes_on_in_a_child() {
    let _alone = alone();
    let clock = TickerClock::start().expect("a thread");
    let words = in_child(|to| {
        let first = clock.now();
        thread::sleep(Duration::from_millis(20));
        to.check(clock.now().saturating_since(first) >= Duration::from_millis(10));
    });
    assert_eq!(words, [0; 0]);
    let first = clock.now();
    let begin = Instant::now();
    while clock.now() == first {
        assert!(begin.elapsed() < LIMIT, "the parent's goes on");
    }
}

/// Forks at any moment of other threads' takes, paddings and wake-ups.
#[test]
fn forks_amid_heavy_takes() {
    let _alone = alone();
    const FORKS: usize = 200;
    let shared = Shared(Box::into_raw(Box::new(builder(1).build().expect("builds"))));
    let (stop, taken) = (AtomicBool::new(false), AtomicU64::new(0));
    let lists: Vec<Vec<u64>> = thread::scope(|scope| {
        let takers: Vec<_> = (0..4)
            .map(|kind| {
                let (stop, taken) = (&stop, &taken);
                scope.spawn(move || {
                    let generator = shared.get();
                    let (mut local, mut uids) = (generator.local(), Vec::new());
                    let mut many = [Uid::default(); 50];
                    while !stop.load(Ordering::Relaxed) {
                        match kind {
                            0 | 1 => uids.push(generator.next_uid().expect("goes on").get()),
                            2 => uids.push(local.next_uid().expect("goes on").get()),
                            _ => {
                                generator.fill(&mut many).expect("goes on");
                                uids.extend(many.map(Uid::get));
                            }
                        }
                        taken.fetch_add(1, Ordering::Relaxed);
                        // The more memory, the longer a fork takes.
                        if uids.len() > 100_000 {
                            thread::yield_now();
                            assert!(uids.is_sorted_by(|a, b| a < b));
                            uids.drain(..uids.len() - 1);
                        }
                    }
                    uids
                })
            })
            .collect();
        let ends = Ends(&stop);
        let mut local = shared.get().local();
        let mut mine = Vec::new();
        for round in 0..FORKS {
            // At different places of its block.
            (0..=round % 7).for_each(|_| mine.push(local.next_uid().expect("goes on").get()));
            let words = in_child(|to| {
                let generator = shared.get();
                to.take(local.next_uid());
                to.take(generator.next_uid());
                to.fill(generator);
                generator.wait(None);
                to.check(generator.stats().worker_id == 1);
                if round % 2 == 0 {
                    generator.close();
                }
                to.take(generator.try_next_uid());
                shared.drop_it();
            });
            all_forked(&words, 4);
            let before = taken.load(Ordering::Relaxed);
            let start = Instant::now();
            while taken.load(Ordering::Relaxed) < before + 100 {
                assert!(start.elapsed() < LIMIT, "the parent goes on");
                thread::yield_now();
            }
        }
        drop(ends);
        let mut lists: Vec<_> =
            takers.into_iter().map(|taker| taker.join().expect("no panic")).collect();
        lists.push(mine);
        lists
    });
    assert!(lists.iter().all(|list| list.is_sorted_by(|a, b| a < b)));
    let mut all = lists.concat();
    all.sort_unstable();
    assert!(all.is_sorted_by(|a, b| a < b), "no id comes twice");
    shared.drop_it();
}
