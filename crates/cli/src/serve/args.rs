//! The command line of `uidring serve`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use uidring::Uid;

use super::place::{BatchPlace, Place};
use crate::args::options::OptionFlags;
use crate::args::url::UrlArgs;
use uidring_store::values::{CENTURY, number, time};

/// Serve ids to clients of Redis, HTTP, Thrift and a binary batch
///
/// Without flags: on loopback, at the usual port of each protocol, with a worker id from the file
/// uidring/workers.db in your data directory, as `uidring generate`. The name `uid` stands for its uids,
/// and each tag of `uidring segment` for its numbers: `redis-cli incr uid`, `redis-cli incr orders`.
///
/// A file for --config has the flags and the options of the URL as keys, and other names in tables, as at the end of this
/// help. A name starts from the URL and the options above the tables, unless it has a `url` of its own. A flag counts
/// more than its environment variable (UIDRING_SERVE_REDIS for --redis), and that more than the file. SIGTERM and Ctrl-C end
/// the server: it answers what was asked, gives leases back, and ends within --drain. SIGHUP has it read
/// the password, certificate and key again.
#[derive(Args)]
#[command(after_help = "\
Examples:
  uidring serve --check
  uidring serve --redis 6380 --http none --thrift none --batch none --check
  uidring serve --worker lease --url-file /run/secrets/mysql-url --check

A file for --config:
  http = \"0.0.0.0:8080\"
  expose = true

  [names.browser]
  layout = \"javascript-safe\"
  worker = \"lease\"")]
pub struct ServeArgs {
    /// A file of settings in TOML
    #[arg(long, value_name = "FILE", env = "UIDRING_SERVE_CONFIG", hide_env = true)]
    pub config: Option<PathBuf>,

    /// Check the settings, and listen nowhere
    ///
    /// It also checks what a start would fail on, asks no database server, and changes nothing.
    #[arg(long)]
    pub check: bool,

    /// Where to listen for clients of Redis
    ///
    /// ADDRESS:PORT, a port on loopback, or none. Without it: 127.0.0.1:6379, unless that is taken.
    #[arg(long, value_name = "WHERE", env = "UIDRING_SERVE_REDIS", hide_env = true)]
    pub redis: Option<Place>,

    /// Where to listen for HTTP
    ///
    /// Without it: 127.0.0.1:8080, unless that is taken.
    #[arg(long, value_name = "WHERE", env = "UIDRING_SERVE_HTTP", hide_env = true)]
    pub http: Option<Place>,

    /// Where to listen for Thrift
    ///
    /// Without it: 127.0.0.1:7609, unless that is taken.
    #[arg(long, value_name = "WHERE", env = "UIDRING_SERVE_THRIFT", hide_env = true)]
    pub thrift: Option<Place>,

    /// The Unix socket for binary batches, or none
    ///
    /// Without it: uidring.sock in XDG_RUNTIME_DIR, or else uidring/uidring.sock in your data directory, unless that is
    /// taken.
    #[arg(long, value_name = "PATH", env = "UIDRING_SERVE_BATCH", hide_env = true)]
    pub batch: Option<BatchPlace>,

    /// Allow addresses that other hosts can reach
    #[arg(long, env = "UIDRING_SERVE_EXPOSE", hide_env = true)]
    pub expose: bool,

    /// A file whose first line is the password of clients
    ///
    /// It is the password of Redis's AUTH, and the bearer token of HTTP. Thrift has no passwords, and is not served then.
    #[arg(long, value_name = "FILE", env = "UIDRING_SERVE_PASSWORD_FILE", hide_env = true)]
    pub password_file: Option<PathBuf>,

    /// The server's certificate, in PEM: then TCP ports speak TLS
    ///
    /// Those that sign it may follow in the file.
    #[arg(long, value_name = "FILE", env = "UIDRING_SERVE_TLS_CERT", hide_env = true)]
    pub tls_cert: Option<PathBuf>,

    /// The certificate's private key, in PEM
    #[arg(long, value_name = "FILE", env = "UIDRING_SERVE_TLS_KEY", hide_env = true)]
    pub tls_key: Option<PathBuf>,

    /// Serve no segments
    #[arg(long, env = "UIDRING_SERVE_NO_SEGMENTS", hide_env = true)]
    pub no_segments: bool,

    /// How long a request may wait for ids
    ///
    /// It may wait for a lease, a segment, or the clock at --max-borrow.
    #[arg(long, value_name = "SECONDS", default_value = "1s", allow_hyphen_values = true,
          value_parser = time(Duration::ZERO..=CENTURY), env = "UIDRING_SERVE_WAIT",
          hide_env = true)]
    pub wait: Duration,

    /// How long to answer what was asked after SIGTERM
    #[arg(long, value_name = "SECONDS", default_value = "10s", allow_hyphen_values = true,
          value_parser = time(Duration::ZERO..=CENTURY), env = "UIDRING_SERVE_DRAIN",
          hide_env = true)]
    pub drain: Duration,

    /// How many threads serve
    ///
    /// Without it: one for each two processors, up to 8.
    #[arg(long, value_name = "N", value_parser = number::<usize>(1..=1_024),
          allow_hyphen_values = true, env = "UIDRING_SERVE_THREADS", hide_env = true)]
    pub threads: Option<usize>,

    /// Connections at once; more are refused
    #[arg(long, value_name = "N", default_value = "10000", allow_hyphen_values = true,
          value_parser = number::<usize>(1..=1_000_000), env = "UIDRING_SERVE_MAX_CONNECTIONS",
          hide_env = true)]
    pub max_connections: usize,

    /// Ids in one answer
    #[arg(long, value_name = "N", default_value = "100000", allow_hyphen_values = true,
          value_parser = number::<u64>(1..=1_000_000), env = "UIDRING_SERVE_MAX_BATCH",
          hide_env = true)]
    pub max_batch: u64,

    /// Close connections that are idle for this long
    #[arg(long, value_name = "SECONDS", default_value = "10m", allow_hyphen_values = true,
          value_parser = time(Duration::from_secs(1)..=CENTURY), env = "UIDRING_SERVE_IDLE",
          hide_env = true)]
    pub idle: Duration,

    /// Close connections that send or receive slower than this
    ///
    /// It is the time for a request, once begun, and for an answer.
    #[arg(long, value_name = "SECONDS", default_value = "30s", allow_hyphen_values = true,
          value_parser = time(Duration::from_secs(1)..=CENTURY), env = "UIDRING_SERVE_SLOW",
          hide_env = true)]
    pub slow: Duration,

    #[command(flatten, next_help_heading = "Where ids come from")]
    pub url: UrlArgs,

    #[command(flatten, next_help_heading = "Generator")]
    pub options: OptionFlags<false>,

    /// Issue only uids above this one
    ///
    /// For worker:N, which has no memory: the greatest uid so far with the worker id.
    #[arg(long, value_name = "UID", allow_hyphen_values = true)]
    pub start_after: Option<Uid>,
}
