//! Statistics of a lease in use.

use std::time::Duration;

/// Statistics of a generator's lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct LeaseStats {
    /// Time until the holder stops by itself, unless the lease is renewed: the end of the lease less its
    /// [`margin`](super::LeaseTerms::margin). `None` for a lease without limit.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "time_left_millis", with = "crate::serde_forms::millis::option")
    )]
    pub time_left: Option<Duration>,
    /// How far the stored horizon is ahead of the generator, or of the clock if that is further: about how long uids
    /// last without the store.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "horizon_left_millis", with = "crate::serde_forms::millis")
    )]
    pub horizon_left: Duration,
    /// Successful renewals, including the first.
    pub renewals: u64,
    /// Failed renewals. Each is retried.
    pub renewal_failures: u64,
    /// Whether the lease is lost or has run out, so that nothing more is issued. A lease that was given back is not
    /// lost.
    pub is_lost: bool,
}
