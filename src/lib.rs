//! Unique 64-bit ids that sort roughly by time, for the price of one atomic instruction each.
//!
//! A [`Uid`] holds a time, a worker id and a sequence number, as a [`Layout`] divides its bits:
//!
#![doc = "![The uid 965997071821758506 in bits: 28 of time, 22 of worker id, 13 of sequence][docs/images/uid-bits.svg]"]
#![doc = ""]
#![doc = include_str!("../docs/images/uid-bits.url.md")]
//!
//! ```
//! use uidring::CachedUidGenerator;
//!
//! // A worker id of your choice is for tests: see below.
//! let generator = CachedUidGenerator::builder().worker_id(7).build()?;
//! let uid = generator.next_uid()?; // from any thread, through & or Arc
//! let fields = generator.decode(uid)?;
//! assert_eq!(fields.worker_id, 7);
//! println!("{uid} {} {}", uid.base62(), fields.timestamp);
//! # Ok::<(), uidring::Error>(())
//! ```
//!
//! # Worker ids
//!
//! Two processes with the same worker id and layout make the same uids, and so may a second run of one process. In
//! production, get the worker id from a store: with the crate `uidring-sqlite` on one host, or with `uidring-mysql`,
//! `uidring-postgres`, `uidring-etcd` or `uidring-zookeeper` on several. Each has a [`WorkerSource`] for
//! [`worker_from`](generator::cached::CachedBuilder::worker_from), which hands out a new worker id at each start, or
//! leases one.
//!
//! # Generators
//!
//! | generator | use it for |
//! |---|---|
//! | [`CachedUidGenerator`] | almost everything: a background thread keeps a ring buffer filled with uids |
//! | [`ClockedUidGenerator`] | uids without a background thread and never ahead of the clock, which every take reads: as Baidu's [`DefaultUidGenerator`], Twitter's Snowflake and Leaf do |
//! | [`SegmentGenerator`] | dense numbers by tag, from ranges that a database table reserves |
//!
//! Build one generator per process and share it between threads.
//!
//! # Three ways to take
//!
//! Getting an id from a generator is called *taking* it. There are three ways to take from a [`CachedUidGenerator`]:
//!
//! | form | used by | uids increase | cost of a take |
//! |---|---|---|---|
//! | [`next_uid`](CachedUidGenerator::next_uid) | all threads | over all threads | one atomic addition to a shared counter |
//! | [`per_thread`](CachedUidGenerator::per_thread) | all threads | within each thread | about a fifth of that, and less with more threads: it takes blocks |
//! | [`local`](CachedUidGenerator::local) | one thread, which owns it | within the handle | little more than counting in a register |
//!
//! [`fill`](CachedUidGenerator::fill) takes many at once. If nothing is ready, the [take policy](policy::TakePolicy)
//! decides whether to wait or to fail. `try_next_uid` never waits, and `next_uid_async` waits without blocking its
//! thread, on any runtime.
//!
//! # Promises
//!
//! Uids of one layout do not repeat, even after crashes, pauses, forks, or changes of the clock, as long as worker ids
//! come from a store that keeps what it has committed. If a generator cannot ensure that, takes return an
//! [error](TakeError). No uid is negative or wraps, and no value is truncated to fit its field. By default, a uid's
//! timestamp is at most 1.1 s behind the clock. Callers faster than the layout borrow from the future, without limit
//! unless you lease the worker id or set `max_borrow`.
//!
//! # Features
//!
//! None is on by default. `serde`: uids (as numbers or texts), layouts and stats. `metrics`: stats for the `metrics`
//! facade. `sqlx-0_8`, `sqlx-0_9`, `diesel-2`: [`Uid`] as a `BIGINT` column, with any of their drivers. `jiff-0_2`:
//! [`Timestamp`] to and from jiff's.
//!
//! # Further reading
//!
//! - [Choosing a generator, a layout and worker ids](https://docs.rs/crate/uidring/latest/source/docs/choosing.md)
//! - [Promises, in full](https://docs.rs/crate/uidring/latest/source/docs/promises.md), and
//!   [what checks them](https://docs.rs/crate/uidring/latest/source/docs/verification.md)
//! - [Time: accuracy, borrowing, what clocks do](https://docs.rs/crate/uidring/latest/source/docs/time.md)
//! - [Async: what blocks, and for how long](https://docs.rs/crate/uidring/latest/source/docs/async.md)
//! - [Worker ids and their stores](https://docs.rs/crate/uidring/latest/source/docs/worker-ids.md)
//! - [Operations: metrics, errors, shutting down](https://docs.rs/crate/uidring/latest/source/docs/operations.md), and
//!   [forks and callbacks](https://docs.rs/crate/uidring/latest/source/docs/in-process.md)
//! - [Benchmarks](https://docs.rs/crate/uidring/latest/source/docs/benchmarks.md)
//! - [All pages](https://docs.rs/crate/uidring/latest/source/docs/SUMMARY.md)

#[doc(hidden)]
pub mod adapter;
pub mod clock;
pub mod generator;
#[cfg(feature = "metrics")]
pub mod metrics_facade;
pub mod padding;
pub mod policy;
pub mod ring;
pub mod segment;
#[cfg(feature = "serde")]
pub mod serde_forms;
pub mod worker;

/// What simulations of the generators need beyond the public API. Exempt from semantic versioning.
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod simulation {
    pub use crate::clock::monotonic::ManualMonotonic;
    pub use crate::generator::ELSEWHERE;
    pub use crate::worker::{LeaseAction, RenewRequest, RenewalMachine, Renewer};
}

#[cfg(doctest)]
#[doc = include_str!("../docs/segments.md")]
mod docs_segments {}

#[cfg(doctest)]
#[doc = include_str!("../docs/async.md")]
mod docs_async {}

mod chain;
mod error;
mod future;
mod layout;
mod sync;
mod text;
mod timestamp;
mod uid;
mod unwind_safe;
mod waiting;

pub use crate::error::{Error, FillError, Millis, StoreError, StoreErrorKind, TakeError};
pub use crate::generator::cached::CachedUidGenerator;
pub use crate::generator::clocked::{ClockedUidGenerator, DefaultUidGenerator};
pub use crate::generator::local::LocalGenerator;
pub use crate::generator::per_thread::PerThreadGenerator;
pub use crate::generator::shared_ring::SharedRing;
pub use crate::generator::uid_generator::{AsyncUidGenerator, UidGenerator};
pub use crate::layout::{Bits, Decoded, Fields, Layout, Tick};
pub use crate::segment::generator::SegmentGenerator;
#[cfg(uidring_loom)]
#[doc(hidden)]
pub use crate::sync::become_forked_child;
pub use crate::timestamp::{ParseTimeError, TimeRangeError, Timestamp};
pub use crate::uid::{ParseUidError, Uid, UidRangeError, UidText};
pub use crate::worker::lease::Worker;
pub use crate::worker::source::{WorkerRequest, WorkerSource};
