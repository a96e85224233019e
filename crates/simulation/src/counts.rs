//! Counts of what happens in histories.

use std::ops::AddAssign;

/// What happened.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Uids issued.
    pub uids: u64,
    /// Of these, uids that were ready when the lease ended.
    pub uids_after_loss: u64,
    /// Leases acquired.
    pub acquired: u64,
    /// Of these, leases of owners that had not given the id back.
    pub seized: u64,
    /// Leases given back.
    pub releases: u64,
    /// Successful renewals.
    pub renewals: u64,
    /// Starts that failed because of an earlier owner's horizon.
    pub refused: u64,
    /// Starts that the store did not answer, or whose lease ended meanwhile.
    pub unanswered: u64,
    /// Takes that got `LeaseLost`.
    pub lost: u64,
}

impl Counts {
    /// If nothing happens, the histories show nothing.
    pub(super) fn check(self, count: u64) {
        if count < 1_000 {
            return;
        }
        let Self { uids, uids_after_loss, acquired, seized, releases, .. } = self;
        let Self { renewals, refused, unanswered, lost, .. } = self;
        let rare = [uids_after_loss, seized, releases, refused, unanswered, lost];
        assert!(rare.iter().all(|&rare| rare > count / 10), "{self:?}");
        assert!(acquired > count && renewals > count && uids > 100 * count, "{self:?}");
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.uids += other.uids;
        self.uids_after_loss += other.uids_after_loss;
        self.acquired += other.acquired;
        self.seized += other.seized;
        self.releases += other.releases;
        self.renewals += other.renewals;
        self.refused += other.refused;
        self.unanswered += other.unanswered;
        self.lost += other.lost;
    }
}
