//! The progress bar that stands on the terminal.

use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, WeakProgressBar};

static SHOWN: Mutex<Option<WeakProgressBar>> = Mutex::new(None);

/// Lets this bar be the one.
pub fn set(bar: &ProgressBar) {
    *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.downgrade());
}

/// Calls what writes to stderr while no bar stands there.
pub fn hidden_while<T>(write: impl FnOnce() -> T) -> T {
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match shown.and_then(|shown| shown.upgrade()) {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}
