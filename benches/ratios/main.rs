//! Costs as ratios: each contestant against its baseline, interleaved, as medians over rounds. So other work on the
//! machine affects both alike. With `--latency`, the latency of single takes.
//!
//! `cargo bench --bench ratios -- --help` lists the flags.

mod generators;
mod latency;
mod segments;
mod timing;

use std::fmt::Write as _;
use std::{env, fs, process};

const HELP: &str = "\
Options:
  --latency      measure how long single takes last instead
  --rounds N     rounds of each comparison (default 15), or of each way to take (default 9)
  --ids N        ids of each contestant in a round (default 10000000)
  --only WORD    only comparisons whose name holds WORD
  --raw FILE     write every measurement as CSV
  --quick        few and short rounds: to see that it runs";

/// One line of the table: two ways to do the same work.
struct Comparison {
    name: String,
    contestant: Measure,
    baseline: Measure,
}

/// Comparisons with bare additions for these numbers of threads. `takes` gets the number of threads and of ids.
fn with_additions(
    name: &'static str,
    threads: &'static [u64],
    takes: impl Fn(u64, u64) -> f64 + Copy + 'static,
) -> impl Iterator<Item = Comparison> {
    threads.iter().map(move |threads| {
        Comparison::new(
            format!("{name} / fetch_add, threads: {threads}"),
            move |ids| takes(*threads, ids),
            move |ids| timing::additions(*threads, ids),
        )
    })
}

/// Does the work for this many ids, and returns nanoseconds per id.
type Measure = Box<dyn Fn(u64) -> f64>;

impl Comparison {
    fn new(
        name: impl Into<String>,
        contestant: impl Fn(u64) -> f64 + 'static,
        baseline: impl Fn(u64) -> f64 + 'static,
    ) -> Self {
        let (contestant, baseline) = (Box::new(contestant), Box::new(baseline));
        Self { name: name.into(), contestant, baseline }
    }
}

struct Options {
    latency: bool,
    quick: bool,
    rounds: Option<usize>,
    ids: u64,
    only: Option<String>,
    raw: Option<String>,
}

fn main() {
    let options = options();
    if options.latency {
        return latency::run(
            options.rounds.unwrap_or(if options.quick { 2 } else { 9 }),
            options.quick,
        );
    }
    let mut raw = String::from("comparison,round,contestant_ns,baseline_ns\n");
    println!("| comparison | ratio | contestant | baseline |\n|---|---|---|---|");
    let only = |name: &str| options.only.as_ref().is_none_or(|word| name.contains(word));
    for comparison in generators::comparisons().chain(segments::comparisons()) {
        if only(&comparison.name) {
            run(&comparison, &options, &mut raw);
        }
    }
    if let Some(file) = options.raw
        && let Err(error) = fs::write(&file, raw)
    {
        eprintln!("error: {file}: {error}");
        process::exit(1);
    }
}

fn run(comparison: &Comparison, options: &Options, raw: &mut String) {
    let mut rounds = Vec::new();
    for round in 0..options.rounds.unwrap_or(if options.quick { 3 } else { 15 }) {
        // Alternate the order, so that neither always gets the other's heat.
        let (contestant, baseline) = if round % 2 == 0 {
            let contestant = (comparison.contestant)(options.ids);
            (contestant, (comparison.baseline)(options.ids))
        } else {
            let baseline = (comparison.baseline)(options.ids);
            ((comparison.contestant)(options.ids), baseline)
        };
        let _ = writeln!(raw, "\"{}\",{round},{contestant},{baseline}", comparison.name);
        rounds.push((contestant / baseline, contestant, baseline));
    }
    println!(
        "| {} | {:.2} | {:.3} ns | {:.3} ns |",
        comparison.name,
        timing::median(rounds.iter().map(|round| round.0)),
        timing::median(rounds.iter().map(|round| round.1)),
        timing::median(rounds.iter().map(|round| round.2)),
    );
}

fn options() -> Options {
    let mut options = Options {
        latency: false,
        quick: false,
        rounds: None,
        ids: 10_000_000,
        only: None,
        raw: None,
    };
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
            "--latency" => options.latency = true,
            "--rounds" => options.rounds = Some(number(value()) as usize),
            "--ids" => options.ids = number(value()),
            "--only" => options.only = Some(value()),
            "--raw" => options.raw = Some(value()),
            "--quick" => (options.quick, options.ids) = (true, 200_000),
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
