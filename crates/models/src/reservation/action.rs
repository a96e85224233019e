//! What can happen.

use super::state::Request;
use crate::{Scale, Small};

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<S: Scale = Small> {
    /// A process starts, and locks the host's file.
    Start {
        /// The host.
        host: u8,
    },
    /// It makes a session.
    Connect {
        /// Which.
        process: S::Number,
        /// How long ago the servers have made it: its process has waited for the answer. In a search it waits
        /// afterwards.
        ago: S::Number,
    },
    /// It reads a node: which is next depends on where it is.
    Read {
        /// Which.
        process: S::Number,
    },
    /// It sends a transaction: which is next depends on where it is.
    Write {
        /// Which.
        process: S::Number,
    },
    /// The thread of the lease asks for this horizon.
    Renew {
        /// Whose.
        process: S::Number,
        /// The last tick that it wants to issue.
        horizon: S::Number,
    },
    /// The servers execute a transaction, perhaps late, and the process that waits for it is answered.
    Perform(Request<S>),
    /// The servers execute a transaction, and that answer is lost; the process goes on waiting.
    PerformUnheard(Request<S>),
    /// The answer to a transaction arrives.
    Hear {
        /// At which process.
        process: S::Number,
    },
    /// Nobody waits any more: for a transaction's answer, or for a renewal.
    Fail {
        /// Whose.
        process: S::Number,
    },
    /// The wall clock is found in a later tick than the generator.
    ClockRuns {
        /// Whose.
        process: S::Number,
        /// That tick.
        tick: S::Number,
    },
    /// The next tick is asked for and made ready.
    Pad {
        /// Whose.
        process: S::Number,
    },
    /// A caller gets the first tick that is ready.
    Take {
        /// Whose.
        process: S::Number,
    },
    /// Somebody looks at the deadline after it has passed.
    Notice {
        /// Whose.
        process: S::Number,
    },
    /// The generator is closed, and what it has not used given back, with the name.
    Close {
        /// Whose.
        process: S::Number,
    },
    /// The process ends without a word.
    Crash {
        /// Which.
        process: S::Number,
    },
    /// The servers hear from a session: there is a thread that does nothing else.
    Ping {
        /// Its number.
        session: S::Number,
    },
    /// The servers end a session, and its node goes.
    Expire {
        /// Its number.
        session: S::Number,
    },
    /// Time passes.
    Pass {
        /// For the servers: one unit in a search.
        time: S::Number,
        /// What the clocks of those that live count of it: that, or nothing, in a search.
        counted: Vec<S::Number>,
    },
    /// In detail: a claim is begun anew.
    BeginAgain {
        /// Whose.
        process: S::Number,
    },
    /// In detail: a process learns that its session has ended.
    FindOver {
        /// Which.
        process: S::Number,
    },
    /// In detail: a process learns that somebody else was let in.
    FindHolder {
        /// Which.
        process: S::Number,
    },
    /// In detail: a process that was let in has read these versions.
    Reload {
        /// Which.
        process: S::Number,
        /// Of the node with the number.
        endpoint: S::Number,
        /// Of the reservation.
        reserved: S::Number,
    },
    /// In detail: ticks that were granted go to nobody.
    Skip {
        /// Whose.
        process: S::Number,
        /// The last of them.
        tick: S::Number,
    },
    /// In detail: the generator is closed, and what it has not used being given back.
    Release {
        /// Whose.
        process: S::Number,
    },
    /// In detail: a process ends, and says so to the servers.
    Leave {
        /// Which.
        process: S::Number,
    },
    /// In detail: a transaction that nobody waits for is executed late, and the servers have heard from its session
    /// before.
    PerformLate(Request<S>),
    /// In detail: another instance makes a number.
    OthersNumber,
}

impl<S: Scale> Action<S> {
    /// Those of a process that have no number of their own.
    pub fn without_numbers(process: S::Number) -> [Self; 9] {
        [
            Self::Read { process },
            Self::Write { process },
            Self::Hear { process },
            Self::Fail { process },
            Self::Pad { process },
            Self::Take { process },
            Self::Notice { process },
            Self::Close { process },
            Self::Crash { process },
        ]
    }

    /// The rest of these, of the model in detail.
    pub fn in_detail(process: S::Number) -> [Self; 5] {
        [
            Self::BeginAgain { process },
            Self::FindOver { process },
            Self::FindHolder { process },
            Self::Release { process },
            Self::Leave { process },
        ]
    }
}
