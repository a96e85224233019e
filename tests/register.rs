//! Two generators in one process: combinations that could repeat uids are refused, and a later generator starts above
//! the earlier ones.

use std::collections::HashSet;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::{Clock, ManualClock};
use uidring::policy::TakePolicy;
use uidring::worker::{Lease, LeaseBackend, LeaseTerms, RenewError};
use uidring::{
    Bits, CachedUidGenerator, ClockedUidGenerator, Error, Fields, Layout, LocalGenerator,
    StoreError, StoreErrorKind, TakeError, Tick, Timestamp, Uid, UidGenerator, Worker,
    WorkerRequest, WorkerSource,
};
use uidring_testkit::namespace::fresh;

type Generator = Box<dyn UidGenerator + Send + Sync>;

/// The builder of a generator.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Cached,
    Default,
    Snowflake,
    Leaf,
}

const FORMS: [Form; 4] = [Form::Cached, Form::Default, Form::Snowflake, Form::Leaf];

#[derive(Clone, Debug)]
struct Recipe {
    form: Form,
    layout: Layout,
    worker_id: u64,
    namespace: String,
    after: Option<Uid>,
    clock: ManualClock,
}

impl Recipe {
    fn new(namespace: &str) -> Self {
        Self {
            form: Form::Cached,
            layout: Layout::SNOWFLAKE,
            worker_id: 7,
            namespace: namespace.into(),
            after: None,
            clock: ManualClock::new("2026-06-01".parse().expect("a time")),
        }
    }

    fn form(&self, form: Form) -> Self {
        Self { form, ..self.clone() }
    }

    fn worker_id(&self, worker_id: u64) -> Self {
        Self { worker_id, ..self.clone() }
    }

    fn layout(&self, layout: Layout) -> Self {
        Self { layout, ..self.clone() }
    }

    fn namespace(&self, namespace: &str) -> Self {
        Self { namespace: namespace.into(), ..self.clone() }
    }

    fn build(&self) -> Result<Generator, Error> {
        let Self { form, layout, worker_id, namespace, after, clock } = self.clone();
        macro_rules! build {
            ($builder:expr) => {{
                let builder = $builder.layout(layout).worker_id(worker_id).namespace(namespace);
                let builder = builder.take_policy(TakePolicy::Reject).clock(clock);
                let builder = builder.max_start_wait(Duration::ZERO);
                match after {
                    Some(uid) => builder.start_after(uid),
                    None => builder,
                }
                .build()
                .map(|generator| Box::new(generator) as Generator)
            }};
        }
        match form {
            Form::Cached => build!(CachedUidGenerator::builder()),
            Form::Default => build!(ClockedUidGenerator::builder()),
            Form::Snowflake => build!(ClockedUidGenerator::snowflake()),
            Form::Leaf => build!(ClockedUidGenerator::leaf_snowflake()),
        }
    }
}

fn next(generator: &Generator) -> Uid {
    generator.next_uid().expect("ready")
}

fn is_in_use(built: Result<Generator, Error>) -> bool {
    matches!(built, Err(Error::WorkerIdInUse { .. }))
}

/// Why there is a register: nothing else separates these two.
#[test]
fn without_a_common_namespace_uids_repeat() {
    for form in FORMS {
        let (one, two) = (Recipe::new(&fresh()).form(form), Recipe::new(&fresh()).form(form));
        let (one, two) = (one.build().expect("built"), two.build().expect("built"));
        let take = |generator: &Generator| -> HashSet<Uid> {
            let mut uids = [Uid::default(); 1_000];
            generator.fill(&mut uids).expect("ready");
            uids.into()
        };
        assert!(!take(&one).is_disjoint(&take(&two)), "{form:?}");
    }
}

#[test]
fn a_second_live_generator_is_refused() {
    for first in FORMS {
        for second in FORMS {
            let recipe = Recipe::new(&fresh());
            let generator = recipe.form(first).build().expect("the first");
            let error = recipe.form(second).build().map(drop).expect_err("the second");
            let Error::WorkerIdInUse { worker_id, layout, namespace } = &error else {
                panic!("{error}")
            };
            assert_eq!((*worker_id, &**layout), (7, &*Layout::SNOWFLAKE.to_string()));
            assert_eq!(*namespace, recipe.namespace);
            let text = error.to_string();
            assert!(text.contains("worker id 7") && text.contains(namespace.as_str()), "{text}");
            assert!(text.contains("another worker id") && text.contains("namespace"), "{text}");

            let other = recipe.worker_id(8).form(second).build().expect("another worker id");
            let apart = recipe.namespace(&fresh()).form(second).build().expect("a namespace");
            let before = next(&generator).max(next(&generator));
            drop((generator, other, apart));
            let later = recipe.form(second).build().expect("the first is gone");
            // The clock stands still.
            let uid = match later.next_uid() {
                Ok(uid) => uid,
                Err(TakeError::ClockBackwards { .. }) if first == Form::Cached => continue,
                Err(error) => panic!("{first:?}, {second:?}: {error}"),
            };
            assert!(uid > before, "{first:?}, {second:?}");
        }
    }
}

#[test]
fn the_namespace_of_all_is_one() {
    let recipe = Recipe::new("").worker_id(900);
    let named = CachedUidGenerator::builder().layout(Layout::SNOWFLAKE).worker_id(900);
    let generator = named.build().expect("nobody else in this binary has worker 900");
    let error = recipe.form(Form::Snowflake).build().map(drop).expect_err("the same namespace");
    assert!(!error.to_string().contains('`'), "it has no name: {error}");
    generator.close();
    drop(recipe.build().expect("closed"));
    assert_eq!(generator.next_uid(), Err(TakeError::Closed));
}

#[test]
fn a_closed_generator_leaves_its_worker_id_to_others() {
    for form in FORMS {
        let recipe = Recipe::new(&fresh()).form(form);
        let one = recipe.build().expect("the first");
        let before = next(&one);
        one.close();
        one.close();
        let two = recipe.build().expect("the first is closed");
        assert!(next(&two) > before);
        // Neither a later close nor the drop of the first ends the second.
        one.close();
        drop(one);
        assert!(is_in_use(recipe.build()), "{form:?}");
        drop(two);
        recipe.build().expect("both are gone");
    }
}

/// Whatever the clock and the next form are.
#[test]
fn a_later_generator_starts_above() {
    let start: Timestamp = "2026-06-01".parse().expect("a time");
    for first in FORMS {
        for second in FORMS {
            for step in [-86_400_000, -1, 0, 1] {
                let recipe = Recipe::new(&fresh());
                let one = recipe.form(first).build().expect("the first");
                let mut uids = [Uid::default(); 3_000];
                one.fill(&mut uids).expect("ready");
                drop(one);
                recipe.clock.set(Timestamp::from_millis(start.as_millis() + step));
                let last = uids[2_999];
                let two = match recipe.form(second).build() {
                    // The clock is too far behind for a clock-driven generator.
                    Err(Error::UsedAhead { .. }) if second != Form::Cached => {
                        recipe.clock.set(start);
                        recipe.clock.advance(Duration::from_millis(10));
                        recipe.form(second).build().expect("the clock is past it")
                    }
                    built => built.expect("the second"),
                };
                match two.next_uid() {
                    Ok(uid) => assert!(uid > last, "{first:?}, {second:?}, {step}: {uid} {last}"),
                    // Clock-driven generators wait for it, as after `start_after`.
                    Err(error) => assert!(
                        matches!(error, TakeError::ClockBackwards { .. } | TakeError::Empty)
                            && second != Form::Cached,
                        "{first:?}, {second:?}, {step}: {error}"
                    ),
                }
                recipe.clock.set(Timestamp::from_millis(start.as_millis() + 86_400_000));
                assert!(two.next_uid().expect("the clock is past it") > last);
            }
        }
    }
}

#[test]
fn start_after_and_the_register_both_count() {
    let recipe = Recipe::new(&fresh());
    let one = recipe.build().expect("the first");
    let last = next(&one);
    drop(one);
    let layout = recipe.layout;
    let fields = layout.decode(last).expect("of the layout");
    let below = layout
        .compose(Fields { tick: fields.tick - 1_000, worker_id: 7, sequence: 5 })
        .expect("in range");
    let two = Recipe { after: Some(below), ..recipe.clone() }.build().expect("the second");
    let second = next(&two);
    assert!(second > last, "the register has more");
    drop(two);
    let above = layout
        .compose(Fields { tick: fields.tick + 1_000, worker_id: 7, sequence: 5 })
        .expect("in range");
    let three = Recipe { after: Some(above), ..recipe.clone() }.build().expect("the third");
    assert!(next(&three) > above, "the caller has more");
    drop(three);
    assert!(next(&recipe.build().expect("the fourth")) > above);
}

#[test]
fn nothing_is_left_after_the_layouts_last_uid() {
    let bits = Bits { time: 3, worker: 2, sequence: 3 };
    let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
    let clock = ManualClock::new(Timestamp::from_millis(7_500));
    let recipe = Recipe { clock, worker_id: 1, ..Recipe::new(&fresh()).layout(layout) };
    let one = recipe.form(Form::Default).build().expect("the last tick");
    let taken = (0..20).take_while(|_| one.next_uid().is_ok()).count();
    assert_eq!(taken, 8);
    drop(one);
    // Leaf may start anywhere below a hundred, which is beyond this tick.
    for form in [Form::Cached, Form::Default, Form::Snowflake] {
        let error = recipe.form(form).build().map(drop).expect_err("all are issued");
        assert!(matches!(error, Error::StartAfter { .. }), "{form:?}: {error}");
    }
}

/// Layouts that differ from the default in widths, tick or epoch.
fn other_layouts() -> [Layout; 4] {
    [
        ((28, 22, 13), Tick::Second, "2020-01-01"),
        ((28, 22, 13), Tick::Millisecond, "2026-05-31"),
        ((28, 21, 13), Tick::Second, "2026-01-01"),
        ((41, 10, 12), Tick::Millisecond, "2020-01-01"),
    ]
    .map(|((time, worker, sequence), tick, epoch)| {
        let bits = Bits { time, worker, sequence };
        Layout::new(bits, tick, epoch.parse().expect("a time")).expect("possible")
    })
}

/// Without a namespace, generators of two layouts are independent.
#[test]
fn one_layouts_uids_do_not_move_anothers_start() {
    let recipe = Recipe::new("").worker_id(901);
    let base = recipe.layout(Layout::UID_GENERATOR);
    for form in FORMS {
        for other in other_layouts().into_iter().chain([Layout::SNOWFLAKE, Layout::JAVASCRIPT_SAFE])
        {
            let first = base.form(Form::Cached).build().expect("the first");
            next(&first);
            let other = recipe.layout(other).form(form);
            drop(other.build().expect("beside the first"));
            drop(first);
            let second = other.build().expect("after the first");
            // No form is further ahead of its own earlier generator than that one has borrowed.
            let uid = match second.next_uid() {
                Err(TakeError::ClockBackwards { by_millis: ..10_000 }) => continue,
                taken => taken.expect("ready"),
            };
            let ahead = second.decode(uid).expect("its own").timestamp.as_millis()
                - other.clock.now().as_millis();
            assert!(ahead < 10_000, "{form:?} {}: {ahead} ms ahead", other.layout);
        }
    }
}

#[test]
fn a_named_namespace_has_one_layout() {
    for other in other_layouts() {
        for forms in [[Form::Cached, Form::Default], [Form::Default, Form::Cached]] {
            let recipe = Recipe::new(&fresh());
            let first = recipe.form(forms[0]).layout(Layout::UID_GENERATOR);
            let second = recipe.form(forms[1]).layout(other).worker_id(8);
            let is_refused = || {
                let error = second.build().map(drop).expect_err("another layout");
                let text = error.to_string();
                assert!(matches!(error, Error::NamespaceLayout { .. }), "{error}");
                let named = [&*recipe.namespace, &*other.to_string(), &*first.layout.to_string()];
                assert!(named.iter().all(|name| text.contains(name)), "{text}");
            };
            let generator = first.build().expect("the first");
            is_refused();
            drop(generator);
            is_refused();
            drop(first.worker_id(9).build().expect("the same layout"));
        }
    }
}

/// A source's worker id is not wasted on a layout that the namespace refuses.
#[test]
fn a_layout_that_is_refused_asks_for_no_worker_id() {
    struct Unasked;
    impl WorkerSource for Unasked {
        fn acquire(&self, _: &WorkerRequest) -> Result<Worker, Error> {
            panic!("it is asked")
        }
    }
    let namespace = fresh();
    drop(CachedUidGenerator::builder().worker_id(1).namespace(&namespace).build().expect("built"));
    let error = ClockedUidGenerator::snowflake().worker_from(Unasked).namespace(&namespace).build();
    assert!(matches!(error, Err(Error::NamespaceLayout { .. })));
}

#[test]
fn a_failed_build_does_not_give_its_layout_to_the_namespace() {
    for form in FORMS {
        let recipe = Recipe::new(&fresh()).form(form);
        let foreign =
            recipe.layout.compose(Fields { tick: 7, worker_id: 9, sequence: 0 }).expect("in range");
        let failing = Recipe { after: Some(foreign), ..recipe.clone() };
        assert!(matches!(failing.build(), Err(Error::StartAfter { .. })));
        drop(recipe.layout(Layout::UID_GENERATOR).build().expect("any layout"));
        assert!(matches!(recipe.build().map(drop), Err(Error::NamespaceLayout { .. })));
    }
}

/// A clock that panics at its nth reading.
#[derive(Clone, Debug)]
struct PanickingClock(Arc<AtomicUsize>, usize);

impl Clock for PanickingClock {
    fn now(&self) -> Timestamp {
        assert!(self.0.fetch_add(1, Ordering::Relaxed) != self.1, "a panic of the test's");
        "2026-06-01".parse().expect("a time")
    }
}

#[test]
fn a_build_that_fails_or_panics_leaves_nothing_behind() {
    let recipe = Recipe::new(&fresh());
    let foreign =
        recipe.layout.compose(Fields { tick: 7, worker_id: 9, sequence: 0 }).expect("in range");
    for form in FORMS {
        let failing = Recipe { after: Some(foreign), ..recipe.form(form) };
        assert!(matches!(failing.build(), Err(Error::StartAfter { .. })));
    }
    let mut panics = 0;
    for reading in 0..4 {
        let clock = PanickingClock(Arc::default(), reading);
        let built = catch_unwind(AssertUnwindSafe(|| {
            let builder = CachedUidGenerator::builder().layout(recipe.layout).worker_id(7);
            builder.namespace(&recipe.namespace).clock(clock.clone()).build().map(drop)
        }));
        panics += u32::from(built.is_err());
        let built = catch_unwind(AssertUnwindSafe(|| {
            let builder =
                ClockedUidGenerator::snowflake().worker_id(7).namespace(&recipe.namespace);
            builder.clock(PanickingClock(Arc::default(), reading)).build().map(drop)
        }));
        panics += u32::from(built.is_err());
    }
    assert!(panics >= 2, "the clock is read while a generator is built");
    recipe.build().expect("free");
}

#[test]
fn a_forgotten_generator_keeps_its_worker_id() {
    for form in FORMS {
        let recipe = Recipe::new(&fresh()).form(form);
        mem::forget(recipe.build().expect("the first"));
        assert!(is_in_use(recipe.build()));
    }
}

/// Of many threads at once, exactly one wins, even with different layouts.
#[test]
fn of_many_builds_at_once_one_wins() {
    for round in 0..200 {
        let recipe = Recipe::new(&fresh());
        let layout = Layout::UID_GENERATOR;
        let barrier = Barrier::new(8);
        let won: Vec<Generator> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|number| {
                    let (recipe, barrier) = (&recipe, &barrier);
                    let recipe = match (round + number) % 3 {
                        0 => recipe.layout(layout),
                        1 => recipe.form(Form::Default),
                        _ => recipe.form(Form::Leaf),
                    };
                    scope.spawn(move || {
                        barrier.wait();
                        recipe.build()
                    })
                })
                .collect();
            let built = threads.into_iter().map(|thread| thread.join().expect("no panic"));
            built
                .filter_map(|built| match built {
                    Ok(generator) => Some(generator),
                    Err(Error::WorkerIdInUse { .. } | Error::NamespaceLayout { .. }) => None,
                    Err(error) => panic!("{error}"),
                })
                .collect()
        });
        assert_eq!(won.len(), 1, "round {round}");
    }
}

/// Threads build, take and drop in turns, in every form; some use local takers, some close during takes. Each holder of
/// the worker id is above all earlier ones.
#[test]
fn uids_increase_over_many_short_lives() {
    let recipe = Recipe::new(&fresh());
    let seen: Mutex<HashSet<Uid>> = Mutex::default();
    let (lives, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let end = Instant::now() + Duration::from_secs(2);
    thread::scope(|scope| {
        for thread in 0..4 {
            let (recipe, seen, lives, refused) = (&recipe, &seen, &lives, &refused);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(thread);
                while Instant::now() < end {
                    recipe.clock.advance(Duration::from_millis(rng.u64(0..3)));
                    let mut uids = Vec::new();
                    let cached = CachedUidGenerator::builder().layout(recipe.layout).worker_id(7);
                    if rng.bool() {
                        let built = cached
                            .namespace(&recipe.namespace)
                            .clock(recipe.clock.clone())
                            .boost_power(1)
                            .build();
                        let Ok(generator) = built.map(Arc::new) else {
                            refused.fetch_add(1, Ordering::Relaxed);
                            continue;
                        };
                        let mut local = LocalGenerator::new(Arc::clone(&generator));
                        let theirs = thread::scope(|scope| {
                            let taker = scope.spawn(|| {
                                let uids = generator.uids().take(3_000);
                                uids.map_while(Result::ok).collect::<Vec<_>>()
                            });
                            uids.extend((0..100).map_while(|_| local.next_uid().ok()));
                            if rng.bool() {
                                generator.close();
                            }
                            uids.extend((0..100).map_while(|_| local.next_uid().ok()));
                            taker.join().expect("no panic")
                        });
                        uids.extend(theirs);
                    } else {
                        let form = FORMS[rng.usize(1..4)];
                        let Ok(generator) = recipe.form(form).build() else {
                            refused.fetch_add(1, Ordering::Relaxed);
                            continue;
                        };
                        uids.extend((0..50).map_while(|_| generator.try_next_uid().ok()));
                    }
                    lives.fetch_add(1, Ordering::Relaxed);
                    let mut seen = seen.lock().expect("whole");
                    for uid in uids {
                        assert!(seen.insert(uid), "{uid} came twice");
                    }
                }
            });
        }
    });
    let (lives, refused) = (lives.into_inner(), refused.into_inner());
    assert!(lives > 20 && seen.into_inner().expect("whole").len() > 1_000, "{lives}");
    println!("{lives} lives, {refused} refused");
}

/// A store of one lease that can be taken from its holder.
#[derive(Clone, Default)]
struct Store(Arc<Mutex<(u64, Option<u64>)>>);

struct Keeper(Store, u64);

impl Store {
    fn lease(&self, layout: Layout) -> Lease {
        let mut row = self.0.lock().expect("whole");
        row.0 += 1;
        let after = row.1.map(|tick| {
            layout
                .compose(Fields { tick, worker_id: 7, sequence: layout.max_sequence() })
                .expect("a tick of the layout")
        });
        let mut terms = LeaseTerms::default();
        terms.renew_every = Duration::from_millis(10);
        Lease::new(layout, 7, after, terms, Keeper(self.clone(), row.0)).expect("in range")
    }
}

impl LeaseBackend for Keeper {
    fn renew(&mut self, horizon: u64) -> Result<(), RenewError> {
        let mut row = self.0.0.lock().expect("whole");
        if row.0 != self.1 {
            return Err(RenewError::Lost(
                StoreError::new(StoreErrorKind::Unreachable, "the store is away").into(),
            ));
        }
        row.1 = row.1.max(Some(horizon));
        Ok(())
    }

    fn release(&mut self, _: Option<Uid>) -> Result<(), Error> {
        Ok(())
    }
}

/// A process that lost a lease, and still has the generator, can go on with a new lease of the same worker id. Without
/// the loss it cannot.
#[test]
fn a_lost_lease_does_not_stand_in_the_way() {
    let (layout, namespace) = (Layout::UID_GENERATOR, fresh());
    let store = Store::default();
    let builder = || CachedUidGenerator::builder().layout(layout).namespace(&namespace);
    let one = builder().worker(store.lease(layout)).build().expect("the first");
    let before = one.next_uid().expect("ready");
    let elsewhere = Store::default();
    let refused = builder().worker(elsewhere.lease(layout)).build();
    assert!(matches!(refused, Err(Error::WorkerIdInUse { .. })), "the first has its lease");

    let lease = store.lease(layout);
    let lost = Instant::now() + Duration::from_secs(60);
    while one.try_next_uid() != Err(TakeError::LeaseLost) {
        assert!(Instant::now() < lost, "it hears of it at a renewal");
        thread::sleep(Duration::from_millis(1));
    }
    let two = builder().worker(lease).build().expect("the first has lost its lease");
    assert!(two.next_uid().expect("ready") > before);
    drop(one);
    let refused = builder().worker_id(7).build();
    assert!(matches!(refused, Err(Error::WorkerIdInUse { .. })), "the second goes on");
    drop(two);
    // A lease of another store, which knows nothing. The register does.
    let three = builder().worker(elsewhere.lease(layout)).build().expect("both are gone");
    assert!(three.next_uid().expect("ready") > before);
}

/// Even if the next store knows nothing of it.
#[test]
fn who_comes_after_a_lost_lease_starts_above_all_of_its_ticks() {
    let (layout, namespace) = (Layout::UID_GENERATOR, fresh());
    let (store, elsewhere) = (Store::default(), Store::default());
    let builder = || CachedUidGenerator::builder().layout(layout).namespace(&namespace);
    let one = builder().worker(store.lease(layout)).build().expect("the first");
    let _others = store.lease(layout);
    let lost = Instant::now() + Duration::from_secs(60);
    while one.try_next_uid() != Err(TakeError::LeaseLost) {
        assert!(Instant::now() < lost, "it hears of it at a renewal");
        thread::sleep(Duration::from_millis(1));
    }
    let horizon = store.0.lock().expect("whole").1.expect("it was renewed");
    let two = builder().worker(elsewhere.lease(layout)).build().expect("the first has lost its");
    let uid = two.next_uid().expect("ready");
    let tick = layout.decode(uid).expect("of the layout").tick;
    assert!(tick > horizon, "{tick} after {horizon}");
}

/// The process was stopped during a start for longer than the lease, which another start then gets. That one waits
/// until the first notices.
#[test]
fn a_start_that_has_lost_its_lease_does_not_stand_in_the_way() {
    /// Takes a while to say that the lease is lost.
    struct Stopped(Arc<AtomicBool>);

    impl LeaseBackend for Stopped {
        fn renew(&mut self, _: u64) -> Result<(), RenewError> {
            self.0.store(true, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(100));
            let error = StoreError::new(StoreErrorKind::Unreachable, "somebody else has it");
            Err(RenewError::Lost(error.into()))
        }

        fn release(&mut self, _: Option<Uid>) -> Result<(), Error> {
            Ok(())
        }
    }

    let (layout, namespace) = (Layout::UID_GENERATOR, fresh());
    let builder = || CachedUidGenerator::builder().layout(layout).namespace(&namespace);
    let is_asked = Arc::new(AtomicBool::new(false));
    let backend = Stopped(Arc::clone(&is_asked));
    let lease = Lease::new(layout, 7, None, LeaseTerms::default(), backend).expect("in range");
    thread::scope(|scope| {
        let first = scope.spawn(|| builder().worker(lease).build());
        while !is_asked.load(Ordering::Relaxed) && !first.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        builder().worker(Store::default().lease(layout)).build().expect("its own");
        first.join().expect("no panic").expect_err("lost");
    });
}

/// Used worker ids take little memory, and are found quickly.
#[test]
fn ten_thousand_worker_ids() {
    let recipe = Recipe::new(&fresh()).form(Form::Default).layout(Layout::UID_GENERATOR);
    let all: Vec<_> = (0..10_000).map(|id| recipe.worker_id(id).build().expect("free")).collect();
    assert!((0..10_000).all(|id| is_in_use(recipe.worker_id(id).build())));
    drop(all);
    assert!((0..10_000).all(|id| recipe.worker_id(id).build().is_ok()));
}
