//! Limits of a server and its clients. These flags are seldom needed, so the help has them in a table.

use std::time::Duration;

use clap::{Arg, Args, Command};
use uidring_store::values::{CENTURY, number, time};

/// The flags of [`LimitArgs`] with their defaults, a line for each.
pub fn limits_help() -> String {
    let command = LimitArgs::augment_args(Command::new("serve"));
    let line = |flag: &Arg| {
        let value = flag.get_value_names().and_then(|names| names.first());
        let value = value.filter(|_| flag.get_action().takes_values());
        let value = value.map_or_else(String::new, |name| format!(" <{name}>"));
        let long = format!("--{}{value}", flag.get_long().unwrap_or_default());
        let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
        let default =
            flag.get_default_values().first().filter(|_| flag.get_action().takes_values());
        let default = default
            .map_or_else(String::new, |default| format!(" [default: {}]", default.display()));
        format!("      {long:<21}  {help}{default}")
    };
    let lines = command.get_arguments().map(line);
    std::iter::once("Limits:".to_owned()).chain(lines).collect::<Vec<_>>().join("\n")
}

/// What a server allows itself and its clients.
#[derive(Args)]
pub struct LimitArgs {
    /// Serve no segments
    #[arg(
        long,
        env = "UIDRING_SERVE_NO_SEGMENTS",
        hide_env = true,
        hide_short_help = true,
        hide_long_help = true
    )]
    pub no_segments: bool,

    /// How long a request may wait for ids
    #[arg(long, value_name = "TIME", default_value = "1s", allow_hyphen_values = true,
          value_parser = time(Duration::ZERO..=CENTURY), env = "UIDRING_SERVE_WAIT",
          hide_env = true, hide_short_help = true, hide_long_help = true)]
    pub wait: Duration,

    /// How long to answer what was asked after SIGTERM
    #[arg(long, value_name = "TIME", default_value = "10s", allow_hyphen_values = true,
          value_parser = time(Duration::ZERO..=CENTURY), env = "UIDRING_SERVE_DRAIN",
          hide_env = true, hide_short_help = true, hide_long_help = true)]
    pub drain: Duration,

    /// How many threads serve [default: half the processors, up to 8]
    #[arg(long, value_name = "N", value_parser = number::<usize>(1..=1_024),
          allow_hyphen_values = true, env = "UIDRING_SERVE_THREADS", hide_env = true,
          hide_short_help = true, hide_long_help = true)]
    pub threads: Option<usize>,

    /// Connections at once; more are refused
    #[arg(long, value_name = "N", default_value = "10000", allow_hyphen_values = true,
          value_parser = number::<usize>(1..=1_000_000), env = "UIDRING_SERVE_MAX_CONNECTIONS",
          hide_env = true, hide_short_help = true, hide_long_help = true)]
    pub max_connections: usize,

    /// Ids in one answer
    #[arg(long, value_name = "N", default_value = "100000", allow_hyphen_values = true,
          value_parser = number::<u64>(1..=1_000_000), env = "UIDRING_SERVE_MAX_BATCH",
          hide_env = true, hide_short_help = true, hide_long_help = true)]
    pub max_batch: u64,

    /// Close connections that are idle for this long
    #[arg(long, value_name = "TIME", default_value = "10m", allow_hyphen_values = true,
          value_parser = time(Duration::from_secs(1)..=CENTURY), env = "UIDRING_SERVE_IDLE",
          hide_env = true, hide_short_help = true, hide_long_help = true)]
    pub idle: Duration,

    /// Close connections that send or receive slower than this
    #[arg(long, value_name = "TIME", default_value = "30s", allow_hyphen_values = true,
          value_parser = time(Duration::from_secs(1)..=CENTURY), env = "UIDRING_SERVE_SLOW",
          hide_env = true, hide_short_help = true, hide_long_help = true)]
    pub slow: Duration,
}
