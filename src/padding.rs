//! The padder: the thread that fills rings, and sleeps when there is nothing to do.

mod options;
mod pad_state;
mod padded_ring;
mod pinning;
mod source;
mod thread;

pub use self::options::{PadderIdle, PadderOptions};
pub use self::pinning::PadderCore;
pub use self::thread::Padder;

// For tests and models, outside semantic versioning.
#[doc(hidden)]
pub use self::source::{NextRun, RunSource};
#[doc(hidden)]
pub use self::thread::RingHandle;
