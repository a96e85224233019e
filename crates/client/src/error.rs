//! What may go wrong.

use std::error::Error;
use std::fmt;
use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

/// Why there are no ids.
///
/// `{:?}` prints its text and its cause's on one line, so a `main` that returns it prints `Error: ` and what to do.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// There is no connection to be had.
    #[error("connecting to uidring's server at {address}")]
    Connect {
        /// Where.
        address: String,
        /// Why not.
        #[source]
        cause: io::Error,
    },
    /// The connection broke amid a request. Ids that were on their way are lost.
    #[error("the connection to uidring's server broke")]
    Broken(#[source] io::Error),
    /// There was no answer in time. Ids that were on their way are lost.
    #[error("uidring's server did not answer within {0:?}")]
    TimedOut(Duration),
    /// The server refused.
    #[error("uidring's server: {text}")]
    Refused {
        /// For what kind of reason.
        kind: Refusal,
        /// The server's own words.
        text: String,
    },
    /// What answered does not speak the binary batch.
    #[error("that is no answer of uidring's server for batches: {0}; check where it listens")]
    NoAnswer(String),
    /// A name or a password is too long.
    #[error("a name or password has at most 255 bytes, and not {length}")]
    LongName {
        /// Its bytes.
        length: usize,
    },
    /// More ids than any request may ask for.
    #[error("{count} ids were asked for; ask for fewer at a time")]
    TooMany {
        /// How many.
        count: usize,
    },
}

impl fmt::Debug for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = self.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        // The server's words may be anything.
        f.write_str(&format!("{self}{cause}").replace(char::is_control, " "))
    }
}

/// It is made whole and only read after that, so no panic leaves one half changed.
impl UnwindSafe for ClientError {}
impl RefUnwindSafe for ClientError {}

impl ClientError {
    /// Whether the same request may succeed later without anybody doing anything here.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Broken(_) | Self::TimedOut(_) => true,
            Self::Refused { kind, .. } => *kind == Refusal::TryAgain,
            Self::NoAnswer(_) | Self::LongName { .. } | Self::TooMany { .. } => false,
        }
    }
}

/// Why a server refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The request is not one, or asks for more ids than the server's limit.
    BadRequest,
    /// There is no such name.
    UnknownName,
    /// There are no ids at the moment.
    TryAgain,
    /// There are no ids until somebody does something about it.
    Failed,
    /// The password is missing or wrong.
    NotAllowed,
}
