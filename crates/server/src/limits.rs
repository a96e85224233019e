//! How much of the server clients may use.

use std::time::Duration;

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
    /// A connection on which nothing is asked for so long is closed.
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
