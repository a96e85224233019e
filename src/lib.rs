// Where the links of the README lead in the documentation: of two definitions the first counts.
//! [CHANGELOG.md]: https://docs.rs/crate/uidring/latest/source/CHANGELOG.md
//! [LICENSE-APACHE]: https://docs.rs/crate/uidring/latest/source/LICENSE-APACHE
//! [LICENSE-MIT]: https://docs.rs/crate/uidring/latest/source/LICENSE-MIT
//! [docs/alerts.yml]: https://docs.rs/crate/uidring/latest/source/docs/alerts.yml
//! [docs/architecture.md]: https://docs.rs/crate/uidring/latest/source/docs/architecture.md
//! [docs/async.md]: https://docs.rs/crate/uidring/latest/source/docs/async.md
//! [docs/benchmarks.md]: https://docs.rs/crate/uidring/latest/source/docs/benchmarks.md
//! [docs/clock-driven.md]: https://docs.rs/crate/uidring/latest/source/docs/clock-driven.md
//! [docs/format.md]: https://docs.rs/crate/uidring/latest/source/docs/format.md
//! [docs/etcd.md]: https://docs.rs/crate/uidring/latest/source/docs/etcd.md
//! [docs/kubernetes.md]: https://docs.rs/crate/uidring/latest/source/docs/kubernetes.md
//! [docs/lease-model.md]: https://docs.rs/crate/uidring/latest/source/docs/lease-model.md
//! [docs/leases.md]: https://docs.rs/crate/uidring/latest/source/docs/leases.md
//! [docs/mysql.md]: https://docs.rs/crate/uidring/latest/source/docs/mysql.md
//! [docs/operations.md]: https://docs.rs/crate/uidring/latest/source/docs/operations.md
//! [docs/postgresql.md]: https://docs.rs/crate/uidring/latest/source/docs/postgresql.md
//! [docs/ring-buffer.md]: https://docs.rs/crate/uidring/latest/source/docs/ring-buffer.md
//! [docs/images/dashboard-light.png]: https://docs.rs/crate/uidring/latest/source/docs/images/dashboard-light.png
//! [docs/segments.md]: https://docs.rs/crate/uidring/latest/source/docs/segments.md
//! [docs/server.md]: https://docs.rs/crate/uidring/latest/source/docs/server.md
//! [docs/server-batch.md]: https://docs.rs/crate/uidring/latest/source/docs/server-batch.md
//! [docs/server-http.md]: https://docs.rs/crate/uidring/latest/source/docs/server-http.md
//! [docs/server-thrift.md]: https://docs.rs/crate/uidring/latest/source/docs/server-thrift.md
//! [docs/sqlite.md]: https://docs.rs/crate/uidring/latest/source/docs/sqlite.md
//! [docs/time.md]: https://docs.rs/crate/uidring/latest/source/docs/time.md
//! [docs/verification.md]: https://docs.rs/crate/uidring/latest/source/docs/verification.md
//! [docs/worker-ids.md]: https://docs.rs/crate/uidring/latest/source/docs/worker-ids.md
//! [docs/zookeeper.md]: https://docs.rs/crate/uidring/latest/source/docs/zookeeper.md
#![doc = include_str!("../docs/images/uid-bits.url.md")]
// Its code uses stores: crates/sqlite/src/lib.rs tests it.
#![cfg_attr(not(doctest), doc = include_str!("../README.md"))]

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
#[cfg(feature = "serde")]
pub mod serde;
pub mod worker;

#[cfg(doctest)]
#[doc = include_str!("../docs/segments.md")]
mod docs_segments {}

#[cfg(doctest)]
#[doc = include_str!("../docs/async.md")]
mod docs_async {}

mod error;
mod future;
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
pub use crate::timestamp::{ParseTimeError, TimeRangeError, Timestamp};
pub use crate::uid::{ParseUidError, Uid, UidRangeError, UidText};
pub use crate::worker::lease::Worker;
pub use crate::worker::source::{WorkerRequest, WorkerSource};
