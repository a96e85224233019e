//! Takes of a tag's ids.

use std::sync::Arc;
use std::time::Duration;

use super::{Health, Tag};
use crate::error::{FillError, TakeError};
use crate::policy::{Pause, Rejections, TakePolicy};
use crate::segment::chain::Settled;
use crate::segment::error::SegmentError;
use crate::segment::shared::Shared;
use crate::segment::ticket_view::Drawn;
use crate::sync::{EventCount, Ordering};
use crate::waiting::{self, Waiting};

/// A tag with what its takers need.
#[derive(Clone, Copy)]
pub(in crate::segment) struct Takes<'a> {
    tag: &'a Arc<Tag>,
    shared: &'a Shared,
}

impl<'a> Takes<'a> {
    #[inline]
    pub(in crate::segment) fn new(tag: &'a Arc<Tag>, shared: &'a Shared) -> Self {
        Self { tag, shared }
    }

    #[inline]
    pub(in crate::segment) fn next_id(self) -> Result<u64, SegmentError> {
        match self.tag.chain.draw() {
            Ok(id) => Ok(id),
            Err(missed) => self.take_by_policy(missed),
        }
    }

    #[inline]
    pub(in crate::segment) async fn next_id_async(self) -> Result<u64, SegmentError> {
        match self.try_next_id() {
            Ok(id) => Ok(id),
            Err(error) => waiting::follow_policy_async(&self, error, || self.try_next_id()).await,
        }
    }

    #[inline]
    pub(in crate::segment) fn try_next_id(self) -> Result<u64, SegmentError> {
        match self.tag.chain.draw() {
            Ok(id) => Ok(id),
            Err(missed) => self.take_slowly(missed),
        }
    }

    pub(in crate::segment) fn try_fill(self, out: &mut [u64]) -> Result<usize, SegmentError> {
        self.tag.chain.fill(out, &mut |missed| self.take_slowly(missed))
    }

    pub(in crate::segment) fn fill(self, out: &mut [u64]) -> Result<(), FillError<SegmentError>> {
        waiting::fill(&self, out, |rest| self.try_fill(rest))
    }

    pub(in crate::segment) async fn fill_async(
        self,
        out: &mut Vec<u64>,
        count: usize,
    ) -> Result<(), SegmentError> {
        waiting::fill_async(&self, out, count, |block| self.try_fill(block)).await
    }

    #[cold]
    fn take_by_policy(self, missed: Option<Drawn>) -> Result<u64, SegmentError> {
        match self.take_slowly(missed) {
            Err(error) => waiting::follow_policy(&self, error, || self.try_next_id()),
            taken => taken,
        }
    }

    /// Finishes a take that the fast path could not, and asks for a segment if it is time.
    #[cold]
    fn take_slowly(self, missed: Option<Drawn>) -> Result<u64, SegmentError> {
        let Self { tag, shared } = self;
        // Read the health before the chain, which then holds all that was loaded before the health changed.
        let health = tag.health();
        let Settled { id, supply, events } = tag.chain.settle(missed)?;
        // This reads the clock, which may fork. Then the id is the parent's.
        tag.apply_events(&shared.settings, &events)?;
        if health < Health::Invalid && tag.is_short(supply) {
            shared.ask(tag);
        }
        match id {
            Some(id) => Ok(id),
            None => Err(tag.why_empty(health)),
        }
    }
}

impl Waiting for Takes<'_> {
    type Error = SegmentError;

    fn take_policy(&self) -> &TakePolicy {
        &self.shared.settings.take_policy
    }

    fn pause(
        &self,
        rejections: &mut Rejections<'_>,
        error: SegmentError,
    ) -> Result<Pause, SegmentError> {
        if !error.may_pass() {
            return Err(error);
        }
        rejections.next(TakeError::Empty).map_err(|kind| match (kind, error) {
            (TakeError::DeadlineExceeded, SegmentError::Empty) => SegmentError::DeadlineExceeded,
            (_, error) => error,
        })
    }

    fn park(&self, timeout: Option<Duration>) {
        self.tag.chain.wait_or(timeout, || self.tag.health() >= Health::Refused);
    }

    fn event(&self) -> &EventCount {
        self.tag.chain.ready()
    }

    fn is_forked(&self) -> bool {
        self.tag.chain.is_forked()
    }

    fn count(&self, waited: bool, error: Option<&SegmentError>) {
        let counters = &self.tag.counters;
        // Relaxed: counters.
        counters.waits.fetch_add(waited.into(), Ordering::Relaxed);
        let is_rejected =
            error.is_some_and(|e| e.may_pass() || matches!(e, SegmentError::DeadlineExceeded));
        counters.rejects.fetch_add(is_rejected.into(), Ordering::Relaxed);
    }
}
