//! Generators are unwind-safe: you can catch a panic and continue to use them.
//!
//! A panic in a call comes from user code: a clock, a handler, a source, a store, a waker. It leaves a generator as a
//! thread that stops there would leave it to the others, which is always a valid state:
//!
//! - A take changes atomic words, each by one instruction, or what a lock guards. No user code runs under locks.
//! - A `LocalGenerator` changes its run after its last call of user code. Its `Cell` is only a marker.
//! - User code is shared between threads anyway, so a caught panic shows it no state that it could not see without.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::clock::Clock;
use crate::generator::SharedRing;
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

unwind_safe!(CachedUidGenerator, Padder, Producer, RingBuffer, SharedRing);
unwind_safe!(SegmentChain, SegmentGenerator, SegmentHandle);

impl<C: Clock> UnwindSafe for ClockedUidGenerator<C> {}
impl<C: Clock> RefUnwindSafe for ClockedUidGenerator<C> {}

impl<G: RefUnwindSafe> RefUnwindSafe for LocalGenerator<G> {}
