//! Flags for the layout of uids.

use clap::{Args, ValueEnum};
use uidring::clock::{Clock, SystemClock};
use uidring::generator::SnowflakeNode;
use uidring::{Bits, Layout, Tick, Timestamp};

use super::check;
use crate::failure::Failure;
use crate::report;
use crate::text::thousands;

const SECONDS_PER_YEAR: u64 = 31_557_600;

/// Nobody needs a layout for longer.
const MANY_YEARS: u64 = 1_000;

/// A preset, and what the other flags change of it.
#[derive(Args)]
pub struct LayoutArgs {
    /// A layout by name; without it, uid, or with `generate --generator` that generator's
    #[arg(long, value_enum)]
    preset: Option<Preset>,

    /// Bits of the time, worker and sequence fields, at most 63 together; without it, the preset's
    #[arg(long, value_name = "T/W/S", allow_hyphen_values = true)]
    layout: Option<Bits>,

    /// The unit of the time field; without it, the preset's
    #[arg(long, value_name = "s|ms", allow_hyphen_values = true)]
    tick: Option<Tick>,

    /// The first instant of the time field: a date or an RFC 3339 time, in UTC unless it has an
    /// offset; without it, the preset's
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    epoch: Option<Timestamp>,
}

/// Layouts by name.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// 28/22/13 in seconds since 2026, like Baidu's UidGenerator
    Uid,
    /// 29/21/13 in seconds since 2026
    UidLong,
    /// 41/10/12 in milliseconds since 2010-11-04T01:42:54.657Z, like Twitter's Snowflake: the worker
    /// field consists of a datacenter and a worker
    Snowflake,
    /// The same with one worker field
    Leaf,
    /// 31/10/12 in seconds since 2026: 53 bits
    JavascriptSafe,
}

impl Preset {
    pub fn layout(self) -> Layout {
        match self {
            Self::Uid => Layout::UID_GENERATOR,
            Self::UidLong => Layout::UID_GENERATOR_LONG,
            Self::Snowflake | Self::Leaf => Layout::SNOWFLAKE,
            Self::JavascriptSafe => Layout::JAVASCRIPT_SAFE,
        }
    }
}

/// A layout, and how its uids are shown.
#[derive(Clone, Copy)]
pub struct ResolvedLayout {
    pub layout: Layout,
    /// Whether the worker field is shown as Twitter's datacenter and worker.
    pub has_datacenters: bool,
}

impl ResolvedLayout {
    /// Names a worker, as the layout shows it.
    pub fn worker(&self, worker_id: u64) -> String {
        match SnowflakeNode::from_worker_id(worker_id) {
            Ok(SnowflakeNode { datacenter_id, worker_id }) if self.has_datacenters => {
                format!("datacenter {datacenter_id}, worker {worker_id}")
            }
            _ => format!("worker id {worker_id}"),
        }
    }

    /// Refuses a layout that cannot express the present time.
    pub fn check_now(&self) -> Result<(), Failure> {
        let Self { layout, .. } = self;
        match layout.tick_at(SystemClock.now()) {
            Ok(_) => Ok(()),
            Err(error) => Err(Failure::Failed(format!(
                "layout {layout}: {error}; --tick and --epoch replace those of the preset"
            ))),
        }
    }
}

impl LayoutArgs {
    /// The layout; without --preset it starts from this one. A tick that was hardly meant causes a warning.
    pub fn resolve(&self, default: Preset) -> Result<ResolvedLayout, Failure> {
        let resolved = self.resolve_silently(default)?;
        let layout = resolved.layout;
        let is_by_default = self.layout.is_some() && self.tick.is_none();
        let years = layout.max_tick() / SECONDS_PER_YEAR;
        if is_by_default && layout.tick() == Tick::Second && years > MANY_YEARS {
            report::warning(format_args!(
                "layout {layout} lasts {} years; for ticks of a millisecond, add `--tick ms`; \
                 `--tick s` silences this warning",
                thousands(years)
            ));
        }
        Ok(resolved)
    }

    /// The same without the warning.
    pub fn resolve_silently(&self, default: Preset) -> Result<ResolvedLayout, Failure> {
        let preset = self.preset.unwrap_or(default);
        let base = preset.layout();
        let bits = self.layout.unwrap_or(base.bits());
        let tick = self.tick.unwrap_or(base.tick());
        let layout = Layout::new(bits, tick, self.epoch.unwrap_or(base.epoch()));
        Ok(ResolvedLayout {
            layout: layout.map_err(Failure::usage)?,
            has_datacenters: preset == Preset::Snowflake && bits.worker == base.bits().worker,
        })
    }

    /// The layout; without --preset it starts from `uid`.
    pub fn layout(&self) -> Result<Layout, Failure> {
        Ok(self.resolve(Preset::Uid)?.layout)
    }

    /// Whether a flag is given.
    pub fn is_given(&self) -> bool {
        let Self { preset, layout, tick, epoch } = self;
        preset.is_some() || layout.is_some() || tick.is_some() || epoch.is_some()
    }

    /// Refuses all of the flags.
    pub fn refuse(&self, rule: &str) -> Result<(), Failure> {
        check(&[
            ("--preset", self.preset.is_some(), rule),
            ("--layout", self.layout.is_some(), rule),
            ("--tick", self.tick.is_some(), rule),
            ("--epoch", self.epoch.is_some(), rule),
        ])
    }
}
