//! Errors of the client.

use std::error::Error;
use std::fmt;
use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

/// Why there are no ids.
///
/// `{:?}` prints the text and its cause on one line, so a `main` that returns it prints `Error: ` and what to do.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No connection could be made.
    #[error("connecting to uidring's server at {address}")]
    Connect {
        /// The server's address.
        address: String,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// The connection broke during a request. Ids on their way are lost.
    #[error("the connection to uidring's server broke")]
    Broken(#[source] io::Error),
    /// No answer came in time. Ids on their way are lost.
    #[error("uidring's server did not answer within {0:?}")]
    TimedOut(Duration),
    /// The server refused.
    #[error("uidring's server: {text}")]
    Refused {
        /// The kind of reason.
        kind: Refusal,
        /// The server's text.
        text: String,
    },
    /// The answer is not one of the binary batch.
    #[error("that is no answer of uidring's server for batches: {0}; check where it listens")]
    NoAnswer(String),
    /// A name or a password is too long.
    #[error("a name or password has at most 255 bytes, and not {length}")]
    LongName {
        /// Its length in bytes.
        length: usize,
    },
    /// More ids than any request can ask for.
    #[error("{count} ids were asked for; ask for fewer at a time")]
    TooMany {
        /// How many.
        count: usize,
    },
}

impl fmt::Debug for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = self.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        // The server's text may be anything.
        f.write_str(&format!("{self}{cause}").replace(char::is_control, " "))
    }
}

/// Never changed after it is made, so no panic leaves it half changed.
impl UnwindSafe for ClientError {}
impl RefUnwindSafe for ClientError {}

impl ClientError {
    /// Whether the same request may succeed later without any change on this side.
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
    /// The request is malformed, or asks for more ids than the server allows.
    BadRequest,
    /// The server does not know the name.
    UnknownName,
    /// There are no ids at the moment.
    TryAgain,
    /// There are no ids until somebody fixes the cause.
    Failed,
    /// The password is missing or wrong.
    NotAllowed,
}
