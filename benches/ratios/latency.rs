//! The latency of single takes by kind of caller: percentiles and the maximum. Also their ratio to a bare addition, as
//! the median of rounds in which both are neighbours.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use uidring::CachedUidGenerator;
use uidring::clock::{Clock, SystemClock};
use uidring::padding::{NextRun, Padder, PadderOptions, RunSource};
use uidring::ring::RingOptions;

use super::generators::{per_thread, pinned, ticking};
use super::segments::one;
use super::timing::{add, median, pin};

/// Measures each form with all callers, then the single causes of delays.
pub fn run(rounds: usize, quick: bool) {
    let (cached, per_thread, clocked) = (pinned(), per_thread(), ticking());
    let (_, handle) = one();
    let mut forms = [
        Form::new("fetch_add", || add),
        Form::new("next_uid", || || cached.next_uid().expect("waits").get()),
        Form::new("per-thread next_uid", || || per_thread.next_uid().expect("waits").get()),
        Form::new("local next_uid", || {
            let mut local = cached.local();
            move || local.next_uid().expect("waits").get()
        }),
        Form::new("next_uid by the ticker clock", || || clocked.next_uid().expect("waits").get()),
        Form::new("segment's handle", || || handle.next_id().expect("waits")),
    ];
    println!(
        "| callers | threads | form | p50 | p99 | p99.9 | p99.99 | longest | p99.9 ÷ | p99.99 ÷ |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let cores = thread::available_parallelism().map_or(1, Into::into);
    for threads in [1, cores, 8 * cores] {
        for callers in [Callers::Steady, Callers::Bursty, Callers::Idle] {
            forms.iter_mut().for_each(|form| form.rounds.clear());
            for _ in 0..rounds {
                forms.iter_mut().for_each(|form| form.round(callers, threads, quick));
            }
            print(callers, threads, &forms);
        }
    }
    run_ends(cached, quick);
    helps(quick);
}

/// How a caller spaces its takes.
#[derive(Clone, Copy)]
enum Callers {
    /// One take after another.
    Steady,
    /// 5,000 takes, then a pause of 2 ms.
    Bursty,
    /// One take, then a pause of 100 us.
    Idle,
}

impl Callers {
    fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Bursty => "bursty",
            Self::Idle => "idle",
        }
    }

    /// Returns the takes of a thread in a round, after how many of them it pauses, and for how long.
    fn plan(self, quick: bool) -> (u64, u64, Duration) {
        let by = if quick { 10 } else { 1 };
        match self {
            Self::Steady => (400_000 / by, u64::MAX, Duration::ZERO),
            Self::Bursty => (200_000 / by, 5_000, Duration::from_millis(2)),
            Self::Idle => (3_000 / by, 1, Duration::from_micros(100)),
        }
    }
}

/// One way to take, with its latencies by round.
struct Form<'a> {
    name: &'static str,
    /// Makes a thread's taker.
    taker: Box<dyn Fn() -> Box<dyn FnMut() -> u64 + 'a> + Sync + 'a>,
    rounds: Vec<Histogram<u64>>,
}

impl<'a> Form<'a> {
    fn new<T: FnMut() -> u64 + 'a>(name: &'static str, taker: impl Fn() -> T + Sync + 'a) -> Self {
        Self { name, taker: Box::new(move || Box::new(taker())), rounds: Vec::new() }
    }

    fn round(&mut self, callers: Callers, threads: usize, quick: bool) {
        let (takes, burst, rest) = callers.plan(quick);
        let barrier = Barrier::new(threads);
        let (taker, barrier) = (&self.taker, &barrier);
        let mut times = histogram();
        thread::scope(|scope| {
            let threads: Vec<_> = (0..threads)
                .map(|index| {
                    scope.spawn(move || {
                        pin(index);
                        let (mut take, mut times) = (taker(), histogram());
                        take();
                        barrier.wait();
                        for count in 1..=takes {
                            let start = Instant::now();
                            black_box(take());
                            let time = start.elapsed();
                            times.saturating_record(time.as_nanos() as u64);
                            if count % burst == 0 {
                                thread::sleep(rest);
                            }
                        }
                        times
                    })
                })
                .collect();
            for thread in threads {
                times.add(thread.join().expect("no panic")).expect("alike");
            }
        });
        self.rounds.push(times);
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("possible")
}

fn print(callers: Callers, threads: usize, forms: &[Form]) {
    for Form { name, rounds, .. } in forms {
        let mut times = histogram();
        rounds.iter().for_each(|round| times.add(round).expect("alike"));
        let at = |quantile| times.value_at_quantile(quantile);
        let ratio = |quantile| {
            let at = |round: &Histogram<u64>| round.value_at_quantile(quantile).max(1) as f64;
            median(rounds.iter().zip(&forms[0].rounds).map(|(form, base)| at(form) / at(base)))
        };
        println!(
            "| {} | {threads} | {name} | {} ns | {} ns | {} ns | {} ns | {:.1} us | {:.2} | {:.2} |",
            callers.name(),
            at(0.5),
            at(0.99),
            at(0.999),
            at(0.9999),
            times.max() as f64 / 1_000.0,
            ratio(0.999),
            ratio(0.9999),
        );
    }
}

/// Times takes of the last uid of a tick: they open the next run, and may wake the padder.
fn run_ends(generator: &CachedUidGenerator, quick: bool) {
    let mut times = histogram();
    let wanted = if quick { 50 } else { 5_000 };
    while times.len() < wanted {
        let start = Instant::now();
        let uid = generator.next_uid().expect("waits");
        let time = start.elapsed();
        let sequence = generator.decode(uid).expect("decodes").sequence;
        if sequence == generator.layout().max_sequence() {
            times.saturating_record(time.as_nanos() as u64);
        }
    }
    print_one("A take of the last uid of a tick, by one thread", &times);
}

/// Runs as far apart as ticks, from a source that reads the clock before each padding.
struct Ticks(u64);

impl RunSource for Ticks {
    fn oldest_fresh(&mut self) -> Option<u64> {
        black_box(SystemClock.now());
        Some(0)
    }

    fn next_run(&mut self) -> NextRun {
        self.0 += 1 << 22;
        NextRun::Run(self.0)
    }
}

/// Times takers that help the padder with as many runs as they may. The ring calls its padder only when nearly empty,
/// so the helper is alone with it.
fn helps(quick: bool) {
    let options = RingOptions::new(20).run_bits(13).padding_factor(1).spaced();
    let padder = Padder::start(PadderOptions::default()).expect("a thread");
    let padded = padder.serve(options, Ticks(0), None).expect("memory");
    let ring = padded.ring();
    let mut numbers = vec![0; (64 * ring.run_length()) as usize];
    let mut times = histogram();
    for _ in 0..if quick { 5 } else { 1_000 } {
        assert_eq!(ring.try_fill(&mut numbers), Ok(numbers.len()));
        let start = Instant::now();
        assert!(padded.help());
        times.saturating_record(start.elapsed().as_nanos() as u64);
        assert!(ring.stats().available >= numbers.len() as u64);
    }
    print_one("A helping taker's part of a padding, 64 runs", &times);
}

fn print_one(what: &str, times: &Histogram<u64>) {
    println!(
        "\n{what}: {} ns (median), {} ns (p99), {:.1} us (longest).",
        times.value_at_quantile(0.5),
        times.value_at_quantile(0.99),
        times.max() as f64 / 1_000.0
    );
}
