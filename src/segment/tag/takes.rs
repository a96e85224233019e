//! Takes of a tag's ids.

use std::sync::Arc;

use super::{Health, Tag};
use crate::error::{FillError, TakeError};
use crate::segment::chain::Settled;
use crate::segment::error::SegmentError;
use crate::segment::shared::Shared;
use crate::segment::ticket_view::Drawn;
use crate::sync::{Ordering, Serving};

impl Tag {
    #[inline]
    pub(in crate::segment) fn next_id(
        self: &Arc<Self>,
        shared: &Shared,
    ) -> Result<u64, SegmentError> {
        match self.chain.draw() {
            Ok(id) => Ok(id),
            Err(missed) => self.take_by_policy(shared, missed),
        }
    }

    #[inline]
    pub(in crate::segment) fn try_next_id(
        self: &Arc<Self>,
        shared: &Shared,
    ) -> Result<u64, SegmentError> {
        match self.chain.draw() {
            Ok(id) => Ok(id),
            Err(missed) => self.take_slowly(shared, missed),
        }
    }

    pub(in crate::segment) fn try_fill(
        self: &Arc<Self>,
        shared: &Shared,
        out: &mut [u64],
    ) -> Result<usize, SegmentError> {
        self.chain.fill(out, &mut |missed| self.take_slowly(shared, missed))
    }

    pub(in crate::segment) fn fill(
        self: &Arc<Self>,
        shared: &Shared,
        out: &mut [u64],
    ) -> Result<(), FillError<SegmentError>> {
        let mut filled = 0;
        while filled < out.len() {
            let rest = &mut out[filled..];
            let given = match self.try_fill(shared, rest) {
                Err(error) => self.follow_policy(shared, error, || self.try_fill(shared, rest)),
                given => given,
            };
            filled += given.map_err(|error| {
                // After a fork during the call, what was filled in before it is the parent's.
                let is_forked = matches!(error, SegmentError::Forked);
                FillError { filled: if is_forked { 0 } else { filled }, error }
            })?;
        }
        Ok(())
    }

    #[cold]
    fn take_by_policy(
        self: &Arc<Self>,
        shared: &Shared,
        missed: Option<Drawn>,
    ) -> Result<u64, SegmentError> {
        match self.take_slowly(shared, missed) {
            Err(error) => self.follow_policy(shared, error, || self.try_next_id(shared)),
            taken => taken,
        }
    }

    /// Finishes a take that the fast path could not, and asks for a segment if it is time.
    #[cold]
    fn take_slowly(
        self: &Arc<Self>,
        shared: &Shared,
        missed: Option<Drawn>,
    ) -> Result<u64, SegmentError> {
        // Before the chain, which then has what was loaded before the health changed.
        let health = self.health();
        let Settled { id, supply, events } = self.chain.settle(missed)?;
        // This reads the clock, which may fork: then the id is the parent's.
        self.note(&shared.settings, &events)?;
        if health < Health::Invalid && self.is_short(supply) {
            shared.ask(self);
        }
        match id {
            Some(id) => Ok(id),
            None => Err(self.why_empty(health)),
        }
    }

    /// Applies the take policy after a first try.
    #[cold]
    fn follow_policy<T>(
        &self,
        shared: &Shared,
        first: SegmentError,
        mut again: impl FnMut() -> Result<T, SegmentError>,
    ) -> Result<T, SegmentError> {
        // This thread loads, perhaps for this tag, and would wait for itself.
        if Serving::is_here() {
            return Err(first);
        }
        // The policy works with `TakeError`; the segment's error is kept beside it.
        let mut last = None;
        let mut keep = |error: SegmentError| {
            let kind = if error.may_pass() { TakeError::Empty } else { TakeError::Closed };
            last = Some(error);
            kind
        };
        let mut waited = false;
        let done = shared.settings.take_policy.after_empty(
            keep(first),
            || again().map_err(&mut keep),
            |timeout| {
                waited = true;
                self.chain.wait_or(timeout, || self.health() >= Health::Refused);
            },
        );
        // Relaxed: counters.
        self.counters.waits.fetch_add(waited.into(), Ordering::Relaxed);
        // A handler may have forked.
        if self.chain.is_forked() {
            return Err(SegmentError::Forked);
        }
        done.map_err(|kind| {
            let error = match (kind, last) {
                (TakeError::DeadlineExceeded, Some(SegmentError::Empty)) => {
                    SegmentError::DeadlineExceeded
                }
                (_, Some(error)) => error,
                (_, None) => SegmentError::Closed,
            };
            let rejected = error.may_pass() || matches!(error, SegmentError::DeadlineExceeded);
            self.counters.rejects.fetch_add(rejected.into(), Ordering::Relaxed);
            error
        })
    }
}
