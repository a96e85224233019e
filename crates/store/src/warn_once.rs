//! Warnings that would be repeated each time a store is opened.

use std::collections::BTreeSet;
use std::sync::Mutex;

use uidring::adapter::log;

/// Logs what is wrong with the place of a store: once, however often the process opens it.
pub fn warn_once(text: String) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    // It waits for nobody: a forked child's copy may be locked for good. Then it is said again.
    if TOLD.try_lock().map_or(true, |mut told| told.insert(text.clone())) {
        log!(warn, "{text}");
    }
}
