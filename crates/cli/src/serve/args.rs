//! The command line of `uidring serve`.

use std::path::PathBuf;

use clap::{Arg, Args};
use uidring::Uid;

use super::limit_args::{HEADING, LimitArgs, limits_help};
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
    mut_args(with_variable),
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
    #[arg(long, value_name = "WHERE")]
    pub redis: Option<Place>,

    /// Where to listen for HTTP [default: 8080 if free]
    #[arg(long, value_name = "WHERE")]
    pub http: Option<Place>,

    /// Where to listen for Thrift [default: 7609 if free]
    #[arg(long, value_name = "WHERE")]
    pub thrift: Option<Place>,

    /// The Unix socket for batches, or none [default: uidring.sock]
    #[arg(long, value_name = "PATH")]
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

/// Lets an environment variable stand in for a setting of the server. Those of generators are in the URL.
fn with_variable(flag: Arg) -> Arg {
    let is_setting = matches!(flag.get_help_heading(), None | Some(HEADING));
    match flag.get_long() {
        Some(name) if is_setting && name != "check" => {
            let name = name.replace('-', "_").to_uppercase();
            flag.env(format!("UIDRING_SERVE_{name}")).hide_env(true)
        }
        _ => flag,
    }
}
