//! Worker ids that are held for a while, and how far their holders may issue.

use std::fmt;

use super::backend::{LeaseBackend, LeaseTerms};
use super::renewal_thread::RenewalThread;
use super::renewals::Renewer;
use crate::error::Error;
use crate::layout::Layout;
use crate::sync::ForkToken;
use crate::uid::Uid;

/// The worker of a generator: an id that stays its own, or one that it holds by a [`Lease`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Worker {
    /// An id that nobody else uses with the same layout, ever.
    Plain(u64),
    /// An id that others may have had before, and may have again.
    Leased(Lease),
}

impl Worker {
    /// The worker id.
    pub fn id(&self) -> u64 {
        match self {
            Self::Plain(id) => *id,
            Self::Leased(lease) => lease.worker_id,
        }
    }
}

impl From<u64> for Worker {
    fn from(id: u64) -> Self {
        Self::Plain(id)
    }
}

impl From<Lease> for Worker {
    fn from(lease: Lease) -> Self {
        Self::Leased(lease)
    }
}

/// A worker id that is held, and the store that remembers how far its holder may have issued.
///
/// The *horizon* is the last tick that the holder may issue. The store has it before the holder issues that
/// tick. So the next holder of the worker id starts above it, whatever its clock says, and whatever
/// happened to the holder before. That alone makes reuse safe; the times of the lease only make it quick.
///
/// A generator that is built with a lease renews it in the background, releases it when it is closed or
/// dropped, and refuses with [`TakeError::LeaseLost`](crate::TakeError::LeaseLost) when it is lost. A lease
/// that no generator takes is given back when it is dropped, or runs out by itself.
pub struct Lease {
    pub(crate) worker_id: u64,
    pub(crate) layout: Layout,
    /// The greatest uid that may have been issued with this worker id.
    pub(crate) after: Option<Uid>,
    pub(crate) terms: LeaseTerms,
    pub(crate) backend: Box<dyn LeaseBackend>,
    pub(super) renewer: Box<dyn Renewer>,
    /// Wiped in a forked child, whose parent has the lease.
    pub(super) life: ForkToken,
}

impl Lease {
    /// Returns a lease on a worker id with `layout`. `after` is the greatest uid that the store's horizon
    /// allows: the new holder issues only uids above it.
    ///
    /// # Errors
    ///
    /// [`Error::WorkerIdOutOfRange`]; [`Error::OptionOutOfRange`] for terms by which it
    /// would be renewed without a pause, or be over before it is renewed.
    pub fn new(
        layout: Layout,
        worker_id: u64,
        after: Option<Uid>,
        terms: LeaseTerms,
        backend: impl LeaseBackend,
    ) -> Result<Self, Error> {
        layout.check_worker_id(worker_id)?;
        terms.check()?;
        let backend = Box::new(backend);
        let renewer = Box::new(RenewalThread);
        let life = ForkToken::current();
        Ok(Self { worker_id, layout, after, terms, backend, renewer, life })
    }

    /// Sets what renews the lease instead of a thread of its own.
    #[cfg(feature = "simulation")]
    #[doc(hidden)]
    pub fn renewed_by(self, renewer: impl Renewer) -> Self {
        Self { renewer: Box::new(renewer), ..self }
    }

    /// Returns the layout and the backend.
    #[cfg(feature = "simulation")]
    #[doc(hidden)]
    pub fn into_parts(self) -> (Layout, Box<dyn LeaseBackend>) {
        (self.layout, self.backend)
    }

    /// Returns the worker id that is held.
    pub fn worker_id(&self) -> u64 {
        self.worker_id
    }

    /// Returns the greatest uid that earlier holders may have issued; `None` if they issued nothing.
    pub fn after(&self) -> Option<Uid> {
        self.after
    }

    /// Returns how long it lasts, and how it is renewed.
    pub fn terms(&self) -> LeaseTerms {
        self.terms
    }

    /// Releases the worker id without having used it.
    ///
    /// # Errors
    ///
    /// As [`LeaseBackend::release`]; [`Error::Forked`] in a forked child, whose parent has the lease.
    pub fn release(mut self) -> Result<(), Error> {
        if self.life.is_forked_child() {
            return Err(Error::Forked { what: "lease" });
        }
        self.backend.release(None)
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("worker_id", &self.worker_id)
            .field("after", &self.after)
            .field("terms", &self.terms)
            .finish_non_exhaustive()
    }
}
