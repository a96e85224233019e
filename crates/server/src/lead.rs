//! Names whose uids run ahead of the clock. That is told before they reach the limit, where clients wait or get errors.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use uidring::CachedUidGenerator;

/// Whoever sets a shorter limit wants a steady rate, which reaches it every day.
const SHORTEST_LIMIT: Duration = Duration::from_secs(60);

/// Whether a name's uids are nearly as far ahead of the clock as they may be.
#[derive(Debug, Default)]
pub struct Lead {
    is_long: AtomicBool,
}

impl Lead {
    /// Looks at the generator, and logs a turn. One thread does.
    pub fn look(&self, name: &str, generator: &CachedUidGenerator) {
        let Some(limit) = generator.max_borrow().filter(|limit| *limit >= SHORTEST_LIMIT) else {
            return;
        };
        let lead = generator.stats().lead;
        // Relaxed, as below: nothing else is read after it.
        let was_long = self.is_long.load(Ordering::Relaxed);
        // Half way back, so that it does not turn to and fro.
        let is_long = lead >= if was_long { limit / 2 } else { limit / 10 * 9 };
        if is_long == was_long {
            return;
        }
        self.is_long.store(is_long, Ordering::Relaxed);
        if is_long {
            tracing::warn!(
                name,
                ?lead,
                ?limit,
                "uids are nearly as far ahead of the clock as they may be: clients ask for more than the \
                 layout has. Beyond the limit they wait, and get errors; a layout with more sequence bits has \
                 more uids a second"
            );
        } else {
            tracing::warn!(name, ?lead, "uids are less far ahead of the clock again");
        }
    }

    /// What is to be said of a name while its lead is long.
    pub fn problem(&self, generator: &CachedUidGenerator) -> Option<String> {
        self.is_long.load(Ordering::Relaxed).then(|| {
            let lead = generator.stats().lead.as_secs();
            let limit = generator.max_borrow().unwrap_or_default().as_secs();
            format!("uids are {lead} s ahead of the clock, and may be {limit} s")
        })
    }
}
