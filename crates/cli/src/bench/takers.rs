//! What is measured: our ways to take ids, and what they are compared with.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use uidring::generator::GeneratorRef;
use uidring::{CachedUidGenerator, LocalGenerator, PerThreadGenerator, TakeError, Uid};

/// Ids of a call that takes many.
pub const BATCH: usize = 4_096;

/// How one thread comes by ids. All takers go through the same loops, and `call` is inlined there,
/// so that their costs can be compared.
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

/// A call that gave fewer ids than it should, or none.
pub struct Stopped {
    pub given: u64,
    pub error: TakeError,
}

impl From<TakeError> for Stopped {
    fn from(error: TakeError) -> Self {
        Self { given: 0, error }
    }
}

/// `next_uid` of a shared generator.
pub struct Shared<'a>(pub &'a CachedUidGenerator);

impl Taker for Shared<'_> {
    const IDS: u64 = 1;

    #[inline(always)]
    fn call(&mut self) -> Result<u64, Stopped> {
        Ok(self.0.next_uid()?.get())
    }
}

/// `next_uid` of a shared handle in which each thread counts for itself.
pub struct PerThread<'a, G>(pub &'a PerThreadGenerator<G>);

impl<G: GeneratorRef> Taker for PerThread<'_, G> {
    const IDS: u64 = 1;

    #[inline(always)]
    fn call(&mut self) -> Result<u64, Stopped> {
        Ok(self.0.next_uid()?.get())
    }
}

/// `next_uid` of a generator of the thread's own.
pub struct Local<G>(pub LocalGenerator<G>);

impl<G: GeneratorRef> Taker for Local<G> {
    const IDS: u64 = 1;

    #[inline(always)]
    fn call(&mut self) -> Result<u64, Stopped> {
        Ok(self.0.next_uid()?.get())
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

/// The bare atomic addition: the least that ids from a shared counter can cost.
pub struct FetchAdd<'a>(pub &'a AtomicU64);

impl Taker for FetchAdd<'_> {
    const IDS: u64 = 1;

    #[inline(always)]
    fn call(&mut self) -> Result<u64, Stopped> {
        Ok(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// Counting in a register: the least that ids of a thread's own can cost.
#[derive(Default)]
pub struct Increment(u64);

impl Taker for Increment {
    const IDS: u64 = 1;

    #[inline(always)]
    fn call(&mut self) -> Result<u64, Stopped> {
        self.0 += 1;
        Ok(self.0)
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
