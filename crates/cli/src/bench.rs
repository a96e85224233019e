//! `uidring bench`.

mod args;
mod chart;
mod contestant;
mod machine;
mod measure;
mod report;
mod table;
mod takers;
mod threads;

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::thread;

use core_affinity::CoreId;
use crossbeam_utils::CachePadded;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use uidring::{CachedUidGenerator, Error, Layout, PerThreadGenerator, TakeError};

pub use self::args::BenchArgs;
use self::args::Form;
use self::contestant::{Contestant, Trouble};
use self::machine::Machine;
use self::measure::{Lineup, Plan, measure};
use self::report::Report;
use self::takers::{FetchAdd, Fill, Increment, Local, PerThread, Shared, Stores};
use self::threads::Crew;
use super::Failure;
use super::output;

/// The worker id of all benches: their uids go nowhere.
const WORKER_ID: u64 = 1;

pub fn run(args: &BenchArgs) -> Result<(), Failure> {
    let layout = args.layout.layout()?;
    CachedUidGenerator::ring_memory(&layout, args.boost_power).map_err(Failure::usage)?;
    let generator = generator(args, layout)?;
    let crew = Crew { threads: args.threads.into(), cores: cores(args.pin)? };
    // Nobody should wait for a chart that cannot be kept.
    args.svg.as_deref().map_or(Ok(()), |file| make_file(file).map_err(unwritable(file)))?;

    let machine = Machine::this();
    // From 1 on: the check that ids increase begins above 0.
    let counter = CachePadded::new(AtomicU64::new(1));
    let per_thread = generator.per_thread();
    let lineup = lineup(args, &per_thread, &generator, &counter);
    let scaling = match args.svg {
        Some(_) => doubling_up_to(crew.threads.max(2 * machine.cores)),
        None => Vec::new(),
    };
    let plan = Plan::new(args.seconds, &lineup, scaling);
    let bar = progress(plan.steps());
    let measured = measure(&lineup, &crew, &plan, |phase| {
        bar.set_message(phase);
        bar.inc(1);
    })?;
    bar.finish_and_clear();

    let ring = generator.stats().ring.capacity;
    let report = Report { args, layout, ring, machine, rounds: plan.rounds(), measured };
    let text = if args.json { report.json() } else { table::table(&report) };
    // The figures come out even if the chart has become impossible meanwhile.
    let drawn = args.svg.as_deref().map_or(Ok(()), |file| draw(&report, file));
    writeln!(output::stdout()?, "{text}")?;
    drawn
}

fn generator(args: &BenchArgs, layout: Layout) -> Result<CachedUidGenerator, Failure> {
    let built = CachedUidGenerator::builder()
        .layout(layout)
        .worker_id(WORKER_ID)
        .boost_power(args.boost_power)
        .take_policy(args.policy.take_policy())
        .padder_core(args.padder_core.0)
        .padder_idle(args.padder_idle())
        .build();
    built.map_err(|error| match error {
        Error::NoSuchCore { .. } => Failure::usage(error),
        error => error.into(),
    })
}

/// The forms, the atomic addition, and for forms that need none of those for most ids the same work
/// without any.
fn lineup<'a>(
    args: &BenchArgs,
    per_thread: &'a PerThreadGenerator<&CachedUidGenerator>,
    generator: &'a CachedUidGenerator,
    counter: &'a AtomicU64,
) -> Lineup<'a> {
    let ours = args.forms().map(|form| match form {
        Form::Shared => Contestant::new(form.name(), move || Shared(generator)),
        Form::PerThread => Contestant::new(form.name(), move || PerThread(per_thread)),
        Form::Local => Contestant::new(form.name(), move || Local(generator.local())),
        Form::Fill => Contestant::new(form.name(), move || Fill::new(generator)),
    });
    let mut contestants: Vec<_> = ours.collect();
    let baseline = contestants.len();
    contestants.push(Contestant::new("fetch_add", move || FetchAdd(counter)));
    if args.forms().any(|form| matches!(form, Form::PerThread | Form::Local)) {
        contestants.push(Contestant::new("increment", Increment::default));
    }
    if args.forms().any(|form| form == Form::Fill) {
        contestants.push(Contestant::new("store_loop", Stores::default));
    }
    Lineup { contestants, baseline }
}

/// The cores to pin takers to. Where pinning is not possible, figures must not claim it.
fn cores(pin: bool) -> Result<Vec<CoreId>, Failure> {
    if !pin {
        return Ok(Vec::new());
    }
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let pin_to_each = || cores.iter().all(|core| core_affinity::set_for_current(*core));
    // In a thread that is gone afterwards.
    let pinned = thread::scope(|scope| scope.spawn(pin_to_each).join());
    if cores.is_empty() || !matches!(pinned, Ok(true)) {
        return Err(Failure::Failed("threads cannot be pinned here; leave --pin out".into()));
    }
    Ok(cores)
}

/// 1, 2, 4 and so on, and the end itself.
fn doubling_up_to(end: usize) -> Vec<usize> {
    let doubling = (0..).map(|power| 1 << power).take_while(|threads| *threads < end);
    doubling.chain([end]).collect()
}

/// Makes the file if it is not there; an old chart stays until there is a new one.
fn make_file(file: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create(true).truncate(false).open(file).map(drop)
}

fn draw(report: &Report<'_>, file: &Path) -> Result<(), Failure> {
    let svg = chart::svg(report)
        .map_err(|error| Failure::Failed(format!("drawing {}: {error}", file.display())))?;
    fs::write(file, svg).map_err(unwritable(file))
}

fn unwritable(file: &Path) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::Failed(format!("writing {}: {error}", file.display()))
}

/// A bar on stderr, if somebody looks at it. It moves between rounds only, when nothing is timed.
fn progress(steps: usize) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template("{wide_bar} {msg}, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        Self::Failed(match trouble {
            Trouble::Take(TakeError::TimeExhausted) => {
                "the layout's time ran out while measuring, which borrows the future: take more \
                 time bits, or leave --layout out"
                    .into()
            }
            Trouble::Take(error) => error.to_string(),
            Trouble::Disorder => "uids of one thread did not increase; please report this".into(),
            Trouble::NothingTaken => {
                "every take of a round was rejected: take more --seconds or --policy wait".into()
            }
            Trouble::Thread(error) => format!("starting the threads: {error}; take fewer"),
        })
    }
}
