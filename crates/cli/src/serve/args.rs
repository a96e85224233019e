//! The command line of `uidring serve`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Args, Command};
use uidring::Uid;
use uidring_store::values::{CENTURY, number, time};

use super::place::{BatchPlace, Place};
use crate::args::options::OptionFlags;
use crate::args::url::UrlArgs;

const EXAMPLES: &str = "\
Examples:
  uidring serve --check
  uidring serve --redis 6380 --http none --thrift none --batch none --check
  uidring serve --worker lease --url-file /run/secrets/mysql-url --check";

const FILE: &str = "\
A file for --config:
  http = \"0.0.0.0:8080\"
  expose = true

  [names.browser]
  layout = \"javascript-safe\"
  worker = \"lease\"";

/// The heading of [`LimitArgs`], which no other flag has.
const HEADING: &str = "Limits";

/// Serve ids to clients of Redis, HTTP, Thrift and a binary batch
///
/// It listens on loopback. The name `uid` stands for the uids of the URL, and each tag of `uidring segment` for its numbers:
/// `redis-cli incr uid`, `redis-cli incr orders`.
///
/// The file of --config has flags and options of the URL as keys. A table [names.NAME] is a further name, which starts from
/// the URL and the options above all tables, unless it has a `url` of its own. A flag comes before its environment variable
/// (UIDRING_SERVE_REDIS for --redis), and that before the file. SIGTERM ends the server, SIGHUP makes it read the password,
/// the certificate and the key again.
#[derive(Args)]
#[command(
    mut_args(adjusted),
    after_help = EXAMPLES,
    after_long_help = format!("{}\n\n{EXAMPLES}\n\n{FILE}", limits_help())
)]
pub struct ServeArgs {
    /// A file of settings in TOML
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Check the settings and files, listen nowhere, and ask no server
    #[arg(long)]
    pub check: bool,

    /// Where to listen for Redis: [ADDRESS:]PORT or none [default: 6379 if free]
    #[arg(long, value_name = "WHERE", value_parser = Place::read)]
    pub redis: Option<Place>,

    /// Where to listen for HTTP [default: 8080 if free]
    #[arg(long, value_name = "WHERE", value_parser = Place::read)]
    pub http: Option<Place>,

    /// Where to listen for Thrift [default: 7609 if free]
    #[arg(long, value_name = "WHERE", value_parser = Place::read)]
    pub thrift: Option<Place>,

    /// The Unix socket for batches, or none [default: uidring.sock]
    #[arg(long, value_name = "PATH", value_parser = BatchPlace::read)]
    pub batch: Option<BatchPlace>,

    /// Allow addresses that other hosts can reach
    #[arg(long)]
    pub expose: bool,

    /// A file with the password of clients: Redis's AUTH, HTTP's bearer token
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,

    /// The server's certificate chain (PEM): TCP ports then speak TLS
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    #[command(flatten, next_help_heading = HEADING)]
    pub limits: LimitArgs,

    #[command(flatten, next_help_heading = "Where ids come from")]
    pub url: UrlArgs,

    #[command(flatten, next_help_heading = "Generator")]
    pub options: OptionFlags<false>,

    /// Issue only uids above this one, for worker:N, which has no memory
    #[arg(long, value_name = "UID", allow_hyphen_values = true)]
    pub start_after: Option<Uid>,
}

/// What a server allows itself and its clients. These flags are seldom needed, so the help has them in a table.
#[derive(Args)]
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

/// Gives each setting of the server an environment variable; settings of generators are in the URL. Hides the limits,
/// which the help lists in a table.
fn adjusted(flag: Arg) -> Arg {
    let heading = flag.get_help_heading();
    let is_limit = heading == Some(HEADING);
    let is_setting = |name: &&str| (is_limit || heading.is_none()) && *name != "check";
    let Some(name) = flag.get_long().filter(is_setting) else { return flag };
    let variable = format!("UIDRING_SERVE_{}", name.replace('-', "_").to_uppercase());
    flag.env(variable).hide_env(true).hide_short_help(is_limit).hide_long_help(is_limit)
}

/// The flags of [`LimitArgs`] with their defaults, a line for each.
fn limits_help() -> String {
    let command = Command::new("limits").next_help_heading(HEADING).disable_help_flag(true);
    let mut command = LimitArgs::augment_args(command).help_template("{all-args}").term_width(0);
    command.render_help().to_string().trim_end().to_owned()
}
