//! The counters that takers and the producer raise.

use crate::sync::AtomicU64;

/// Counted where it happens rarely.
#[derive(Debug)]
pub(super) struct Counters {
    /// Numbers that were left out: between runs, or discarded.
    pub(super) raised: AtomicU64,
    /// Numbers that were drawn, and issued to nobody.
    pub(super) dropped: AtomicU64,
    pub(super) discarded: AtomicU64,
    pub(super) dried: AtomicU64,
    /// The last run whose end was met with nothing published after it.
    pub(super) last_dry: AtomicU64,
    /// How many numbers had been published when the ring was ended. What its producer put after
    /// that does not count.
    pub(super) ended: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        let [raised, dropped, discarded, dried, last_dry] = [0; 5].map(AtomicU64::new);
        let ended = AtomicU64::new(u64::MAX);
        Self { raised, dropped, discarded, dried, last_dry, ended }
    }
}
