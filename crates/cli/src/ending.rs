//! What the program does at the signals that end programs.

use std::fmt::Display;
use std::time::Duration;

#[cfg(feature = "server")]
use uidring::adapter::interrupt_starts;

use crate::failure::Failure;
use crate::report;

/// Those that end a program unless it handles them, and that others send, or the system when a time is over. Hangups are
/// for each command to handle.
#[cfg(unix)]
pub const SIGNALS: [i32; 9] = {
    use signal_hook::consts::*;
    [SIGALRM, SIGINT, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU]
};

/// How long a start may take to give back what it holds.
pub const START_PATIENCE: Duration = Duration::from_secs(2);

/// Does the work. If the program receives a signal to end meanwhile, `close` ends the source of the
/// work, whose last ids are still printed, which may take as long as `patience` says then, or until another
/// signal; then `progress` is reported, and the program ends as if the signal had not been caught.
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

/// Starts what is to be served. If the program receives a signal to end before that is done, the start gives back what
/// it holds, and the program ends as if the signal had not been caught. A start that is just done goes on: the
/// signal is there for whoever looks for it, too.
#[cfg(feature = "server")]
pub fn start<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    match watched(SIGNALS, || Some(START_PATIENCE), interrupt_starts, || (), work)? {
        (Err(_), Some(signal)) => init::end_by(signal),
        (result, _) => result,
    }
}

/// Does the work, and returns the first of the signals that came meanwhile. At that, it calls `close`, and then gives the
/// work as much time as `patience` says, or until another signal, before it says the
/// last words and ends the program.
#[cfg(unix)]
fn watched<T>(
    signals: impl IntoIterator<Item = i32>,
    patience: impl Fn() -> Option<Duration> + Sync,
    close: impl Fn() + Sync,
    last_words: impl Fn() + Sync,
    work: impl FnOnce() -> T,
) -> Result<(T, Option<i32>), Failure> {
    use std::sync::mpsc::{self, RecvTimeoutError};
    use std::thread;

    use signal_hook::iterator::{Handle, Signals};
    use uidring::adapter::Deadline;

    /// How often to look for another signal.
    const PERIOD: Duration = Duration::from_millis(20);

    struct Watched(Handle);

    impl Drop for Watched {
        fn drop(&mut self) {
            self.0.close();
        }
    }

    let mut signals = Signals::new(not_ignored(signals))
        .map_err(|error| Failure::Failed(format!("receiving signals: {error}")))?;
    init::signals_are_handled();
    // However the work ends, the thread below ends with it.
    let watched = Watched(signals.handle());
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
        let result = {
            let _watched = watched;
            work()
        };
        drop(done);
        Ok((result, signal.join().unwrap_or_default()))
    })
}

/// Signals for which nothing else is prepared yet. To the first process of a container, they do nothing that it does not
/// handle.
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

    /// Lets signals end this process if it is the first, as they end others. A file that must not grow is an error of
    /// who writes it.
    pub fn prepare() {
        let _ = register(SIGXFSZ, Arc::default());
        if process::id() == ID {
            let ends = ENDS.get_or_init(|| Arc::new(AtomicBool::new(true)));
            for signal in super::not_ignored(super::SIGNALS) {
                let _ = register_conditional_shutdown(signal, 128 + signal, Arc::clone(ends));
            }
        }
    }

    /// From now on, they are handled otherwise.
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

/// Those of the signals that whoever started the program does not want ignored, as a shell wants Ctrl-C ignored by what it
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
