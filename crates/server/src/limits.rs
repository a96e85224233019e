//! How much of the server clients may use.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::IssueError;

/// Limits of a server. What is over one gets an answer that says so.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Connections at once, of all protocols.
    pub connections: usize,
    /// Ids in one answer, and ids in a row.
    pub batch: u64,
    /// Bytes of one request.
    pub request: usize,
    /// A connection on which nothing is asked for so long is closed; so is one whose transaction (`MULTI`) is older.
    pub idle: Duration,
    /// So long may it take to send a request, once begun, and to receive an answer.
    pub slow: Duration,
    /// Those who watch the dashboard at once.
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

/// A batch of so many ids counts for nothing: a connection may hold as much anyhow.
const SMALL: u64 = 256;

/// How many ids may be on their way in all answers together: 8 bytes each, and up to 22 as text.
const ON_THEIR_WAY: u64 = 4_000_000;

/// The ids of great batches that are on their way: clients that ask and do not read share a bounded memory.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Semaphore>);

impl Budget {
    /// For batches of at most so many.
    pub fn new(batch: u64) -> Self {
        let ids = ON_THEIR_WAY.max(batch).min(Semaphore::MAX_PERMITS as u64);
        Self(Arc::new(Semaphore::new(ids as usize)))
    }

    /// Room for a batch, until its answer is written.
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
