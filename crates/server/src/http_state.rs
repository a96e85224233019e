//! What HTTP's connections share.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use hyper::body::Bytes;
use tokio::sync::Semaphore;

use crate::limits::Limits;
use crate::stats::ProtocolStats;

const PAGES: usize = 16;

/// Who may watch, who may read tables, and what watchers saw last.
#[derive(Debug)]
pub struct HttpState {
    pub watchers: Arc<Semaphore>,
    /// Room for pages about all names that are on their way: with many names they are long.
    pub pages: Arc<Semaphore>,
    /// The turn to make one of them.
    pub turn: Arc<Semaphore>,
    /// The right to read the table of segments.
    pub table: Arc<Semaphore>,
    pub last: Mutex<LastLook>,
}

/// The last look of watchers, and what the next one is compared with.
#[derive(Debug, Default)]
pub struct LastLook {
    pub event: Bytes,
    pub taken: Option<Instant>,
    pub stats: Vec<ProtocolStats>,
}

impl HttpState {
    pub fn new(limits: &Limits) -> Self {
        Self {
            watchers: Arc::new(Semaphore::new(limits.watchers.min(Semaphore::MAX_PERMITS))),
            pages: Arc::new(Semaphore::new(PAGES)),
            turn: Arc::new(Semaphore::new(1)),
            table: Arc::new(Semaphore::new(1)),
            last: Mutex::default(),
        }
    }
}
