//! What the store crates share with the core. Exempt from semantic versioning: any release may change it.

pub use crate::clock::monotonic::{
    Deadline, LogThrottle, Moment, Monotonic, Stopwatch, SystemMonotonic,
};
pub use crate::clock::read;
pub use crate::error::{Chain, check_millis, check_option, error_traits};
pub use crate::future::in_own_thread;
pub use crate::sync::{interrupt_starts, record, starts_are_interrupted};
pub use crate::text::{may_have_url, on_one_line, visible};
pub use tracing;

/// Logs: `log!(warn, ...)` is `tracing::warn!(...)` with no lock of the core held, and not within another record of the
/// same thread.
#[doc(hidden)]
#[macro_export]
macro_rules! __log {
    ($level:ident, $($text:tt)*) => {
        if let Some(record) = $crate::adapter::record() {
            record.write(|| $crate::adapter::tracing::$level!($($text)*));
        }
    };
}
pub use __log as log;
