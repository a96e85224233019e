//! Errors in serving ids.

use std::io;

use uidring::TakeError;
use uidring::adapter::{Chain, error_traits};
use uidring::segment::SegmentError;

/// Why no id was issued.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum IssueError {
    /// The uid generator has lost its worker id. A restarted server gets another.
    #[error("the lease of the worker id is lost; restart the server, which gets another one")]
    LeaseLost,
    /// A uid generator has none.
    #[error(transparent)]
    Uid(TakeError),
    /// A tag has none.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The name is unknown. The table of tags, which may have it by now, could not be read.
    #[error(
        "the table of tags could not be read, which may have a tag of this name by now; try again"
    )]
    Unread,
    /// No room for so many ids, because other clients have not read theirs yet.
    #[error("too many ids are on their way to clients that have not read them; try again")]
    Busy,
    /// Other clients kept taking ids before there were enough in a row.
    #[error("other clients took ids in between, each time; try again, or ask for fewer in a row")]
    Contended,
    /// More consecutive ids than there can be.
    #[error("{count} ids in a row were asked for, and at most {max} are to be had; ask for fewer")]
    NotInARow {
        /// How many were requested.
        count: u64,
        /// The greatest possible number.
        max: u64,
    },
}

error_traits!(IssueError);

impl From<TakeError> for IssueError {
    fn from(error: TakeError) -> Self {
        match error {
            TakeError::LeaseLost => Self::LeaseLost,
            error => Self::Uid(error),
        }
    }
}

impl IssueError {
    /// Whether the same request may succeed later, without anybody's intervention.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Uid(error) => {
                error.may_pass()
                    || matches!(
                        error,
                        TakeError::DeadlineExceeded | TakeError::ClockBackwards { .. }
                    )
            }
            Self::Segment(error) => {
                error.may_pass() || matches!(error, SegmentError::DeadlineExceeded)
            }
            Self::Unread | Self::Busy | Self::Contended => true,
            Self::LeaseLost | Self::NotInARow { .. } => false,
        }
    }
}

/// Why a client got no ids.
#[derive(thiserror::Error)]
pub enum Unissued {
    /// The client is gone.
    #[error(transparent)]
    Gone(#[from] io::Error),
    /// The name has no ids, or none now.
    #[error(transparent)]
    Failed(#[from] IssueError),
}

error_traits!(Unissued);

/// Why a request is not answered as asked.
pub enum Refusal<K> {
    /// The client is gone.
    Gone(io::Error),
    /// The answer is an error of this kind with this text. Boxed, to keep answers without an error small.
    Said(Box<(K, String)>),
}

/// A protocol's kind of error.
pub trait ErrorKind {
    fn of(error: &IssueError) -> Self;
}

impl<K> Refusal<K> {
    pub fn new(kind: K, text: impl Into<String>) -> Self {
        Self::Said(Box::new((kind, text.into())))
    }

    /// Returns what to answer, unless the client is gone.
    pub fn said(self) -> io::Result<(K, String)> {
        match self {
            Self::Gone(error) => Err(error),
            Self::Said(said) => Ok(*said),
        }
    }
}

impl<K> From<io::Error> for Refusal<K> {
    fn from(error: io::Error) -> Self {
        Self::Gone(error)
    }
}

impl<K: ErrorKind> From<Unissued> for Refusal<K> {
    fn from(why: Unissued) -> Self {
        match why {
            Unissued::Gone(error) => Self::Gone(error),
            Unissued::Failed(error) => Self::new(K::of(&error), Chain(&error).to_string()),
        }
    }
}

/// Why a server could not start.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The system could not start a thread or an event loop.
    #[error("starting a thread that serves")]
    Thread(#[source] std::io::Error),
    /// A listener could not be shared among the threads.
    #[error("listening on {address}")]
    Listener {
        /// Its address.
        address: String,
        /// The system's error.
        #[source]
        cause: std::io::Error,
    },
}

error_traits!(ServeError);
