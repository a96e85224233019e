//! A server that is killed, restarted and frozen.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uidring::policy::TakePolicy;
use uidring::{Layout, SegmentGenerator, TakeError};

use super::segments::{load_tag, max_id_of_tag, open, with_tag};
use super::setting::{LIMIT, Setting, take_to_the_end, until};
use super::store::Store;
use crate::chain;

const WIDE: Layout = Layout::UID_GENERATOR;

/// A start while the server is down waits for it.
pub fn worker_ids_go_on_after_a_crash(store: &'static dyn Store) {
    let setting = Setting::alone(store);
    let mut last = None;
    for round in 0..2 {
        let id = setting.assign(WIDE).unwrap_or_else(|error| panic!("{}", chain(&error)));
        assert!(last < Some(id), "{id} after {last:?}");
        last = Some(id);
        setting.server().kill();
        if round == 0 {
            setting.server().start_again();
            continue;
        }
        let late = thread::scope(|scope| {
            let late = scope.spawn(|| setting.assign(WIDE));
            thread::sleep(Duration::from_millis(100));
            setting.server().start_again();
            late.join().expect("no panic").expect("in time")
        });
        assert!(last < Some(late), "{late} after {last:?}");
        last = Some(late);
    }
}

/// Uids flow on without the server. Afterwards the store covers what was issued.
pub fn a_restart_within_the_lease_is_not_noticed(store: &'static dyn Store) {
    let setting = Setting::alone(store).worker_bits(1);
    let lease = setting.lease_for(Duration::from_secs(24), Duration::ZERO).expect("free");
    let generator = setting.generator(lease);
    let first = generator.next_uid().expect("ready");
    let id = generator.worker_id();
    setting.server().kill();
    let uid = generator.next_uid().expect("the server is not needed");
    assert!(first < uid);
    setting.server().start_again();
    let row = setting.row(id);
    assert!(row.is_held && row.horizon >= Some(setting.tick(uid)), "{row:?}, and {uid} is out");
    until("the renewal", || {
        generator.next_uid().expect("kept");
        setting.row(id).horizon > row.horizon
    });
    assert_eq!(setting.row(id).holder, row.holder);
    let last = generator.next_uid().expect("kept");
    drop(generator);
    let lease = setting.lease().expect("given back");
    assert!(lease.after() >= Some(last), "{:?} is below {last}", lease.after());
}

/// No attempt of the holder or of a close may block past the end of the lease. Requests that the server finds when it
/// continues do no harm.
pub fn a_frozen_server_ends_the_lease_in_time(store: &'static dyn Store) {
    let lasts = Duration::from_secs(3);
    let setting = Setting::alone(store).worker_bits(1);
    let generator = setting.generator(setting.lease_for(lasts, Duration::ZERO).expect("free"));
    let first = generator.next_uid().expect("ready");
    setting.server().freeze();
    let begin = Instant::now();
    let (last, error) = take_to_the_end(&generator);
    assert_eq!(error, TakeError::LeaseLost);
    generator.close();
    eprintln!("the end came {:?} after the freeze", begin.elapsed());
    setting.server().thaw();
    let lease = setting.lease_for(lasts, LIMIT).expect("it runs out");
    assert_eq!(lease.worker_id(), generator.worker_id());
    let last = last.unwrap_or(first);
    assert!(lease.after() >= Some(last), "{:?} is below {last}", lease.after());
    assert!(setting.generator(lease).next_uid().expect("ready") > last);
}

/// At any moment of a load. A range with an unconfirmed commit is dropped, which may leave a gap.
pub fn a_server_that_is_killed_repeats_no_range(store: &'static dyn Store) {
    let setting = with_tag(Setting::alone(store), 20);
    let builder = SegmentGenerator::builder(open(&setting)).step_factor(1);
    let generator = builder.take_policy(TakePolicy::WaitFor(LIMIT)).build().expect("built");
    let (over, taken) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut ids = thread::scope(|scope| {
        let end = Over(&over);
        let take = || {
            let mut ids = Vec::new();
            while !over.load(Ordering::SeqCst) {
                ids.push(generator.next_id("orders").expect("after the outage"));
                taken.fetch_add(1, Ordering::SeqCst);
                thread::sleep(Duration::from_micros(500));
            }
            ids
        };
        let takers = [scope.spawn(take), scope.spawn(take)];
        for _ in 0..2 {
            thread::sleep(Duration::from_millis(fastrand::u64(150..250)));
            setting.server().kill();
            setting.server().start_again();
        }
        let before = taken.load(Ordering::SeqCst);
        until("a hundred ids more", || taken.load(Ordering::SeqCst) > before + 100);
        drop(end);
        takers.into_iter().flat_map(|taker| taker.join().expect("no panic")).collect::<Vec<_>>()
    });
    drop(generator);
    ids.sort_unstable();
    assert!(ids.is_sorted_by(|a, b| a < b), "an id comes twice");
    assert!(*ids.last().expect("some") < max_id_of_tag(&setting));
}

pub fn a_frozen_server_repeats_no_range(store: &'static dyn Store) {
    let setting = with_tag(Setting::alone(store), 10);
    let mut table = open(&setting);
    assert_eq!(load_tag(&mut table).expect("loaded"), (1, 11));
    setting.server().freeze();
    let waiting = thread::scope(|scope| {
        let waiting = scope.spawn(|| load_tag(&mut table));
        thread::sleep(Duration::from_secs(1));
        setting.server().thaw();
        waiting.join().expect("no panic").expect("after the thaw")
    });
    assert!(waiting.0 >= 11, "{waiting:?}");
    let next = load_tag(&mut open(&setting)).expect("loaded");
    assert!(next.0 >= waiting.1, "{next:?} after {waiting:?}");
    assert_eq!(max_id_of_tag(&setting), next.1);
}

/// Tells the threads to end when a test ends, even by a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
