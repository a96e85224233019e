//! What an examination of a store finds.

use std::error::Error as StdError;

use uidring::Layout;
use uidring::adapter::Chain;

/// Something that an examination of a store found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What it is about, in a word or two: `durability`.
    pub about: &'static str,
    /// How serious it is.
    pub verdict: Verdict,
    /// What was found, and what to do about it.
    pub text: String,
}

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It is as it should be.
    Good,
    /// It works, and may fail later.
    Risk,
    /// A start fails, or ids may repeat.
    Fault,
}

/// What a start wants of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreUse {
    /// A worker id that it uses up.
    Disposable,
    /// A worker id that it leases, for uids of this layout.
    Lease(Layout),
    /// The worker id of an ordinal, which it leases, for uids of this layout.
    Ordinal(u64, Layout),
    /// The segments of a tag.
    Segments,
}

/// What an examination of a store found; `Err` if the store cannot be used, and it is pointless to look further.
pub type Findings = Result<Vec<Finding>, Vec<Finding>>;

impl Finding {
    /// Something that is as it should be.
    pub fn good(about: &'static str, text: impl Into<String>) -> Self {
        Self { about, verdict: Verdict::Good, text: text.into() }
    }

    /// Something that works, and may fail later.
    pub fn risk(about: &'static str, text: impl Into<String>) -> Self {
        Self { about, verdict: Verdict::Risk, text: text.into() }
    }

    /// Something that has to be repaired.
    pub fn fault(about: &'static str, text: impl Into<String>) -> Self {
        Self { about, verdict: Verdict::Fault, text: text.into() }
    }

    /// An error, with its causes.
    pub fn error(about: &'static str, error: &(dyn StdError + 'static)) -> Self {
        Self::fault(about, Chain(error).to_string())
    }
}
