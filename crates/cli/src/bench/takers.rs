//! The call that a bench thread repeats.

use std::hint::black_box;

use uidring::{FillError, TakeError};

/// Ids per call of a [`Batch`].
pub const BATCH: usize = 4_096;

/// Takes ids in one thread. `call` is inlined in loops that all takers share, so that costs can be compared.
pub trait Taker {
    /// Ids per call.
    const IDS: u64;

    /// Makes one call, and returns its last id.
    fn call(&mut self) -> Result<u64, TakeError>;

    /// Whether the ids of the last call increased.
    fn in_order(&self) -> bool {
        true
    }
}

impl<F: FnMut() -> Result<u64, TakeError>> Taker for F {
    const IDS: u64 = 1;

    #[inline(always)]
    fn call(&mut self) -> Result<u64, TakeError> {
        self()
    }
}

pub struct Batch<T, F> {
    ids: Box<[T]>,
    fill: F,
}

impl<T: Clone + Default, F> Batch<T, F> {
    pub fn new(fill: F) -> Self {
        Self { ids: vec![T::default(); BATCH].into(), fill }
    }
}

impl<T: Copy + Ord + Into<u64>, F: FnMut(&mut [T]) -> Result<(), FillError>> Taker for Batch<T, F> {
    const IDS: u64 = BATCH as u64;

    #[inline(always)]
    fn call(&mut self) -> Result<u64, TakeError> {
        (self.fill)(&mut self.ids).map_err(|error| error.error)?;
        black_box(&mut self.ids);
        Ok(self.ids[BATCH - 1].into())
    }

    fn in_order(&self) -> bool {
        self.ids.is_sorted_by(|a, b| a < b)
    }
}
