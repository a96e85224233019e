//! The padder: the thread that fills rings, and sleeps when there is nothing to do.

mod options;
mod pad_state;
mod padded_ring;
mod pinning;
mod source;
mod thread;

pub use self::options::{PadderIdle, PadderOptions};
pub use self::pinning::PadderCore;
pub use self::source::{NextRun, RunSource};
pub use self::thread::{Padder, RingHandle};
