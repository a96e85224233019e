//! Options of a lease.

use std::time::Duration;

use uidring::Error;
use uidring::adapter::check_millis;
use uidring::worker::LeaseTerms;

/// How a worker id is leased.
///
/// ```
/// use std::time::Duration;
/// use uidring_store::LeaseOptions;
///
/// let options = LeaseOptions::default().lasts(Duration::from_secs(10)).owner("orders-7");
/// ```
#[derive(Clone, Debug)]
pub struct LeaseOptions {
    pub(super) owner: Option<String>,
    pub(super) lasts: Duration,
    pub(super) wait_for: Duration,
}

/// 30 s with a margin of 3 s, renewed every 10 s.
impl Default for LeaseOptions {
    fn default() -> Self {
        Self { owner: None, lasts: Duration::from_secs(30), wait_for: Duration::ZERO }
    }
}

impl LeaseOptions {
    /// Sets the holder's name, for people who read the table. If not set, it is the node's, as
    /// [`NodeIdentity::from_env`](crate::NodeIdentity::from_env) names it. The process id and a random number are
    /// appended.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Sets how long the lease lasts without renewal, 1 s to 1 h; 30 s if not set. It is renewed every third of that.
    ///
    /// After a crash, the worker id stays unused for up to this long. If the store is unreachable, takes find nothing
    /// ready from about two thirds of this time after the last renewal. The lease is lost at its deadline.
    #[must_use]
    pub fn lasts(mut self, lasts: Duration) -> Self {
        self.lasts = lasts;
        self
    }

    /// Sets how long to wait if all worker ids are held. If not set, that fails at once.
    #[must_use]
    pub fn wait_for(mut self, limit: Duration) -> Self {
        self.wait_for = limit;
        self
    }

    /// Raises [`wait_for`](Self::wait_for) to at least this long.
    #[must_use]
    pub fn wait_at_least(mut self, limit: Duration) -> Self {
        self.wait_for = self.wait_for.max(limit);
        self
    }

    /// Returns how long the lease lasts.
    pub fn length(&self) -> Duration {
        self.lasts
    }

    /// Returns the terms of a lease with these options.
    ///
    /// # Errors
    ///
    /// [`Error::OptionOutOfRange`] if its length is not 1 s to 1 h.
    pub fn terms(&self) -> Result<LeaseTerms, Error> {
        check_millis("lasts (ms)", self.lasts, 1_000..=3_600_000)?;
        let mut terms = LeaseTerms::default();
        terms.lasts = Some(self.lasts);
        // The holder considers the lease over earlier than the store, which allows for a slow clock of the holder.
        // Uniqueness does not depend on it.
        terms.margin = self.lasts / 10;
        terms.renew_every = self.lasts / 3;
        Ok(terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terms_follow_from_how_long_a_lease_lasts() {
        let seconds = Duration::from_secs;
        let terms = LeaseOptions::default().terms().expect("allowed");
        assert_eq!((terms.lasts, terms.margin), (Some(seconds(30)), seconds(3)));
        assert_eq!(terms.renew_every, seconds(10));
        let options = LeaseOptions::default();
        for wrong in [
            options.clone().lasts(Duration::from_millis(999)),
            options.clone().lasts(seconds(3_601)),
        ] {
            assert!(matches!(wrong.terms(), Err(Error::OptionOutOfRange { .. })), "{wrong:?}");
        }
        assert!(options.lasts(seconds(1)).terms().is_ok());
    }
}
