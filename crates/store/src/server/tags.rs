//! Changes of tags, of which a reply may be lost.

use std::sync::{Mutex, MutexGuard, PoisonError};

use uidring::Error;
use uidring::adapter::log;
use uidring::segment::SegmentTag;

use super::error::with_note;
use crate::{NewSegmentTag, end_of, no_such_tag};

/// Returns all rows.
pub struct Tags {
    /// Whether a missing table is made.
    pub create_table: bool,
}

/// Adds a row.
pub struct CreateTag<'a> {
    /// The tag.
    pub tag: &'a NewSegmentTag,
    /// Whether a missing table is made.
    pub create_table: bool,
}

/// Changes a row of `leaf_alloc`, whose tag as it was before is returned.
pub struct TagChange<'a> {
    /// The tag's name.
    pub tag: &'a str,
    /// What is done.
    pub change: Change,
    /// What the first attempt found that may have changed the row: the reply may have been lost.
    before: Mutex<Option<SegmentTag>>,
}

/// What is done to a tag.
#[derive(Clone, Copy)]
pub enum Change {
    /// Its step is set.
    Step(i64),
    /// It is deleted.
    Delete,
}

/// What an attempt has to do.
pub enum TagStep {
    /// Nothing is to be changed: this is the result.
    Done(Result<SegmentTag, Error>),
    /// It may be another tag of the same name; why.
    Conflict(String),
    /// The row is there, and is to be changed.
    Found {
        /// The tag as it was before all attempts.
        before: SegmentTag,
        /// What earlier attempts had found.
        earlier: Option<SegmentTag>,
    },
}

impl<'a> TagChange<'a> {
    /// A change that was not tried yet.
    pub fn new(tag: &'a str, change: Change) -> Self {
        Self { tag, change, before: Mutex::new(None) }
    }

    /// Returns what to do with the row that was read, and notes it.
    pub fn on_row(&self, found: Option<&SegmentTag>) -> TagStep {
        let earlier = self.before().clone();
        let Some(found) = found else {
            return TagStep::Done(self.is_gone(earlier));
        };
        let now = match end_of(found) {
            Ok(max_id) => max_id,
            Err(unreadable) => return TagStep::Done(Err(unreadable)),
        };
        // It may be another one of the same name, which somebody created meanwhile.
        if let (Change::Delete, Some(SegmentTag { max_id: Ok(max_id), .. })) =
            (self.change, &earlier)
            && *max_id != now
        {
            return TagStep::Conflict(format!(
                "tag `{}` was at max_id {max_id} when it was first to be deleted, and is at {now} now: \
                 see whether it is still the same, and try again",
                self.tag
            ));
        }
        let before = earlier.clone().unwrap_or_else(|| found.clone());
        *self.before() = Some(before.clone());
        TagStep::Found { before, earlier }
    }

    /// Forgets an attempt that the server has refused: no later one needs to know of it.
    pub fn on_refusal(&self, earlier: Option<SegmentTag>) {
        *self.before() = earlier;
    }

    /// Adds to an error where a tag ended that may be deleted all the same.
    pub fn explain(&self, error: Error) -> Error {
        match (self.change, &*self.before()) {
            (Change::Delete, Some(SegmentTag { max_id: Ok(max_id), .. })) => with_note(
                error,
                &format!(" (the tag may be deleted; if so, its ids ended at max_id {max_id})"),
            ),
            _ => error,
        }
    }

    fn before(&self) -> MutexGuard<'_, Option<SegmentTag>> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is to say where no row is found.
    fn is_gone(&self, earlier: Option<SegmentTag>) -> Result<SegmentTag, Error> {
        let deleted = earlier.filter(|_| matches!(self.change, Change::Delete));
        let deleted = deleted.ok_or_else(|| no_such_tag(self.tag))?;
        let max_id = end_of(&deleted)?;
        log!(
            warn,
            "tag `{}` is deleted, by an attempt whose reply was lost or by somebody else: its ids ended at \
             max_id {max_id}, or later",
            self.tag
        );
        Ok(deleted)
    }
}
