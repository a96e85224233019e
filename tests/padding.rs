//! One padder for many rings, takers that help it, and local takers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::ManualClock;
use uidring::generator::SequenceStart;
use uidring::padding::{NextRun, RunSource};
use uidring::padding::{Padder, PadderCore, PadderIdle, PadderOptions};
use uidring::policy::{PutDecision, PutPolicy, TakePolicy};
use uidring::ring::{RingBuffer, RingOptions};
use uidring::{Bits, CachedUidGenerator, Layout, LocalGenerator, TakeError, Tick, Timestamp, Uid};
use uidring_testkit::namespace::fresh;

fn layout(time: u8, sequence: u8) -> Layout {
    let bits = Bits { time, worker: 10, sequence };
    Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible")
}

/// Counts this process's padder threads, by name.
#[cfg(target_os = "linux")]
fn padder_threads() -> usize {
    std::fs::read_dir("/proc/self/task")
        .expect("a list of threads")
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("comm")).ok())
        .filter(|name| name.trim() == "uidring-padder")
        .count()
}

/// In one test, because other tests of this program also have padders.
#[cfg(target_os = "linux")]
#[test]
fn one_thread_serves_all_and_ends_with_the_last() {
    let before = padder_threads();
    let padder = Padder::start(PadderOptions::default()).expect("starts");
    let generators: Vec<_> = (0..64)
        .map(|worker_id| {
            let builder = CachedUidGenerator::builder().layout(layout(40, 8));
            builder.worker_id(worker_id).namespace(fresh()).padder(&padder).build().expect("builds")
        })
        .collect();
    drop(padder);
    let mut all = Vec::new();
    for _ in 0..5_000 {
        all.extend(generators.iter().map(|generator| generator.next_uid().expect("waits")));
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 64 * 5_000);
    // Other tests run meanwhile, but they do not have 64 threads.
    assert!(padder_threads() < before + 20, "{} threads", padder_threads());
}

/// Returns a source of runs from 1 on.
fn counting() -> impl FnMut() -> Option<u64> {
    let mut next = 0;
    move || {
        next += 1;
        Some(next)
    }
}

#[test]
fn a_ring_that_ends_or_panics_does_not_end_its_neighbours() {
    let padder = Padder::start(PadderOptions::default()).expect("starts");
    let served = |source: fn() -> Option<u64>| {
        padder.serve(RingOptions::new(4).run_bits(0), source, None).expect("possible")
    };
    let ended = served(|| None);
    let panicked = served(|| panic!("a user's mistake"));
    let going = padder.serve(RingOptions::new(4).run_bits(0), counting(), None).expect("possible");
    let mut last = 0;
    let start = Instant::now();
    while last < 1_000 {
        if let Ok(number) = going.ring().try_take() {
            assert!(last < number);
            last = number;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "the padder goes on");
    }
    assert_eq!(ended.ring().try_take(), Err(TakeError::TimeExhausted));
    assert_eq!(panicked.ring().try_take(), Err(TakeError::Closed));
}

/// Another ring's source holds up the padder, so takers help themselves.
#[test]
fn takers_help_themselves_while_the_padder_is_away() {
    let padder = Padder::start(PadderOptions::default()).expect("starts");
    let (stuck, entered) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
    let (stay, inside) = (Arc::clone(&stuck), Arc::clone(&entered));
    let mut calls = 0;
    let slow = padder
        .serve(
            RingOptions::new(1).run_bits(0),
            move || {
                calls += 1;
                // The first two calls fill the ring at the start; then the padder itself comes.
                while calls > 2 && stay.load(Ordering::Relaxed) {
                    inside.store(true, Ordering::Relaxed);
                    thread::yield_now();
                }
                Some(calls)
            },
            None,
        )
        .expect("possible");
    let generator = CachedUidGenerator::builder()
        .layout(layout(40, 8))
        .worker_id(1)
        .namespace(fresh())
        .take_policy(TakePolicy::Reject)
        .padder(&padder)
        .build()
        .expect("builds");
    while slow.ring().try_take().is_ok() {}
    while !entered.load(Ordering::Relaxed) {
        thread::yield_now();
    }
    let paddings = generator.stats().paddings;
    let mut last = Uid::default();
    for _ in 0..50_000 {
        let uid = generator.next_uid().expect("made by the taker itself");
        assert!(last < uid);
        last = uid;
    }
    assert_eq!(generator.stats().paddings, paddings, "the padder was away");
    stuck.store(false, Ordering::Relaxed);
}

/// Makes a number at once for each one taken, so its ring is never full.
struct Endless {
    ring: Arc<OnceLock<Arc<RingBuffer>>>,
    next: u64,
}

impl RunSource for Endless {
    fn next_run(&mut self) -> NextRun {
        if let Some(ring) = self.ring.get() {
            while ring.try_take().is_ok() {}
        }
        self.next += 1;
        NextRun::Run(self.next)
    }
}

/// Takers as fast as the padder, on one ring, do not keep it from the others.
#[test]
fn a_busy_ring_leaves_the_padder_to_the_others() {
    for idle in [PadderIdle::Sleep, PadderIdle::BusyPoll] {
        let padder = Padder::start(PadderOptions::default().idle(idle)).expect("starts");
        let ring = Arc::default();
        let source = Endless { ring: Arc::clone(&ring), next: 0 };
        let busy = padder.serve(RingOptions::new(8).run_bits(0), source, None).expect("possible");
        let other =
            padder.serve(RingOptions::new(4).run_bits(0), counting(), None).expect("possible");
        ring.set(Arc::clone(busy.ring())).expect("once");
        while busy.ring().try_take().is_ok() {}
        let start = Instant::now();
        for _ in 0..1_000 {
            while other.ring().try_take().is_err() {
                assert!(start.elapsed() < Duration::from_secs(30), "{idle:?}: it starves");
                thread::yield_now();
            }
        }
        busy.close();
    }
}

/// A helping taker that the source holds up delays only its own ring.
#[test]
fn the_padder_does_not_wait_for_a_helper() {
    let padder = Padder::start(PadderOptions::default()).expect("starts");
    let (stuck, entered) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
    let (stay, inside) = (Arc::clone(&stuck), Arc::clone(&entered));
    let (mut next, helper) = (0, Arc::new(OnceLock::new()));
    let theirs = Arc::clone(&helper);
    let slow = padder.serve(
        RingOptions::new(1).run_bits(0),
        move || {
            next += 1;
            while theirs.get() == Some(&thread::current().id()) && stay.load(Ordering::Relaxed) {
                inside.store(true, Ordering::Relaxed);
                thread::yield_now();
            }
            Some(next)
        },
        None,
    );
    let slow = slow.expect("possible");
    let other = padder.serve(RingOptions::new(4).run_bits(0), counting(), None).expect("possible");
    thread::scope(|scope| {
        scope.spawn(|| {
            helper.set(thread::current().id()).expect("once");
            while !entered.load(Ordering::Relaxed) {
                let _ = slow.ring().try_take();
                slow.help();
            }
        });
        while !entered.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        let (start, mut starves) = (Instant::now(), false);
        for _ in 0..1_000 {
            // It also asks for the padder.
            let _ = slow.ring().try_take();
            while other.ring().try_take().is_err() && !starves {
                starves = start.elapsed() > Duration::from_secs(20);
                thread::yield_now();
            }
        }
        stuck.store(false, Ordering::Relaxed);
        assert!(!starves);
    });
    // What the padder could not do meanwhile is not forgotten.
    let start = Instant::now();
    for _ in 0..100 {
        while slow.ring().try_take().is_err() {
            assert!(start.elapsed() < Duration::from_secs(30), "it was forgotten");
            thread::yield_now();
        }
    }
}

/// A source that has nothing yet after this many runs.
struct Paused {
    runs: u64,
    pauses: Arc<AtomicU64>,
    pause: Duration,
}

impl RunSource for Paused {
    fn next_run(&mut self) -> NextRun {
        if self.runs == 0 {
            self.pauses.fetch_add(1, Ordering::SeqCst);
            return NextRun::NotYet(self.pause);
        }
        self.runs -= 1;
        NextRun::Run(1_000 - self.runs)
    }
}

/// The put policy's handler is asked about a full ring, but not about one whose source has nothing yet.
#[test]
fn a_handler_is_asked_about_full_rings_alone() {
    for (runs, is_full) in [(900, true), (7, false)] {
        let [asked, pauses] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let counted = Arc::clone(&asked);
        let handler = PutPolicy::handler(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            PutDecision::Discard
        });
        let padder = Padder::start(PadderOptions::default()).expect("starts");
        let options = RingOptions::new(3).run_bits(0).put_policy(handler);
        let pause = Duration::from_millis(1);
        let source = Paused { runs, pauses: Arc::clone(&pauses), pause };
        let served = padder.serve(options, source, None).expect("possible");
        // The padder comes when the ring is low, and when the source may have something.
        for _ in 0..6 {
            served.ring().try_take().expect("there");
        }
        let begin = Instant::now();
        let is_seen = || match is_full {
            true => asked.load(Ordering::SeqCst) > 0,
            false => pauses.load(Ordering::SeqCst) >= 5,
        };
        while !is_seen() {
            assert!(begin.elapsed() < Duration::from_secs(30), "the padder comes");
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(asked.load(Ordering::SeqCst) > 0, is_full);
    }
}

/// A handler's retry ends with the padding. Otherwise the padder would ask the source in a loop.
#[test]
fn a_source_that_pauses_is_left_alone_whatever_the_handler_wants() {
    let padder = Padder::start(PadderOptions::default()).expect("starts");
    let options = RingOptions::new(3).run_bits(0);
    let options = options.put_policy(PutPolicy::handler(|_| PutDecision::Retry));
    let pauses = Arc::new(AtomicU64::new(0));
    let source = Paused { runs: 20, pauses: Arc::clone(&pauses), pause: Duration::from_secs(600) };
    let served = padder.serve(options, source, None).expect("possible");
    let begin = Instant::now();
    while pauses.load(Ordering::SeqCst) == 0 {
        assert!(begin.elapsed() < Duration::from_secs(30), "the padder comes");
        let _ = served.ring().try_take();
        thread::sleep(Duration::from_millis(2));
    }
    thread::sleep(Duration::from_millis(20));
    assert_eq!(pauses.load(Ordering::SeqCst), 1);
}

#[test]
fn a_busy_polling_padder_pads() {
    let generator = CachedUidGenerator::builder()
        .layout(layout(40, 8))
        .worker_id(1)
        .namespace(fresh())
        .padder_idle(PadderIdle::BusyPoll)
        .build()
        .expect("builds");
    let start = Instant::now();
    while generator.stats().paddings < 5 {
        generator.next_uid().expect("waits");
        assert!(start.elapsed() < Duration::from_secs(30), "it polls");
    }
}

#[test]
fn a_core_that_does_not_exist_is_an_error() {
    let options = PadderOptions::default().core(PadderCore::Id(1 << 20));
    let error = Padder::start(options).expect_err("no such core").to_string();
    assert!(error.contains("1048576"), "{error}");
    for core in [PadderCore::ByWorker, PadderCore::Last, PadderCore::Unpinned] {
        assert!(Padder::start(PadderOptions::default().core(core)).is_ok());
    }
}

/// Returns the cores that this thread may run on, according to the operating system.
#[cfg(target_os = "linux")]
fn allowed() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.expect("a list of cores").trim().to_owned()
}

#[cfg(target_os = "linux")]
#[test]
fn padders_of_other_workers_run_on_other_cores() {
    /// Notes the cores of the padder's thread.
    #[derive(Clone, Debug, Default)]
    struct Noting(Arc<std::sync::Mutex<Option<String>>>);

    impl uidring::clock::Clock for Noting {
        fn now(&self) -> Timestamp {
            if thread::current().name() == Some("uidring-padder") {
                *self.0.lock().expect("no panic") = Some(allowed());
            }
            uidring::clock::SystemClock.now()
        }
    }

    let cores = core_affinity::get_core_ids().expect("cores");
    for worker_id in 0..cores.len() as u64 + 1 {
        let clock = Noting::default();
        let generator = CachedUidGenerator::builder()
            .worker_id(worker_id)
            .namespace(fresh())
            .clock(clock.clone())
            .build()
            .expect("possible");
        let start = Instant::now();
        let found = loop {
            let _ = generator.try_next_uid();
            if let Some(found) = clock.0.lock().expect("no panic").take() {
                break found;
            }
            assert!(start.elapsed() < Duration::from_secs(30), "the padder never looks");
            thread::sleep(Duration::from_millis(1));
        };
        let expected = match cores.len() {
            1 => allowed(),
            count => cores[count - 1 - worker_id as usize % count].id.to_string(),
        };
        assert_eq!(found, expected, "of worker {worker_id}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_padder_runs_on_its_core() {
    let cores = core_affinity::get_core_ids().expect("cores");
    let [first, .., last] = [cores[0].id, cores[cores.len() - 1].id];
    for (core, expected) in [
        (PadderCore::Id(first), first.to_string()),
        (PadderCore::ByWorker, last.to_string()),
        (PadderCore::Last, last.to_string()),
        (PadderCore::Unpinned, allowed()),
    ] {
        let padder = Padder::start(PadderOptions::default().core(core)).expect("starts");
        let (tell, told) = std::sync::mpsc::channel();
        let mut next = 0;
        let source = move || {
            // The caller does the first filling, and takers help.
            if thread::current().name() == Some("uidring-padder") {
                let _ = tell.send(allowed());
            }
            next += 1;
            Some(next)
        };
        let padding =
            padder.serve(RingOptions::new(2).run_bits(0), source, None).expect("possible");
        let start = Instant::now();
        let found = loop {
            let _ = padding.ring().try_take();
            if let Ok(found) = told.try_recv() {
                break found;
            }
            assert!(start.elapsed() < Duration::from_secs(30), "it does not pad");
        };
        assert_eq!(found, expected, "{core:?}");
    }
}

#[test]
fn local_takers_are_distinct_ordered_and_waste_at_most_a_lease() {
    let generator = Arc::new(
        CachedUidGenerator::builder()
            .layout(layout(40, 10))
            .worker_id(1)
            .namespace(fresh())
            .build()
            .expect("builds"),
    );
    let takers: Vec<_> = (0..8)
        .map(|_| {
            let mut local = LocalGenerator::new(Arc::clone(&generator));
            thread::spawn(move || {
                local.by_ref().take(20_000).collect::<Result<Vec<_>, _>>().expect("waits")
            })
        })
        .collect();
    let mut all = Vec::new();
    for taker in takers {
        let uids = taker.join().expect("no panic");
        assert!(uids.is_sorted_by(|a, b| a < b));
        all.extend(uids);
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 160_000);

    // One taker at a time: a dropped one wastes less than a block. The clock stands still, so nothing becomes stale.
    let generator = CachedUidGenerator::builder()
        .layout(layout(40, 13))
        .worker_id(1)
        .namespace(fresh())
        .clock(ManualClock::new(Timestamp::from_millis(0)))
        .build()
        .expect("builds");
    let mut last = None;
    // Few enough to stay in one tick, whose uids are neighbours.
    for _ in 0..2 {
        let uid = generator.local().next_uid().expect("ready");
        assert!(last < Some(uid));
        let shared = generator.next_uid().expect("ready");
        assert_eq!(shared.get() - uid.get(), 255, "the rest of a lease is gone");
        let other = generator.local().next_uid().expect("ready");
        assert_eq!(other.get(), shared.get() + 1, "a lease begins where the others are");
        // The iterator over the shared form continues after it.
        let next = generator.uids().next().expect("endless").expect("ready");
        assert_eq!(next.get() - other.get(), 255);
        last = Some(next);
    }
}

#[test]
fn time_ends_for_local_takers_and_fills_too() {
    let clock = ManualClock::new(Timestamp::from_millis(0));
    let generator = CachedUidGenerator::builder()
        .layout(layout(2, 7))
        .worker_id(1)
        .namespace(fresh())
        .sequence_start(SequenceStart::Zero)
        .clock(clock)
        .build()
        .expect("builds");
    let mut local = generator.local();
    let mut count = 0;
    let end = loop {
        match local.next_uid() {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((count, end), (4 * 128, TakeError::TimeExhausted), "every uid there is, once");
    assert_eq!(local.next_uid(), Err(TakeError::TimeExhausted), "for good");
    assert_eq!(generator.try_fill(&mut [Uid::default()]), Err(TakeError::TimeExhausted));
}
