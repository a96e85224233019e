//! `uidring bench`.

mod args;
mod contestant;
mod machine;
mod measure;
mod report;
mod threads;

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use core_affinity::CoreId;
use crossbeam_utils::CachePadded;
use uidring::{CachedUidGenerator, PerThreadGenerator, Uid};

pub use self::args::BenchArgs;
use self::args::{Form, name};
use self::contestant::{BASELINE, BATCH, Contestant};
use self::machine::Machine;
use self::measure::{Plan, measure};
use self::report::Report;
use self::threads::Crew;
use crate::failure::Failure;
use crate::{progress, stdio};

/// The worker id of every bench. Its uids are discarded.
const WORKER_ID: u64 = 1;

pub fn run(args: &BenchArgs) -> Result<(), Failure> {
    let layout = args.layout.layout()?;
    let generator = CachedUidGenerator::builder().layout(layout).worker_id(WORKER_ID).build()?;
    let crew = Crew { threads: args.threads.into(), cores: cores(args.pin)? };
    // Starts at 1, because the check that ids increase starts above 0.
    let counter = CachePadded::new(AtomicU64::new(1));
    let per_thread = generator.per_thread();
    let lineup = lineup(args, &per_thread, &generator, &counter);
    let plan = Plan::new(args.seconds, lineup.len());
    // The bar moves only between rounds, when nothing is timed.
    let bar = progress::bar(Some(plan.steps() as u64), "{wide_bar} {msg}, {eta} left");
    let measured = measure(&lineup, &crew, &plan, |phase| {
        bar.set_message(phase);
        bar.inc(1);
    })?;
    bar.finish_and_clear();

    let ring = generator.stats().ring.capacity;
    let machine = Machine::this();
    let report = Report { args, layout, ring, machine, rounds: plan.rounds, measured };
    stdio::print(&if args.json { report.json().to_string() } else { report.table() })
}

/// Returns the forms and the baseline; for forms that take most ids without an atomic, also the same work without any.
fn lineup<'a>(
    args: &BenchArgs,
    per_thread: &'a PerThreadGenerator<&CachedUidGenerator>,
    generator: &'a CachedUidGenerator,
    counter: &'a AtomicU64,
) -> Vec<Contestant<'a>> {
    let mut contestants = Vec::new();
    for form in args.forms() {
        let name = name(form);
        contestants.push(match form {
            Form::Shared => Contestant::new(name, 1, || || generator.next_uid().map(Uid::get)),
            Form::PerThread => Contestant::new(name, 1, || || per_thread.next_uid().map(Uid::get)),
            Form::Local => Contestant::new(name, 1, || {
                let mut local = generator.local();
                move || local.next_uid().map(Uid::get)
            }),
            Form::Fill => Contestant::new(name, BATCH, move || {
                let (mut uids, mut calls) = (vec![Uid::default(); BATCH], 0_u32);
                move || {
                    generator.fill(&mut uids).map_err(|error| error.error)?;
                    calls = calls.wrapping_add(1);
                    // Checked once in 1,024 calls, which costs next to nothing. Returning 0 makes the caller report a
                    // wrong order.
                    let is_sorted = calls % 1_024 != 1 || uids.is_sorted_by(|a, b| a < b);
                    Ok(if is_sorted { black_box(&mut uids)[BATCH - 1].get() } else { 0 })
                }
            }),
        });
    }
    // The lowest cost of ids from a shared counter.
    contestants
        .push(Contestant::new(BASELINE, 1, || || Ok(counter.fetch_add(1, Ordering::Relaxed))));
    if args.forms().any(|form| matches!(form, Form::PerThread | Form::Local)) {
        // The lowest cost of ids of a thread's own.
        contestants.push(Contestant::new("increment", 1, || {
            let mut last = 0;
            move || {
                last += 1;
                Ok(last)
            }
        }));
    }
    if args.forms().any(|form| form == Form::Fill) {
        // The lowest cost of filling a slice.
        contestants.push(Contestant::new("store_loop", BATCH, || {
            let (mut numbers, mut next) = (vec![0; BATCH], 1);
            move || {
                for number in &mut numbers {
                    *number = next;
                    next += 1;
                }
                Ok(black_box(&mut numbers)[BATCH - 1])
            }
        }));
    }
    contestants
}

/// Returns the cores to pin takers to. Fails if pinning is impossible, so that results never claim it falsely.
fn cores(pin: bool) -> Result<Vec<CoreId>, Failure> {
    if !pin {
        return Ok(Vec::new());
    }
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let pin_to_each = || cores.iter().all(|core| core_affinity::set_for_current(*core));
    // Use a thread that ends afterwards, because this pins it.
    let pinned = thread::scope(|scope| scope.spawn(pin_to_each).join());
    if cores.is_empty() || !matches!(pinned, Ok(true)) {
        return Err(Failure::Failed("threads cannot be pinned here; leave --pin out".into()));
    }
    Ok(cores)
}
