//! Generators are unwind-safe: a program may catch a panic and go on with them.
//!
//! What panics amid a call is a caller's code: a clock, a handler, a source, a store, a waker. It leaves a generator as a
//! thread that is stopped there would leave it to the others, which is whole at any time:
//!
//! - A take changes atomic words, each by one instruction, or what a lock guards, and no caller's code runs under locks.
//! - A `LocalGenerator` changes its run after the last call of such code. Its `Cell` is a mark that holds nothing.
//! - A caller's code is shared between threads already, and so sees no state by a caught panic that it could not see
//!   without one.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::clock::Clock;
use crate::generator::cached::CachedUidGenerator;
use crate::generator::clocked::ClockedUidGenerator;
use crate::generator::local::LocalGenerator;
use crate::padding::Padder;
use crate::ring::{Producer, RingBuffer};
use crate::segment::SegmentChain;
use crate::segment::generator::{SegmentGenerator, SegmentHandle};

macro_rules! unwind_safe {
    ($($generator:ty),*) => {$(
        impl UnwindSafe for $generator {}
        impl RefUnwindSafe for $generator {}
    )*};
}

unwind_safe!(CachedUidGenerator, Padder, Producer, RingBuffer);
unwind_safe!(SegmentChain, SegmentGenerator, SegmentHandle);

impl<C: Clock> UnwindSafe for ClockedUidGenerator<C> {}
impl<C: Clock> RefUnwindSafe for ClockedUidGenerator<C> {}

impl<G: RefUnwindSafe> RefUnwindSafe for LocalGenerator<G> {}
