//! `uidring check`.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use uidring::clock::{Clock, SystemClock};
use uidring::{Layout, Timestamp, Uid};
use uidring_store::check_path;

use crate::args::layout::LayoutArgs;
use crate::failure::Failure;
use crate::input::Ids;
use crate::lines::Format;
use crate::plausible::Plausible;
use crate::sort::Sorter;
use crate::text::{span, thousands};
use crate::{progress, report, stdio, table};

/// Check ids that anybody made: none twice, in order, and with the fields of a layout
///
/// Prints what it found. The status is 1 if an id comes twice, a line is neither an id nor blank, or an id is not of
/// the layout; with --ordered also if an id is not above the one before it, in the order of the files.
///
/// Fields are checked if --layout is given. More than 8 million
/// ids are sorted with a temporary file of 8 bytes per id, in the folder that TMPDIR names. Files with an id that comes
/// twice are read again, to tell the lines; stdin cannot be.
#[derive(Args)]
#[command(after_help = "\
Examples:
  uidring generate -n 1000 | uidring check --layout uid --ordered
  uidring generate -n 1M --format binary --output ids.bin && uidring check --format binary ids.bin")]
pub struct CheckArgs {
    /// The files of ids; without any, or for `-`, they are read from stdin
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The form of the ids
    #[arg(long, value_enum, default_value = "dec")]
    format: Format,

    #[command(flatten)]
    layout: LayoutArgs,

    /// Demand that each id is above the one before it
    #[arg(long)]
    ordered: bool,

    /// Print a JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// How many mistakes of a kind to show.
const SHOWN: u64 = 10;

/// How many places of an id to show.
const PLACES: usize = 4;

/// How many different worker ids to count.
const MAX_WORKERS: usize = 1 << 20;

pub fn run(args: &CheckArgs) -> Result<(), Failure> {
    drop(stdio::stdout()?);
    let layout = args.layout.option().map(|_| args.layout.layout()).transpose()?;
    let stdin = [PathBuf::from("-")];
    let files = if args.files.is_empty() { &stdin[..] } else { &args.files };
    for path in files {
        check_path("the file of ids", path).map_err(Failure::usage)?;
    }
    let now = SystemClock.now();
    let mut found = Found { is_ordered: args.ordered, layout, now, ..Found::default() };
    let mut sorter = Sorter::new();
    let progress = reading_progress(files);
    let hinted = layout.unwrap_or(Layout::UID_GENERATOR);
    for path in files {
        let input: Box<dyn Read> = match path.to_str() {
            Some("-") => Box::new(io::stdin().lock()),
            _ => Box::new(File::open(path).map_err(|error| reading(path, &error))?),
        };
        let ids = Ids::new(progress.wrap_read(input), args.format, hinted);
        found.read(path, ids, &mut sorter)?;
    }
    progress.finish_and_clear();
    let mut twice = found.compare(sorter)?;
    find_places(&mut twice, files, args.format)?;
    for (id, places) in twice {
        let colon = if places.is_empty() { "" } else { ": " };
        report::error(format_args!("{id} comes more than once{colon}{}", places.join(", ")));
    }
    if let (Some(layout), Some((_, max))) = (layout, found.ends)
        && let Some(problem) = Plausible::new(layout).problem(max)
    {
        report::note(problem);
    }
    if found.ids + found.unreadable == 0 {
        report::warning("there was no id to check");
    }
    stdio::print(&if args.json { found.json() } else { found.table() })?;
    if found.is_good() { Ok(()) } else { Err(Failure::Reported) }
}

/// The first ids that repeat, each with its places.
type Twice = BTreeMap<u64, Vec<String>>;

/// Adds where each id is, if all files can be read twice.
fn find_places(twice: &mut Twice, files: &[PathBuf], format: Format) -> Result<(), Failure> {
    if twice.is_empty() || !files.iter().all(|path| path.is_file()) {
        return Ok(());
    }
    for path in files {
        let file = File::open(path).map_err(|error| reading(path, &error))?;
        let mut read = Ids::new(file, format, Layout::UID_GENERATOR);
        let what = read.unit();
        while let Some(item) = read.next().map_err(|error| reading(path, &error))? {
            let Some(places) = item.id.ok().and_then(|id| twice.get_mut(&id.get())) else {
                continue;
            };
            match places.len() {
                ..PLACES => places.push(format!("{}, {what} {}", name(path), item.number)),
                PLACES => places.push("…".into()),
                _ => {}
            }
        }
    }
    Ok(())
}

/// A job of this many bytes, or ids to compare, is long enough for a progress bar.
const LONG_JOB: u64 = 20_000_000;

/// Returns a bar for reading. For a pipe, it shows only how much was read.
fn reading_progress(files: &[PathBuf]) -> ProgressBar {
    let length = |path: &PathBuf| {
        // A pipe or a device has no length. stdin may be a file.
        let path = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
        path.metadata().ok().filter(|file| file.is_file()).map(|file| file.len())
    };
    match files.iter().map(length).sum::<Option<u64>>() {
        Some(..LONG_JOB) => ProgressBar::hidden(),
        None if io::stdin().is_terminal() => ProgressBar::hidden(),
        None => progress::bar(None, "{bytes} read, {bytes_per_sec}"),
        length => progress::bar(length, "{wide_bar} {bytes} of {total_bytes} read, {eta} left"),
    }
}

fn reading(path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!("reading {}: {error}", name(path)))
}

fn name(path: &Path) -> String {
    if path == Path::new("-") { "stdin".into() } else { path.display().to_string() }
}

#[derive(Default)]
struct Found {
    is_ordered: bool,
    /// The previous id.
    before: Option<Uid>,
    ids: u64,
    unreadable: u64,
    /// Repetitions of earlier ids, each counted.
    duplicates: u64,
    descents: u64,
    /// The first of these with its place, unless `--ordered` reports it as a mistake.
    first_descent: Option<String>,
    ends: Option<(Uid, Uid)>,
    /// The layout to check fields against. Without it, the fields below stay empty.
    layout: Option<Layout>,
    now: Timestamp,
    /// Ids with bits above the layout's.
    foreign: u64,
    ahead: u64,
    times: Option<(Timestamp, Timestamp)>,
    /// The worker id of the id before.
    worker: Option<u64>,
    workers: HashSet<u64>,
}

impl Found {
    fn read(
        &mut self,
        path: &Path,
        mut ids: Ids<impl Read>,
        sorter: &mut Sorter,
    ) -> Result<(), Failure> {
        let what = ids.unit();
        while let Some(item) = ids.next().map_err(|error| reading(path, &error))? {
            let place = || format!("{}, {what} {}", name(path), item.number);
            let problem = match item.id {
                Ok(id) => {
                    sorter.push(id.get())?;
                    self.add(id, place)
                }
                Err(why) => {
                    self.unreadable += 1;
                    (self.unreadable <= SHOWN).then_some(why)
                }
            };
            if let Some(why) = problem {
                report::error(format_args!("{}: {why}", place()));
            }
        }
        Ok(())
    }

    /// Records an id, and returns the mistake to show, if any.
    fn add(&mut self, id: Uid, place: impl Fn() -> String) -> Option<String> {
        self.ids += 1;
        self.ends = Some(self.ends.map_or((id, id), |(min, max)| (min.min(id), max.max(id))));
        let problem = self.layout.and_then(|layout| self.add_fields(layout, id));
        let Some(before) = self.before.replace(id).filter(|before| *before >= id) else {
            return problem;
        };
        self.descents += 1;
        let descent = || format!("{id} comes after {before}");
        if !self.is_ordered {
            self.first_descent.get_or_insert_with(|| format!("{}: {}", place(), descent()));
            return problem;
        }
        problem.or_else(|| (self.descents <= SHOWN).then(descent))
    }

    /// Records the fields of an id, and returns the mistake to show, if any.
    fn add_fields(&mut self, layout: Layout, id: Uid) -> Option<String> {
        let fields = match layout.decode(id) {
            Ok(fields) => fields,
            Err(error) => {
                self.foreign += 1;
                return (self.foreign <= SHOWN).then(|| error.to_string());
            }
        };
        let time = fields.timestamp;
        self.ahead += u64::from(time > self.now);
        self.times =
            Some(self.times.map_or((time, time), |(min, max)| (min.min(time), max.max(time))));
        // Looking into the set takes longer than all the rest, so do it only when the worker id changes.
        if self.worker.replace(fields.worker_id) != Some(fields.worker_id)
            && self.workers.len() < MAX_WORKERS
        {
            self.workers.insert(fields.worker_id);
        }
        None
    }

    /// Counts the repetitions, and returns the first ids that repeat.
    fn compare(&mut self, sorter: Sorter) -> Result<Twice, Failure> {
        let progress = match self.ids {
            ..LONG_JOB => ProgressBar::hidden(),
            ids => progress::bar(
                Some(ids),
                "{wide_bar} {short_pos} of {short_len} ids compared, {eta} left",
            ),
        };
        let (mut before, mut twice, mut compared) = (None, Twice::new(), 0_u64);
        sorter.finish(|number| {
            compared += 1;
            if compared.is_multiple_of(1 << 16) {
                progress.set_position(compared);
            }
            if before.replace(number) == Some(number) {
                self.duplicates += 1;
                if twice.len() < SHOWN as usize {
                    twice.entry(number).or_default();
                }
            }
        })?;
        progress.finish_and_clear();
        Ok(twice)
    }

    fn is_good(&self) -> bool {
        let is_in_order = !self.is_ordered || self.descents == 0;
        self.unreadable + self.duplicates + self.foreign == 0 && is_in_order
    }

    fn time_ahead(&self) -> Duration {
        self.times.map_or(Duration::ZERO, |(_, last)| last.saturating_since(self.now))
    }

    fn table(&self) -> String {
        let first = self.first_descent.as_ref();
        let first = first.map_or_else(String::new, |first| format!("; {first}"));
        let mut rows = vec![
            ("ids", thousands(self.ids)),
            ("not an id", thousands(self.unreadable)),
            ("duplicates", thousands(self.duplicates)),
            ("out of order", format!("{}{first}", thousands(self.descents))),
        ];
        if let Some((min, max)) = self.ends {
            rows.push(("range", format!("{min} to {max}")));
        }
        if let Some(layout) = self.layout {
            rows.push(("layout", layout.to_string()));
            rows.push(("not of the layout", thousands(self.foreign)));
            let workers = self.workers.len();
            let more = if workers == MAX_WORKERS { " or more" } else { "" };
            rows.push(("worker ids", format!("{}{more}", thousands(workers as u64))));
            if let Some((first, last)) = self.times {
                rows.push(("times", format!("{first} to {last}")));
            }
            let mut ahead = thousands(self.ahead);
            if self.ahead > 0 {
                ahead += &format!(", by up to {}", span(self.time_ahead()));
            }
            rows.push(("ahead of the clock", ahead));
        }
        table::facts(rows)
    }

    fn json(&self) -> String {
        let text = |end: Option<Uid>| end.map(|id| id.to_string());
        let mut found = json!({
            "ids": self.ids,
            "unreadable": self.unreadable,
            "duplicates": self.duplicates,
            "out_of_order": self.descents,
            "first_out_of_order": self.first_descent,
            "min": text(self.ends.map(|ends| ends.0)),
            "max": text(self.ends.map(|ends| ends.1)),
        });
        if let Some(layout) = self.layout {
            found["fields"] = json!({
                "layout": layout.to_string(),
                "of_another_layout": self.foreign,
                "worker_ids": self.workers.len(),
                "first_time": self.times.map(|times| times.0.to_string()),
                "last_time": self.times.map(|times| times.1.to_string()),
                "ahead_of_the_clock": self.ahead,
                "seconds_ahead": self.time_ahead().as_secs_f64(),
            });
        }
        found.to_string()
    }
}
