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
//! `uidring-mysql` and `uidring-zookeeper` hand out worker ids that no two starts share.

#[doc(hidden)]
pub mod adapter;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(any(test, feature = "simulation"))]
#[doc(hidden)]
pub mod model;
pub mod padding;
pub mod ring;
pub mod segment;

#[cfg(doctest)]
#[doc = include_str!("../docs/segments.md")]
mod docs_segments {}

mod clock;
mod error;
mod generator;
mod layout;
mod policy;
mod sync;
mod timestamp;
mod uid;
mod worker;

#[cfg(not(uidring_loom))]
pub use crate::clock::TickerClock;
pub use crate::clock::{Clock, ManualClock, SystemClock};
pub use crate::error::{Error, FillError, StoreError, StoreErrorKind, TakeError};
pub use crate::generator::{
    BaiduRules, CachedBuilder, CachedStats, CachedUidGenerator, ClockPolicy, ClockRules,
    ClockedBuilder, ClockedUidGenerator, DefaultUidGenerator, GeneratorRef, LeafRules,
    LeafSnowflakeGenerator, LocalGenerator, PerThreadGenerator, SequenceStart, SnowflakeGenerator,
    SnowflakeNode, SnowflakeParts, TwitterRules, UidGenerator, Uids,
};
pub use crate::layout::{Bits, Decoded, Layout, Tick};
pub use crate::padding::{Padder, PadderCore, PadderIdle, PadderOptions};
pub use crate::policy::{
    PutDecision, PutHandler, PutPolicy, RejectedPut, RejectedTake, TakeDecision, TakeHandler,
    TakePolicy,
};
pub use crate::ring::{Producer, PutError, RingBuffer, RingOptions, RingStats};
pub use crate::segment::{
    LoadError, LoadedSegment, MemorySegments, SegmentBuilder, SegmentError, SegmentGenerator,
    SegmentHandle, SegmentRequest, SegmentStats, SegmentStore, SegmentTag,
};
#[cfg(uidring_loom)]
#[doc(hidden)]
pub use crate::sync::become_forked_child;
pub use crate::timestamp::{ParseTimeError, Timestamp};
#[cfg(feature = "serde")]
pub use crate::uid::as_string;
pub use crate::uid::{ParseUidError, Uid, UidRangeError, UidText};
pub use crate::worker::{
    EnvWorkerId, FixedWorkerId, Lease, LeaseKeeper, LeaseTerms, RenewError, Worker, WorkerRequest,
    WorkerSource,
};
