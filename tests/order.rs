//! Histories of concurrent takes with their times: no uid repeats, and the order is as promised.
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
use uidring_testkit::history::{Checker, Form, Run};
use uidring_testkit::namespace::fresh;

/// Takes of a thread in a round.
const TAKES: usize = 40_000;

fn main() {
    // Test runners ask for a list of tests; there is none.
    if env::args().any(|word| word == "--list") {
        return;
    }
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
                let thread = thread as u64;
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
