//! What a keeper asks of the session that has its nodes.

use std::time::Duration;

use super::problem::Problem;
use super::session::{Claim, Mark, Past};

/// The way to the session: a thread, or the session itself where the protocol is modelled.
pub trait Link: Send + 'static {
    /// Claims a worker id in the registry.
    fn claim(&mut self, past: Past) -> Result<Claim, Problem>;

    /// Says what was done without the registry, before anything is stored.
    fn recall(&mut self, past: Past) -> Result<(), Problem>;

    /// Has the registry remember the mark. It goes on if it takes longer; with no patience at all
    /// the next call looks for its answer.
    fn store(&mut self, mark: Mark, patience: Duration) -> Result<(), Problem>;

    /// Stores the last mark and ends the session.
    fn release(&mut self, mark: Mark, patience: Duration) -> Result<(), Problem>;
}
