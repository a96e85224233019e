//! What can be wrong with the protocol, one mutation at a time.

use crate::Clocks;

/// A mutation: each breaks a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// The local file grants what it holds.
    FileGrants,
    /// A claim does not check that it still has the name.
    ClaimIgnoresName,
    /// The budget of an outage is granted, but not reserved.
    BudgetNotReserved,
    /// An outage may be longer than the session.
    OutageOutlastsSession,
    /// A release gives back what was issued.
    ReleaseGivesBackIssued,
    /// A renewal may ask for less than the last.
    RenewalAsksForLess,
    /// Writes check the path alone.
    NoVersions,
    /// A process that was admitted before does not check who was admitted since.
    HolderIgnored,
    /// A new process starts at its clock's tick.
    StartByTheClock,
    /// The name is taken over from any process, dead or alive.
    InheritsFromTheLiving,
    /// Sessions never end by themselves.
    SessionsNeverEnd,
}

impl Mutation {
    /// All but `HolderIgnored`, whose history a test gives, with the property that each violates, and under which
    /// clocks.
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
