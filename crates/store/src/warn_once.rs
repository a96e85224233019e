//! Warnings that would repeat whenever a store is opened.

use std::collections::BTreeSet;
use std::sync::Mutex;

use uidring::adapter::log;

/// Logs a warning about a store once per process.
pub fn warn_once(text: String) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    // Does not wait for the lock: in a forked child it may be locked for good. The warning may then repeat.
    if TOLD.try_lock().map_or(true, |mut told| told.insert(text.clone())) {
        log!(warn, "{text}");
    }
}
