//! The size of a model's numbers.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::ops::{Add, AddAssign, Div, Mul, Rem, Sub, SubAssign};

/// The numbers of a model: small for an exhaustive search, or the code's own. The steps are the same.
pub trait Scale: Copy + Clone + Debug + Default + Eq + Ord + Hash + Send + Sync + 'static {
    /// Ticks, uids, and units of time.
    type Number: Number;
    /// Sets of uids.
    type Uids: Uids<Self::Number>;
}

/// For an exhaustive search: numbers below 256, uids below 32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Small;

impl Scale for Small {
    type Number = u8;
    type Uids = Bits;
}

/// For a trace of the code: its ticks, and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Full;

impl Scale for Full {
    type Number = u64;
    type Uids = Ranges;
}

/// A number.
pub trait Number:
    Copy
    + Debug
    + Default
    + Ord
    + Hash
    + Send
    + Sync
    + From<u8>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Rem<Output = Self>
    + AddAssign
    + SubAssign
    + 'static
{
    /// Returns the difference, or `None` if it is negative.
    fn minus(self, other: Self) -> Option<Self> {
        (self >= other).then(|| self - other)
    }

    /// Returns the difference, or zero if it is negative.
    fn minus_or_zero(self, other: Self) -> Self {
        self.minus(other).unwrap_or_default()
    }
}

impl Number for u8 {}
impl Number for u64 {}

/// A set of uids.
pub trait Uids<N>: Clone + Debug + Default + Eq + Hash + Send + Sync + 'static {
    /// Adds the uids `first..end`.
    fn add(&mut self, first: N, end: N);

    /// Removes a uid.
    fn remove(&mut self, uid: N);

    /// Returns whether the set contains it.
    fn has(&self, uid: N) -> bool;

    /// Returns the least uid.
    fn first(&self) -> Option<N>;

    /// Returns the greatest uid.
    fn last(&self) -> Option<N>;

    /// Returns how many there are.
    fn count(&self) -> u64;

    /// Returns whether the set is empty.
    fn is_empty(&self) -> bool {
        self.first().is_none()
    }

    /// Removes the least uid, and returns it.
    fn pop_first(&mut self) -> Option<N>
    where
        N: Copy,
    {
        let first = self.first()?;
        self.remove(first);
        Some(first)
    }
}

/// One bit per uid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bits(u32);

impl Uids<u8> for Bits {
    fn add(&mut self, first: u8, end: u8) {
        for uid in first..end {
            self.0 |= 1 << uid;
        }
    }

    fn remove(&mut self, uid: u8) {
        self.0 &= !(1 << uid);
    }

    fn has(&self, uid: u8) -> bool {
        self.0 & 1 << uid != 0
    }

    fn first(&self) -> Option<u8> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as u8)
    }

    fn last(&self) -> Option<u8> {
        self.0.checked_ilog2().map(|uid| uid as u8)
    }

    fn count(&self) -> u64 {
        self.0.count_ones().into()
    }
}

/// Ranges: the end of each by its start. No two touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// The range that contains the number or ends at it.
    fn around(&self, number: u64) -> Option<(u64, u64)> {
        let (&first, &end) = self.0.range(..=number).next_back()?;
        (number <= end).then_some((first, end))
    }
}

impl Uids<u64> for Ranges {
    fn add(&mut self, mut first: u64, mut end: u64) {
        if first >= end {
            return;
        }
        if let Some((before, after)) = self.around(first) {
            (first, end) = (before, end.max(after));
        }
        while let Some((&start, &after)) = self.0.range(first..=end).next() {
            self.0.remove(&start);
            end = end.max(after);
        }
        self.0.insert(first, end);
    }

    fn remove(&mut self, uid: u64) {
        let Some((first, end)) = self.around(uid).filter(|&(_, end)| uid < end) else { return };
        self.0.remove(&first);
        self.0
            .extend([(first, uid), (uid + 1, end)].into_iter().filter(|(first, end)| first < end));
    }

    fn has(&self, uid: u64) -> bool {
        self.around(uid).is_some_and(|(_, end)| uid < end)
    }

    fn first(&self) -> Option<u64> {
        self.0.first_key_value().map(|(&first, _)| first)
    }

    fn last(&self) -> Option<u64> {
        self.0.last_key_value().map(|(_, &end)| end - 1)
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|(first, end)| end - first).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Both sets behave like one of the standard library.
    #[test]
    fn sets_are_sets() {
        let (mut bits, mut ranges, mut set) = (Bits::default(), Ranges::default(), BTreeSet::new());
        let mut random = 1u32;
        for _ in 0..20_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let [_, kind, first, length] = random.to_be_bytes();
            let (first, length) = (first % 24, length % 8);
            if kind % 2 == 0 {
                bits.add(first, first + length);
                ranges.add(first.into(), (first + length).into());
                set.extend(first..first + length);
            } else {
                bits.remove(first);
                ranges.remove(first.into());
                set.remove(&first);
            }
            assert!((0..32).all(|uid| bits.has(uid) == set.contains(&uid)));
            assert!((0..32).all(|uid| ranges.has(uid.into()) == set.contains(&uid)));
            assert_eq!((bits.first(), bits.last()), (set.first().copied(), set.last().copied()));
            assert_eq!(ranges.first(), set.first().map(|&uid| uid.into()));
            assert_eq!(ranges.last(), set.last().map(|&uid| uid.into()));
            assert_eq!((bits.count(), ranges.count()), (set.len() as u64, set.len() as u64));
        }
    }
}
