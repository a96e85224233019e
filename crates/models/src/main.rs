//! Visits all states of the models within their long bounds, and prints a table of them. Exits with status 1 if a
//! property does not hold.
//!
//! Arguments, parts of `MODEL: BOUNDS` as in the table, select what to check; all if none.

use std::env;
use std::process::ExitCode;

use uidring_models::leases::Leases;
use uidring_models::reservation::Reservation;
use uidring_models::segments::Segments;
use uidring_models::{Checked, Clocks, check};

fn main() -> ExitCode {
    let wanted: Vec<String> = env::args().skip(1).collect();
    let mut is_well = true;
    println!(
        "| model | bounds | states | unique | depth | seconds |\n|---|---|---:|---:|---:|---:|"
    );
    for (model, bounds, run) in models() {
        let name = format!("{model}: {bounds}");
        if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        let checked = run();
        println!("| {model} | {bounds} | {checked} |");
        for (property, history) in &checked.violated {
            is_well = false;
            eprintln!("{model}: {property} does not hold:\n{history}");
        }
    }
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

type Run = Box<dyn Fn() -> Checked>;

/// The models: name, bounds in words, and the check.
fn models() -> Vec<(&'static str, String, Run)> {
    let leases = [
        // Owners, starts, worker ids, ticks, uids per tick, operations.
        (Clocks::Anything, [2, 2, 1, 3, 2, 0]),
        (Clocks::Anything, [2, 3, 1, 2, 2, 0]),
        (Clocks::Anything, [3, 3, 1, 1, 2, 0]),
        (Clocks::Anything, [2, 2, 2, 2, 1, 0]),
        (Clocks::Anything, [2, 2, 1, 2, 2, 1]),
        (Clocks::Calm, [2, 2, 1, 1, 2, 1]),
    ];
    let leases = leases.map(|(clocks, [owners, starts, worker_ids, ticks, uids_per_tick, operations])| {
        let model = Leases {
            owners: usize::from(owners),
            starts,
            worker_ids,
            ticks,
            uids_per_tick,
            operations,
            clocks,
            ..Leases::SMALL
        };
        let bounds = format!(
            "{} clocks; {owners} owners of {starts} starts; worker ids {worker_ids}; ticks {ticks} of \
             {uids_per_tick} uids; operations {operations}",
            name(clocks)
        );
        ("leases", bounds, Box::new(move || check(model.clone())) as Run)
    });
    let reservations = [
        // Hosts, starts, sessions, ticks; whether in detail.
        (Clocks::Anything, [2, 2, 2, 2], false),
        (Clocks::Anything, [2, 2, 3, 1], false),
        (Clocks::Anything, [2, 3, 2, 1], false),
        (Clocks::Calm, [2, 2, 2, 1], false),
        (Clocks::Anything, [2, 2, 2, 1], true),
        (Clocks::Calm, [1, 2, 2, 1], true),
    ];
    let reservations = reservations.map(|(clocks, [hosts, starts, sessions, ticks], in_detail)| {
        let numbers = Reservation { hosts, starts, sessions, ticks, ..Reservation::SMALL };
        let model = Reservation { clocks, in_detail, ..numbers };
        let bounds = format!(
            "{} clocks; {hosts} hosts; starts {starts}; sessions {sessions}; ticks {ticks}{}",
            name(clocks),
            if in_detail { "; in detail" } else { "" }
        );
        ("reservation", bounds, Box::new(move || check(model.clone())) as Run)
    });
    let segments = [
        // Generators, starts, greatest number, steps, changes by hand.
        (false, [2, 3, 7, 2, 1]),
        (false, [3, 3, 6, 2, 1]),
        (true, [2, 2, 4, 2, 1]),
    ];
    let segments = segments.map(|(may_lower, [generators, starts, greatest, steps, changes])| {
        let model = Segments {
            generators: usize::from(generators),
            starts,
            greatest,
            steps,
            depth: 2,
            changes,
            may_lower,
            mutation: None,
        };
        let bounds = format!(
            "{generators} generators of {starts} starts; `max_id` to {greatest}; steps to {steps}; {} by hand, \
             times {changes}",
            if may_lower { "lowered" } else { "raised" }
        );
        ("segments", bounds, Box::new(move || check(model.clone())) as Run)
    });
    leases.into_iter().chain(reservations).chain(segments).collect()
}

fn name(clocks: Clocks) -> &'static str {
    match clocks {
        Clocks::Anything => "any",
        Clocks::Calm => "calm",
    }
}
