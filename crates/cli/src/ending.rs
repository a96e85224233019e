//! What `uidring generate` does on Ctrl-C or SIGTERM.

use std::fmt::Display;
use std::time::Duration;

use crate::failure::Failure;
use crate::report;

/// Does the work. If the program receives a signal to end meanwhile, `close` ends the source of the
/// work, whose last ids are still printed, which may take as long as `patience`, or until another
/// signal; then `progress` is reported, and the program ends as if the signal had not been caught.
#[cfg(unix)]
pub fn run(
    progress: &(impl Display + Sync),
    patience: Option<Duration>,
    close: impl Fn() + Sync,
    work: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    use std::sync::mpsc::{self, RecvTimeoutError};
    use std::thread;

    use signal_hook::iterator::{Handle, Signals};
    use signal_hook::low_level::emulate_default_handler;
    use uidring::adapter::Deadline;

    /// How often to look for another signal.
    const PERIOD: Duration = Duration::from_millis(20);

    struct Watched(Handle);

    impl Drop for Watched {
        fn drop(&mut self) {
            self.0.close();
        }
    }

    let mut signals = Signals::new(signals())
        .map_err(|error| Failure::Failed(format!("receiving signals: {error}")))?;
    // However the work ends, the thread below ends with it.
    let watched = Watched(signals.handle());
    let (done, is_done) = mpsc::channel::<()>();
    let close = &close;
    thread::scope(|scope| {
        scope.spawn(move || {
            let Some(signal) = signals.forever().next() else { return };
            close();
            let deadline = Deadline::after(patience);
            // The sender is dropped when the work is done.
            while is_done.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout)
                && deadline.remaining() != Some(Duration::ZERO)
                && signals.pending().next().is_none()
            {}
            report::note(format_args!("interrupted: {progress}"));
            if emulate_default_handler(signal).is_err() {
                std::process::abort();
            }
        });
        let _watched = watched;
        let result = work();
        drop(done);
        result
    })
}

/// The signals to receive. Whoever started the program may want some ignored, as a shell wants Ctrl-C
/// ignored by what it starts in the background.
#[cfg(unix)]
fn signals() -> Vec<i32> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    [SIGINT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}

#[cfg(not(unix))]
pub fn run(
    _: &(impl Display + Sync),
    _: Option<Duration>,
    _: impl Fn() + Sync,
    work: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    work()
}
