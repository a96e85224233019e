// The README's example needs a store of worker ids.
#![cfg_attr(feature = "sqlite", doc = include_str!("../README.md"))]
#![cfg_attr(not(feature = "sqlite"), doc = "Unique, roughly time-ordered 64-bit ids.")]

#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(any(test, feature = "simulation"))]
#[doc(hidden)]
pub mod model;
pub mod padding;
pub mod ring;
pub mod segment;
#[cfg(any(feature = "mysql", feature = "sqlite", feature = "zookeeper"))]
pub mod store;

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
pub use crate::error::{Error, FillError, TakeError};
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
#[cfg(feature = "mysql")]
pub use crate::store::mysql::{MySqlLeases, MySqlSegments, MySqlServer, MySqlWorkerNodes};
#[cfg(feature = "sqlite")]
pub use crate::store::sqlite::{SqliteLeases, SqliteSegments, SqliteWorkerNodes};
#[cfg(feature = "zookeeper")]
pub use crate::store::zookeeper::{Instance, LeafNode, LeafZooKeeper, ZooKeeperServers};
#[cfg(uidring_loom)]
#[doc(hidden)]
pub use crate::sync::become_forked_child;
pub use crate::timestamp::{ParseTimeError, Timestamp};
#[cfg(feature = "serde")]
pub use crate::uid::as_string;
pub use crate::uid::{ParseUidError, Uid, UidRangeError, UidText};
pub use crate::worker::{
    EnvWorkerId, FixedWorkerId, Lease, LeaseKeeper, LeaseTerms, NodeIdentity, NodeKind, RenewError,
    Worker, WorkerIdAssigner,
};
