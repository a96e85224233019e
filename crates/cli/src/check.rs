//! `uidring check`.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
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
    let layout = match args.layout.is_given() {
        true => Some(args.layout.layout()?),
        false => None,
    };
    let mut check = Check::new(layout, args.ordered);
    let stdin = [PathBuf::from("-")];
    let files = if args.files.is_empty() { &stdin[..] } else { &args.files };
    for path in files {
        check_path("the file of ids", path).map_err(Failure::usage)?;
    }
    let progress = reading_progress(files);
    let hinted = layout.unwrap_or(Layout::UID_GENERATOR);
    for path in files {
        let input: Box<dyn Read> = match path.to_str() {
            Some("-") => Box::new(io::stdin().lock()),
            _ => Box::new(File::open(path).map_err(|error| reading(path, &error))?),
        };
        check.read(path, Ids::new(progress.wrap_read(input), args.format, hinted))?;
    }
    progress.finish_and_clear();
    let (found, twice) = check.finish()?;
    let places = places(&twice, files, args.format)?;
    for id in twice {
        match places.get(&id) {
            Some(places) => {
                report::error(format_args!("{id} comes more than once: {}", places.join(", ")))
            }
            None => report::error(format_args!("{id} comes more than once")),
        }
    }
    if let (Some(layout), Some((_, max))) = (layout, found.ends)
        && let Some(problem) = Plausible::new(layout).problem(max)
    {
        report::note(problem);
    }
    if found.ids + found.unreadable == 0 {
        report::warning("there was no id to check");
    }
    if args.json {
        stdio::print(&found.json())?
    } else {
        stdio::print(&found.table())?
    }
    if found.is_good(args.ordered) { Ok(()) } else { Err(Failure::Reported) }
}

/// Returns the places of these ids, or none if a file cannot be read twice.
fn places(
    ids: &[u64],
    files: &[PathBuf],
    format: Format,
) -> Result<HashMap<u64, Vec<String>>, Failure> {
    let is_file = |path: &PathBuf| fs::metadata(path).is_ok_and(|file| file.is_file());
    let mut places: HashMap<_, Vec<_>> = HashMap::new();
    if ids.is_empty() || !files.iter().all(is_file) {
        return Ok(places);
    }
    for path in files {
        let file = File::open(path).map_err(|error| reading(path, &error))?;
        let mut read = Ids::new(file, format, Layout::UID_GENERATOR);
        let what = read.unit();
        while let Some(item) = read.next().map_err(|error| reading(path, &error))? {
            let Ok(id) = item.id else { continue };
            if ids.contains(&id.get()) {
                let places = places.entry(id.get()).or_default();
                match places.len() {
                    ..PLACES => places.push(format!("{}, {what} {}", name(path), item.number)),
                    PLACES => places.push("…".into()),
                    _ => {}
                }
            }
        }
    }
    Ok(places)
}

/// A job of this many bytes, or ids to compare, is long enough for a progress bar.
const LONG_JOB: u64 = 20_000_000;

/// Returns a bar for reading. For a pipe, it shows only how much was read.
fn reading_progress(files: &[PathBuf]) -> ProgressBar {
    let length = |path: &PathBuf| {
        // A pipe or a device has no length. stdin may be a file.
        let file =
            if path == Path::new("-") { fs::metadata("/dev/stdin") } else { fs::metadata(path) };
        file.ok().filter(|file| file.is_file()).map(|file| file.len())
    };
    match files.iter().map(length).sum::<Option<u64>>() {
        Some(..LONG_JOB) => ProgressBar::hidden(),
        None if io::stdin().is_terminal() => ProgressBar::hidden(),
        length => progress::bar(
            length,
            match length {
                Some(_) => "{wide_bar} {bytes} of {total_bytes} read, {eta} left",
                None => "{bytes} read, {bytes_per_sec}",
            },
        ),
    }
}

fn reading(path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!("reading {}: {error}", name(path)))
}

fn name(path: &Path) -> String {
    if path == Path::new("-") { "stdin".into() } else { path.display().to_string() }
}

struct Check {
    sorter: Sorter,
    is_ordered: bool,
    before: Option<Uid>,
    found: Found,
}

#[derive(Default)]
struct Found {
    ids: u64,
    unreadable: u64,
    /// Repetitions of earlier ids, each counted.
    duplicates: u64,
    descents: u64,
    /// The first of these with its place, unless `--ordered` reports it as a mistake.
    first_descent: Option<String>,
    ends: Option<(Uid, Uid)>,
    fields: Option<Fields>,
}

struct Fields {
    layout: Layout,
    now: Timestamp,
    /// Ids with bits above the layout's.
    foreign: u64,
    ahead: u64,
    times: Option<(Timestamp, Timestamp)>,
    /// The worker id of the id before.
    worker: Option<u64>,
    workers: HashSet<u64>,
}

impl Check {
    fn new(layout: Option<Layout>, is_ordered: bool) -> Self {
        let now = SystemClock.now();
        let fields = |layout| Fields {
            layout,
            now,
            foreign: 0,
            ahead: 0,
            times: None,
            worker: None,
            workers: HashSet::new(),
        };
        let found = Found { fields: layout.map(fields), ..Found::default() };
        Self { sorter: Sorter::new(), is_ordered, before: None, found }
    }

    fn read(&mut self, path: &Path, mut ids: Ids<impl Read>) -> Result<(), Failure> {
        let what = ids.unit();
        while let Some(item) = ids.next().map_err(|error| reading(path, &error))? {
            let problem = match item.id {
                Ok(id) => self.id(id, || format!("{}, {what} {}", name(path), item.number))?,
                Err(why) => {
                    self.found.unreadable += 1;
                    (self.found.unreadable <= SHOWN).then_some(why)
                }
            };
            if let Some(why) = problem {
                report::error(format_args!("{}, {what} {}: {why}", name(path), item.number));
            }
        }
        Ok(())
    }

    /// Records an id, and returns the mistake to show, if any.
    fn id(&mut self, id: Uid, place: impl Fn() -> String) -> Result<Option<String>, Failure> {
        let found = &mut self.found;
        found.ids += 1;
        self.sorter.push(id.get())?;
        found.ends = Some(found.ends.map_or((id, id), |(min, max)| (min.min(id), max.max(id))));
        let problem = found.fields.as_mut().and_then(|fields| fields.add(id));
        let before = self.before.replace(id).filter(|before| *before >= id);
        found.descents += u64::from(before.is_some());
        if let Some(before) = before
            && !self.is_ordered
            && found.first_descent.is_none()
        {
            found.first_descent = Some(format!("{}: {id} comes after {before}", place()));
        }
        let is_shown = self.is_ordered && found.descents <= SHOWN;
        let descent =
            before.filter(|_| is_shown).map(|before| format!("{id} comes after {before}"));
        Ok(problem.or(descent))
    }

    /// Returns the findings, and the first ids that repeat.
    fn finish(self) -> Result<(Found, Vec<u64>), Failure> {
        let Self { sorter, mut found, .. } = self;
        let mut before = None;
        let (mut twice, mut last) = (Vec::new(), None);
        let progress = match found.ids {
            ..LONG_JOB => ProgressBar::hidden(),
            ids => progress::bar(
                Some(ids),
                "{wide_bar} {short_pos} of {short_len} ids compared, {eta} left",
            ),
        };
        let mut compared: u64 = 0;
        sorter.finish(|number| {
            compared += 1;
            if compared.is_multiple_of(1 << 16) {
                progress.set_position(compared);
            }
            if before.replace(number) == Some(number) {
                found.duplicates += 1;
                if last.replace(number) != Some(number) && twice.len() < SHOWN as usize {
                    twice.push(number);
                }
            }
        })?;
        progress.finish_and_clear();
        Ok((found, twice))
    }
}

impl Fields {
    /// Records an id, and returns the mistake to show, if any.
    fn add(&mut self, id: Uid) -> Option<String> {
        let fields = match self.layout.decode(id) {
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

    fn ahead(&self) -> Duration {
        self.times.map_or(Duration::ZERO, |(_, last)| last.saturating_since(self.now))
    }
}

impl Found {
    fn is_good(&self, is_ordered: bool) -> bool {
        let foreign = self.fields.as_ref().map_or(0, |fields| fields.foreign);
        self.unreadable + self.duplicates + foreign == 0 && !(is_ordered && self.descents > 0)
    }

    fn out_of_order(&self) -> String {
        let count = thousands(self.descents);
        self.first_descent.as_ref().map_or(count.clone(), |first| format!("{count}; {first}"))
    }

    fn table(&self) -> String {
        let mut rows = vec![
            ("ids", thousands(self.ids)),
            ("not an id", thousands(self.unreadable)),
            ("duplicates", thousands(self.duplicates)),
            ("out of order", self.out_of_order()),
        ];
        if let Some((min, max)) = self.ends {
            rows.push(("range", format!("{min} to {max}")));
        }
        if let Some(fields) = &self.fields {
            rows.push(("layout", fields.layout.to_string()));
            rows.push(("of another layout", thousands(fields.foreign)));
            let workers = fields.workers.len();
            let more = if workers == MAX_WORKERS { " or more" } else { "" };
            rows.push(("worker ids", format!("{}{more}", thousands(workers as u64))));
            if let Some((first, last)) = fields.times {
                rows.push(("times", format!("{first} to {last}")));
            }
            let by = if fields.ahead > 0 {
                format!(", by up to {}", span(fields.ahead()))
            } else {
                "".into()
            };
            rows.push(("ahead of the clock", format!("{}{by}", thousands(fields.ahead))));
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
        if let Some(fields) = &self.fields {
            found["fields"] = json!({
                "layout": fields.layout.to_string(),
                "of_another_layout": fields.foreign,
                "worker_ids": fields.workers.len(),
                "first_time": fields.times.map(|times| times.0.to_string()),
                "last_time": fields.times.map(|times| times.1.to_string()),
                "ahead_of_the_clock": fields.ahead,
                "seconds_ahead": fields.ahead().as_secs_f64(),
            });
        }
        found.to_string()
    }
}
