//! State that all HTTP connections share.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use hyper::body::Bytes;
use tokio::sync::Semaphore;

use crate::limits::Limits;
use crate::stats::ProtocolStats;

const PAGES: usize = 16;

/// Limits for watchers and long pages, and the watchers' last look.
#[derive(Debug)]
pub struct HttpState {
    pub watchers: Arc<Semaphore>,
    /// Permits for pages about all names until they are sent. With many names they are long.
    pub pages: Arc<Semaphore>,
    /// The permit to make one of these pages.
    pub turn: Arc<Semaphore>,
    /// The permit to read the table of segments.
    pub table: Arc<Semaphore>,
    pub last: Mutex<LastLook>,
    /// When readiness was last checked for clients without the password, and the result.
    pub readiness: Mutex<Option<(Instant, bool)>>,
}

/// The watchers' last look, and what the next one is compared with.
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
            readiness: Mutex::default(),
        }
    }
}
