//! What `uidring generate` does when it is told to end: Ctrl-C, or SIGTERM.

use super::Failure;
use super::output::Printed;

/// Does the work, and tells how far it has come if the program is told to end meanwhile: `close` has
/// the work's source end, and what that has taken is still printed. Then the program ends as if the
/// signal had not been caught.
#[cfg(unix)]
pub fn work(
    printed: &Printed,
    close: impl Fn() + Sync,
    work: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use signal_hook::iterator::{Handle, Signals};
    use signal_hook::low_level::emulate_default_handler;

    /// Nobody may read what is to be printed.
    const PATIENCE: Duration = Duration::from_secs(1);

    struct Watched(Handle);

    impl Drop for Watched {
        fn drop(&mut self) {
            self.0.close();
        }
    }

    let mut signals = Signals::new(signals())
        .map_err(|error| Failure::Failed(format!("no signals can be received: {error}")))?;
    let watch = signals.handle();
    let (done, is_done) = mpsc::channel::<()>();
    let close = &close;
    thread::scope(|scope| {
        scope.spawn(move || {
            let Some(signal) = signals.forever().next() else { return };
            close();
            // It is hung up when the work is done.
            let _ = is_done.recv_timeout(PATIENCE);
            eprintln!("interrupted: {printed}");
            if emulate_default_handler(signal).is_err() {
                std::process::abort();
            }
        });
        // However the work ends, the thread does.
        let _watched = Watched(watch);
        let result = work();
        drop(done);
        result
    })
}

/// The signals that are received: not those that whoever started the program wants ignored, as a
/// shell wants Ctrl-C of what it starts in the background.
#[cfg(unix)]
fn signals() -> Vec<i32> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    [SIGINT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}

#[cfg(not(unix))]
pub fn work(
    _: &Printed,
    _: impl Fn() + Sync,
    work: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    work()
}
