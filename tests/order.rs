//! Histories of concurrent takes with their times, and a checker for the guarantees: no uid repeats. Takes from the
//! generator itself are in time order across all threads. Takes from a thread's handle or a local one are in their own
//! order.
//!
//! A program without the test harness: `order [SECONDS [SEED]]`. `scripts/order` runs it optimised.

use std::num::NonZero;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, process};

use uidring::{
    CachedUidGenerator, LocalGenerator, PerThreadGenerator, TakeError, Uid, UidGenerator,
};
use uidring_testkit::namespace::fresh;

/// Takes of a thread in a round.
const TAKES: usize = 40_000;

/// The form that a take used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    /// The generator itself, with `next_uid` or `fill`.
    Shared,
    PerThread,
    Local,
}

/// Neighbouring uids that one call returned. A call that returned several runs is in the history several times.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Nanoseconds before and after the call.
    begin: u64,
    end: u64,
    first: u64,
    last: u64,
    form: Form,
    thread: usize,
}

fn main() {
    // Test runners ask for a list of tests; there is none.
    if env::args().any(|word| word == "--list") {
        return;
    }
    the_checker_finds_what_is_wrong();
    let mut numbers = env::args().skip(1).filter_map(|word| word.parse::<u64>().ok());
    let seconds = numbers.next().unwrap_or(2);
    let seed = numbers.next().unwrap_or_else(|| fastrand::u64(..));
    println!("order: {seconds} s, {} threads, seed {seed}", threads());
    let (start, mut rounds, mut calls, mut uids) = (Instant::now(), 0, 0, 0);
    while rounds < 2 || start.elapsed() < Duration::from_secs(seconds) {
        let seed = seed.wrapping_add(rounds);
        let mut checker = Checker::default();
        let generator = Arc::new(
            CachedUidGenerator::builder()
                .worker_id(1)
                // Small rings run dry, so takers pad for themselves.
                .boost_power(fastrand::Rng::with_seed(seed).u32(1..4))
                .namespace(fresh())
                .build()
                .expect("a generator"),
        );
        let per_thread = PerThreadGenerator::new(Arc::clone(&generator));
        for part in 0..8 {
            let history = record(&generator, &per_thread, seed.wrapping_add(part << 32));
            calls += threads() * TAKES;
            uids += history.iter().map(|run| run.last - run.first + 1).sum::<u64>();
            if let Err(problem) = checker.check(history) {
                eprintln!("{problem}");
                println!("{rounds} passed, 1 failed after {:.1?} (seed {seed})", start.elapsed());
                process::exit(1);
            }
        }
        rounds += 1;
    }
    println!("{rounds} passed, 0 failed: {calls} calls, {uids} uids");
}

fn threads() -> usize {
    2 * thread::available_parallelism().map_or(2, NonZero::get)
}

/// Lets all threads take at once, in all forms.
fn record(
    generator: &Arc<CachedUidGenerator>,
    per_thread: &PerThreadGenerator<Arc<CachedUidGenerator>>,
    seed: u64,
) -> Vec<Run> {
    let (barrier, epoch) = (Barrier::new(threads()), Instant::now());
    let take = |thread: usize| {
        let mut random = fastrand::Rng::with_seed(seed.wrapping_add(thread as u64));
        let mut local = LocalGenerator::new(&**generator);
        let mut runs = Vec::with_capacity(TAKES + TAKES / 8);
        let mut uids = [Uid::default(); 600];
        let now = || epoch.elapsed().as_nanos() as u64;
        barrier.wait();
        for _ in 0..TAKES {
            let kind = random.u8(..);
            let want = if kind < 2 { random.usize(1..=uids.len()) } else { 1 };
            let begin = now();
            let (form, taken) = match kind {
                0..2 => (Form::Shared, generator.fill(&mut uids[..want]).map_err(|e| e.error)),
                2..160 => (Form::Shared, one(&mut uids, generator.next_uid())),
                160..210 => (Form::PerThread, one(&mut uids, per_thread.next_uid())),
                _ => (Form::Local, one(&mut uids, local.next_uid())),
            };
            let end = now();
            taken.expect("uids");
            for run in uids[..want].chunk_by(|a, b| a.get() + 1 == b.get()) {
                let [first, last] = [run[0], run[run.len() - 1]].map(Uid::get);
                runs.push(Run { begin, end, first, last, form, thread });
            }
        }
        runs
    };
    thread::scope(|scope| {
        let take = &take;
        let taking: Vec<_> =
            (0..threads()).map(|thread| scope.spawn(move || take(thread))).collect();
        taking.into_iter().flat_map(|taking| taking.join().expect("a taker")).collect()
    })
}

fn one(uids: &mut [Uid], taken: Result<Uid, TakeError>) -> Result<(), TakeError> {
    uids[0] = taken?;
    Ok(())
}

/// Checks consecutive histories: all calls of one return before the next begins.
#[derive(Default)]
struct Checker {
    /// All uids so far in order, as ranges of neighbours: first and last.
    seen: Vec<(u64, u64)>,
    /// The greatest uid of the generator itself.
    greatest: Option<u64>,
}

impl Checker {
    /// Checks a history whose runs are in program order, thread by thread.
    fn check(&mut self, mut history: Vec<Run>) -> Result<(), String> {
        in_each_thread(&history)?;
        history.sort_unstable_by_key(|run| run.first);
        self.distinct(&history)?;
        let shared: Vec<_> = history.iter().filter(|run| run.form == Form::Shared).collect();
        if let (Some(greatest), Some(first)) = (self.greatest, shared.first())
            && first.first <= greatest
        {
            return Err(format!("{first:?} is not above {greatest}, which was taken before"));
        }
        // From the greatest uid down: the earliest end of a call with a greater uid.
        let mut earliest: Option<&Run> = None;
        for run in shared.iter().rev() {
            if let Some(earlier) = earliest.filter(|earlier| earlier.end < run.begin) {
                return Err(format!("{earlier:?} had returned before {run:?} began"));
            }
            earliest = Some(earliest.filter(|other| other.end <= run.end).unwrap_or(run));
        }
        self.greatest = shared.last().map(|run| run.last).or(self.greatest);
        Ok(())
    }

    /// Adds uids, which must be new.
    fn distinct(&mut self, sorted: &[Run]) -> Result<(), String> {
        let mut all = std::mem::take(&mut self.seen);
        all.extend(sorted.iter().map(|run| (run.first, run.last)));
        // Two sorted parts, which this merges.
        all.sort_by_key(|run| run.0);
        for (first, last) in all {
            match self.seen.last_mut() {
                Some(before) if before.1 >= first => {
                    return Err(format!("{first} came twice: it is in {before:?} as well"));
                }
                Some(before) if before.1 + 1 == first => before.1 = last,
                _ => self.seen.push((first, last)),
            }
        }
        Ok(())
    }
}

/// Checks that within each thread, uids of one form increase.
fn in_each_thread(history: &[Run]) -> Result<(), String> {
    let mut before: Vec<[Option<Run>; 3]> = Vec::new();
    for run in history {
        if before.len() <= run.thread {
            before.resize(run.thread + 1, [None; 3]);
        }
        let place = &mut before[run.thread][run.form as usize];
        if let Some(earlier) = place.filter(|earlier| earlier.last >= run.first) {
            return Err(format!("a thread took {earlier:?} before {run:?}"));
        }
        *place = Some(*run);
    }
    Ok(())
}

/// Tests the checker with histories that are known to be right or wrong.
fn the_checker_finds_what_is_wrong() {
    let run = |thread, begin, end, first, last, form| Run { begin, end, first, last, form, thread };
    let shared = |thread, begin, end, uid| run(thread, begin, end, uid, uid, Form::Shared);
    let check = |history: &[Run]| Checker::default().check(history.to_vec());
    // Overlapping calls may return in any order.
    assert_eq!(check(&[shared(0, 0, 10, 2), shared(1, 5, 6, 1)]), Ok(()));
    assert_eq!(check(&[shared(0, 0, 10, 2), shared(1, 10, 12, 1)]), Ok(()));
    // Other calls may not, however far apart, whatever lies between.
    assert!(check(&[shared(0, 0, 10, 2), shared(1, 11, 12, 1)]).is_err());
    let between = [shared(0, 0, 1, 9), shared(1, 0, 90, 5), shared(2, 2, 3, 1)];
    assert!(check(&between).is_err());
    let many: Vec<_> = (0..100).map(|n| shared(n, n as u64, n as u64 + 50, n as u64)).collect();
    assert_eq!(check(&many), Ok(()));
    // For other forms, each thread's own order counts.
    let block = |thread, begin, uid| run(thread, begin, begin + 1, uid, uid, Form::PerThread);
    assert_eq!(check(&[block(0, 0, 100), block(1, 5, 1), block(1, 9, 2)]), Ok(()));
    assert!(check(&[block(0, 0, 100), shared(0, 2, 3, 101), block(0, 5, 1)]).is_err());
    // No repeats, in one history or across two.
    assert!(check(&[run(0, 0, 1, 5, 9, Form::Local), block(1, 0, 7)]).is_err());
    let mut checker = Checker::default();
    assert_eq!(checker.check(vec![run(0, 0, 1, 5, 9, Form::Local)]), Ok(()));
    assert!(checker.check(vec![block(1, 0, 9)]).is_err());
    let mut checker = Checker::default();
    assert_eq!(checker.check(vec![shared(0, 0, 1, 9)]), Ok(()));
    assert!(checker.check(vec![shared(0, 0, 1, 8)]).is_err(), "below an earlier history");
}
