//! The contestants of each shape.

mod counters;
mod ferroid;
mod queue;
mod snowflakes;
mod uidring;
mod wide;

use crate::work::Work;

/// How ids are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One thread, one id per call.
    Single,
    /// Two threads on one generator, one id per call.
    Pair,
    /// One thread, 4,096 ids per call.
    Bulk,
    /// One thread, one id per call, with forms that no other thread can share.
    Local,
}

impl Shape {
    pub const ALL: [Self; 4] = [Self::Single, Self::Pair, Self::Bulk, Self::Local];

    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Pair => "pair",
            Self::Bulk => "bulk",
            Self::Local => "local",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::Single => "one thread, one id per call",
            Self::Pair => "two threads on one generator, one id per call",
            Self::Bulk => "one thread, 4,096 ids per call",
            Self::Local => "one thread, one id per call, forms that are not shared",
        }
    }

    /// The contestant for `time ÷ uidring`.
    pub fn uidring(self) -> &'static str {
        match self {
            Self::Single | Self::Pair => uidring::CACHED,
            Self::Bulk => uidring::CACHED_FILL,
            Self::Local => uidring::LOCAL,
        }
    }
}

/// The contestant for `time ÷ fetch_add`, in every shape.
pub const REFERENCE: &str = counters::FETCH_ADD;

/// A generator to measure.
pub struct Contestant {
    pub name: &'static str,
    pub note: &'static str,
    /// Called only for contestants that are measured: some sleep, some start threads.
    pub make: Box<dyn FnOnce() -> Work>,
}

#[derive(Default)]
pub struct Field {
    pub contestants: Vec<Contestant>,
    /// Missing contestants, with reasons.
    pub skipped: Vec<(&'static str, &'static str)>,
}

impl Field {
    fn add(
        &mut self,
        name: &'static str,
        note: &'static str,
        make: impl FnOnce() -> Work + 'static,
    ) {
        self.contestants.push(Contestant { name, note, make: Box::new(make) });
    }

    fn skip(&mut self, name: &'static str, reason: &'static str) {
        self.skipped.push((name, reason));
    }
}

pub fn field(shape: Shape) -> Field {
    let mut field = Field::default();
    counters::enter(shape, &mut field);
    uidring::enter(shape, &mut field);
    ferroid::enter(shape, &mut field);
    snowflakes::enter(shape, &mut field);
    wide::enter(shape, &mut field);
    queue::enter(shape, &mut field);
    field
}
