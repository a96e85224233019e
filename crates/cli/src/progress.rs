//! Progress bars on stderr.

use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::report;
use crate::text::{short, span};

/// Returns a bar of this many steps, if known; a hidden one if nobody would see it. Besides indicatif's keys there are
/// `short_pos`, `short_len` and `rate`, as in `12.5 M`, `200 M` and `45.1 M/s`.
pub fn bar(steps: Option<u64>, template: &str) -> ProgressBar {
    bar_for(steps, template, Duration::ZERO)
}

/// As [`bar`], for a job that is known to take this long. The key `left` is the time left.
pub fn bar_for(steps: Option<u64>, template: &str, time: Duration) -> ProgressBar {
    if !io::stderr().is_terminal() || report::is_quiet() || !report::is_text() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(steps, ProgressDrawTarget::stderr());
    let Ok(style) = ProgressStyle::with_template(template) else { return bar };
    let key = |style: ProgressStyle, name, value: fn(&ProgressState) -> String| {
        // Writing into the line cannot fail.
        style.with_key(name, move |state: &ProgressState, line: &mut dyn Write| {
            let _ = line.write_str(&value(state));
        })
    };
    let style = key(style, "short_pos", |state| short(state.pos() as f64));
    let style = key(style, "short_len", |state| short(state.len().unwrap_or(0) as f64));
    let style = key(style, "rate", |state| format!("{}/s", short(state.per_sec())));
    let left = move |state: &ProgressState, line: &mut dyn Write| {
        let known = time.saturating_sub(state.elapsed());
        let _ = line.write_str(&span(if known.is_zero() { state.eta() } else { known }));
    };
    let bar = bar.with_style(style.with_key("left", left));
    report::show_above(&bar);
    bar
}
