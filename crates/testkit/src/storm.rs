//! A storm: holders of leases take uids, and other numbers, while one fault after the other is done to the
//! store and undone. Nothing may come twice, and soon after each fault all holders have to go on.

use std::collections::{BTreeMap, HashMap};
use std::env;
use std::fmt::Display;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uidring::{CachedUidGenerator, Error, Layout, TakeError, Uid};
#[cfg(feature = "tables")]
use uidring_store::{LeaseOptions, LeaseTable};

use crate::chain;
#[cfg(feature = "tables")]
use crate::{namespace, request};

/// For so many seconds storms go on, each fault in turn; without it, each comes once.
const SECONDS: &str = "UIDRING_STORM_SECONDS";

/// What holders have taken.
pub struct Taken {
    counts: Vec<AtomicU64>,
    /// Each with its holder.
    numbers: Mutex<BTreeMap<&'static str, Vec<(u64, usize)>>>,
    lost: AtomicU64,
    is_over: AtomicBool,
}

impl Taken {
    fn new(holders: usize) -> Self {
        Self {
            counts: (0..holders).map(|_| AtomicU64::new(0)).collect(),
            numbers: Mutex::default(),
            lost: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    /// Whether the holders are to end.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Notes what a holder has taken: numbers of a kind, none of which may come twice.
    pub fn note(&self, holder: usize, kind: &'static str, numbers: impl IntoIterator<Item = u64>) {
        let numbers = numbers.into_iter().map(|number| (number, holder));
        self.numbers.lock().expect("no panic").entry(kind).or_default().extend(numbers);
        self.counts[holder].fetch_add(1, Ordering::Relaxed);
    }

    /// Takes uids with one generator after another until the end. While a fault lasts, starts fail, with
    /// errors that may pass.
    pub fn hold(&self, holder: usize, build: impl Fn() -> Result<CachedUidGenerator, Error>) {
        while !self.is_over() {
            match build() {
                Ok(generator) => self.take(holder, &generator),
                Err(Error::LeaseLost { .. }) => {}
                Err(Error::Store(error)) if error.may_pass() => {}
                Err(error) => panic!("a start has failed for good: {}", chain(&error)),
            }
        }
    }

    /// Takes uids with one lease of a table after another until the end. Each lasts so long unless it is renewed,
    /// and is waited for 5 s.
    #[cfg(feature = "tables")]
    pub fn hold_leases(
        &self,
        holder: usize,
        table: &dyn LeaseTable,
        layout: Layout,
        lasts: Duration,
    ) {
        let options = LeaseOptions::default().lasts(lasts).wait_for(Duration::from_secs(5));
        self.hold(holder, || {
            let lease = table.lease(&request(layout), &options)?;
            let builder = CachedUidGenerator::builder().layout(layout).worker(lease);
            // Holders stand for processes of different hosts.
            builder.namespace(namespace::fresh()).build()
        });
    }

    fn take(&self, holder: usize, generator: &CachedUidGenerator) {
        while !self.is_over() {
            match generator.try_next_uid() {
                Ok(uid) => self.note(holder, "uids", [uid.get()]),
                Err(TakeError::LeaseLost) => {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Err(_) => {}
            }
            thread::sleep(Duration::from_micros(500));
        }
    }

    fn counts(&self) -> Vec<u64> {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// Waits until every holder has taken some more, and returns how long that took.
    fn progress(&self, what: &str, bound: Duration) -> Duration {
        let (start, before) = (Instant::now(), self.counts());
        while self.counts().iter().zip(&before).any(|(now, before)| now <= before) {
            let took = start.elapsed();
            assert!(took < bound, "{what}: no progress, {before:?} to {:?}", self.counts());
            thread::sleep(Duration::from_millis(10));
        }
        start.elapsed()
    }
}

/// What is done to a store and undone, with a name.
pub type Fault<'a, S> = (&'static str, &'a dyn Fn(&mut S));

/// Does the faults to a store of so many holders, who have to go on within `bound` after each. Returns the
/// last tick of each worker id.
///
/// # Panics
///
/// If a number comes twice, a start fails for good, or a holder does not go on.
pub fn run<S>(
    name: &str,
    layout: Layout,
    (holders, bound): (usize, Duration),
    store: &mut S,
    faults: &[Fault<'_, S>],
    hold: impl Fn(&Taken, usize) + Sync,
) -> HashMap<u64, u64> {
    let seconds = env::var(SECONDS).map(|text| text.parse().expect("seconds"));
    let begin = Instant::now();
    let end = begin + Duration::from_secs(seconds.unwrap_or(0));
    let taken = Taken::new(holders);
    let mut pauses: Vec<Vec<Duration>> = vec![Vec::new(); faults.len()];
    thread::scope(|scope| {
        for holder in 0..holders {
            let (taken, hold) = (&taken, &hold);
            scope.spawn(move || hold(taken, holder));
        }
        // A panic must not leave the holders.
        let _over = Over(&taken.is_over);
        taken.progress("at first", bound);
        loop {
            for ((what, fault), pauses) in faults.iter().zip(&mut pauses) {
                fault(store);
                pauses.push(taken.progress(what, bound));
                eprintln!("{what}: all go on after {:?}", pauses.last());
            }
            if Instant::now() >= end {
                break;
            }
        }
    });
    report(name, begin.elapsed(), faults.iter().map(|fault| fault.0).zip(&mut pauses), &taken);
    last_ticks(layout, &taken)
}

/// Prints what became of it, as rows for the docs, and looks for what came twice.
fn report<'a>(
    name: &str,
    took: Duration,
    pauses: impl Iterator<Item = (&'a str, &'a mut Vec<Duration>)>,
    taken: &Taken,
) {
    let numbers = taken.numbers.lock().expect("no panic");
    let counts: Vec<_> =
        numbers.iter().map(|(kind, all)| format!("{} {kind}", all.len())).collect();
    eprintln!(
        "storm on {name}, {} s: {}; {} leases lost",
        took.as_secs(),
        counts.join(", "),
        taken.lost.load(Ordering::Relaxed)
    );
    for (what, pauses) in pauses {
        pauses.sort_unstable();
        let (median, most) = (pauses[pauses.len() / 2], pauses[pauses.len() - 1]);
        let [median, most] = [median, most].map(|time| time.as_secs_f64());
        eprintln!("| {what} | {} | {median:.1} | {most:.1} |", pauses.len());
    }
    for (kind, numbers) in &*numbers {
        assert_once(kind, numbers);
    }
}

/// Looks through numbers of a kind, each with who handed it out.
///
/// # Panics
///
/// If one came twice.
pub fn assert_once(kind: &str, numbers: &[(u64, impl Display)]) {
    let mut known = HashMap::with_capacity(numbers.len());
    for (number, by) in numbers {
        if let Some(first) = known.insert(number, by) {
            panic!("{kind}: {number} came twice, by {first} and by {by}");
        }
    }
}

/// Looks at the horizons of a table of leases after a storm, by the last tick of each worker id that [`run`]
/// has returned. A clean end has lowered a horizon to the last uid, and never below.
///
/// # Panics
///
/// If one is below the last tick.
#[cfg(feature = "tables")]
pub fn assert_within_horizons(table: &dyn LeaseTable, last: &HashMap<u64, u64>) {
    for row in table.list().expect("listed") {
        let horizon = row.horizon.map(|(tick, _)| tick);
        assert!(horizon >= last.get(&row.worker_id).copied(), "{row:?}: {last:?}");
    }
}

fn last_ticks(layout: Layout, taken: &Taken) -> HashMap<u64, u64> {
    let mut last: HashMap<u64, u64> = HashMap::new();
    for (uid, _) in taken.numbers.lock().expect("no panic").get("uids").into_iter().flatten() {
        let uid = Uid::try_from(*uid).expect("a uid");
        let fields = layout.decode(uid).expect("of the layout");
        let last = last.entry(fields.worker_id).or_default();
        *last = (*last).max(fields.tick);
    }
    last
}

/// Ends the holders when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
