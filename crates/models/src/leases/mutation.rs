//! What can be wrong with the protocol, one mutation at a time.

use crate::Clocks;

/// A mutation: each breaks a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// Ticks are made ready whatever horizon the store holds.
    NoHorizon,
    /// Only the first tick is asked for.
    AsksOnce,
    /// A horizon is used as soon as the store is asked for it.
    HorizonAfterUse,
    /// One tick more is used than the store was asked for.
    OneTickMore,
    /// A failed renewal extends the horizon.
    FailureExtendsHorizon,
    /// An owner starts although its first renewal failed.
    FirstRenewalMayFail,
    /// The store does not keep the horizon of a renewal.
    HorizonNotKept,
    /// A renewal may lower the horizon.
    RenewalLowersHorizon,
    /// A new owner starts at its clock's tick.
    StartByTheClock,
    /// A new owner starts with the last uid that an earlier one may have issued.
    StartWithTheHorizon,
    /// An acquire compares the token that it read, but not the horizon.
    AcquireIgnoresHorizon,
    /// An acquire does not change the token.
    AcquireKeepsToken,
    /// Renewals check the worker id alone.
    NoTokenAtRenewal,
    /// Releases check the worker id alone.
    NoTokenAtRelease,
    /// Both check the worker id alone.
    NoToken,
    /// Renewals and releases check only the owner's name, which operators do not change.
    OwnerForToken,
    /// A release lowers the horizon by one uid too many.
    ReleaseOneTooLow,
    /// A release lowers the horizon to that of the acquire.
    ReleaseToTheFirstHorizon,
    /// A release ignores what local takers have claimed.
    ReleaseWithoutLocalTakers,
    /// Takes go on after a close.
    GoesOnAfterClose,
    /// Local takers go on after a close.
    LocalTakersGoOnAfterClose,
    /// The padder does not check whether the lease has ended.
    PadderIgnoresTheEnd,
    /// An owner continues when the store reports the lease lost.
    LossIgnored,
    /// An answer revives a lease that was found to be over.
    LateAnswerRevives,
    /// The owner's deadline counts from the answer.
    DeadlineFromTheAnswer,
    /// A failed renewal extends the deadline.
    FailureExtendsDeadline,
    /// The owner has no deadline.
    NoDeadline,
    /// The deadline has no margin for a slow clock.
    NoMargin,
    /// The store gives a lease away one unit of time too early.
    GivenAwayEarly,
    /// A lease ends at once.
    NoLength,
    /// A lease never expires.
    NeverRunsOut,
    /// An operator's release ends a lease that is held.
    FreesTheHeld,
    /// A release does not change the token. This breaks nothing: see [`SAME_PROTOCOL`].
    ReleaseKeepsToken,
}

impl Mutation {
    /// All, with the property that each violates, and under which clocks.
    pub const ALL: &[(Self, &str, Clocks)] = {
        use Clocks::{Anything, Calm};
        &[
            (Self::NoHorizon, "Covered", Anything),
            (Self::AsksOnce, "Covered", Anything),
            (Self::HorizonAfterUse, "Covered", Anything),
            (Self::OneTickMore, "Covered", Anything),
            (Self::FailureExtendsHorizon, "Covered", Anything),
            (Self::FirstRenewalMayFail, "Covered", Anything),
            (Self::HorizonNotKept, "Covered", Anything),
            (Self::RenewalLowersHorizon, "Covered", Anything),
            (Self::StartByTheClock, "Above", Anything),
            (Self::StartWithTheHorizon, "Above", Anything),
            (Self::AcquireIgnoresHorizon, "Above", Anything),
            (Self::AcquireKeepsToken, "Once", Anything),
            (Self::NoTokenAtRenewal, "Once", Anything),
            (Self::NoTokenAtRelease, "Covered", Anything),
            (Self::NoToken, "Once", Anything),
            (Self::OwnerForToken, "Owner", Calm),
            (Self::ReleaseOneTooLow, "Once", Anything),
            (Self::ReleaseToTheFirstHorizon, "Once", Anything),
            (Self::ReleaseWithoutLocalTakers, "Once", Anything),
            (Self::GoesOnAfterClose, "Ended", Anything),
            (Self::LocalTakersGoOnAfterClose, "Ended", Anything),
            (Self::PadderIgnoresTheEnd, "Ended", Anything),
            (Self::LossIgnored, "Ended", Anything),
            (Self::LateAnswerRevives, "Ended", Anything),
            (Self::DeadlineFromTheAnswer, "Owner", Calm),
            (Self::FailureExtendsDeadline, "Owner", Calm),
            (Self::NoDeadline, "Owner", Calm),
            (Self::NoMargin, "Owner", Calm),
            (Self::GivenAwayEarly, "Owner", Calm),
            (Self::NoLength, "Owner", Calm),
            (Self::NeverRunsOut, "Progress", Calm),
            (Self::FreesTheHeld, "Owner", Calm),
        ]
    };

    /// Whether tokens may fail to grow, or do not decide what is refused.
    pub(super) fn is_about_tokens(self) -> bool {
        matches!(
            self,
            Self::AcquireKeepsToken
                | Self::NoTokenAtRenewal
                | Self::NoTokenAtRelease
                | Self::NoToken
                | Self::OwnerForToken
                | Self::ReleaseKeepsToken
        )
    }
}

/// The mutations of the code (`scripts/mutations`), each with the one here that does the same to the protocol. Several
/// places in the code may be one step here.
pub const FILES: &[(&str, Mutation)] = &[
    ("leases/clocked-asks-once", Mutation::AsksOnce),
    ("leases/clocked-goes-on-after-a-close", Mutation::GoesOnAfterClose),
    ("leases/clocked-ignores-the-grant", Mutation::NoHorizon),
    ("leases/deadline-from-the-answer", Mutation::DeadlineFromTheAnswer),
    ("leases/failed-renewal-extends-the-horizon", Mutation::FailureExtendsHorizon),
    ("leases/failed-renewal-extends-the-lease", Mutation::FailureExtendsDeadline),
    ("leases/first-renewal-may-fail", Mutation::FirstRenewalMayFail),
    ("leases/horizon-after-use", Mutation::HorizonAfterUse),
    ("leases/horizon-not-kept", Mutation::HorizonNotKept),
    ("leases/late-answer-revives", Mutation::LateAnswerRevives),
    ("leases/leased-away-early", Mutation::GivenAwayEarly),
    ("leases/leases-never-run-out", Mutation::NeverRunsOut),
    ("leases/local-takers-go-on-after-a-close", Mutation::LocalTakersGoOnAfterClose),
    ("leases/lost-token-ignored", Mutation::LossIgnored),
    ("leases/no-deadline", Mutation::NoDeadline),
    ("leases/no-horizon", Mutation::NoHorizon),
    ("leases/no-margin", Mutation::NoMargin),
    ("leases/no-token", Mutation::NoToken),
    ("leases/no-token-at-release", Mutation::NoTokenAtRelease),
    ("leases/no-token-at-renewal", Mutation::NoTokenAtRenewal),
    ("leases/one-tick-more", Mutation::OneTickMore),
    ("leases/padder-ignores-the-end", Mutation::PadderIgnoresTheEnd),
    ("leases/padder-ignores-the-grant", Mutation::NoHorizon),
    ("leases/release-one-too-low", Mutation::ReleaseOneTooLow),
    ("leases/release-to-the-first-horizon", Mutation::ReleaseToTheFirstHorizon),
    ("leases/release-without-local-takers", Mutation::ReleaseWithoutLocalTakers),
    ("leases/renewal-lowers-the-horizon", Mutation::RenewalLowersHorizon),
    ("leases/start-by-the-clock", Mutation::StartByTheClock),
    ("leases/start-with-the-horizon", Mutation::StartWithTheHorizon),
    ("leases/token-stands-still-at-acquire", Mutation::AcquireKeepsToken),
    ("lease-rows/acquire-keeps-the-token", Mutation::AcquireKeepsToken),
    ("lease-rows/free-although-held", Mutation::FreesTheHeld),
    ("lease-rows/lease-without-length", Mutation::NoLength),
    ("lease-rows/renewal-forgets-the-horizon", Mutation::HorizonNotKept),
    ("lease-rows/renewal-lowers-the-horizon", Mutation::RenewalLowersHorizon),
    ("lease-rows/renewal-without-the-token", Mutation::OwnerForToken),
];

/// The mutations of the code that do not change the protocol, and why.
pub const SAME_PROTOCOL: &[(&str, &str)] = &[
    (
        "leases/token-stands-still-at-release-alone",
        "After a release nobody acts with its token but late requests of the same owner: a renewal raises \
         the horizon of a row that nobody uses, and the release itself sets it to what was issued. The next \
         acquire compares what it has read, and makes the token grow. `ReleaseKeepsToken` is checked to break \
         nothing.",
    ),
    ("leases/token-stands-still-at-release", "The same; it is told by the rows of SQLite alone."),
    ("lease-rows/release-keeps-the-token", "The same."),
    ("lease-rows/acquire-takes-the-highest", "An acquire may take any free row here."),
    (
        "lease-rows/fence-keeps-the-lease",
        "The fenced row comes free when its lease runs out, not at once.",
    ),
    (
        "lease-rows/lease-end-excluded",
        "A lease that the store counts for longer is had again later.",
    ),
    (
        "lease-rows/release-does-not-lower-the-sequence",
        "The horizon stays above what was issued: uids are wasted, none is repeated.",
    ),
];
