//! Costs as ratios: each contestant against its baseline, interleaved in one run, medians over
//! rounds. Other work on the machine hits both alike.
//!
//! `cargo bench --bench ratios -- --help` tells the flags.

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use crossbeam_utils::CachePadded;
use uidring::{CachedUidGenerator, Layout, PadderCore, Tick, Timestamp, Uid, UidGenerator};

const HELP: &str = "\
Options:
  --rounds N     rounds of each comparison (default 15)
  --ids N        ids of each contestant in a round (default 10000000)
  --only WORD    only comparisons whose name holds WORD
  --raw FILE     write every measurement as CSV
  --quick        3 rounds of 200,000 ids: to see that it runs";

/// One line of the table: two ways to do the same work.
struct Comparison<'a> {
    name: String,
    contestant: Box<dyn Fn(u64) -> Duration + 'a>,
    baseline: Box<dyn Fn(u64) -> Duration + 'a>,
}

impl<'a> Comparison<'a> {
    /// Each of the two does the work of so many ids, and says how long it took.
    fn new(
        name: impl Into<String>,
        contestant: impl Fn(u64) -> Duration + 'a,
        baseline: impl Fn(u64) -> Duration + 'a,
    ) -> Self {
        let (contestant, baseline) = (Box::new(contestant), Box::new(baseline));
        Self { name: name.into(), contestant, baseline }
    }
}

struct Options {
    rounds: usize,
    ids: u64,
    only: Option<String>,
    raw: Option<String>,
}

fn main() {
    let options = options();
    let pinned = generator(PadderCore::Last);
    let unpinned = generator(PadderCore::Unpinned);
    let counter = CachePadded::new(AtomicU64::new(0));
    let add = |count| {
        for _ in 0..count {
            black_box(counter.fetch_add(1, Ordering::Relaxed));
        }
    };
    let mut comparisons = vec![];
    for threads in [1, 2, 4, 16] {
        let by = plural(threads);
        comparisons.push(Comparison::new(
            format!("next_uid / fetch_add, {by}"),
            move |ids| time_takes(unpinned, threads, ids),
            move |ids| time(threads, ids, add),
        ));
        comparisons.push(Comparison::new(
            format!("next_uid, padder pinned / unpinned, {by}"),
            move |ids| time_takes(pinned, threads, ids),
            move |ids| time_takes(unpinned, threads, ids),
        ));
    }
    comparisons.push(Comparison::new(
        "fill(4096) / store loop",
        move |ids| time_fill(pinned, ids),
        time_stores,
    ));
    let mut raw = String::from("comparison,round,ids,contestant_ns,baseline_ns\n");
    println!("| comparison | ratio | contestant | baseline |\n|---|---|---|---|");
    for comparison in &comparisons {
        if options.only.as_ref().is_none_or(|word| comparison.name.contains(word)) {
            run(comparison, &options, &mut raw);
        }
    }
    if let Some(file) = options.raw
        && let Err(error) = fs::write(&file, raw)
    {
        eprintln!("error: {file}: {error}");
        process::exit(1);
    }
}

fn run(comparison: &Comparison<'_>, options: &Options, raw: &mut String) {
    let mut rounds = Vec::new();
    for round in 0..options.rounds {
        // Who comes first changes, lest the first one's heat or rest favour the second.
        let ids = options.ids;
        let (contestant, baseline) = if round % 2 == 0 {
            let contestant = (comparison.contestant)(ids);
            (contestant, (comparison.baseline)(ids))
        } else {
            let baseline = (comparison.baseline)(ids);
            ((comparison.contestant)(ids), baseline)
        };
        let nanoseconds = [contestant, baseline].map(|time| time.as_nanos());
        let _ = writeln!(
            raw,
            "\"{}\",{round},{ids},{},{}",
            comparison.name, nanoseconds[0], nanoseconds[1]
        );
        let per_id = nanoseconds.map(|time| time as f64 / ids as f64);
        rounds.push((per_id[0] / per_id[1], per_id[0], per_id[1]));
    }
    println!(
        "| {} | {:.2} | {:.3} ns | {:.3} ns |",
        comparison.name,
        median(rounds.iter().map(|round| round.0)),
        median(rounds.iter().map(|round| round.1)),
        median(rounds.iter().map(|round| round.2)),
    );
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn plural(threads: usize) -> String {
    if threads == 1 { "1 thread".into() } else { format!("{threads} threads") }
}

/// Lives until the process ends, so that threads may borrow it.
fn generator(core: PadderCore) -> &'static CachedUidGenerator {
    // So wide a layout that no number of rounds brings it to its end.
    let bits = uidring::Bits { time: 45, worker: 5, sequence: 13 };
    let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
    let builder = CachedUidGenerator::builder().layout(layout).worker_id(1).padder_core(core);
    Box::leak(Box::new(builder.build().expect("builds")))
}

/// All ids together, shared out among the threads; from the common start to the last one's end.
/// The work is a whole loop, so that what is in it can be inlined, as it would be elsewhere.
fn time(threads: usize, ids: u64, work: impl Fn(u64) + Sync) -> Duration {
    let share = ids / threads as u64;
    if threads == 1 {
        let start = Instant::now();
        work(share);
        return start.elapsed();
    }
    let barrier = Barrier::new(threads + 1);
    let mut start = Instant::now();
    // Pinned in turn, lest the operating system puts two takers on one core for a while, where
    // they would not contend.
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let (barrier_ref, work) = (&barrier, &work);
    thread::scope(|scope| {
        for taker in 0..threads {
            let core = (!cores.is_empty()).then(|| cores[taker % cores.len()]);
            scope.spawn(move || {
                core.map(core_affinity::set_for_current);
                barrier_ref.wait();
                work(share);
            });
        }
        start = Instant::now();
        barrier.wait();
    });
    start.elapsed()
}

fn time_takes(generator: &CachedUidGenerator, threads: usize, ids: u64) -> Duration {
    let before = generator.next_uid().expect("waits");
    let time = time(threads, ids, |count| {
        for _ in 0..count {
            black_box(generator.next_uid().expect("waits"));
        }
    });
    let after = generator.next_uid().expect("waits");
    assert!(position(generator, after) - position(generator, before) > ids / threads as u64);
    time
}

/// The place of a uid among all of its worker: what is taken moves it on.
fn position(generator: &CachedUidGenerator, uid: Uid) -> u64 {
    let fields = generator.decode(uid).expect("decodes");
    fields.tick * generator.layout().uids_per_tick() + fields.sequence
}

const BATCH: usize = 4_096;

fn time_fill(generator: &CachedUidGenerator, ids: u64) -> Duration {
    let mut uids = [Uid::default(); BATCH];
    let start = Instant::now();
    for _ in 0..ids / BATCH as u64 {
        generator.fill(&mut uids).expect("waits");
        black_box(&mut uids);
    }
    let time = start.elapsed();
    assert!(uids.is_sorted_by(|a, b| a < b));
    time
}

fn time_stores(ids: u64) -> Duration {
    let mut numbers = [0_u64; BATCH];
    let mut next = 0;
    let start = Instant::now();
    for _ in 0..ids / BATCH as u64 {
        for number in &mut numbers {
            *number = next;
            next += 1;
        }
        black_box(&mut numbers);
    }
    start.elapsed()
}

fn options() -> Options {
    let mut options = Options { rounds: 15, ids: 10_000_000, only: None, raw: None };
    let mut words = env::args().skip(1);
    let wrong = |what: &str| -> ! {
        eprintln!("error: {what}\n\n{HELP}");
        process::exit(2)
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| wrong("a value is missing"));
        let number = |text: String| match text.parse::<u64>() {
            Ok(number) if number > 0 => number,
            _ => wrong("not a number above 0"),
        };
        match word.as_str() {
            "--rounds" => options.rounds = number(value()) as usize,
            "--ids" => options.ids = number(value()),
            "--only" => options.only = Some(value()),
            "--raw" => options.raw = Some(value()),
            "--quick" => (options.rounds, options.ids) = (3, 200_000),
            "--help" => {
                println!("{HELP}");
                process::exit(0)
            }
            // Given by cargo.
            "--bench" => {}
            other => wrong(other),
        }
    }
    options
}
