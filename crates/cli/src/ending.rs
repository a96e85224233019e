//! Signals that end the program.

use std::fmt::Display;
use std::time::Duration;

#[cfg(feature = "server")]
use uidring::adapter::interrupt_starts;

use crate::failure::Failure;
use crate::report;

/// Signals that others send, or the system when a time is over, and that end a program by default. Each command handles
/// hangups itself.
#[cfg(unix)]
pub const SIGNALS: [i32; 9] = {
    use signal_hook::consts::*;
    [SIGALRM, SIGINT, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU]
};

/// How long an interrupted start may take to give back what it holds.
pub const START_PATIENCE: Duration = Duration::from_secs(2);

/// Does the work. At a signal to end, `close` ends the source of ids, and the last ids are still printed, for as long
/// as `patience` says or until another signal. Then `progress` is reported, and the program ends as if it had not
/// caught the signal.
#[cfg(unix)]
pub fn run(
    progress: &(impl Display + Sync),
    patience: impl Fn() -> Option<Duration> + Sync,
    close: impl Fn() + Sync,
    work: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    use signal_hook::consts::SIGHUP;

    let last_words = || report::note(format_args!("interrupted: {progress}"));
    let signals = SIGNALS.into_iter().chain([SIGHUP]);
    match watched(signals, patience, close, last_words, work)? {
        (_, Some(signal)) => {
            last_words();
            init::end_by(signal)
        }
        (result, None) => result,
    }
}

/// Starts what is to be served. At a signal to end, an unfinished start gives back what it holds, and the program ends
/// as if it had not caught the signal. A start that has just finished goes on, because its caller receives the signal,
/// too.
#[cfg(feature = "server")]
pub fn start<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    match watched(SIGNALS, || Some(START_PATIENCE), interrupt_starts, || (), work)? {
        (Err(_), Some(signal)) => init::end_by(signal),
        (result, _) => result,
    }
}

/// Does the work, and returns the first signal that came meanwhile. At that signal, calls `close` and gives the work as
/// much time as `patience` says. When this is over or another signal comes, says the last words and ends the program.
#[cfg(unix)]
fn watched<T>(
    signals: impl IntoIterator<Item = i32>,
    patience: impl Fn() -> Option<Duration> + Sync,
    close: impl Fn() + Sync,
    last_words: impl Fn() + Sync,
    work: impl FnOnce() -> T,
) -> Result<(T, Option<i32>), Failure> {
    use std::panic::{self, AssertUnwindSafe};
    use std::sync::mpsc::{self, RecvTimeoutError};
    use std::thread;

    use signal_hook::iterator::Signals;
    use uidring::adapter::Deadline;

    const PERIOD: Duration = Duration::from_millis(20);

    let mut signals = Signals::new(not_ignored(signals))
        .map_err(|error| Failure::Failed(format!("receiving signals: {error}")))?;
    init::signals_are_handled();
    let handle = signals.handle();
    let (done, is_done) = mpsc::channel::<()>();
    let (patience, close, last_words) = (&patience, &close, &last_words);
    thread::scope(|scope| {
        let signal = scope.spawn(move || {
            let signal = signals.forever().next()?;
            close();
            let deadline = Deadline::after(patience());
            // The sender is dropped when the work is done.
            while is_done.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                if deadline.is_over() || signals.pending().next().is_some() {
                    last_words();
                    init::end_by(signal);
                }
            }
            Some(signal)
        });
        let result = panic::catch_unwind(AssertUnwindSafe(work));
        // The thread above must end, however the work ends.
        handle.close();
        drop(done);
        let signal = signal.join().unwrap_or_default();
        Ok((result.unwrap_or_else(|panic| panic::resume_unwind(panic)), signal))
    })
}

/// Signals before a handler is installed. Linux ignores those that the first process of a container does not handle.
#[cfg(unix)]
pub mod init {
    use std::process;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, OnceLock};

    use signal_hook::consts::SIGXFSZ;
    use signal_hook::flag::{register, register_conditional_shutdown};
    use signal_hook::low_level::emulate_default_handler;

    const ID: u32 = 1;

    static ENDS: OnceLock<Arc<AtomicBool>> = OnceLock::new();

    /// Lets signals end this process even if it is the first. Also catches SIGXFSZ, so that writing to a file that must
    /// not grow is an error instead.
    pub fn prepare() {
        let _ = register(SIGXFSZ, Arc::default());
        if process::id() == ID {
            let ends = ENDS.get_or_init(|| Arc::new(AtomicBool::new(true)));
            for signal in super::not_ignored(super::SIGNALS) {
                let _ = register_conditional_shutdown(signal, 128 + signal, Arc::clone(ends));
            }
        }
    }

    /// Signals have other handlers from now on.
    pub fn signals_are_handled() {
        if let Some(ends) = ENDS.get() {
            ends.store(false, Ordering::SeqCst);
        }
    }

    /// Ends the program as if it had not caught the signal.
    pub fn end_by(signal: i32) -> ! {
        if process::id() == ID {
            process::exit(128 + signal);
        }
        let _ = emulate_default_handler(signal);
        process::abort()
    }
}

/// Leaves out signals that are ignored since the program's start. A shell, for example, ignores Ctrl-C for what it
/// starts in the background.
#[cfg(unix)]
fn not_ignored(signals: impl IntoIterator<Item = i32>) -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    signals.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}

#[cfg(not(unix))]
pub fn run(
    _: &(impl Display + Sync),
    _: impl Fn() -> Option<Duration> + Sync,
    _: impl Fn() + Sync,
    work: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    work()
}
