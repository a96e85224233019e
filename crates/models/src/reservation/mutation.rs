//! What can be wrong with the protocol, one at a time.

use crate::Clocks;

/// A mutation: each breaks a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// What the local file holds is granted.
    FileGrants,
    /// A claim does not check that it still has the name.
    ClaimIgnoresName,
    /// The budget of an outage is granted, and not reserved.
    BudgetNotReserved,
    /// An outage may outlast the session.
    OutageOutlastsSession,
    /// A release gives back what was issued.
    ReleaseGivesBackIssued,
    /// A renewal may ask for less than the last.
    RenewalAsksForLess,
    /// Writes go by their path alone.
    NoVersions,
    /// One that was let in before does not look who has been let in since.
    HolderIgnored,
    /// A new process starts at its clock's tick.
    StartByTheClock,
    /// The name is taken over from whoever has it.
    InheritsFromTheLiving,
    /// Sessions never end by themselves.
    SessionsNeverEnd,
}

impl Mutation {
    /// With the property that each violates, and the clocks with which it does: all but `HolderIgnored`, of
    /// which a test gives the history.
    pub const ALL: &[(Self, &str, Clocks)] = {
        use Clocks::{Anything, Calm};
        &[
            (Self::FileGrants, "Covered", Anything),
            (Self::FileGrants, "Once", Anything),
            (Self::ClaimIgnoresName, "Owner", Calm),
            (Self::BudgetNotReserved, "Covered", Anything),
            (Self::OutageOutlastsSession, "Owner", Calm),
            (Self::ReleaseGivesBackIssued, "Once", Anything),
            (Self::RenewalAsksForLess, "Covered", Anything),
            (Self::NoVersions, "Covered", Anything),
            (Self::StartByTheClock, "Above", Anything),
            (Self::InheritsFromTheLiving, "Owner", Calm),
            (Self::SessionsNeverEnd, "Progress", Calm),
        ]
    };
}
