//! The padder: the thread that fills rings, and sleeps when there is nothing to do.

mod core;
mod options;
mod pad_state;
mod padded_ring;
mod source;
mod thread;

pub use self::core::PadderCore;
pub use self::options::{PadderIdle, PadderOptions};
pub use self::source::{NextRun, RunSource};
pub use self::thread::{Padder, Padding};
