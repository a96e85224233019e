//! Prints many ids to stdout or into a file.

use std::fmt;
use std::io::{self, IsTerminal};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use indicatif::ProgressBar;
use uidring::Uid;
use uidring::adapter::{interrupt_starts, starts_are_interrupted};
use uidring::clock::{Clock, SystemClock};
use uidring_any::AnyGenerator;

use crate::ending;
use crate::failure::Failure;
use crate::lines::{Lines, MAX_PORTION};
use crate::pace::Pace;
use crate::sink::Sink;
use crate::text::{span, thousands};
use crate::{progress, report};

/// How long printing the last ids may take after a signal.
const PATIENCE: Duration = Duration::from_secs(1);

/// A job of this many ids is long enough for a progress bar.
const LONG_JOB: u64 = 20_000_000;

/// From this many ids on, a summary says how far ahead of the clock they are. By default, that is two minutes.
const MANY: u64 = 1_000_000;

/// Opens a generator and prints `count` of its ids. If the generator or the program ends early, prints what has been
/// taken.
pub fn print(
    count: u64,
    mut lines: Lines,
    open: impl FnOnce() -> Result<AnyGenerator, Failure>,
    mut sink: Sink,
) -> Result<(), Failure> {
    let place = sink.path.as_ref().map(|path| path.display().to_string());
    let printed = Printed { place, written: Mutex::default() };
    // A pipe's reader may have stopped reading. A disk goes on, and ids that are not on it yet are not safe.
    let last_ids = (!sink.is_file).then_some(PATIENCE);
    let opened = OnceLock::<AnyGenerator>::new();
    let patience = || if opened.get().is_some() { last_ids } else { Some(ending::START_PATIENCE) };
    let close = || {
        interrupt_starts();
        if let Some(generator) = opened.get() {
            generator.close();
        }
    };
    let work = || {
        let generator = open().inspect_err(|_| sink.discard())?;
        let generator = opened.get_or_init(|| generator);
        if starts_are_interrupted() {
            generator.close();
        }
        let foreseen = Pace::of(generator).and_then(|pace| pace.foresee(count));
        let wait = foreseen.inspect(|(_, why)| report::note(why)).map(|(wait, _)| wait);
        let progress = progress(count, wait, &sink);
        let done = print_all(count, &mut lines, generator, &mut sink, &printed, &progress);
        progress.finish_and_clear();
        // Release the lock first: a disk may be slow, and another signal reports meanwhile what is written. If this
        // fails, no id counts as written, and an earlier error is still the one reported.
        let bytes = printed.lock().bytes;
        let kept = sink.finish(bytes);
        match kept {
            Ok(()) => printed.lock().is_safe = sink.is_file,
            Err(_) => *printed.lock() = Written::default(),
        }
        done.and(kept)
    };
    let done = ending::run(&printed, patience, close, work);
    done.map_err(|failure| match failure {
        Failure::Failed(why) if opened.get().is_some() => {
            Failure::Failed(format!("{why}; {printed}"))
        }
        other => other,
    })?;
    if count >= MANY || report::is_verbose() {
        summarize(&printed.lock(), &lines);
    }
    Ok(())
}

/// How many ids have been written, and where.
struct Printed {
    /// The file, unless it is stdout.
    place: Option<String>,
    written: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    count: u64,
    /// The length of whole ids.
    bytes: u64,
    ends: Option<(Uid, Uid)>,
    /// Whether the disk has them.
    is_safe: bool,
}

impl Printed {
    fn add(&self, uids: &[Uid], bytes: usize) {
        if let (Some(first), Some(last)) = (uids.first(), uids.last()) {
            let mut written = self.lock();
            let first = written.ends.map_or(*first, |ends| ends.0);
            written.ends = Some((first, *last));
            written.count += uids.len() as u64;
            written.bytes += bytes as u64;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For example, `12 ids were printed, the last is 240518193154`.
impl fmt::Display for Printed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Written { count, ends, is_safe, .. } = *self.lock();
        let (is, was) = if count <= 1 { ("is", "was") } else { ("are", "were") };
        let verb = match &self.place {
            None => format!("{was} printed"),
            Some(place) if is_safe || count == 0 => format!("{is} safe in {place}"),
            Some(place) => format!("{was} written to {place}"),
        };
        match ends {
            None => write!(f, "no id {verb}"),
            Some((_, last)) if count == 1 => write!(f, "one id {verb}, {last}"),
            Some((_, last)) => write!(f, "{count} ids {verb}, the last is {last}"),
        }
    }
}

/// Reports what was printed, and how far it is ahead of the clock.
fn summarize(written: &Written, lines: &Lines) {
    let Some((first, last)) = written.ends else { return };
    let mut text = match written.count {
        1 => format!("one id, {first}"),
        count => format!("{} ids, {first} to {last}", thousands(count)),
    };
    if let Some(layout) = lines.layout
        && let Ok(fields) = layout.layout.decode(last)
    {
        let ahead = fields.timestamp.saturating_since(SystemClock.now());
        let ahead = match ahead {
            Duration::ZERO => "not ahead of the clock".into(),
            ahead => format!("{} ahead of the clock", span(ahead)),
        };
        let worker = layout.worker(fields.worker_id);
        text = format!("{text}, of {worker}; the last is {ahead}");
    }
    report::note(text);
}

/// Takes and prints `count` ids. Writes what it has before it waits for more.
fn print_all(
    count: u64,
    lines: &mut Lines,
    generator: &AnyGenerator,
    sink: &mut Sink,
    printed: &Printed,
    progress: &ProgressBar,
) -> Result<(), Failure> {
    let mut uids = [Uid::default(); MAX_PORTION];
    let mut text = Vec::new();
    let mut left = count;
    while left > 0 {
        let portion = &mut uids[..left.min(lines.portion as u64) as usize];
        let mut filled = 0;
        while filled < portion.len() {
            match generator.try_fill(&mut portion[filled..]) {
                Ok(0) | Err(_) => break,
                Ok(more) => filled += more,
            }
        }
        if filled == 0 {
            portion[0] = generator.next_uid().map_err(uidring::Error::from)?;
            filled = 1;
        }
        (lines.replace)(&mut text, &portion[..filled])?;
        write(sink, &text, &portion[..filled], lines, printed)?;
        left -= filled as u64;
        progress.inc(filled as u64);
    }
    Ok(())
}

/// Writes the text of the ids. Counts those that are out, even if writing fails or stalls midway.
fn write(
    sink: &mut Sink,
    text: &[u8],
    uids: &[Uid],
    lines: &Lines,
    printed: &Printed,
) -> Result<(), Failure> {
    let (mut done, mut before) = (0, (0, 0));
    while done < text.len() {
        match sink.write(&text[done..]) {
            Ok(more) => done += more,
            Err(failure) => {
                sink.take_back((done - before.1) as u64);
                return Err(failure);
            }
        }
        // Mostly everything is out, and needs no counting.
        let (ids, bytes) =
            if done == text.len() { (uids.len(), done) } else { lines.whole(&text[..done]) };
        printed.add(&uids[before.0..ids], bytes - before.1);
        before = (ids, bytes);
    }
    Ok(())
}

/// Returns a bar for a long job, hidden if the ids go to the terminal, too. `wait` is its duration, if known.
fn progress(count: u64, wait: Option<Duration>, sink: &Sink) -> ProgressBar {
    let is_short = count < LONG_JOB && wait.is_none();
    if is_short || sink.path.is_none() && io::stdout().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = "{wide_bar} {short_pos} of {short_len} ids, {rate}, {left} left";
    progress::bar_for(Some(count), template, wait.unwrap_or_default())
}
