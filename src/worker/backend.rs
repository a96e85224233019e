//! The store's side of a lease.

use std::time::Duration;

use crate::error::{Chain, Error, check_millis, error_traits};
use crate::layout::Layout;
use crate::uid::Uid;

/// How long a lease lasts, and how it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseTerms {
    /// How long the id is held after a renewal, counted from before the store was asked. `None` is without limit.
    pub lasts: Option<Duration>,
    /// How much earlier the holder stops by itself, because its clock may be slower than the store's. Less than
    /// `lasts`.
    pub margin: Duration,
    /// How often the lease is renewed if no demand comes earlier. At least 1 ms, and at most half the time until the
    /// holder stops, so that one renewal may fail.
    pub renew_every: Duration,
    /// How far the stored horizon is beyond what the holder needs until the next renewals. The holder can issue this
    /// much while the store is away.
    pub reserve: Duration,
}

/// Held without limit, and renewed every 3 s.
impl Default for LeaseTerms {
    fn default() -> Self {
        Self {
            lasts: None,
            margin: Duration::ZERO,
            renew_every: Duration::from_secs(3),
            reserve: Duration::ZERO,
        }
    }
}

impl LeaseTerms {
    pub(super) fn check(&self) -> Result<(), Error> {
        let Self { lasts, margin, renew_every, .. } = *self;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let mut longest = u64::MAX;
        if let Some(lasts) = lasts {
            check_millis("lasts (ms)", lasts, 2..=u64::MAX)?;
            check_millis("margin (ms)", margin, 0..=millis(lasts) - 1)?;
            longest = millis(lasts - margin) / 2;
        }
        check_millis("renew_every (ms)", renew_every, 1..=longest)
    }

    /// Returns how long a start waits for the clock by default: as long as a killed holder has reserved, so that the
    /// next start does not fail, but at least 30 s.
    pub fn start_wait(&self, layout: &Layout) -> Duration {
        // A renewal reserves at most three intervals beyond what a generator may be ahead, rounded up to ticks. The
        // second is for clocks that differ.
        let tick = Duration::from_millis(layout.tick().millis().unsigned_abs());
        let intervals = self.renew_every.saturating_mul(3).saturating_add(self.reserve);
        let reserved = intervals.saturating_add(5 * tick).saturating_add(Duration::from_secs(1));
        reserved.max(Duration::from_secs(30))
    }
}

/// The store's side of a [`Lease`](super::Lease). The methods block; one thread at a time calls them.
pub trait LeaseBackend: Send + 'static {
    /// Renews the lease, and stores durably that ticks up to and including `horizon` may be issued.
    ///
    /// # Errors
    ///
    /// [`RenewError`] says whether to retry. After an error, the store may or may not have the horizon.
    fn renew(&mut self, horizon: u64) -> Result<(), RenewError>;

    /// Releases the worker id: nothing above `last` was or will be issued. `None` means that this holder issued nothing
    /// at all.
    ///
    /// # Errors
    ///
    /// The store's own. The lease then runs out by itself.
    fn release(&mut self, last: Option<Uid>) -> Result<(), Error>;
}

impl<B: LeaseBackend + ?Sized> LeaseBackend for Box<B> {
    fn renew(&mut self, horizon: u64) -> Result<(), RenewError> {
        (**self).renew(horizon)
    }

    fn release(&mut self, last: Option<Uid>) -> Result<(), Error> {
        (**self).release(last)
    }
}

/// Why a lease was not renewed.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RenewError {
    /// Somebody else holds the worker id, or may. This is permanent.
    #[error(transparent)]
    Lost(Error),
    /// The store could not be asked. The renewal is retried until the lease has run out.
    #[error(transparent)]
    Failed(Error),
}

error_traits!(RenewError);

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(lasts: Option<u64>, margin: u64, renew_every: u64) -> LeaseTerms {
        let [margin, renew_every] = [margin, renew_every].map(Duration::from_millis);
        let lasts = lasts.map(Duration::from_millis);
        LeaseTerms { lasts, margin, renew_every, ..LeaseTerms::default() }
    }

    #[test]
    fn a_holder_has_time_for_two_renewals() {
        for (lasts, margin, renew_every, wrong) in [
            (None, 5, 1, None),
            (None, 0, 0, Some("renew_every")),
            (Some(1), 0, 1, Some("lasts")),
            (Some(2), 0, 1, None),
            (Some(2), 0, 2, Some("renew_every")),
            (Some(10), 0, 5, None),
            (Some(10), 0, 6, Some("renew_every")),
            (Some(10), 4, 3, None),
            (Some(10), 4, 4, Some("renew_every")),
            (Some(10), 8, 1, None),
            (Some(10), 9, 1, Some("renew_every")),
            (Some(10), 10, 1, Some("margin")),
            (Some(10), 11, 1, Some("margin")),
        ] {
            let found = terms(lasts, margin, renew_every).check().err();
            let option = match &found {
                Some(Error::OptionOutOfRange { option, .. }) => option.strip_suffix(" (ms)"),
                _ => None,
            };
            assert_eq!(option, wrong, "{lasts:?} {margin} {renew_every}: {found:?}");
        }
    }

    #[test]
    fn a_start_waits_for_what_a_killed_holder_has_reserved() {
        let mut terms = LeaseTerms::default();
        let wait = |terms: &LeaseTerms| terms.start_wait(&Layout::UID_GENERATOR).as_secs();
        assert_eq!(wait(&terms), 30);
        terms.reserve = Duration::from_secs(60);
        assert_eq!(wait(&terms), 3 * 3 + 60 + 5 + 1);
    }
}
