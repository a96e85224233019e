//! The output: machine, tables, raw data.

use std::fs;
use std::io::{self, Write};
use std::thread;

use crate::contestants::Shape;
use crate::measure::{Measured, summarise};

/// The packages whose versions are printed.
const PACKAGES: [&str; 10] = [
    "uidring",
    "crossbeam-queue",
    "crossbeam-utils",
    "ferroid",
    "idgenerator",
    "parking_lot",
    "rs-snowflake",
    "snowflake_me",
    "ulid",
    "uuid",
];

/// Returns the date, the machine and the versions.
pub fn header() -> [String; 3] {
    let cpu = fs::read_to_string("/proc/cpuinfo").ok();
    let cpu = cpu.as_deref().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim())
    });
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let machine = format!(
        "{}, {cores} cores, {} {}",
        cpu.unwrap_or("unknown CPU"),
        std::env::consts::OS,
        kernel.as_deref().map_or("", str::trim)
    );
    let date = jiff::Timestamp::now().strftime("%Y-%m-%d (UTC)").to_string();
    let versions: Vec<_> =
        PACKAGES.iter().map(|name| format!("{name} {}", version(name))).collect();
    [machine, date, versions.join(", ")]
}

/// Returns the version in the lock file. If there are several, the last is the newest, which this program uses.
fn version(package: &str) -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines();
    let mut version = "?";
    while lines.by_ref().any(|line| line == name) {
        let line = lines.next().unwrap_or_default();
        version = line.trim_start_matches("version = ").trim_matches('"');
    }
    version
}

pub fn table(
    out: &mut impl Write,
    shape: Shape,
    all: &[Measured],
    skipped: &[(&str, &str)],
) -> io::Result<()> {
    writeln!(out, "\n## {}: {}\n", shape.name(), shape.title())?;
    writeln!(
        out,
        "| contestant | ns/id | M ids/s | time ÷ fetch_add | time ÷ uidring | notes and caps |"
    )?;
    writeln!(out, "|---|---:|---:|---:|---:|---|")?;
    for one in all {
        let summary = summarise(all, one, shape.uidring());
        writeln!(
            out,
            "| {} | {:.3} | {:.1} | {:.2} | {:.2} | {} |",
            one.name,
            summary.nanos_per_id,
            1_000.0 / summary.nanos_per_id,
            summary.to_reference,
            summary.to_uidring,
            one.note
        )?;
    }
    if !skipped.is_empty() {
        writeln!(out, "\nNot in this shape:\n")?;
    }
    for (name, reason) in skipped {
        writeln!(out, "- {name}: {reason}")?;
    }
    out.flush()
}

pub fn raw_header(out: &mut impl Write) -> io::Result<()> {
    header().iter().try_for_each(|line| writeln!(out, "# {line}"))?;
    writeln!(out, "shape,contestant,round,ids,nanoseconds")
}

/// Writes every run of a shape. Names have no comma or quote, so they need no quoting.
pub fn raw(out: &mut impl Write, shape: &str, all: &[Measured]) -> io::Result<()> {
    for one in all {
        for (round, run) in one.runs.iter().enumerate() {
            let nanos = run.elapsed.as_nanos();
            writeln!(out, "{shape},{},{round},{},{nanos}", one.name, run.ids)?;
        }
    }
    out.flush()
}
