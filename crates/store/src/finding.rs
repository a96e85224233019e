//! The findings of an examination of a store.

use std::error::Error as StdError;

use uidring::Layout;
use uidring::adapter::Chain;

/// A finding of an examination.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The subject in a word or two, such as `durability`.
    pub about: &'static str,
    /// How serious it is.
    pub verdict: Verdict,
    /// What was found, and what to do about it.
    pub text: String,
}

/// How serious a finding is, from harmless to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// All is well.
    Good,
    /// It works now and may fail later.
    Risk,
    /// A start fails, or ids may repeat.
    Fault,
}

/// What a start needs from a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreUse {
    /// A worker id, which it uses up.
    Disposable,
    /// A leased worker id, for uids of this layout.
    Lease(Layout),
    /// The leased worker id of an ordinal, for uids of this layout.
    Ordinal(u64, Layout),
    /// The segments of a tag.
    Segments,
}

/// The findings of an examination. `Err` if the store cannot be used, so that looking further is pointless.
pub type Findings = Result<Vec<Finding>, Vec<Finding>>;

impl Finding {
    /// Returns a finding that all is well.
    pub fn good(about: &'static str, text: impl Into<String>) -> Self {
        Self { about, verdict: Verdict::Good, text: text.into() }
    }

    /// Returns a finding of something that works now and may fail later.
    pub fn risk(about: &'static str, text: impl Into<String>) -> Self {
        Self { about, verdict: Verdict::Risk, text: text.into() }
    }

    /// Returns a finding of something to repair.
    pub fn fault(about: &'static str, text: impl Into<String>) -> Self {
        Self { about, verdict: Verdict::Fault, text: text.into() }
    }

    /// Returns a fault with the error and its causes as its text.
    pub fn error(about: &'static str, error: &(dyn StdError + 'static)) -> Self {
        Self::fault(about, Chain(error).to_string())
    }
}
