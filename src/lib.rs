//! Unique, roughly time-ordered 64-bit ids for callers in the same process, at the cost of one atomic
//! addition each.
//!
//! ```
//! use uidring::CachedUidGenerator;
//!
//! let generator = CachedUidGenerator::builder().worker_id(7).build()?;
//! let uid = generator.next_uid()?; // from any thread, through & or Arc
//! println!("{uid} {} {}", uid.base62(), generator.decode(uid)?.timestamp);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A worker id of your choice has no memory of what was issued with it. The crates `uidring-sqlite`,
//! `uidring-mysql` and `uidring-zookeeper` hand out worker ids: a new one for each start, or one that
//! continues above all uids issued with it before.

#[doc(hidden)]
pub mod adapter;
pub mod clock;
pub mod generator;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(any(test, feature = "simulation"))]
#[doc(hidden)]
pub mod model;
pub mod padding;
pub mod policy;
pub mod ring;
pub mod segment;
pub mod worker;

#[cfg(doctest)]
#[doc = include_str!("../docs/segments.md")]
mod docs_segments {}

mod error;
mod layout;
mod sync;
mod timestamp;
mod uid;

pub use crate::error::{Error, FillError, StoreError, StoreErrorKind, TakeError};
pub use crate::generator::cached::CachedUidGenerator;
pub use crate::generator::clocked::{
    DefaultUidGenerator, LeafSnowflakeGenerator, SnowflakeGenerator,
};
pub use crate::generator::local::LocalGenerator;
pub use crate::generator::per_thread::PerThreadGenerator;
pub use crate::generator::uid_generator::UidGenerator;
pub use crate::layout::{Bits, Decoded, Fields, Layout, Tick};
pub use crate::segment::generator::SegmentGenerator;
#[cfg(uidring_loom)]
#[doc(hidden)]
pub use crate::sync::become_forked_child;
pub use crate::timestamp::{ParseTimeError, Timestamp};
#[cfg(feature = "serde")]
pub use crate::uid::as_string;
pub use crate::uid::{ParseUidError, Uid, UidRangeError, UidText};
pub use crate::worker::lease::Worker;
pub use crate::worker::source::{WorkerRequest, WorkerSource};
