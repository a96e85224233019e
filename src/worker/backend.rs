//! What a lease asks of its store.

use std::time::Duration;

use crate::error::Error;
use crate::uid::Uid;

/// How a lease is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseTerms {
    /// How long the id is held after a renewal, counted from before the store was asked; without
    /// end if `None`.
    pub lasts: Option<Duration>,
    /// How much earlier than that the holder stops by itself, so that its clock may be slower than
    /// the store's.
    pub margin: Duration,
    /// How often the lease is renewed if nothing asks for it earlier.
    pub renew_every: Duration,
    /// How much further than the holder needs until the next renewals the store is asked for: what
    /// the holder issues while the store is away.
    pub reserve: Duration,
    /// How long the start of a generator on the clock waits for the clock to pass what was issued
    /// before.
    pub max_start_wait: Duration,
}

/// Held without end, renewed every 3 s; a start waits for 10 s at most.
impl Default for LeaseTerms {
    fn default() -> Self {
        Self {
            lasts: None,
            margin: Duration::ZERO,
            renew_every: Duration::from_secs(3),
            reserve: Duration::ZERO,
            max_start_wait: Duration::from_secs(10),
        }
    }
}

/// The store's side of a [`Lease`]. Its methods block; one thread at a time calls them.
pub trait LeaseBackend: Send + 'static {
    /// Holds on to the worker id, and has the store remember that ticks up to `horizon`, that one
    /// included, may be issued: it must be durable when this returns `Ok`.
    ///
    /// # Errors
    ///
    /// [`RenewError`] says whether it may be tried again. Whatever the error, the store may have
    /// the horizon or not.
    fn renew(&mut self, horizon: u64) -> Result<(), RenewError>;

    /// Gives the worker id back: nothing above `last` was, or will be, issued. With `None` this
    /// holder has issued nothing at all.
    ///
    /// # Errors
    ///
    /// What the store says. The lease then runs out by itself.
    fn release(&mut self, last: Option<Uid>) -> Result<(), Error>;
}

/// Why a lease was not renewed.
#[derive(Debug, thiserror::Error)]
pub enum RenewError {
    /// Somebody else holds the worker id, or was allowed to: this is for good.
    #[error(transparent)]
    Lost(Error),
    /// The store could not be asked; it is tried again until the lease has run out.
    #[error(transparent)]
    Failed(Error),
}
