//! Worker ids that are held for a while.

use std::fmt;

use super::backend::{LeaseBackend, LeaseTerms};
use super::renewal_thread::RenewalThread;
use super::renewals::Renewer;
use crate::error::Error;
use crate::layout::Layout;
use crate::sync::ForkToken;
use crate::uid::Uid;

/// A generator's worker: a permanent id, or a [`Lease`] on one.
#[derive(Debug)]
#[non_exhaustive]
pub enum Worker {
    /// An id that nobody else ever uses with the same layout.
    Plain(u64),
    /// An id that others may have had before, and may have again.
    Leased(Lease),
}

impl Worker {
    /// Returns the worker id.
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

/// A worker id held for a while, and the store that remembers how far its holder may have issued.
///
/// The *horizon* is the last tick that the holder may issue. The store has it before the holder issues that tick. So
/// the next holder starts above it, whatever its clock says and whatever happened to the previous one. That alone makes
/// reuse safe; the lease's times only make it quick.
///
/// A generator renews its lease in the background, and releases it when closed or dropped. Once the lease is lost,
/// takes fail with [`TakeError::LeaseLost`](crate::TakeError::LeaseLost). A lease without a generator is given back
/// when dropped, or runs out by itself.
pub struct Lease {
    pub(crate) worker_id: u64,
    pub(crate) layout: Layout,
    /// The greatest uid that may have been issued with this worker id.
    pub(crate) after: Option<Uid>,
    pub(crate) terms: LeaseTerms,
    pub(crate) backend: Box<dyn LeaseBackend>,
    pub(super) renewer: Box<dyn Renewer>,
    /// The process that has the lease. A forked child must not use it.
    pub(super) life: ForkToken,
}

impl Lease {
    /// Creates a lease on a worker id of `layout`. `after` is the greatest uid within the stored horizon; the new
    /// holder issues only uids above it.
    ///
    /// # Errors
    ///
    /// [`Error::WorkerIdOutOfRange`]; [`Error::OptionOutOfRange`] for terms with which the lease would be renewed
    /// without a pause, or end before it is renewed.
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

    /// Sets what renews the lease, in place of its own thread.
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

    /// Returns the worker id.
    pub fn worker_id(&self) -> u64 {
        self.worker_id
    }

    /// Returns the greatest uid that earlier holders may have issued; `None` if they issued nothing.
    pub fn after(&self) -> Option<Uid> {
        self.after
    }

    /// Returns how long the lease lasts, and how it is renewed.
    pub fn terms(&self) -> LeaseTerms {
        self.terms
    }

    /// Releases the worker id unused.
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
