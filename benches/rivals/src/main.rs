//! Measures uidring against other id generators, interleaved in one process; see README.md.

mod args;
mod contestants;
mod measure;
#[path = "../../../crates/testkit/src/namespace.rs"]
mod namespace;
#[cfg(target_os = "linux")]
mod processes;
mod promise;
mod report;
mod ticker;
mod work;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use crate::args::{Args, Stop, USAGE};
use crate::contestants::{REFERENCE, Shape, field};

fn main() -> ExitCode {
    let args = match Args::parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(Stop::Help) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(Stop::Wrong(what)) => {
            eprintln!("{what}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("no contestant's `shape/name` contains what --only says");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures one shape after another. Returns false if `--only` leaves nothing to measure.
fn run(args: &Args) -> io::Result<bool> {
    // First, so that an unwritable path fails before the measurements.
    let mut raw = match &args.raw {
        Some(path) => {
            let named = |error| io::Error::other(format!("{}: {error}", path.display()));
            Some(BufWriter::new(File::create(path).map_err(named)?))
        }
        None => None,
    };
    if let Some(raw) = &mut raw {
        report::raw_header(raw)?;
    }
    let mut out = io::stdout().lock();
    if args.processes {
        #[cfg(target_os = "linux")]
        return processes::run(args, &mut out, &mut raw);
        #[cfg(not(target_os = "linux"))]
        return Err(io::Error::other("--processes needs Linux"));
    }
    let mut any = false;
    for shape in Shape::ALL {
        let mut field = field(shape);
        if let Some(only) = &args.only {
            let wanted = |name: &str| format!("{}/{name}", shape.name()).contains(only.as_str());
            if !field.contestants.iter().any(|contestant| wanted(contestant.name)) {
                continue;
            }
            field.contestants.retain(|contestant| {
                let name = contestant.name;
                wanted(name) || name == REFERENCE || name == shape.uidring()
            });
            field.skipped.retain(|(name, _)| wanted(name));
        }
        if !any {
            report::header().iter().try_for_each(|line| writeln!(out, "{line}"))?;
            any = true;
        }
        eprintln!("{}: {} contestants", shape.name(), field.contestants.len());
        let measured = measure::measure(field.contestants, args.rounds, args.slice);
        report::table(&mut out, shape, &measured, &field.skipped)?;
        if let Some(raw) = &mut raw {
            report::raw(raw, shape.name(), &measured)?;
        }
    }
    Ok(any)
}
