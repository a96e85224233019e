//! Limits on what clients may use of the server.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::IssueError;

/// Limits of a server. Requests beyond one get an answer that says so.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The greatest number of connections, over all protocols.
    pub connections: usize,
    /// The greatest number of ids in one answer, and of consecutive ids.
    pub batch: u64,
    /// The greatest size of a request, in bytes.
    pub request: usize,
    /// How long a connection may be idle, or a transaction (`MULTI`) open, before the connection is closed.
    pub idle: Duration,
    /// How long a client may take to send a request once begun, and to receive an answer.
    pub slow: Duration,
    /// How many clients may watch the dashboard at once.
    pub watchers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            batch: 100_000,
            request: 64 * 1024,
            idle: Duration::from_secs(600),
            slow: Duration::from_secs(30),
            watchers: 16,
        }
    }
}

/// Batches up to this size are not counted: a connection may hold as much anyway.
const SMALL: u64 = 256;

/// How many ids may be in unsent answers together: 8 bytes each, up to 22 as text.
const ON_THEIR_WAY: u64 = 4_000_000;

/// Limits the ids of large batches in unsent answers, so that clients that do not read cannot use up the memory.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Semaphore>);

impl Budget {
    /// Allows at least one batch of this size.
    pub fn new(batch: u64) -> Self {
        let ids = ON_THEIR_WAY.max(batch).min(Semaphore::MAX_PERMITS as u64);
        Self(Arc::new(Semaphore::new(ids as usize)))
    }

    /// Takes room for a batch, to hold until its answer is written.
    pub fn take(&self, ids: u64) -> Result<Option<OwnedSemaphorePermit>, IssueError> {
        if ids <= SMALL {
            return Ok(None);
        }
        let room = u32::try_from(ids)
            .ok()
            .and_then(|ids| Arc::clone(&self.0).try_acquire_many_owned(ids).ok());
        room.map(Some).ok_or(IssueError::Busy)
    }
}
