//! Many ids on stdout.

use std::fmt;
use std::io::{self, ErrorKind, IsTerminal, StdoutLock, Write};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use uidring::Uid;

use super::Failure;
use super::lines::Lines;

/// Ids that are taken and written at a time: 32 KiB of text, which stays in the first cache and
/// leaves the reader of a pipe, whose buffer is 64 KiB, something to do meanwhile.
const PORTION: u64 = 1_600;

/// A job of so many ids takes long enough to show how far it is.
const LONG_JOB: u64 = 20_000_000;

static STDOUT_IS_CLOSED: OnceLock<bool> = OnceLock::new();

/// Says whether the program was started with its stdout closed.
pub fn set_closed(is_closed: bool) {
    STDOUT_IS_CLOSED.get_or_init(|| is_closed);
}

/// stdout, if there is one.
pub fn stdout() -> Result<StdoutLock<'static>, Failure> {
    if STDOUT_IS_CLOSED.get() == Some(&true) {
        return Err(Failure::Failed("stdout is closed: there is nowhere to print to".into()));
    }
    Ok(io::stdout().lock())
}

/// Where ids come from.
pub trait Source {
    /// Puts as many ids as are ready at the front of `out`; 0 if there is none now, whatever the
    /// reason.
    fn take_ready(&mut self, out: &mut [Uid]) -> usize;

    /// Waits for an id, or for several at once; returns how many stand at the front of `out`, and
    /// why there are no more.
    fn wait(&mut self, out: &mut [Uid]) -> (usize, Result<(), Failure>);
}

/// How many ids have been written, and which was the last. Shared with whoever tells of it when the
/// program is told to end.
#[derive(Debug, Default)]
pub struct Printed(Mutex<(u64, Uid)>);

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

/// Prints so many ids. What has been taken is written before anything is waited for, and also if
/// there are no more.
pub fn print(
    count: u64,
    lines: &mut Lines<'_>,
    source: &mut dyn Source,
    printed: &Printed,
) -> Result<(), Failure> {
    let done = print_all(count, lines, source, printed);
    done.map_err(|failure| match failure {
        Failure::Failed(why) => Failure::Failed(format!("{why}; {printed}")),
        other => other,
    })
}

fn print_all(
    count: u64,
    lines: &mut Lines<'_>,
    source: &mut dyn Source,
    printed: &Printed,
) -> Result<(), Failure> {
    let mut output = unbuffered(stdout()?)?;
    let progress = progress(count);
    let mut uids = vec![Uid::default(); count.min(PORTION) as usize];
    let mut text = Vec::with_capacity(uids.len() * 20);
    let mut left = count;
    while left > 0 {
        let portion = &mut uids[..left.min(PORTION) as usize];
        let mut filled = 0;
        while filled < portion.len() {
            match source.take_ready(&mut portion[filled..]) {
                0 => break,
                taken => filled += taken,
            }
        }
        let mut done = Ok(());
        if filled == 0 {
            (filled, done) = source.wait(portion);
        }
        text.clear();
        lines.append(&mut text, &portion[..filled])?;
        write(&mut *output, &text, &portion[..filled], printed)?;
        done?;
        left -= filled as u64;
        progress.inc(filled as u64);
    }
    progress.finish_and_clear();
    Ok(())
}

/// Writes a line for each of the ids, and notes how many of them are out, also if it fails or is held
/// up midway.
fn write(
    output: &mut dyn Write,
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
fn unbuffered(stdout: StdoutLock<'_>) -> Result<Box<dyn Write>, Failure> {
    use std::fs::File;
    use std::os::fd::AsFd;
    Ok(Box::new(File::from(stdout.as_fd().try_clone_to_owned()?)))
}

#[cfg(not(unix))]
fn unbuffered(stdout: StdoutLock<'static>) -> Result<Box<dyn Write>, Failure> {
    Ok(Box::new(stdout))
}

/// A bar on stderr for a long job, if somebody looks at it and the ids go elsewhere.
fn progress(count: u64) -> ProgressBar {
    if count < LONG_JOB || !io::stderr().is_terminal() || io::stdout().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = "{wide_bar} {human_pos} of {human_len} uids, {per_sec}, {eta} left";
    let bar = ProgressBar::with_draw_target(Some(count), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
