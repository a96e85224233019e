//! What a thread of a bench does again and again.

use std::hint::black_box;

use uidring::{FillError, TakeError};

/// Ids of a call that takes many.
pub const BATCH: usize = 4_096;

/// Takes ids in one thread. All takers run in the same loops, and `call` is inlined there, so that their
/// costs can be compared.
pub trait Taker {
    /// The ids of a call.
    const IDS: u64;

    /// One call; returns the last of its ids.
    fn call(&mut self) -> Result<u64, TakeError>;

    /// Whether the ids of the last call were in order among themselves.
    fn in_order(&self) -> bool {
        true
    }
}

/// One id a call.
impl<F: FnMut() -> Result<u64, TakeError>> Taker for F {
    const IDS: u64 = 1;

    #[inline(always)]
    fn call(&mut self) -> Result<u64, TakeError> {
        self()
    }
}

/// Fills a slice in each call.
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
