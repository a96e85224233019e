//! The contract of leases.

use std::collections::HashSet;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::{Clock, ManualClock, SystemClock};
use uidring::worker::Lease;
use uidring::{CachedUidGenerator, ClockedUidGenerator, Error, TakeError, Timestamp, Uid};

use super::setting::{LIMIT, LONG, SHORT, Setting, assert_none_free, take_to_the_end};
use super::store::{Change, Store};
use crate::chain;
use crate::namespace::fresh;

pub fn what_is_given_back_is_had_again_above_what_was_issued(store: &'static dyn Store) {
    let setting = Setting::shared(store).worker_bits(1);
    let mut last = None;
    let mut id = None;
    for round in 0..20 {
        let lease = setting.lease().unwrap_or_else(|error| panic!("{round}: {}", chain(&error)));
        assert_eq!(*id.get_or_insert(lease.worker_id()), lease.worker_id(), "a new one");
        assert!(lease.after() >= last, "{:?} is below {last:?}", lease.after());
        let generator = setting.generator(lease);
        for _ in 0..if round == 0 { 5_000 } else { 10 } {
            let uid = generator.next_uid().expect("ready");
            assert!(last < Some(uid), "in order over all starts");
            last = Some(uid);
        }
        if round % 2 == 0 {
            generator.close();
            assert_eq!(generator.next_uid(), Err(TakeError::Closed));
        }
    }
}

pub fn what_is_not_used_is_given_back(store: &'static dyn Store) {
    let setting = Setting::shared(store).worker_bits(1);
    for round in 0..6 {
        let lease = setting.lease().unwrap_or_else(|error| panic!("{round}: {}", chain(&error)));
        match round % 3 {
            0 => drop(lease),
            1 => lease.release().expect("given back"),
            _ => {
                let builder = CachedUidGenerator::builder().layout(setting.layout());
                let builder = builder.padding_factor(0).namespace(fresh());
                assert!(builder.worker(lease).build().is_err());
            }
        }
    }
}

pub fn when_all_are_held_the_error_says_so_or_the_start_waits(store: &'static dyn Store) {
    let setting = Setting::shared(store);
    let mut held = setting.hold_all();
    let begin = Instant::now();
    let error = setting.lease_for(SHORT, Duration::from_millis(300)).expect_err("none is free");
    assert_none_free(&error);
    assert!(begin.elapsed() >= Duration::from_millis(300), "{:?}", begin.elapsed());
    // One that is given back meanwhile.
    let middle = held.remove(held.len() / 2);
    let id = middle.worker_id();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| setting.lease_for(SHORT, LIMIT));
        thread::sleep(Duration::from_millis(200));
        assert!(!waiter.is_finished(), "it waits");
        drop(middle);
        let lease = waiter.join().expect("no panic").expect("free");
        assert_eq!(lease.worker_id(), id);
    });
    for generator in held {
        generator.next_uid().expect("held all the time");
    }
}

pub fn a_holder_that_lives_keeps_it_however_long_others_wait(store: &'static dyn Store) {
    let setting = Setting::shared(store).worker_bits(1);
    let lease = setting.lease_for(SHORT, Duration::ZERO).expect("free");
    let generator = setting.generator(lease);
    let begin = Instant::now();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| setting.lease_for(SHORT, SHORT + SHORT / 4));
        while !waiter.is_finished() {
            generator.next_uid().expect("held");
            thread::sleep(Duration::from_millis(1));
        }
        assert_none_free(&waiter.join().expect("no panic").expect_err("held"));
    });
    assert!(begin.elapsed() > SHORT, "{:?}", begin.elapsed());
}

pub fn a_lease_that_nobody_renews_runs_out_and_no_sooner(store: &'static dyn Store) {
    let setting = Setting::shared(store).worker_bits(1);
    let lasts = Duration::from_secs(2);
    let begin = Instant::now();
    let lease = setting.lease_for(lasts, Duration::ZERO).expect("free");
    let id = lease.worker_id();
    std::mem::forget(lease);
    let next = setting.lease_for(lasts, LIMIT).expect("it runs out");
    assert_eq!(next.worker_id(), id);
    // A store's clock may count hundredths of a second, rounded down.
    let grain = Duration::from_millis(20);
    assert!(begin.elapsed() + grain >= lasts, "had after {:?}", begin.elapsed());
}

/// The holder with the wrong clock is ahead of all others; the next one is still above it.
pub fn clocks_that_are_set_repeat_nothing(store: &'static dyn Store) {
    let setting = Setting::shared(store).worker_bits(1);
    let now = SystemClock.now();
    let after = |minutes: i64| Timestamp::from_millis(now.as_millis() + 60_000 * minutes);
    let mut last = None;
    for minutes in [0, 4, 0, -4, 0] {
        let lease = setting.lease().expect("free");
        assert!(lease.after() >= last, "{:?} is below {last:?}", lease.after());
        let clock = ManualClock::new(after(minutes));
        let builder = CachedUidGenerator::builder().layout(setting.layout()).clock(clock.clone());
        let generator = builder.worker(lease).namespace(fresh()).build().expect("possible");
        for jump in [0, 1, 2] {
            clock.set(after(jump % 2));
            for _ in 0..100 {
                let uid = generator.next_uid().expect("ready");
                assert!(last < Some(uid), "{uid} after {last:?}");
                last = Some(uid);
            }
        }
    }
}

/// A start that gets it could soon borrow no more time. What was used least far ahead comes first.
pub fn what_was_used_ahead_of_the_clock_is_leased_last(store: &'static dyn Store) {
    let setting = Setting::shared(store);
    let mut ahead: Vec<(u64, Uid)> = vec![];
    for seconds in [300, 200] {
        let lease = setting.lease().expect("free");
        let id = lease.worker_id();
        let clock =
            ManualClock::new(SystemClock.now().saturating_add(Duration::from_secs(seconds)));
        let builder = CachedUidGenerator::builder().layout(setting.layout()).clock(clock);
        let generator = builder.worker(lease).namespace(fresh()).build().expect("possible");
        // A store may have only one.
        ahead.retain(|(other, _)| *other != id);
        ahead.insert(0, (id, generator.next_uid().expect("ready")));
    }

    let (furthest, _) = ahead[ahead.len() - 1];
    let mut leases = vec![];
    while leases.last().is_none_or(|lease: &Lease| lease.worker_id() != furthest) {
        leases.push(setting.lease_for(LONG, Duration::ZERO).expect("not all are held"));
    }
    for (lease, (id, last)) in leases.iter().rev().zip(ahead.iter().rev()) {
        assert_eq!(lease.worker_id(), *id, "of {ahead:?}: {leases:?}");
        assert!(lease.after() >= Some(*last), "{:?} is below {last}", lease.after());
    }
}

pub fn what_is_issued_was_in_the_store_before(store: &'static dyn Store) {
    let setting = Setting::shared(store).worker_bits(1);
    let generator = setting.generator(setting.lease_for(SHORT, Duration::ZERO).expect("free"));
    let id = generator.worker_id();
    let begin = Instant::now();
    while begin.elapsed() < SHORT {
        let mut uids = [Uid::default(); 64];
        generator.fill(&mut uids).expect("ready");
        let row = setting.row(id);
        assert!(row.is_held, "{row:?}");
        assert!(row.horizon >= Some(setting.tick(uids[63])), "{row:?}, and {} is out", uids[63]);
        thread::sleep(Duration::from_millis(50));
    }
    let (last, held) = (generator.next_uid().expect("ready"), setting.row(id));
    generator.close();
    let row = setting.row(id);
    assert!(!row.is_held && row.holder != held.holder, "{row:?}");
    let exact = setting.tick(last)..=held.horizon.expect("stored");
    assert!(row.horizon.is_some_and(|tick| exact.contains(&tick)), "{row:?}, and {last} is out");
}

/// After a change by somebody else, the holder undoes nothing.
pub fn a_change_by_others_ends_the_lease(store: &'static dyn Store) {
    let setting = Setting::shared(store).worker_bits(1);
    for change in [Change::Fenced, Change::Taken, Change::Twin, Change::Removed] {
        // Before its first renewal, and while in use.
        let lease = setting.lease().expect("free");
        let id = lease.worker_id();
        setting.site().rows().change(id, change);
        let changed = setting.site().rows().row(id);
        let error = setting.try_generator(lease).expect_err("lost");
        assert!(is_lost(&error), "{change:?}: {}", chain(&error));
        assert_eq!(setting.site().rows().row(id), changed, "{change:?} was undone");
        if change == Change::Removed {
            break;
        }
        setting.site().rows().change(id, Change::Fenced);

        let generator = setting.generator(setting.lease_for(SHORT, Duration::ZERO).expect("free"));
        generator.next_uid().expect("ready");
        setting.site().rows().change(id, change);
        let changed = setting.row(id);
        let (last, error) = take_to_the_end(&generator);
        assert_eq!(error, TakeError::LeaseLost, "{change:?}");
        let highest = last.map(|uid| setting.tick(uid));
        assert!(highest <= changed.horizon, "{highest:?} is above what is stored: {changed:?}");
        drop(generator);
        let row = setting.row(id);
        assert_eq!((&row.holder, row.horizon), (&changed.holder, changed.horizon), "{change:?}");
        setting.site().rows().change(id, Change::Fenced);
    }
}

/// Others may get the worker id at once, above all that the holder can issue until it notices.
pub fn the_next_holder_after_a_fence_is_above_the_one_before(store: &'static dyn Store) {
    let setting = Setting::shared(store).worker_bits(1);
    let first = setting.generator(setting.lease_for(SHORT, Duration::ZERO).expect("free"));
    let mut seen = HashSet::from([first.next_uid().expect("ready")]);
    setting.site().rows().change(first.worker_id(), Change::Fenced);
    let lease = setting.lease_for(LONG, LIMIT).expect("it is over");
    assert_eq!(lease.worker_id(), first.worker_id());
    let floor = lease.after().expect("used before");
    let second = setting.generator(lease);
    let begin = Instant::now();
    let error = loop {
        let uid = second.next_uid().expect("held");
        assert!(uid > floor && seen.insert(uid), "{uid} twice");
        match first.next_uid() {
            Ok(uid) => assert!(uid <= floor && seen.insert(uid), "{uid} above {floor}, or twice"),
            Err(error) => break error,
        }
        assert!(begin.elapsed() < LIMIT, "it stops");
        thread::sleep(Duration::from_millis(1));
    };
    assert_eq!(error, TakeError::LeaseLost);
    drop(first);
    second.next_uid().expect("still held");
    assert!(setting.row(second.worker_id()).is_held);
}

/// The store lost commits; the holder must not renew on top of that.
pub fn a_horizon_that_was_set_back_ends_the_lease(store: &'static dyn Store) {
    let setting = Setting::shared(store).worker_bits(1);
    let generator = setting.generator(setting.lease_for(SHORT, Duration::ZERO).expect("free"));
    let mut last = generator.next_uid().expect("ready");
    let id = generator.worker_id();
    setting.site().rows().change(id, Change::SetBack);
    let lower = setting.row(id).horizon;
    let error = loop {
        match generator.next_uid() {
            Ok(uid) => last = uid,
            Err(error) => break error,
        }
        assert!(setting.row(id).horizon <= lower, "it was renewed after commits were lost");
        thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(error, TakeError::LeaseLost);
    // Its last uid is still written to the row.
    generator.close();
    let horizon = setting.row(id).horizon;
    assert!(horizon >= Some(setting.tick(last)), "{horizon:?}");
}

/// Each holds a worker id briefly.
pub fn many_threads_share_few_worker_ids(store: &'static dyn Store) {
    const ROUNDS: usize = 4;
    const THREADS: usize = 8;
    let setting = Setting::shared(store);
    let (holders, all) = (Mutex::new(HashSet::new()), Mutex::new(Vec::new()));
    let hold = |lease: Lease, round: usize| {
        let id = lease.worker_id();
        assert!(holders.lock().expect("whole").insert(id), "{id} is held twice");
        let mut uids = vec![Uid::default(); 500];
        let leave = || assert!(holders.lock().expect("whole").remove(&id));
        if round.is_multiple_of(2) {
            let generator = setting.generator(lease);
            generator.fill(&mut uids).expect("ready");
            leave();
        } else {
            let builder = ClockedUidGenerator::snowflake().layout(setting.layout());
            let generator = builder.worker(lease).namespace(fresh()).build().expect("starts");
            generator.fill(&mut uids).expect("ready");
            leave();
        }
        all.lock().expect("whole").extend(uids);
    };
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    hold(setting.lease_for(LONG, LIMIT).expect("free after a while"), round);
                }
            });
        }
    });
    let mut all = all.into_inner().expect("whole");
    assert_eq!(all.len(), 500 * ROUNDS * THREADS);
    all.sort_unstable();
    assert!(all.is_sorted_by(|a, b| a < b), "a uid comes twice");
}

fn is_lost(error: &Error) -> bool {
    matches!(error, Error::LeaseLost { .. })
}
