//! A table in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::store::{
    LoadError, Loaded, LoadedSegment, SegmentRequest, SegmentStore, SegmentTag, TagNumber,
};
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, check_option};
use crate::sync::{ForkGuarded, ForkToken, Forked};
use crate::timestamp::Timestamp;

/// Segments from memory, for tests, and for ids that need not outlive the process. The next process starts from scratch
/// and repeats the ids.
///
/// Clones are handles to the same table, so you can change it while a generator uses it.
///
/// ```
/// use uidring::SegmentGenerator;
/// use uidring::segment::{MemorySegments, SegmentTag};
///
/// let table = MemorySegments::new();
/// table.create(SegmentTag::new("orders").step(1_000))?;
/// let generator = SegmentGenerator::builder(table).build()?;
/// assert_eq!(generator.next_id("orders")?, 1);
/// assert_eq!(generator.next_id("orders")?, 2);
/// # Ok::<(), uidring::Error>(())
/// ```
///
/// A forked child cannot use its parent's table: every method fails, with [`Error::Forked`] where its result allows.
#[derive(Clone, Debug)]
pub struct MemorySegments(Arc<ForkGuarded<BTreeMap<String, SegmentTag>>>);

impl Default for MemorySegments {
    fn default() -> Self {
        let life = ForkToken::current();
        Self(Arc::new(ForkGuarded::new(life, BTreeMap::new())))
    }
}

fn forked(_: Forked) -> Error {
    Error::Forked { what: "table in memory" }
}

impl MemorySegments {
    /// Returns an empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tag. Returns whether it was added; an existing tag stays as it is.
    ///
    /// # Errors
    ///
    /// [`Error::OptionOutOfRange`] for a step or first id below 1, with the value 0 if it is negative;
    /// [`Error::Forked`].
    pub fn create(&self, tag: SegmentTag) -> Result<bool, Error> {
        positive("max_id", tag.max_id)?;
        positive("step", tag.step)?;
        let mut rows = self.0.lock().map_err(forked)?;
        let is_new = !rows.contains_key(&tag.tag);
        if is_new {
            rows.insert(tag.tag.clone(), SegmentTag { update_time: now(), ..tag });
        }
        Ok(is_new)
    }

    /// Changes a tag's step. Returns whether the tag exists.
    ///
    /// # Errors
    ///
    /// [`Error::OptionOutOfRange`] for a step below 1; [`Error::Forked`].
    pub fn set_step(&self, tag: &str, step: i64) -> Result<bool, Error> {
        positive("step", Ok(step))?;
        let mut rows = self.0.lock().map_err(forked)?;
        let Some(row) = rows.get_mut(tag) else { return Ok(false) };
        (row.step, row.update_time) = (Ok(step), now());
        Ok(true)
    }

    /// Removes a tag. Returns whether it existed.
    pub fn remove(&self, tag: &str) -> bool {
        self.0.lock().is_ok_and(|mut rows| rows.remove(tag).is_some())
    }
}

fn positive(option: &'static str, value: TagNumber) -> Result<(), Error> {
    check_option(option, value.unwrap_or(0).max(0).unsigned_abs(), 1..=i64::MAX.unsigned_abs())
}

fn now() -> Option<Timestamp> {
    Some(SystemClock.now())
}

impl SegmentStore for MemorySegments {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        Ok(self.0.lock().map_err(forked)?.values().cloned().collect())
    }

    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        for (index, request) in wanted.iter().enumerate() {
            // Call `loaded` without the lock: its holder may be a taker that changes the table.
            let result = match self.0.lock() {
                Ok(mut rows) => reserve(&mut rows, request),
                Err(error) => Err(LoadError::Store(forked(error))),
            };
            loaded(index, result);
        }
    }
}

fn reserve(
    rows: &mut BTreeMap<String, SegmentTag>,
    request: &SegmentRequest,
) -> Result<LoadedSegment, LoadError> {
    let row = rows
        .get_mut(&request.tag)
        .ok_or_else(|| LoadError::NoSuchTag { tag: request.tag.clone() })?;
    let range = request.range(row.max_id, row.step)?;
    (row.max_id, row.update_time) = (Ok(range.end.cast_signed()), now());
    Ok(range)
}
