//! Messages on stderr: errors, warnings, notes, and the log of the libraries.

use std::fmt::{self, Display, Write as _};
use std::io::{self, IsTerminal, Write as _};
use std::sync::{Mutex, OnceLock, PoisonError};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, WeakProgressBar};
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use uidring::adapter::on_one_line;
use uidring::clock::{Clock, SystemClock};

/// How much is said on stderr, and in which form.
#[derive(Args, Clone, Copy, Default)]
#[command(next_help_heading = "Messages")]
pub struct ReportArgs {
    /// Print errors only: no warnings, notes, summary or progress
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,

    /// Print more: what the libraries log, and a summary; -vv for all details
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,

    /// The form of messages on stderr; json prints one object per line
    #[arg(long, value_enum, value_name = "FORMAT", global = true, default_value = "text")]
    log_format: Form,
}

/// Output for people, or for programs.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    #[default]
    Text,
    Json,
}

static ARGS: OnceLock<ReportArgs> = OnceLock::new();

/// The progress bar on the terminal. It is hidden while a message is printed.
static SHOWN_BAR: Mutex<Option<WeakProgressBar>> = Mutex::new(None);

/// Sets what the whole program reports from now on.
pub fn init(args: ReportArgs) {
    let level = match args {
        ReportArgs { quiet: true, .. } => LevelFilter::ERROR,
        ReportArgs { verbose: 0, .. } => LevelFilter::WARN,
        ReportArgs { verbose: 1, .. } => LevelFilter::INFO,
        ReportArgs { .. } => LevelFilter::TRACE,
    };
    // On a terminal, report new files: a mistyped path creates one.
    let is_seen = io::stderr().is_terminal() && !args.quiet;
    let created = if is_seen { level.max(LevelFilter::INFO) } else { level };
    // Drivers' details are internals. The ZooKeeper client warns at every attempt; our library logs what matters once.
    let levels = Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target("uidring", level)
        .with_target("uidring_sqlite::create", created)
        .with_target("zookeeper_client", LevelFilter::OFF);
    // Set nowhere else.
    let _ = ARGS.set(args);
    tracing_subscriber::registry().with(Log.with_filter(levels)).init();
}

pub fn error(text: impl Display) {
    say(Level::ERROR, "error: ", &text.to_string(), "");
}

pub fn wrong_usage(text: impl Display) {
    let hint = "\n\nFor more information, try '--help'.";
    say(Level::ERROR, "error: ", &text.to_string(), hint);
}

/// Warns of possible harm.
pub fn warning(text: impl Display) {
    if !args().quiet {
        say(Level::WARN, "warning: ", &text.to_string(), "");
    }
}

pub fn note(text: impl Display) {
    if !args().quiet {
        say(Level::INFO, "", &text.to_string(), "");
    }
}

pub fn is_quiet() -> bool {
    args().quiet
}

pub fn is_verbose() -> bool {
    args().verbose > 0
}

/// Whether messages are text for people.
pub fn is_text() -> bool {
    args().log_format == Form::Text
}

/// Messages go above this bar from now on.
pub fn show_above(bar: &ProgressBar) {
    *SHOWN_BAR.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.downgrade());
}

/// Returns the settings, which are the defaults until [`init`].
fn args() -> ReportArgs {
    ARGS.get().copied().unwrap_or_default()
}

/// Prints a text on one line, and `more` after it. Ignores a failure: there is nowhere to report it.
fn say(level: Level, prefix: &str, text: &str, more: &str) {
    let line = if is_text() {
        format!("{prefix}{}{more}\n", on_one_line(text))
    } else {
        let now = format!("{:.3}", SystemClock.now());
        let message = format!("{text}{more}");
        let record = json!({ "timestamp": now, "level": level.as_str(), "message": message });
        format!("{record}\n")
    };
    // Use one write: other threads report at the same time, and the process may end meanwhile.
    let write = || io::stderr().write_all(line.as_bytes());
    let bar = SHOWN_BAR.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let _ = match bar.and_then(|bar| bar.upgrade()) {
        Some(bar) => bar.suspend(write),
        None => write(),
    };
}

/// Prints each record of the log as a line with the time.
struct Log;

impl<S: Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        let level = *event.metadata().level();
        say(level, &format!("{:.3} {level} ", SystemClock.now()), &text.0, "");
    }
}

/// The message of a record, and its other fields as `name=value`.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let before = if self.0.is_empty() { "" } else { " " };
        // Writing into a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{before}{value:?}"),
            name => write!(self.0, "{before}{name}={value:?}"),
        };
    }
}
