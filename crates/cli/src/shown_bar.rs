//! The progress bar on the terminal.

use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, WeakProgressBar};

static SHOWN: Mutex<Option<WeakProgressBar>> = Mutex::new(None);

pub fn set(bar: &ProgressBar) {
    *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.downgrade());
}

/// Hides the bar while `write` prints to stderr.
pub fn hidden_while<T>(write: impl FnOnce() -> T) -> T {
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match shown.and_then(|shown| shown.upgrade()) {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}
