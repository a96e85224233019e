//! The steps of the model.

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
    /// A process makes a session.
    Connect {
        /// The process.
        process: S::Number,
        /// How long ago the servers made it, while the process waited for the answer. In a search it waits afterwards.
        ago: S::Number,
    },
    /// A process reads a node. Its place tells which.
    Read {
        /// The process.
        process: S::Number,
    },
    /// A process sends a transaction. Its place tells which.
    Write {
        /// The process.
        process: S::Number,
    },
    /// The lease's thread asks for this horizon.
    Renew {
        /// The process.
        process: S::Number,
        /// The last tick that it wants to issue.
        horizon: S::Number,
    },
    /// The servers execute a transaction, perhaps late, and answer the process that waits for it.
    Perform(Request<S>),
    /// The servers execute a transaction, and the answer is lost. The process still waits.
    PerformUnheard(Request<S>),
    /// The answer to a transaction arrives.
    Hear {
        /// The process.
        process: S::Number,
    },
    /// Nobody waits any more, for a transaction's answer or for a renewal.
    Fail {
        /// The process.
        process: S::Number,
    },
    /// The wall clock is in a later tick than the generator.
    ClockRuns {
        /// The process.
        process: S::Number,
        /// The tick.
        tick: S::Number,
    },
    /// The next tick is asked for and made ready.
    Pad {
        /// The process.
        process: S::Number,
    },
    /// A caller gets the first ready tick.
    Take {
        /// The process.
        process: S::Number,
    },
    /// Someone checks the deadline after it has passed.
    Notice {
        /// The process.
        process: S::Number,
    },
    /// The generator is closed; its unused ticks and the name are given back.
    Close {
        /// The process.
        process: S::Number,
    },
    /// The process ends without telling anyone.
    Crash {
        /// The process.
        process: S::Number,
    },
    /// The servers hear from a session, for which a process has a thread.
    Ping {
        /// Its number.
        session: S::Number,
    },
    /// The servers end a session, and delete its node.
    Expire {
        /// Its number.
        session: S::Number,
    },
    /// Time passes.
    Pass {
        /// By the servers' clocks; one unit in a search.
        time: S::Number,
        /// What each live process's clock counts of it; in a search, all or nothing.
        counted: Vec<S::Number>,
    },
    /// In detail: a claim starts again.
    BeginAgain {
        /// The process.
        process: S::Number,
    },
    /// In detail: a process learns that its session has ended.
    FindOver {
        /// The process.
        process: S::Number,
    },
    /// In detail: a process learns that another was admitted.
    FindHolder {
        /// The process.
        process: S::Number,
    },
    /// In detail: an admitted process has read these versions.
    Reload {
        /// The process.
        process: S::Number,
        /// The version of the node with the number.
        endpoint: S::Number,
        /// The version of the reservation.
        reserved: S::Number,
    },
    /// In detail: granted ticks go to nobody.
    Skip {
        /// The process.
        process: S::Number,
        /// The last of these ticks.
        tick: S::Number,
    },
    /// In detail: the generator is closed, and its unused ticks are being given back.
    Release {
        /// The process.
        process: S::Number,
    },
    /// In detail: a process ends, and tells the servers.
    Leave {
        /// The process.
        process: S::Number,
    },
    /// In detail: a transaction that nobody waits for is executed late; the servers heard from its session before.
    PerformLate(Request<S>),
    /// In detail: another instance makes a number.
    OthersNumber,
}

impl<S: Scale> Action<S> {
    /// Returns a process's actions that need no number.
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

    /// Returns more of these, for the model in detail.
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
