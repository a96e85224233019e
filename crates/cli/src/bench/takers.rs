//! What a thread of a bench does again and again.

use std::hint::black_box;

use uidring::{CachedUidGenerator, TakeError, Uid};

/// Ids of a call that takes many.
pub const BATCH: usize = 4_096;

/// Takes ids in one thread. All takers run in the same loops, and `call` is inlined there, so that their
/// costs can be compared.
pub trait Taker {
    /// The ids of a call.
    const IDS: u64;

    /// One call; returns the last of its ids.
    fn call(&mut self) -> Result<u64, Stopped>;

    /// Whether the ids of the last call were in order among themselves.
    fn in_order(&self) -> bool {
        true
    }
}

/// Why a call gave fewer ids than it should, or none.
pub struct Stopped {
    pub given: u64,
    pub error: TakeError,
}

/// One id a call.
impl<F: FnMut() -> Result<u64, TakeError>> Taker for F {
    const IDS: u64 = 1;

    #[inline(always)]
    fn call(&mut self) -> Result<u64, Stopped> {
        self().map_err(|error| Stopped { given: 0, error })
    }
}

/// `fill` of a shared generator.
pub struct Fill<'a> {
    generator: &'a CachedUidGenerator,
    uids: Box<[Uid]>,
    /// How many of them the last call gave.
    filled: usize,
}

impl<'a> Fill<'a> {
    pub fn new(generator: &'a CachedUidGenerator) -> Self {
        Self { generator, uids: vec![Uid::default(); BATCH].into(), filled: 0 }
    }
}

impl Taker for Fill<'_> {
    const IDS: u64 = BATCH as u64;

    #[inline(always)]
    fn call(&mut self) -> Result<u64, Stopped> {
        let filled = self.generator.fill(&mut self.uids);
        self.filled = filled.as_ref().map_or_else(|error| error.filled, |()| BATCH);
        filled.map_err(|error| Stopped { given: error.filled as u64, error: error.error })?;
        black_box(&mut self.uids);
        Ok(self.uids[BATCH - 1].get())
    }

    fn in_order(&self) -> bool {
        self.uids[..self.filled].is_sorted_by(|a, b| a < b)
    }
}

/// Storing increasing numbers: the least that filling a slice can cost.
pub struct Stores {
    next: u64,
    numbers: Box<[u64]>,
}

impl Default for Stores {
    fn default() -> Self {
        Self { next: 1, numbers: vec![0; BATCH].into() }
    }
}

impl Taker for Stores {
    const IDS: u64 = BATCH as u64;

    #[inline(always)]
    fn call(&mut self) -> Result<u64, Stopped> {
        for number in &mut self.numbers {
            *number = self.next;
            self.next += 1;
        }
        black_box(&mut self.numbers);
        Ok(self.numbers[BATCH - 1])
    }
}
