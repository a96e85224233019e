//! A storm: holders of leases take uids and other numbers while the store suffers one fault after another. No number
//! may repeat, and soon after each fault all holders must go on.

use std::collections::{BTreeMap, HashMap};
use std::env;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uidring::segment::{SegmentRequest, SegmentStore};
#[cfg(feature = "tables")]
use uidring::{CachedUidGenerator, TakeError};
use uidring::{Error, Layout, Uid};
#[cfg(feature = "tables")]
use uidring_store::{LeaseOptions, LeaseTable, WorkerTable};

use crate::chain;
#[cfg(feature = "tables")]
use crate::{namespace, request};

/// How many seconds storms last, cycling through the faults. If not set, each fault comes once.
const SECONDS: &str = "UIDRING_STORM_SECONDS";

/// Whether the duration of storms is set.
pub fn is_long() -> bool {
    env::var(SECONDS).is_ok()
}

pub struct Taken {
    begin: Instant,
    counts: Vec<AtomicU64>,
    numbers: Mutex<BTreeMap<&'static str, Vec<(u64, By)>>>,
    /// Temporary errors, with their counts.
    errors: Mutex<BTreeMap<String, u32>>,
    lost: AtomicU64,
    /// The last fault; it may be over.
    fault: Mutex<&'static str>,
    is_over: AtomicBool,
}

/// Who took a number, and when.
#[derive(Clone, Copy, Debug)]
pub struct By {
    pub holder: usize,
    at: Duration,
    fault: &'static str,
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "holder {} after {:?} (last fault: {})", self.holder, self.at, self.fault)
    }
}

impl Taken {
    fn new(holders: usize) -> Self {
        Self {
            begin: Instant::now(),
            counts: (0..holders).map(|_| AtomicU64::new(0)).collect(),
            numbers: Mutex::default(),
            errors: Mutex::default(),
            lost: AtomicU64::new(0),
            fault: Mutex::new("none"),
            is_over: AtomicBool::new(false),
        }
    }

    /// Whether the holders must end.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Returns the last fault; it may be over.
    pub fn fault(&self) -> &'static str {
        *self.fault.lock().expect("no panic")
    }

    /// Notes what a holder took: numbers of a kind, which must be unique.
    pub fn note(&self, holder: usize, kind: &'static str, numbers: impl IntoIterator<Item = u64>) {
        let by = By { holder, at: self.begin.elapsed(), fault: self.fault() };
        let numbers = numbers.into_iter().map(|number| (number, by));
        self.numbers.lock().expect("no panic").entry(kind).or_default().extend(numbers);
        self.counts[holder].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an error, without the parts that vary.
    ///
    /// # Panics
    ///
    /// If the error is permanent.
    pub fn refused(&self, error: &Error) {
        let text = chain(error);
        assert!(error.may_pass() || matches!(error, Error::LeaseLost { .. }), "for good: {text}");
        self.count(&text);
    }

    fn count(&self, error: &str) {
        let text = error.split(" (given up").next().unwrap_or_default();
        *self.errors.lock().expect("no panic").entry(text.to_owned()).or_default() += 1;
    }

    /// Takes uids until the end, from one lease of a table after another. Leases run out after `lasts` unless renewed,
    /// and are given back after `life`. A start waits 5 s for one.
    #[cfg(feature = "tables")]
    pub fn hold_leases(
        &self,
        holder: usize,
        table: &dyn LeaseTable,
        layout: Layout,
        (lasts, life): (Duration, Duration),
    ) {
        let options = LeaseOptions::default().lasts(lasts).wait_for(Duration::from_secs(5));
        let build = || {
            let lease = table.lease(&request(layout), &options)?;
            let builder = CachedUidGenerator::builder().layout(layout).worker(lease);
            // Holders stand for processes on different hosts.
            builder.namespace(namespace::fresh()).build()
        };
        while !self.is_over() {
            match build() {
                Ok(generator) => self.take(holder, &generator, life),
                Err(error) => self.refused(&error),
            }
        }
    }

    /// Takes worker ids until the end.
    #[cfg(feature = "tables")]
    pub fn assign(&self, holder: usize, table: &dyn WorkerTable, layout: Layout) {
        while !self.is_over() {
            match table.assign(&layout) {
                Ok(worker_id) => self.note(holder, "worker ids", [worker_id]),
                Err(error) => self.refused(&error),
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Loads segments of a tag until the end.
    pub fn load(&self, holder: usize, table: &mut dyn SegmentStore, tag: &str, step: u64) {
        let wanted = [SegmentRequest { tag: tag.into(), step }];
        while !self.is_over() {
            table.load(&wanted, &mut |_, loaded| match loaded {
                Ok(range) => self.note(holder, "segment ids", range.start..range.end),
                // An error may be that the row is below what this client had.
                Err(error) => self.count(&chain(&error)),
            });
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[cfg(feature = "tables")]
    fn take(&self, holder: usize, generator: &CachedUidGenerator, life: Duration) {
        let begin = Instant::now();
        while !self.is_over() && begin.elapsed() < life {
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

    /// Returns the numbers of a kind, and who took them.
    pub fn numbers(&self, kind: &str) -> Vec<(u64, By)> {
        self.numbers.lock().expect("no panic").get(kind).cloned().unwrap_or_default()
    }

    pub fn last_ticks(&self, layout: Layout) -> HashMap<u64, u64> {
        let mut last: HashMap<u64, u64> = HashMap::new();
        for (uid, _) in self.numbers("uids") {
            let fields = layout.decode(Uid::try_from(uid).expect("a uid")).expect("of the layout");
            let last = last.entry(fields.worker_id).or_default();
            *last = (*last).max(fields.tick);
        }
        last
    }

    fn counts(&self) -> Vec<u64> {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// Waits until every holder has taken more, and returns how long that took.
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

/// A fault of one of the servers, and how to undo it.
pub struct Fault<S> {
    pub what: &'static str,
    pub act: fn(&mut S, usize),
    pub undo: fn(&mut S, usize),
}

pub trait Servers {
    /// Chooses the server of the next fault.
    fn choose(&self) -> usize;
}

/// Applies the faults to a store with this many holders. Each fault lasts as long as `lasts` says, and all holders must
/// go on within `bound` after it. Returns what they took.
///
/// # Panics
///
/// If a number repeats, a start fails permanently, or a holder does not go on.
pub fn run<S: Servers>(
    name: &str,
    (holders, bound): (usize, Duration),
    servers: &mut S,
    faults: &[Fault<S>],
    lasts: impl Fn(&Fault<S>) -> Duration,
    hold: impl Fn(&Taken, usize) + Sync,
) -> Taken {
    let seconds = env::var(SECONDS).map(|text| text.parse().expect("seconds"));
    let taken = Taken::new(holders);
    let end = taken.begin + Duration::from_secs(seconds.unwrap_or(0));
    let mut pauses: Vec<Vec<Duration>> = vec![Vec::new(); faults.len()];
    thread::scope(|scope| {
        for holder in 0..holders {
            let (taken, hold) = (&taken, &hold);
            scope.spawn(move || hold(taken, holder));
        }
        // End the holders even after a panic.
        let _over = Over(&taken.is_over);
        taken.progress("at first", bound);
        loop {
            for (fault, pauses) in faults.iter().zip(&mut pauses) {
                *taken.fault.lock().expect("no panic") = fault.what;
                let chosen = servers.choose();
                (fault.act)(servers, chosen);
                thread::sleep(lasts(fault));
                (fault.undo)(servers, chosen);
                pauses.push(taken.progress(fault.what, bound));
                eprintln!("{}: all go on after {:?}", fault.what, pauses.last());
            }
            if Instant::now() >= end {
                break;
            }
        }
    });
    report(name, faults.iter().map(|fault| fault.what).zip(&mut pauses), &taken);
    taken
}

/// Prints the results as rows for the docs, and looks for numbers that were taken twice.
fn report<'a>(
    name: &str,
    pauses: impl Iterator<Item = (&'a str, &'a mut Vec<Duration>)>,
    taken: &Taken,
) {
    let numbers = taken.numbers.lock().expect("no panic");
    let counts: Vec<_> =
        numbers.iter().map(|(kind, all)| format!("{} {kind}", all.len())).collect();
    eprintln!(
        "storm on {name}, {} s: {}; {} leases lost",
        taken.begin.elapsed().as_secs(),
        counts.join(", "),
        taken.lost.load(Ordering::Relaxed)
    );
    for (what, pauses) in pauses {
        pauses.sort_unstable();
        let (median, most) = (pauses[pauses.len() / 2], pauses[pauses.len() - 1]);
        let [median, most] = [median, most].map(|time| time.as_secs_f64());
        eprintln!("| {what} | {} | {median:.1} | {most:.1} |", pauses.len());
    }
    for (text, count) in &*taken.errors.lock().expect("no panic") {
        eprintln!("{count} times: {text}");
    }
    for (kind, numbers) in &*numbers {
        let mut known = HashMap::with_capacity(numbers.len());
        for (number, by) in numbers {
            if let Some(first) = known.insert(number, by) {
                panic!("{kind}: {number} came twice, by {first} and by {by}");
            }
        }
    }
}

/// Checks the horizons of a table of leases after a storm against the last tick of each worker id. A clean end lowers a
/// horizon to the last uid, never below it.
///
/// # Panics
///
/// If a horizon is below the last tick.
#[cfg(feature = "tables")]
pub fn assert_within_horizons(table: &dyn LeaseTable, last: &HashMap<u64, u64>) {
    for row in table.list().expect("listed") {
        let horizon = row.horizon.map(|(tick, _)| tick);
        assert!(horizon >= last.get(&row.worker_id).copied(), "{row:?}: {last:?}");
    }
}

/// Ends the holders on drop.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
