//! What may go wrong while ids are served.

use uidring::TakeError;
use uidring::adapter::{Chain, error_traits};
use uidring::segment::SegmentError;

/// Why no id was issued.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum IssueError {
    /// The generator of uids has lost its worker id. Servers get another one when they start.
    #[error("the lease of the worker id is lost; restart the server, which gets another one")]
    LeaseLost,
    /// A generator of uids has none.
    #[error(transparent)]
    Uid(TakeError),
    /// A tag has none.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// A name is unknown, and the table of tags, which may have it by now, could not be read.
    #[error(
        "the table of tags could not be read, which may have a tag of this name by now; try again"
    )]
    Unread,
    /// Other clients have asked for so many ids, and not read them yet, that there is no room for more.
    #[error("too many ids are on their way to clients that have not read them; try again")]
    Busy,
    /// Others took ids each time before there were enough in a row.
    #[error("other clients took ids in between, each time; try again, or ask for fewer in a row")]
    Contended,
    /// More consecutive ids were asked for than there ever are.
    #[error("{count} ids in a row were asked for, and at most {max} are to be had; ask for fewer")]
    NotInARow {
        /// How many were asked for.
        count: u64,
        /// How many there are at most.
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
    /// Whether the same request may succeed later without anybody doing anything.
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

/// Why a server does not serve.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The system starts no thread, or gives it no event loop.
    #[error("starting a thread that serves")]
    Thread(#[source] std::io::Error),
    /// A listener could not be shared by the threads.
    #[error("listening on {address}")]
    Listener {
        /// Where.
        address: String,
        /// Why not.
        #[source]
        cause: std::io::Error,
    },
}

error_traits!(ServeError);
