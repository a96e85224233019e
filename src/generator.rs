//! The generators and their common trait.

mod block_source;
mod builder;
pub(crate) mod cached;
pub(crate) mod clocked;
mod counters;
mod forecast;
mod forward;
pub(crate) mod local;
pub(crate) mod per_thread;
mod position;
#[cfg(not(uidring_loom))]
mod register;
#[cfg(uidring_loom)]
#[path = "generator/register/none.rs"]
mod register;
pub(crate) mod shared_ring;
#[cfg(test)]
mod spread_tests;
mod start;
mod step_back;
#[cfg(all(test, uidring_loom))]
mod task_models;
mod ticks;
pub(crate) mod uid_generator;

pub use self::block_source::BlockSource;
pub use self::builder::GeneratorBuilder;
pub(crate) use self::cached::CachedUidGenerator;
pub use self::cached::{CachedBuilder, CachedOptions, CachedStats, OnClockBack};
pub use self::clocked::{
    ClockPolicy, ClockedBuilder, ClockedOptions, ClockedStats, ClockedUidGenerator,
    DefaultUidGenerator, SequenceStart, SnowflakeNode, SnowflakeParts,
};
pub use self::local::GeneratorRef;
#[cfg(feature = "simulation")]
pub use self::register::ELSEWHERE;
pub(crate) use self::shared_ring::SharedRing;
pub use self::uid_generator::Uids;
pub(crate) use self::uid_generator::{AsyncUidGenerator, UidGenerator};
