//! The words of the command line.

mod worker;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use uidring::{Bits, Layout, Tick, Timestamp, Uid};

pub use self::worker::{LeaseArgs, WorkerArgs, WorkerCommand, WorkerKind};
use super::Failure;
use super::registry::{InstanceArgs, RegistryArgs};
use super::segment::SegmentArgs;

/// Unique, roughly time-ordered 64-bit ids
#[derive(Parser)]
#[command(name = "uidring", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Generate(Box<GenerateArgs>),
    Parse(ParseArgs),
    Plan(PlanArgs),
    Worker(WorkerArgs),
    Segment(SegmentArgs),
    #[cfg(feature = "bench")]
    Bench(super::bench::BenchArgs),
    /// Measure what ids cost on this machine (not in this build: it needs the feature `bench`)
    // Whatever is asked of it, help included, the answer is how to get it.
    #[cfg(not(feature = "bench"))]
    #[command(disable_help_flag = true)]
    Bench {
        #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<std::ffi::OsString>,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// How uids are made up: a preset, of which the other flags change parts.
#[derive(Args)]
pub struct LayoutArgs {
    /// A layout by name; uid if not given, or the one of the generator
    #[arg(long, value_enum)]
    preset: Option<Preset>,

    /// Bits of the time, worker and sequence fields, at most 63 together; the preset's if not given
    #[arg(long, value_name = "T/W/S")]
    layout: Option<Bits>,

    /// The unit of the time field; the preset's if not given
    #[arg(long, value_name = "s|ms")]
    tick: Option<Tick>,

    /// The first instant of the time field: a date, or RFC 3339; UTC without an offset; the
    /// preset's if not given
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    epoch: Option<Timestamp>,
}

/// Layouts by name.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// 28/22/13 in seconds since 2026, after Baidu's UidGenerator
    Uid,
    /// 29/21/13 in seconds since 2026
    UidLong,
    /// 41/10/12 in milliseconds since 2010-11-04T01:42:54.657Z, the worker field parted into
    /// datacenter and worker
    Snowflake,
    /// The same with one worker field
    Leaf,
    /// 31/10/12 in seconds since 2026: 53 bits
    JavascriptSafe,
}

impl LayoutArgs {
    pub fn layout(&self) -> Result<Layout, Failure> {
        self.layout_or(Preset::Uid)
    }

    /// The layout, of this preset if the flags name none.
    pub fn layout_or(&self, preset: Preset) -> Result<Layout, Failure> {
        let base = match self.preset.unwrap_or(preset) {
            Preset::Uid => Layout::UID_GENERATOR,
            Preset::UidLong => Layout::UID_GENERATOR_LONG,
            Preset::Snowflake | Preset::Leaf => Layout::SNOWFLAKE,
            Preset::JavascriptSafe => Layout::JAVASCRIPT_SAFE,
        };
        let bits = self.layout.unwrap_or(base.bits());
        let tick = self.tick.unwrap_or(base.tick());
        Layout::new(bits, tick, self.epoch.unwrap_or(base.epoch())).map_err(Failure::usage)
    }

    /// One of the flags that are given, if any is.
    pub fn given(&self) -> Option<&'static str> {
        match () {
            () if self.preset.is_some() => Some("--preset"),
            () if self.layout.is_some() => Some("--layout"),
            () if self.tick.is_some() => Some("--tick"),
            () if self.epoch.is_some() => Some("--epoch"),
            () => None,
        }
    }

    /// Whether the worker field has Twitter's two parts.
    pub fn has_datacenters(&self, preset: Preset) -> bool {
        self.preset.unwrap_or(preset) == Preset::Snowflake
            && self.layout.is_none_or(|bits| bits.worker == Layout::SNOWFLAKE.bits().worker)
    }
}

pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().map(Duration::try_from_secs_f64);
    seconds.and_then(Result::ok).ok_or_else(|| "write seconds from 0, such as 2 or 0.5".into())
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Generator {
    /// From a ring that a thread keeps filled; borrows the future when callers are faster than
    /// the clock
    Cached,
    /// From the clock, after Baidu's DefaultUidGenerator; waits for the next tick when one is used up
    Clock,
    /// From the clock, after Twitter's Snowflake, with its layout
    Snowflake,
    /// From the clock, after Meituan's Leaf: Snowflake's layout, the sequence of a millisecond starts
    /// at random
    LeafSnowflake,
    /// Dense numbers of a tag (--tag), from ranges that a database reserves; no worker id, no time
    Segment,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Decimal digits
    Dec,
    /// 0x and 16 hex digits
    Hex,
    /// 11 characters that sort like the numbers
    Base62,
    /// 13 characters (Crockford) that sort like the numbers
    Base32,
    /// What `uidring parse` prints
    Json,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum InputFormat {
    /// Decimal digits, or hex after 0x
    Dec,
    /// Hex digits, with or without 0x
    Hex,
    /// 0-9, A-Z, a-z
    Base62,
    /// Crockford's digits, in either case
    Base32,
}

/// The flags that name where worker ids come from.
const STORES: [&str; 4] = ["sqlite", "mysql", "mysql_url_file", "zookeeper"];

/// Where a table is.
#[derive(Args)]
pub struct PlaceArgs {
    /// The SQLite file that holds the table
    #[arg(long, value_name = "PATH", conflicts_with_all = ["mysql", "mysql_url_file"])]
    pub sqlite: Option<PathBuf>,

    /// The MySQL or MariaDB database that holds the table:
    /// mysql://USER:PASSWORD@HOST:PORT/DATABASE. Other users of this machine can see it in the list
    /// of processes: rather use --mysql-url-file, or the environment variable UIDRING_MYSQL_URL
    #[arg(long, value_name = "URL", conflicts_with = "mysql_url_file")]
    pub mysql: Option<String>,

    /// A file whose first line is such a URL
    #[arg(long, value_name = "PATH")]
    pub mysql_url_file: Option<PathBuf>,

    /// Demand TLS of the MySQL server, with a certificate signed by an authority of this PEM file
    #[arg(long, value_name = "PATH")]
    pub mysql_ca: Option<PathBuf>,

    /// Refuse a MySQL server whose settings may lose what it has confirmed in a crash of its machine,
    /// rather than warn: sync_binlog, innodb_flush_log_at_trx_commit, a table's engine
    #[arg(long)]
    pub mysql_require_durability: bool,

    /// Several MySQL servers stand behind the address, none of which confirms a commit that the others
    /// may not have, as in a Galera cluster: a change from one to another is no failover
    #[arg(long)]
    pub mysql_cluster: bool,

    /// How long to try to reach the MySQL server
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub mysql_deadline: u64,
}

/// A table of worker ids.
#[derive(Args)]
pub struct TableArgs {
    #[command(flatten)]
    pub place: PlaceArgs,

    /// Refuse a worker id if the MySQL server's clock and this host's are further apart; with
    /// --zookeeper, this host's and the median of the running instances'
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub max_clock_difference: Option<Duration>,
}

/// Print fresh uids, one a line
///
/// The worker id, which makes this process's uids differ from those of all others, comes from
/// --worker-id, --sqlite, --mysql (--mysql-url-file) or --zookeeper; else from the environment variable
/// UIDRING_WORKER_ID; else from the MySQL database in UIDRING_MYSQL_URL; else from the file
/// uidring/workers.db in your data directory. From a table every start gets a worker id of its own,
/// for good, or with --worker lease until it ends. A file is unique to one host and must be kept: do
/// not copy it to another host, and do not put back an older state of it.
///
/// With --generator segment there is no worker id: the ids of --tag count on where its row in the
/// table leaf_alloc stands. The table is the one of --sqlite or --mysql (--mysql-url-file), else of
/// UIDRING_MYSQL_URL, else the file uidring/segments.db. As many ids are reserved as are wanted, a
/// million at a time, but at least the tag's step: of -n 10 with a step of 1000 the other 990 are never
/// issued, nor is what an interrupted run has reserved.
#[derive(Args)]
#[command(after_help = "\
Examples:
  uidring generate -n 10
  uidring generate -n 3 --format base62
  uidring generate --layout 41/10/12 --tick ms --epoch 2020-01-01 --format json
  uidring generate --sqlite /var/lib/shop/workers.db -n 1000000 > ids.txt
  uidring generate --mysql-url-file /run/secrets/mysql-url -n 10
  uidring generate --worker lease --mysql-url-file /run/secrets/mysql-url -n 10
  uidring generate --max-borrow 0 -n 100000
  uidring generate --generator leaf-snowflake --zookeeper zk:2181 --name shop --instance web-0
  uidring generate --generator snowflake --datacenter-id 3 --worker-id 17
  uidring generate --worker-id 5 --start-after 240518193154
  uidring generate --generator segment --tag orders -n 10")]
pub struct GenerateArgs {
    /// How many uids
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1)]
    pub count: u64,

    /// The text form of the uids
    #[arg(long, value_enum, default_value = "dec")]
    pub format: OutputFormat,

    /// Where the uids come from
    #[arg(long, value_enum, default_value = "cached")]
    pub generator: Generator,

    /// The tag whose ids are wanted, for --generator segment; `uidring segment create` makes it
    #[arg(long, value_name = "T")]
    pub tag: Option<String>,

    #[command(flatten)]
    pub layout: LayoutArgs,

    /// The ring's size: (max sequence + 1) << P uids, P from 0 to 16; 3 if not given
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u32).range(0..=16))]
    pub boost_power: Option<u32>,

    /// No uid further ahead of the clock than this: when these are used up, the next ones wait for
    /// the clock. Without it a burst borrows the future without end, with --worker lease for 600. For
    /// --generator cached
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub max_borrow: Option<Duration>,

    /// No uid further behind the clock than this: what has stood ready for longer is discarded. 1
    /// if not given. For --generator cached
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub max_lag: Option<Duration>,

    /// A worker id of your choice. It has no memory: a second run within one tick, after a long
    /// borrow, or after the clock was set back, repeats uids unless --start-after is given
    #[arg(long, value_name = "N", conflicts_with_all = STORES)]
    pub worker_id: Option<u64>,

    /// The datacenter, 0 to 31, for --generator snowflake; --worker-id is then the worker in it, 0
    /// to 31
    #[arg(long, value_name = "D", requires = "worker_id")]
    pub datacenter_id: Option<u64>,

    /// Go on above this uid, the greatest that was printed before with this worker id of your
    /// choice
    #[arg(long, value_name = "UID", conflicts_with_all = STORES)]
    pub start_after: Option<Uid>,

    #[command(flatten)]
    pub lease: LeaseArgs,

    #[command(flatten)]
    pub table: TableArgs,

    #[command(flatten)]
    pub registry: RegistryArgs,

    #[command(flatten)]
    pub instance: InstanceArgs,
}

impl GenerateArgs {
    /// One of the flags for rings that is given, if any is.
    pub fn given_for_rings(&self) -> Option<&'static str> {
        match () {
            () if self.boost_power.is_some() => Some("--boost-power"),
            () if self.max_borrow.is_some() => Some("--max-borrow"),
            () if self.max_lag.is_some() => Some("--max-lag"),
            () => None,
        }
    }
}

/// Read uids and print their fields, a JSON object a line
///
/// "uid" is null above 2^53, which JavaScript's numbers would round; "uid_str" always holds it.
/// What is no uid is reported on stderr with its number; the rest still comes, and the status
/// is 1.
#[derive(Args)]
#[command(after_help = "\
Examples:
  uidring parse 240518193154
  uidring generate -n 3 --format base62 | uidring parse --format base62
  uidring parse --preset snowflake --epoch 2020-07-31T16:00:00Z 3125927076831231")]
pub struct ParseArgs {
    #[command(flatten)]
    pub layout: LayoutArgs,

    /// The text form of the uids
    #[arg(long, value_enum, default_value = "dec")]
    pub format: InputFormat,

    /// The uids; from stdin, one a line, for `-` or none
    #[arg(value_name = "ID", allow_negative_numbers = true)]
    pub ids: Vec<String>,
}

/// Tell what a layout can do, before you use it
///
/// With --sqlite, --mysql or --mysql-url-file also how many of its worker ids have been used up, and
/// when they run out.
#[derive(Args)]
#[command(after_help = "\
Examples:
  uidring plan
  uidring plan --layout 31/10/12 --rate 50000
  uidring plan --layout 41/10/12 --tick ms --epoch 2020-01-01 --json
  uidring plan --mysql-url-file /run/secrets/mysql-url")]
pub struct PlanArgs {
    #[command(flatten)]
    pub layout: LayoutArgs,

    /// The ring's size: (max sequence + 1) << P uids, P from 0 to 16
    #[arg(long, value_name = "P", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(0..=16))]
    pub boost_power: u32,

    /// Uids a second of one worker in a burst
    #[arg(long, value_name = "R", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub rate: u64,

    /// A JSON object instead of a table
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub table: TableArgs,
}
