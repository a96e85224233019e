//! Flags for the ring of a `CachedUidGenerator`.

use std::time::Duration;

use clap::Args;
use uidring::generator::CachedBuilder;

use super::{check, set};
use crate::failure::Failure;
use uidring_store::values::{CENTURY, number, time};

/// How large the ring is, and how far its uids may be from the clock.
#[derive(Args)]
pub struct RingArgs {
    /// The ring's size: (max sequence + 1) << P uids, P from 1 to 16; without it, 3. For --generator
    /// cached
    #[arg(long, value_name = "P", value_parser = number::<u32>(1..=16), allow_hyphen_values = true)]
    pub boost_power: Option<u32>,

    /// Issue no uid further ahead of the clock than this: when these are used up, wait for the clock.
    /// Without it, a burst borrows the future without limit, in `uidring serve` up to 1h, with --worker
    /// lease up to 10m. For --generator cached
    #[arg(long, value_name = "SECONDS", value_parser = time(Duration::ZERO..=CENTURY),
          allow_hyphen_values = true)]
    pub max_borrow: Option<Duration>,

    /// Issue no uid further behind the clock than this: discard what has been ready for longer;
    /// without it, 1. For --generator cached
    #[arg(long, value_name = "SECONDS", value_parser = time(Duration::ZERO..=CENTURY),
          allow_hyphen_values = true)]
    pub max_lag: Option<Duration>,
}

impl RingArgs {
    /// Refuses all of the flags.
    pub fn refuse(&self, rule: &str) -> Result<(), Failure> {
        check(&[
            ("--boost-power", self.boost_power.is_some(), rule),
            ("--max-borrow", self.max_borrow.is_some(), rule),
            ("--max-lag", self.max_lag.is_some(), rule),
        ])
    }

    /// Sets the options that are given.
    pub fn apply(&self, builder: CachedBuilder) -> CachedBuilder {
        let builder = set(builder, self.boost_power, CachedBuilder::boost_power);
        let builder = set(builder, self.max_borrow, CachedBuilder::max_borrow);
        set(builder, self.max_lag, CachedBuilder::max_lag)
    }
}
