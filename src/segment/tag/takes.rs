//! Takes of a tag's ids.

use std::sync::Arc;

use super::{Health, Tag};
use crate::error::{FillError, TakeError};
use crate::future::{self, Filling};
use crate::policy::{Pause, Rejections, retry};
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
    pub(in crate::segment) async fn next_id_async(
        self: &Arc<Self>,
        shared: &Shared,
    ) -> Result<u64, SegmentError> {
        match self.try_next_id(shared) {
            Ok(id) => Ok(id),
            Err(error) => {
                self.follow_policy_async(shared, error, || self.try_next_id(shared)).await
            }
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

    pub(in crate::segment) async fn fill_async(
        self: &Arc<Self>,
        shared: &Shared,
        out: &mut Vec<u64>,
        count: usize,
    ) -> Result<(), SegmentError> {
        let mut filling = Filling::new(out, count);
        while filling.is_short() {
            let mut try_fill = || filling.extend(|block| self.try_fill(shared, block));
            let done = match try_fill() {
                Err(error) => self.follow_policy_async(shared, error, try_fill).await,
                done => done,
            };
            if let Err(error) = done {
                if matches!(error, SegmentError::Forked) {
                    filling.undo();
                }
                return Err(error);
            }
            filling.give_way().await;
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
        again: impl FnMut() -> Result<T, SegmentError>,
    ) -> Result<T, SegmentError> {
        // This thread loads, perhaps for this tag, and would wait for itself.
        if Serving::is_here() {
            return Err(first);
        }
        let mut rejections = shared.settings.take_policy.rejections();
        let mut waited = false;
        let done = retry(
            first,
            |error| next(&mut rejections, error),
            again,
            |timeout| {
                waited = true;
                self.chain.wait_or(timeout, || self.health() >= Health::Refused);
            },
        );
        self.count(waited, done)
    }

    /// [`follow_policy`](Self::follow_policy) for a task.
    #[cold]
    async fn follow_policy_async<T>(
        &self,
        shared: &Shared,
        first: SegmentError,
        again: impl FnMut() -> Result<T, SegmentError>,
    ) -> Result<T, SegmentError> {
        if Serving::is_here() {
            return Err(first);
        }
        let mut rejections = shared.settings.take_policy.rejections();
        let mut waited = false;
        let next = |error| next(&mut rejections, error);
        let sleep = |left| {
            waited = true;
            left
        };
        let done = future::retry(self.chain.ready(), first, next, again, sleep).await;
        self.count(waited, done)
    }

    /// Counts a take that found nothing at first.
    fn count<T>(&self, waited: bool, done: Result<T, SegmentError>) -> Result<T, SegmentError> {
        // A handler may have forked.
        if self.chain.is_forked() {
            return Err(SegmentError::Forked);
        }
        // Relaxed: counters.
        self.counters.waits.fetch_add(waited.into(), Ordering::Relaxed);
        let is_rejected = |error: &SegmentError| {
            error.may_pass() || matches!(error, SegmentError::DeadlineExceeded)
        };
        let rejected = done.as_ref().is_err_and(is_rejected);
        self.counters.rejects.fetch_add(rejected.into(), Ordering::Relaxed);
        done
    }
}

/// What the policy says about a segment's error.
fn next(rejections: &mut Rejections<'_>, error: SegmentError) -> Result<Pause, SegmentError> {
    if !error.may_pass() {
        return Err(error);
    }
    rejections.next(TakeError::Empty).map_err(|kind| match (kind, error) {
        (TakeError::DeadlineExceeded, SegmentError::Empty) => SegmentError::DeadlineExceeded,
        (_, error) => error,
    })
}
