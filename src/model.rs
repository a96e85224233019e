//! Random histories of leased worker ids, for the crate of a store: it runs beside the model's own
//! store, and must answer as that does. docs/lease-model.md tells what a history is.
//!
//! This module is outside the promise of semantic versioning: any release may change it.

pub use crate::generator::lease_model::{Counts, Histories, Setting, StoreUnderTest, StoredLease};
