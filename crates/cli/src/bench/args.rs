//! The command line of `uidring bench`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use uidring::padding::PadderCore;

use crate::args::layout::LayoutArgs;
use crate::args::values::{number, time};

/// Measure what ids cost on this machine
///
/// Takes uids in every form and discards them, interleaved with a bare atomic addition (fetch_add) by
/// the same threads in the same loop: other load on the machine affects all alike, so the ratio says
/// more than either figure. The worker id is always 1: none is spent, and the uids must not be used.
///
/// A bench takes uids faster than the clock allows, so their timestamps run ahead of it. Many minutes, or
/// many cores, can use up those of the default layout: then use --layout 45/5/13 --epoch 1970-01-01.
#[derive(Args)]
#[command(after_help = "\
Examples:
  uidring bench
  uidring bench --threads 4 --pin --seconds 10
  uidring bench --form local,per-thread --json
  uidring bench --threads 2 --svg cost.svg")]
pub struct BenchArgs {
    /// How many threads take uids; hundreds of them need longer than --seconds
    #[arg(long, value_name = "N", default_value = "1", value_parser = number::<u16>(1..=1_024),
          allow_hyphen_values = true)]
    pub threads: u16,

    /// About how long to measure in all, from 1ms to 1h
    #[arg(long, value_name = "S", default_value = "5", allow_hyphen_values = true,
          value_parser = time(Duration::from_millis(1)..=Duration::from_secs(3_600)))]
    pub seconds: Duration,

    /// How the uids are taken: one form, or several with commas [default: all]
    #[arg(long, value_enum, value_name = "FORM", value_delimiter = ',', hide_default_value = true,
          default_values_t = Form::value_variants().iter().copied())]
    pub form: Vec<Form>,

    /// What a take does when nothing is ready
    #[arg(long, value_enum, default_value = "wait")]
    pub policy: Policy,

    #[command(flatten)]
    pub layout: LayoutArgs,

    /// The ring's size: (max sequence + 1) << P uids, P from 1 to 16
    #[arg(long, value_name = "P", default_value = "3", value_parser = number::<u32>(1..=16),
          allow_hyphen_values = true)]
    pub boost_power: u32,

    /// Pin the threads to cores in turn
    #[arg(long)]
    pub pin: bool,

    /// Let the padder poll the ring all the time instead of sleeping: it uses a whole core
    #[arg(long)]
    pub busy_poll: bool,

    /// The core that the padder is pinned to: the last one, none, or a number
    #[arg(long, value_name = "last|none|N", default_value = "last")]
    pub padder_core: Core,

    /// Print a JSON object instead of a table
    #[arg(long)]
    pub json: bool,

    /// Draw the latencies, and the throughput by 1, 2, 4 and more threads, into this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

impl BenchArgs {
    /// The forms to be measured, each once, in their own order.
    pub fn forms(&self) -> impl Iterator<Item = Form> {
        Form::value_variants().iter().copied().filter(|form| self.form.contains(form))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// One at a time from one generator that all threads share
    Shared,
    /// One at a time from one PerThreadGenerator that all threads share, in which each thread counts
    /// through leases of 255
    PerThread,
    /// One at a time from a LocalGenerator in each thread, which counts through leases of 255
    Local,
    /// 4096 at a time from one generator that all threads share
    Fill,
}

/// The name of a form or a policy, as on the command line.
pub fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().into())
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Policy {
    /// Wait until something is ready
    Wait,
    /// Give up at once, and count these calls
    Reject,
}

/// The padder's core, and how it is written.
#[derive(Clone)]
pub struct Core {
    pub core: PadderCore,
    pub text: String,
}

impl FromStr for Core {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let core = match text {
            "last" => PadderCore::Last,
            "none" => PadderCore::Unpinned,
            number => PadderCore::Id(number.parse().map_err(|_| "write last, none or a number")?),
        };
        Ok(Self { core, text: text.into() })
    }
}
