//! Generators with leased worker ids: they issue nothing beyond what the store knows, no uid repeats whoever holds the
//! id next, and a holder without contact stops by itself.
//!
//! The store here is minimal and keeps a lease as a table would. Real stores have their own tests.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::{Clock, ManualClock, SystemClock};
use uidring::generator::CachedBuilder;
use uidring::policy::TakePolicy;
use uidring::worker::{Lease, LeaseBackend, LeaseStats, LeaseTerms, RenewError};
use uidring::{
    Bits, CachedUidGenerator, ClockedUidGenerator, Error, Fields, Layout, StoreError,
    StoreErrorKind, TakeError, Tick, Uid, UidGenerator,
};
use uidring_testkit::namespace::fresh;

/// What the store knows.
#[derive(Debug, Default)]
struct Row {
    token: u64,
    horizon: Option<u64>,
    last: Option<Uid>,
    renewals: u64,
    fails: bool,
    failures: u64,
    delay: Duration,
}

#[derive(Clone, Debug, Default)]
struct Store(Arc<Mutex<Row>>);

struct Keeper {
    store: Store,
    layout: Layout,
    token: u64,
    before: (Option<u64>, Option<Uid>),
}

/// The greatest worker id of the layout, so that a sequence that overflows runs into the tick.
const WORKER: u64 = 15;

/// A store error; any will do.
fn problem() -> Error {
    StoreError::new(StoreErrorKind::Unreachable, "the store is away").into()
}

impl Store {
    fn row(&self) -> MutexGuard<'_, Row> {
        self.0.lock().expect("whole")
    }

    fn state(&self) -> (Option<u64>, Option<Uid>) {
        let row = self.row();
        (row.horizon, row.last)
    }

    /// Takes the lease, even if it is held.
    fn lease(&self, layout: Layout, terms: LeaseTerms) -> Lease {
        let mut row = self.row();
        row.token += 1;
        let whole = |tick| {
            layout
                .compose(Fields { tick, worker_id: WORKER, sequence: layout.max_sequence() })
                .expect("in range")
        };
        let after = row.horizon.map(whole).max(row.last);
        let before = (row.horizon, row.last);
        let backend = Keeper { store: self.clone(), layout, token: row.token, before };
        Lease::new(layout, WORKER, after, terms, backend).expect("in range")
    }
}

impl LeaseBackend for Keeper {
    fn renew(&mut self, horizon: u64) -> Result<(), RenewError> {
        let delay = self.store.row().delay;
        thread::sleep(delay);
        let mut row = self.store.row();
        if row.fails {
            row.failures += 1;
            return Err(RenewError::Failed(problem()));
        }
        if row.token != self.token {
            return Err(RenewError::Lost(problem()));
        }
        row.horizon = row.horizon.max(Some(horizon));
        row.renewals += 1;
        Ok(())
    }

    fn release(&mut self, last: Option<Uid>) -> Result<(), Error> {
        let delay = self.store.row().delay;
        thread::sleep(delay);
        let mut row = self.store.row();
        if row.fails || row.token != self.token {
            return Err(problem());
        }
        (row.horizon, row.last) = match last {
            None => self.before,
            Some(uid) => {
                assert_eq!(self.layout.decode(uid).map(|uid| uid.worker_id).ok(), Some(WORKER));
                (None, Some(uid))
            }
        };
        Ok(())
    }
}

fn layout() -> Layout {
    let bits = Bits { time: 40, worker: 4, sequence: 8 };
    Layout::new(bits, Tick::Millisecond, "2026-01-01".parse().expect("a time")).expect("possible")
}

/// Terms that outlast any test on a busy machine.
fn terms() -> LeaseTerms {
    let mut terms = LeaseTerms::default();
    terms.lasts = Some(Duration::from_secs(120));
    terms.margin = Duration::from_secs(12);
    terms.renew_every = Duration::from_secs(40);
    terms
}

/// The same, but with frequent renewals.
fn busy_terms() -> LeaseTerms {
    let mut terms = terms();
    terms.renew_every = Duration::from_millis(20);
    terms
}

/// Terms that soon end without contact. How soon is tested in virtual time in `src/worker/deadline_tests.rs`.
fn short_terms() -> LeaseTerms {
    let mut terms = busy_terms();
    terms.lasts = Some(Duration::from_secs(3));
    terms.margin = Duration::from_millis(300);
    terms
}

fn cached(lease: Lease) -> CachedUidGenerator {
    CachedUidGenerator::builder()
        .layout(layout())
        .worker(lease)
        .namespace(fresh())
        .build()
        .expect("possible")
}

fn clocked(lease: Lease) -> ClockedUidGenerator<SystemClock> {
    ClockedUidGenerator::snowflake()
        .layout(layout())
        .worker(lease)
        .namespace(fresh())
        .build()
        .expect("possible")
}

type Start = fn(Lease) -> Box<dyn UidGenerator + Send + Sync>;

const BOTH: [Start; 2] = [|lease| Box::new(cached(lease)), |lease| Box::new(clocked(lease))];

fn tick(uid: Uid) -> u64 {
    layout().decode(uid).expect("of the layout").tick
}

/// More than a busy machine needs.
const LIMIT: Duration = Duration::from_secs(60);

fn until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LIMIT, "{what} did not come");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn nothing_is_issued_that_the_store_does_not_know_of() {
    for start in BOTH {
        let store = Store::default();
        // A slow store that is asked often.
        let generator = start(store.lease(layout(), busy_terms()));
        store.row().delay = Duration::from_millis(25);
        let begin = Instant::now();
        let mut last = None;
        let mut taken = 0_u64;
        while taken < 1_000 || store.row().renewals < 10 {
            assert!(begin.elapsed() < LIMIT, "{taken} uids, {:?}", store.row());
            let uid = generator.next_uid().expect("waits");
            let horizon = store.row().horizon.expect("stored");
            assert!(tick(uid) <= horizon, "tick {} beyond {horizon}", tick(uid));
            assert!(Some(uid) > last);
            last = Some(uid);
            taken += 1;
        }
    }
}

#[test]
fn a_clean_restart_goes_on_with_the_very_next_uid() {
    let store = Store::default();
    let mut all = HashSet::new();
    let mut last = None;
    for round in 0..20 {
        for start in BOTH {
            let generator = start(store.lease(layout(), terms()));
            let mut batch = [Uid::default(); 37];
            generator.fill(&mut batch[..round]).expect("ready");
            let uids = batch[..round].iter().copied();
            for uid in uids.chain([generator.next_uid().expect("ready")]) {
                assert!(Some(uid) > last, "in order over all starts");
                assert!(all.insert(uid));
                last = Some(uid);
            }
            drop(generator);
            assert_eq!(store.state(), (None, last), "given back to the uid");
        }
    }
}

#[test]
fn what_a_local_taker_holds_counts_as_issued() {
    let store = Store::default();
    let generator = cached(store.lease(layout(), terms()));
    let mut local = generator.local();
    let first = local.next_uid().expect("ready");
    generator.close();
    assert_eq!(local.next_uid(), Err(TakeError::Closed));
    let last = store.row().last.expect("given back");
    assert!(last.get() >= first.get() && last.get() < first.get() + 256);
    assert!(cached(store.lease(layout(), terms())).next_uid().expect("ready") > last);
}

#[test]
fn what_a_thread_has_of_a_shared_handle_counts_as_issued() {
    let store = Store::default();
    let generator = cached(store.lease(layout(), terms()));
    let handle = generator.per_thread();
    let firsts: Vec<Uid> = thread::scope(|scope| {
        let takes: Vec<_> = (0..3).map(|_| scope.spawn(|| handle.next_uid())).collect();
        let takes = takes.into_iter().map(|take| take.join().expect("no panic").expect("ready"));
        takes.chain([handle.next_uid().expect("ready")]).collect()
    });
    generator.close();
    assert_eq!(handle.next_uid(), Err(TakeError::Closed));
    let last = store.row().last.expect("given back");
    assert!(firsts.iter().all(|first| *first <= last), "{firsts:?} and {last}");
    assert!(cached(store.lease(layout(), terms())).next_uid().expect("ready") > last);
}

#[test]
fn a_close_does_not_wait_for_a_store_that_hangs() {
    for start in BOTH {
        let store = Store::default();
        let generator = start(store.lease(layout(), terms()));
        generator.next_uid().expect("ready");
        // Far longer than a close waits, which is 2 s.
        store.row().delay = Duration::from_secs(3_600);
        let begin = Instant::now();
        generator.close();
        assert!(begin.elapsed() < LIMIT, "{:?}", begin.elapsed());
        assert_eq!(generator.next_uid(), Err(TakeError::Closed));
    }
}

#[test]
fn a_close_while_others_take_knows_the_last_of_them() {
    for round in 0..30 {
        for start in BOTH {
            let store = Store::default();
            let generator = start(store.lease(layout(), terms()));
            let greatest = thread::scope(|scope| {
                let takers: Vec<_> = (0..3)
                    .map(|_| {
                        scope.spawn(|| {
                            let mut last = Uid::default();
                            while let Ok(uid) = generator.next_uid() {
                                last = uid;
                            }
                            last
                        })
                    })
                    .collect();
                thread::sleep(Duration::from_micros(100 * round));
                generator.close();
                takers.into_iter().map(|taker| taker.join().expect("no panic")).max()
            });
            let last = store.row().last.expect("given back");
            assert!(last >= greatest.expect("takers"), "{last} below {greatest:?}");
        }
    }
}

#[test]
fn a_close_behind_a_used_up_tick_gives_back_its_last_uid() {
    let store = Store::default();
    let clock = ManualClock::new("2026-06-01".parse().expect("a time"));
    for _ in 0..3 {
        let generator = ClockedUidGenerator::snowflake()
            .layout(layout())
            .worker(store.lease(layout(), terms()))
            .namespace(fresh())
            .clock(clock.clone())
            .build()
            .expect("possible");
        let mut uids = [Uid::default(); 256];
        generator.fill(&mut uids).expect("a whole tick");
        assert_eq!(tick(uids[0]), tick(uids[255]));
        generator.close();
        assert_eq!(store.state(), (None, Some(uids[255])));
        clock.advance(Duration::from_millis(1));
    }
}

#[test]
fn a_lease_that_was_not_used_leaves_no_trace() {
    let store = Store::default();
    drop(clocked(store.lease(layout(), terms())));
    let before = store.state();
    store.lease(layout(), terms()).release().expect("given back");
    assert_eq!(store.state(), before);
    // A generator that cannot be built.
    let lease = store.lease(layout(), terms());
    let builder = CachedUidGenerator::builder()
        .layout(layout())
        .boost_power(1)
        .worker(lease)
        .namespace(fresh());
    assert!(builder.padding_factor(0).build().is_err());
    assert_eq!(store.state(), before);
}

#[test]
fn whoever_comes_next_starts_above_the_horizon() {
    for start in BOTH {
        let store = Store::default();
        let crashed = start(store.lease(layout(), busy_terms()));
        let last = crashed.next_uid().expect("ready");
        // Another holder takes the id while the first, cut off, still issues.
        let horizon = store.row().horizon.expect("stored");
        let next = start(store.lease(layout(), busy_terms()));
        let first = next.next_uid().expect("ready");
        assert!(tick(first) > horizon && first > last);
        loop {
            match crashed.next_uid() {
                Ok(uid) => assert!(tick(uid) <= horizon, "the first is fenced"),
                Err(error) => break assert_eq!(error, TakeError::LeaseLost),
            }
        }
        assert_eq!(crashed.try_next_uid(), Err(TakeError::LeaseLost), "for good");
        assert!(next.next_uid().is_ok());
    }
}

#[test]
fn without_word_from_the_store_it_stops_by_itself() {
    for start in BOTH {
        let store = Store::default();
        let generator = start(store.lease(layout(), short_terms()));
        store.row().fails = true;
        let began = Instant::now();
        let error = loop {
            assert!(began.elapsed() < LIMIT, "it stops");
            match generator.next_uid() {
                Ok(uid) => assert!(tick(uid) <= store.row().horizon.expect("stored")),
                Err(error) => break error,
            }
        };
        assert_eq!(error, TakeError::LeaseLost);
        // The store is back too late.
        store.row().fails = false;
        thread::sleep(Duration::from_millis(150));
        assert_eq!(generator.next_uid(), Err(TakeError::LeaseLost));
    }
}

/// Watches a lease's stats from the first renewal to the loss.
fn watch(store: &Store, stats: impl Fn() -> LeaseStats) {
    let (holds, horizon) = (Duration::from_secs(108), Duration::from_secs(20));
    let first = stats();
    assert!(first.renewals >= 1 && first.renewal_failures == 0 && !first.is_lost, "{first:?}");
    assert!(first.time_left.is_some_and(|left| left > holds / 2 && left <= holds), "{first:?}");
    assert!(first.horizon_left > Duration::ZERO && first.horizon_left < horizon, "{first:?}");
    store.row().fails = true;
    until("failures", || stats().renewal_failures >= 2);
    store.row().fails = false;
    let before = stats().renewals;
    until("a renewal", || stats().renewals > before);
    assert!(!stats().is_lost);
    // Another holder takes it.
    store.row().token += 1;
    until("the loss", || stats().is_lost);
}

#[test]
fn stats_tell_of_renewals_and_of_the_loss() {
    let store = Store::default();
    let generator = cached(store.lease(layout(), busy_terms()));
    watch(&store, || generator.stats().lease.expect("it has one"));
    let store = Store::default();
    let generator = clocked(store.lease(layout(), busy_terms()));
    watch(&store, || generator.stats().lease.expect("it has one"));
}

#[test]
fn a_lease_that_was_given_back_is_not_lost() {
    let generator = cached(Store::default().lease(layout(), short_terms()));
    assert!(generator.stats().lease.is_some_and(|lease| !lease.is_lost));
    generator.close();
    let start = Instant::now();
    // As long as the lease lasts.
    while start.elapsed() < short_terms().lasts.expect("an end") {
        assert_eq!(generator.stats().lease, None);
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_store_that_is_away_for_less_than_the_lease_is_not_noticed() {
    let store = Store::default();
    let generator = clocked(store.lease(layout(), busy_terms()));
    store.row().fails = true;
    // Meanwhile the horizon is soon used up; that does not matter here.
    until("failures", || store.row().failures >= 3);
    store.row().fails = false;
    let renewals = store.row().renewals;
    until("a renewal", || store.row().renewals > renewals);
    generator.next_uid().expect("renewed");
}

#[test]
fn local_takers_lose_the_lease_too() {
    let store = Store::default();
    let generator = cached(store.lease(layout(), busy_terms()));
    let (mut local, per_thread) = (generator.local(), generator.per_thread());
    local.next_uid().and_then(|_| per_thread.next_uid()).expect("ready");
    // Another holder takes it.
    store.row().token += 1;
    until("the end", || generator.try_next_uid() == Err(TakeError::LeaseLost));
    assert_eq!(local.next_uid(), Err(TakeError::LeaseLost));
    assert_eq!(per_thread.next_uid(), Err(TakeError::LeaseLost));
    let mut batch = [Uid::default(); 8];
    assert_eq!(generator.try_fill(&mut batch), Err(TakeError::LeaseLost));
}

#[test]
fn a_clock_that_jumps_is_followed_by_asking() {
    let store = Store::default();
    let clock = ManualClock::new("2026-06-01".parse().expect("a time"));
    let mut terms = terms();
    terms.renew_every = Duration::from_secs(1);
    let generator = ClockedUidGenerator::snowflake()
        .layout(layout())
        .worker(store.lease(layout(), terms))
        .namespace(fresh())
        .clock(clock.clone())
        .take_policy(TakePolicy::WaitFor(LIMIT))
        .build()
        .expect("possible");
    for _ in 0..5 {
        clock.advance(Duration::from_secs(86_400));
        let uid = generator.next_uid().expect("asked for");
        let horizon = store.row().horizon.expect("stored");
        assert!((tick(uid)..tick(uid) + 20_000).contains(&horizon), "{horizon} for {}", tick(uid));
    }
}

/// A crashed holder's horizon, slightly and far ahead of the clock.
#[test]
fn a_start_waits_for_the_clock_or_refuses() {
    let store = Store::default();
    let now = || layout().tick_at(std::time::SystemTime::now().into()).expect("in range");
    let horizon = now() + 200;
    store.row().horizon = Some(horizon);
    let generator = clocked(store.lease(layout(), terms()));
    assert!(now() >= horizon, "it waited");
    assert!(generator.next_uid().is_ok());
    drop(generator);

    // More than a holder with the same terms can have reserved.
    store.row().horizon = Some(now() + 300_000);
    let began = Instant::now();
    let refused = ClockedUidGenerator::snowflake()
        .layout(layout())
        .worker(store.lease(layout(), terms()))
        .namespace(fresh())
        .build();
    assert!(matches!(refused, Err(Error::UsedAhead { worker_id: WORKER, .. })), "{refused:?}");
    assert!(began.elapsed() < LIMIT, "at once: waiting would not do");
    // A borrowing generator starts anyway, and stays in order.
    let horizon = store.row().horizon.expect("still there");
    let generator = cached(store.lease(layout(), terms()));
    assert!(tick(generator.next_uid().expect("ready")) > horizon);
    drop(generator);
    store.row().horizon = Some(now() + 3_600_000);
    let builder = CachedUidGenerator::builder().layout(layout());
    let refused = builder.worker(store.lease(layout(), terms())).namespace(fresh()).build();
    let text = refused.expect_err("an hour ahead").to_string();
    assert!(text.contains("worker id 15") && text.contains("ahead"), "{text}");
}

#[test]
fn a_first_renewal_that_fails_is_tried_again() {
    for start in BOTH {
        let store = Store::default();
        let lease = store.lease(layout(), terms());
        store.row().fails = true;
        thread::scope(|scope| {
            let started = scope.spawn(|| start(lease));
            until("a second attempt", || store.row().failures >= 2);
            store.row().fails = false;
            let generator = started.join().expect("it has started");
            let uid = generator.next_uid().expect("ready");
            assert!(Some(tick(uid)) <= store.row().horizon, "{:?}", store.row());
        });
    }
}

#[test]
fn a_first_renewal_that_keeps_failing_fails_the_start_in_time() {
    let build = |kind, wait| {
        let keeper = NoKeeper(kind);
        let lease = Lease::new(layout(), WORKER, None, terms(), keeper).expect("in range");
        let builder = CachedUidGenerator::builder().layout(layout()).worker(lease);
        let builder = builder.max_start_wait(wait);
        let begin = Instant::now();
        let error = builder.namespace(fresh()).build().expect_err("no renewal");
        assert_eq!(error.may_pass(), kind == StoreErrorKind::Unreachable, "{error:?}");
        begin.elapsed()
    };
    build(StoreErrorKind::Unreachable, Duration::ZERO);
    let wait = Duration::from_millis(500);
    let took = build(StoreErrorKind::Unreachable, wait);
    assert!(took >= wait && took < wait + LIMIT, "{took:?}");
    // A retry would not help.
    let took = build(StoreErrorKind::Denied, 2 * LIMIT);
    assert!(took < LIMIT, "{took:?}");
}

#[test]
fn a_lease_of_another_layout_is_refused() {
    let lease = Store::default().lease(layout(), terms());
    let error = CachedUidGenerator::builder()
        .worker(lease)
        .namespace(fresh())
        .build()
        .expect_err("another layout");
    let text = error.to_string();
    assert!(text.contains("40/4/8 in ms") && text.contains("28/22/13 in s"), "{text}");
    assert!(
        Lease::new(layout(), 16, None, terms(), NoKeeper(StoreErrorKind::Denied)).is_err(),
        "out of range"
    );
}

/// Every renewal fails with an error of this kind.
struct NoKeeper(StoreErrorKind);

impl LeaseBackend for NoKeeper {
    fn renew(&mut self, _: u64) -> Result<(), RenewError> {
        Err(RenewError::Failed(StoreError::new(self.0, "it is so").into()))
    }

    fn release(&mut self, _: Option<Uid>) -> Result<(), Error> {
        Ok(())
    }
}

/// The horizon goes no further than borrowing may.
#[test]
fn a_fast_borrower_has_the_horizon_moved_in_time() {
    let store = Store::default();
    let bits = Bits { time: 40, worker: 4, sequence: 8 };
    let seconds = Layout::new(bits, Tick::Second, "2026-01-01".parse().expect("a time"));
    let seconds = seconds.expect("possible");
    let present = || seconds.tick_at(std::time::SystemTime::now().into()).expect("in range");
    let (begin, before) = (Instant::now(), present());
    let mut short = terms();
    short.renew_every = Duration::from_secs(1);
    let generator = CachedUidGenerator::builder()
        .layout(seconds)
        .worker(store.lease(seconds, short))
        .namespace(fresh())
        .take_policy(TakePolicy::Reject)
        .build()
        .expect("possible");
    let mut batch = [Uid::default(); 256];
    let limit = loop {
        assert!(begin.elapsed() < LIMIT, "there is a limit");
        match generator.try_fill(&mut batch) {
            Ok(given) => {
                let tick = seconds.decode(batch[given - 1]).expect("of the layout").tick;
                assert!(tick <= store.row().horizon.expect("stored"));
            }
            // The padder or the store is at work.
            Err(TakeError::Empty) => thread::yield_now(),
            Err(error) => break error,
        }
    };
    let ten_minutes = Duration::from_secs(600).into();
    assert!(
        matches!(limit, TakeError::BorrowLimit { limit, .. } if limit == ten_minutes),
        "{limit:?}"
    );
    // Includes what the clock makes room for until the next renewal.
    let horizon = store.row().horizon.expect("stored");
    assert!((before + 599..=present() + 610).contains(&horizon), "{horizon} at {before}");
}

/// A backend that panics when told to.
struct Panicking {
    store: Store,
    backend: Keeper,
    in_release: bool,
}

impl LeaseBackend for Panicking {
    fn renew(&mut self, horizon: u64) -> Result<(), RenewError> {
        assert!(!self.store.row().fails || self.in_release, "as it was told to");
        self.backend.renew(horizon)
    }

    fn release(&mut self, last: Option<Uid>) -> Result<(), Error> {
        assert!(!self.in_release, "as it was told to");
        self.backend.release(last)
    }
}

impl Drop for Panicking {
    fn drop(&mut self) {
        assert!(thread::panicking() || !self.store.row().fails, "as it was told to");
    }
}

fn panicking(store: &Store, terms: LeaseTerms, in_release: bool) -> Lease {
    let row = store.row();
    let backend =
        Keeper { store: store.clone(), layout: layout(), token: row.token, before: (None, None) };
    drop(row);
    let backend = Panicking { store: store.clone(), backend, in_release };
    Lease::new(layout(), WORKER, None, terms, backend).expect("in range")
}

/// Held without end, so that no deadline helps. The horizon is soon used up.
fn endless() -> LeaseTerms {
    let mut terms = LeaseTerms::default();
    terms.renew_every = Duration::from_millis(300);
    terms
}

#[test]
fn a_keeper_that_panics_loses_the_lease_and_hangs_nobody() {
    for start in BOTH {
        let store = Store::default();
        let generator = start(panicking(&store, endless(), false));
        generator.next_uid().expect("ready");
        store.row().fails = true;
        let (done, ended) = std::sync::mpsc::channel();
        thread::scope(|scope| {
            let taker = scope.spawn(|| {
                let error = loop {
                    if let Err(error) = generator.next_uid() {
                        break error;
                    }
                };
                done.send(()).expect("heard");
                error
            });
            let in_time = ended.recv_timeout(Duration::from_secs(20));
            // A hanging taker must not hang the test.
            if in_time.is_err() {
                generator.close();
            }
            let error = taker.join().expect("no panic");
            assert_eq!((in_time, error), (Ok(()), TakeError::LeaseLost));
        });
        let began = Instant::now();
        generator.close();
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    }
}

#[test]
fn a_keeper_that_panics_in_its_release_holds_up_no_close() {
    for start in BOTH {
        let store = Store::default();
        let generator = start(panicking(&store, endless(), true));
        generator.next_uid().expect("ready");
        let began = Instant::now();
        generator.close();
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    }
}

#[test]
fn a_keeper_that_panics_at_the_start_is_an_error_of_the_start() {
    let store = Store::default();
    let lease = panicking(&store, endless(), false);
    store.row().fails = true;
    let error = CachedUidGenerator::builder().layout(layout()).worker(lease).build();
    let text = error.expect_err("it panicked").to_string();
    assert!(text.contains("worker id 15 is lost") && text.contains("panicked"), "{text}");
    store.row().fails = false;
}

/// The store must know of as much.
#[test]
fn ten_minutes_can_be_borrowed_with_a_lease() {
    let bits = Bits { time: 40, worker: 4, sequence: 4 };
    let epoch = "2026-01-01".parse().expect("a time");
    let layout = Layout::new(bits, Tick::Second, epoch).expect("possible");
    let clock = ManualClock::new("2026-06-01".parse().expect("a time"));
    let lease = Store::default().lease(layout, busy_terms());
    let builder = CachedUidGenerator::builder().layout(layout).worker(lease).namespace(fresh());
    let generator = builder.clock(clock.clone()).build().expect("possible");
    let begin = Instant::now();
    let mut last = Uid::default();
    loop {
        match generator.try_next_uid() {
            Ok(uid) => last = uid,
            Err(TakeError::BorrowLimit { .. }) => break,
            Err(TakeError::Empty) => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
        assert!(begin.elapsed() < LIMIT, "{:?}", generator.stats());
    }
    let time = layout.decode(last).expect("of the layout").timestamp;
    assert_eq!(time.saturating_since(clock.now()), Duration::from_secs(600));
}

#[test]
fn max_borrow_is_ten_minutes_if_not_set_and_without_limit_if_none() {
    let build = |set: fn(CachedBuilder) -> CachedBuilder| {
        let lease = Store::default().lease(layout(), terms());
        let builder = CachedUidGenerator::builder().layout(layout()).worker(lease);
        let generator = set(builder.namespace(fresh())).build().expect("possible");
        generator.next_uid().expect("the store has the horizon");
        generator.max_borrow()
    };
    let minute = Duration::from_secs(60);
    assert_eq!(build(|builder| builder), Some(10 * minute));
    assert_eq!(build(|builder| builder.max_borrow(None)), None);
    assert_eq!(build(|builder| builder.max_borrow(Duration::from_secs(60))), Some(minute));
}
