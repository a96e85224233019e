//! Random histories of leased worker ids, for the crate of a store: it runs beside the model's own
//! store, and must answer as that does. docs/lease-model.md tells what a history is. What histories are
//! made of is here too, for a store whose protocol is a model of its own.
//!
//! This module is outside the promise of semantic versioning: any release may change it.

pub use crate::clock::ManualMonotonic;
pub use crate::generator::lease_model::{
    COUNT, Counts, Generator, Histories, Host, Property, SEED, Setting, StoreUnderTest,
    StoredLease, Suspended,
};
pub use crate::sync::lock;
pub use crate::worker::{Renewals, Renewer, Request, Task};
