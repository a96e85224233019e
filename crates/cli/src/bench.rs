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

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use core_affinity::CoreId;
use crossbeam_utils::CachePadded;
use uidring::padding::PadderIdle;
use uidring::policy::TakePolicy;
use uidring::{CachedUidGenerator, Error, Layout, PerThreadGenerator, Uid};
use uidring_store::check_path;

pub use self::args::BenchArgs;
use self::args::{Form, Policy, name};
use self::contestant::Contestant;
use self::machine::Machine;
use self::measure::{Lineup, Plan, measure};
use self::report::Report;
use self::takers::Batch;
use self::threads::Crew;
use crate::args::layout::Preset;
use crate::failure::Failure;
use crate::{progress, sink, stdio};

/// The worker id of all benches: their uids go nowhere.
const WORKER_ID: u64 = 1;

pub fn run(args: &BenchArgs) -> Result<(), Failure> {
    let layout = args.layout.resolve_silently(Preset::Uid)?.layout;
    CachedUidGenerator::ring_memory(&layout, args.boost_power).map_err(Failure::usage)?;
    let generator = generator(args, layout)?;
    let crew = Crew { threads: args.threads.into(), cores: cores(args.pin)? };
    // Nobody should wait for a chart that cannot be written. An old chart stays until there is a new one.
    let unwritable = |error: io::Error| {
        let file = args.svg.as_deref().unwrap_or(Path::new(""));
        Failure::Failed(format!("writing {}: {error}", file.display()))
    };
    let mut chart_file = None;
    if let Some(path) = &args.svg {
        check_path("the file of --svg", path).map_err(Failure::usage)?;
        chart_file = Some(sink::create_or_open(path).map_err(unwritable)?.0);
    }

    let machine = Machine::this();
    // From 1 on: the check that ids increase begins above 0.
    let counter = CachePadded::new(AtomicU64::new(1));
    let per_thread = generator.per_thread();
    let lineup = lineup(args, &per_thread, &generator, &counter);
    let mut scaling = Vec::new();
    if args.svg.is_some() {
        let most = crew.threads.max(2 * machine.cores);
        scaling.extend((0..).map(|power| 1 << power).take_while(|threads| *threads < most));
        scaling.push(most);
    }
    let plan = Plan::new(args.seconds, &lineup, scaling);
    // It moves between rounds only, when nothing is timed.
    let bar = progress::bar(Some(plan.steps() as u64), "{wide_bar} {msg}, {eta} left");
    let measured = measure(&lineup, &crew, &plan, |phase| {
        bar.set_message(phase);
        bar.inc(1);
    })?;
    bar.finish_and_clear();

    let ring = generator.stats().ring.capacity;
    let report = Report { args, layout, ring, machine, rounds: plan.rounds, measured };
    let text = if args.json { report.json().to_string() } else { table::table(&report) };
    // The figures come out even if the chart cannot be written any more.
    let written = chart_file.map_or(Ok(()), |mut file| {
        if file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        file.write_all(chart::svg(&report).as_bytes())
    });
    stdio::print(&text)?;
    written.map_err(unwritable)
}

fn generator(args: &BenchArgs, layout: Layout) -> Result<CachedUidGenerator, Failure> {
    let built = CachedUidGenerator::builder()
        .layout(layout)
        .worker_id(WORKER_ID)
        .boost_power(args.boost_power)
        .take_policy(match args.policy {
            Policy::Wait => TakePolicy::Wait,
            Policy::Reject => TakePolicy::Reject,
        })
        .padder_core(args.padder_core.core)
        .padder_idle(if args.busy_poll { PadderIdle::BusyPoll } else { PadderIdle::Sleep })
        .build();
    built.map_err(|error| match error {
        Error::NoSuchCore { .. } => Failure::usage(error),
        error => error.into(),
    })
}

/// The forms, the baseline, and for forms that take most ids without an atomic the same work without
/// any.
fn lineup<'a>(
    args: &BenchArgs,
    per_thread: &'a PerThreadGenerator<&CachedUidGenerator>,
    generator: &'a CachedUidGenerator,
    counter: &'a AtomicU64,
) -> Lineup<'a> {
    let mut contestants = Vec::new();
    for form in args.forms() {
        let name = name(form);
        contestants.push(match form {
            Form::Shared => Contestant::new(name, || || generator.next_uid().map(Uid::get)),
            Form::PerThread => Contestant::new(name, || || per_thread.next_uid().map(Uid::get)),
            Form::Local => Contestant::new(name, || {
                let mut local = generator.local();
                move || local.next_uid().map(Uid::get)
            }),
            Form::Fill => {
                Contestant::new(name, || Batch::new(|uids: &mut [Uid]| generator.fill(uids)))
            }
        });
    }
    let baseline = contestants.len();
    // The least that ids from a shared counter can cost.
    contestants
        .push(Contestant::new("fetch_add", || || Ok(counter.fetch_add(1, Ordering::Relaxed))));
    if args.forms().any(|form| matches!(form, Form::PerThread | Form::Local)) {
        // The least that ids of a thread's own can cost.
        contestants.push(Contestant::new("increment", || {
            let mut last = 0;
            move || {
                last += 1;
                Ok(last)
            }
        }));
    }
    if args.forms().any(|form| form == Form::Fill) {
        // The least that filling a slice can cost.
        contestants.push(Contestant::new("store_loop", || {
            let mut next = 1;
            Batch::new(move |numbers: &mut [u64]| {
                for number in numbers {
                    *number = next;
                    next += 1;
                }
                Ok(())
            })
        }));
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
