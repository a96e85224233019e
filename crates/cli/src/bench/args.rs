//! The command line of `uidring bench`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::args::layout::LayoutArgs;
use uidring_store::values::{number, time};

/// Measure what ids cost on this machine
///
/// Takes uids in every form and discards them, interleaved with a bare atomic addition (fetch_add) by
/// the same threads in the same loop: other load on the machine affects all alike, so the ratio says
/// more than either figure. The worker id is always 1: none is spent, and the uids must not be used.
///
/// A bench takes uids faster than the clock allows, so their timestamps run ahead of it. Many minutes, or
/// many cores, can use up those of the default layout: then use --layout 45/5/13/s/1970-01-01.
#[derive(Args)]
#[command(after_help = "\
Examples:
  uidring bench
  uidring bench --threads 4 --pin --seconds 10
  uidring bench --form local,per-thread --json")]
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

    #[command(flatten)]
    pub layout: LayoutArgs,

    /// Pin the threads to cores in turn
    #[arg(long)]
    pub pin: bool,

    /// Print a JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

impl BenchArgs {
    /// Returns the forms to measure, each once, in the order of `Form`.
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

pub fn name(value: Form) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().into())
}
