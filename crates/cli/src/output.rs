//! Many ids on stdout.

use std::fmt;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::ProgressBar;
use uidring::Uid;

use crate::ending;
use crate::failure::Failure;
use crate::lines::Lines;
use crate::progress;
use crate::stdio;

/// How many ids are taken and written at a time: up to 32 kB of text, which stays in the first cache and
/// leaves the reader of a pipe, whose buffer is 64 KiB, something to do meanwhile.
pub const PORTION: usize = 1_600;

/// A job of so many ids takes long enough to show a progress bar.
const LONG_JOB: u64 = 20_000_000;

/// Where ids come from.
pub trait Source: Sync {
    /// Puts the ids that are ready at the front of `out`, and returns how many; 0 if there is none now,
    /// for whatever reason.
    fn take_ready(&self, out: &mut [Uid]) -> usize;

    /// Waits for an id.
    fn wait(&self) -> Result<Uid, Failure>;

    /// Ends the source: there are no more ids, and who waits for one stops waiting.
    fn close(&self);
}

/// Prints so many ids. If there are no more, or the program is told to end, what has been taken is
/// still printed.
pub fn print(count: u64, mut lines: Lines, source: &dyn Source) -> Result<(), Failure> {
    let printed = Printed::default();
    let done =
        ending::run(&printed, || source.close(), || print_all(count, &mut lines, source, &printed));
    done.map_err(|failure| match failure {
        Failure::Failed(why) => Failure::Failed(format!("{why}; {printed}")),
        other => other,
    })
}

/// How many ids have been written, and the last one.
#[derive(Debug, Default)]
struct Printed(Mutex<(u64, Uid)>);

impl Printed {
    fn add(&self, uids: &[Uid]) {
        if let Some(last) = uids.last() {
            let mut printed = self.lock();
            *printed = (printed.0 + uids.len() as u64, *last);
        }
    }

    fn lock(&self) -> MutexGuard<'_, (u64, Uid)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As in `12 ids were printed, the last is 240518193154`.
impl fmt::Display for Printed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self.lock() {
            (0, _) => f.write_str("no id was printed"),
            (1, last) => write!(f, "one id was printed, {last}"),
            (count, last) => write!(f, "{count} ids were printed, the last is {last}"),
        }
    }
}

/// Writes what has been taken before it waits for more, and also when there are no more.
fn print_all(
    count: u64,
    lines: &mut Lines,
    source: &dyn Source,
    printed: &Printed,
) -> Result<(), Failure> {
    let mut output = unbuffered()?;
    let progress = progress(count);
    let mut uids = [Uid::default(); PORTION];
    let mut text = Vec::with_capacity(PORTION * 20);
    let mut left = count;
    while left > 0 {
        let portion = &mut uids[..left.min(PORTION as u64) as usize];
        let mut filled = 0;
        while filled < portion.len() {
            match source.take_ready(&mut portion[filled..]) {
                0 => break,
                taken => filled += taken,
            }
        }
        if filled == 0 {
            portion[0] = source.wait()?;
            filled = 1;
        }
        text.clear();
        lines(&mut text, &portion[..filled])?;
        write(&mut output, &text, &portion[..filled], printed)?;
        left -= filled as u64;
        progress.inc(filled as u64);
    }
    progress.finish_and_clear();
    Ok(())
}

/// Writes a line for each of the ids, and notes how many of them are out, also if it fails or is held
/// up midway.
fn write(
    output: &mut impl Write,
    text: &[u8],
    uids: &[Uid],
    printed: &Printed,
) -> Result<(), Failure> {
    let (mut done, mut whole) = (0, 0);
    while done < text.len() {
        match output.write(&text[done..]) {
            Ok(0) => return Err(io::Error::from(ErrorKind::WriteZero).into()),
            Ok(written) => {
                done += written;
                // Mostly all of it, which need not be counted.
                let lines = match text.len() - done {
                    0 => uids.len(),
                    _ => text[..done].iter().filter(|byte| **byte == b'\n').count(),
                };
                printed.add(&uids[whole..lines]);
                whole = lines;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// stdout without std's buffer, so that it is known what is out when writing fails.
#[cfg(unix)]
fn unbuffered() -> Result<std::fs::File, Failure> {
    use std::os::fd::AsFd;
    Ok(stdio::stdout()?.as_fd().try_clone_to_owned()?.into())
}

#[cfg(not(unix))]
fn unbuffered() -> Result<io::StdoutLock<'static>, Failure> {
    stdio::stdout()
}

/// A bar for a long job, unless the ids go to the terminal, too.
fn progress(count: u64) -> ProgressBar {
    if count < LONG_JOB || io::stdout().is_terminal() {
        return ProgressBar::hidden();
    }
    progress::bar(count, "{wide_bar} {human_pos} of {human_len} uids, {per_sec}, {eta} left")
}
