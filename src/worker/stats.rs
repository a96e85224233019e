//! A look at a lease in use.

use std::time::Duration;

/// Statistics of the lease that a generator's worker id is held by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct LeaseStats {
    /// Time until the holder stops by itself, unless the lease is renewed: the end of the lease, less
    /// [`margin`](super::LeaseTerms::margin). `None` for a lease without limit.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "time_left_millis", with = "crate::serde_forms::millis::option")
    )]
    pub time_left: Option<Duration>,
    /// How far the stored horizon is ahead of the generator, or of the clock if that is ahead of the
    /// generator: about how long uids last without the store.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "horizon_left_millis", with = "crate::serde_forms::millis")
    )]
    pub horizon_left: Duration,
    /// How often the lease was renewed, the first time included.
    pub renewals: u64,
    /// How many renewals failed, each of which is tried again.
    pub renewal_failures: u64,
    /// Whether the lease is lost, or has run out: nothing more is issued. A lease that was given back is not
    /// lost.
    pub is_lost: bool,
}
