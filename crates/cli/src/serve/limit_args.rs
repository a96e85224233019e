//! Limits of a server and its clients. These flags are seldom needed, so the help has them in a table.

use std::time::Duration;

use clap::{Arg, Args, Command};
use uidring_store::values::{CENTURY, number, time};

/// The heading of these flags, which no other flag has.
pub const HEADING: &str = "Limits";

/// The flags of [`LimitArgs`] with their defaults, a line for each.
pub fn limits_help() -> String {
    let command = Command::new("limits").next_help_heading(HEADING).disable_help_flag(true);
    let shown = LimitArgs::augment_args(command).mut_args(|flag| flag.hide_short_help(false));
    let help = shown.help_template("{all-args}").term_width(0).render_help();
    help.to_string().trim_end().to_owned()
}

/// Leaves a limit out of the lists of flags.
fn in_table(flag: Arg) -> Arg {
    match flag.get_help_heading() {
        Some(HEADING) => flag.hide_short_help(true).hide_long_help(true),
        _ => flag,
    }
}

/// What a server allows itself and its clients.
#[derive(Args)]
#[command(mut_args(in_table))]
pub struct LimitArgs {
    /// Serve no segments
    #[arg(long)]
    pub no_segments: bool,

    /// How long a request may wait for ids
    #[arg(long, value_name = "TIME", default_value = "1s", allow_hyphen_values = true,
          value_parser = time(Duration::ZERO..=CENTURY))]
    pub wait: Duration,

    /// How long to answer what was asked after SIGTERM
    #[arg(long, value_name = "TIME", default_value = "10s", allow_hyphen_values = true,
          value_parser = time(Duration::ZERO..=CENTURY))]
    pub drain: Duration,

    /// How many threads serve [default: half the processors, up to 8]
    #[arg(long, value_name = "N", value_parser = number::<usize>(1..=1_024),
          allow_hyphen_values = true)]
    pub threads: Option<usize>,

    /// Connections at once; more are refused
    #[arg(long, value_name = "N", default_value = "10000", allow_hyphen_values = true,
          value_parser = number::<usize>(1..=1_000_000))]
    pub max_connections: usize,

    /// Ids in one answer
    #[arg(long, value_name = "N", default_value = "100000", allow_hyphen_values = true,
          value_parser = number::<u64>(1..=1_000_000))]
    pub max_batch: u64,

    /// Close connections that are idle for this long
    #[arg(long, value_name = "TIME", default_value = "10m", allow_hyphen_values = true,
          value_parser = time(Duration::from_secs(1)..=CENTURY))]
    pub idle: Duration,

    /// Close connections that send or receive slower than this
    #[arg(long, value_name = "TIME", default_value = "30s", allow_hyphen_values = true,
          value_parser = time(Duration::from_secs(1)..=CENTURY))]
    pub slow: Duration,
}
