//! Many uids on stdout.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use uidring::Uid;

use super::Failure;
use super::lines::Lines;

/// Uids that are taken and written at a time: 32 KiB of text, which stays in the first cache and
/// leaves the reader of a pipe, whose buffer is 64 KiB, something to do meanwhile.
const PORTION: u64 = 1_600;

/// A job of so many uids takes long enough to show how far it is.
const LONG_JOB: u64 = 20_000_000;

/// Prints so many uids, which `fill` makes: it says how many stand at the front of its slice, and why
/// there are no more.
pub fn print(
    count: u64,
    lines: &mut Lines<'_>,
    mut fill: impl FnMut(&mut [Uid]) -> (usize, Result<(), Failure>),
) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    let progress = progress(count);
    let mut uids = vec![Uid::default(); count.min(PORTION) as usize];
    let mut text = Vec::with_capacity(uids.len() * 20);
    let mut left = count;
    while left > 0 {
        let portion = &mut uids[..left.min(PORTION) as usize];
        let (filled, done) = fill(portion);
        text.clear();
        lines.append(&mut text, &portion[..filled])?;
        output.write_all(&text)?;
        done?;
        left -= filled as u64;
        progress.inc(filled as u64);
    }
    output.flush()?;
    progress.finish_and_clear();
    Ok(())
}

/// A bar on stderr for a long job, if somebody looks at it and the uids go elsewhere.
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
