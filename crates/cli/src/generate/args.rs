//! The command line of `uidring generate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use uidring::Uid;

use crate::args::check;
use crate::args::database::WorkerTableArgs;
use crate::args::layout::LayoutArgs;
use crate::args::registry::{InstanceArgs, RegistryArgs};
use crate::args::values::{CENTURY, number, time};
use crate::failure::Failure;
use crate::lines::{Format, JsonUid};

/// The flags that name where worker ids come from.
const STORES: [&str; 4] = ["sqlite", "mysql", "mysql_url_file", "zookeeper"];

/// Print fresh uids, one per line
///
/// The worker id, which makes this process's uids differ from those of all others, comes from
/// --worker-id, --sqlite, --mysql (--mysql-url-file) or --zookeeper; else from the environment variable
/// UIDRING_WORKER_ID; else from the MySQL database in UIDRING_MYSQL_URL; else from the file
/// uidring/workers.db in your data directory. A table gives every start a worker id of its own, for
/// good, or with --worker lease until the program ends. A file belongs to one host and must be kept: do
/// not copy it to another host, and do not restore an older state of it.
///
/// With --generator segment there is no worker id: the ids continue where the row of --tag in the table
/// leaf_alloc stands. The table is in the database of --sqlite or --mysql (--mysql-url-file), else of
/// UIDRING_MYSQL_URL, else in the file uidring/segments.db. The program reserves as many ids as it
/// prints, a million at a time, but at least the tag's step: with -n 10 and a step of 1000, the other
/// 990 are never issued. Neither is what an interrupted run has reserved.
#[derive(Args)]
#[command(after_help = "\
Examples:
  uidring generate -n 10
  uidring generate -n 3 --format base62
  uidring generate --layout 41/10/12 --tick ms --epoch 2020-01-01 --format json
  uidring generate --sqlite /var/lib/shop/workers.db -n 1000000 > ids.txt
  uidring generate -n 1M --format binary --output ids.bin
  uidring generate --mysql-url-file /run/secrets/mysql-url -n 10
  uidring generate --worker lease --mysql-url-file /run/secrets/mysql-url -n 10
  uidring generate --max-borrow 0 -n 100000
  uidring generate --generator leaf-snowflake --zookeeper zk:2181 --name shop --instance web-0
  uidring generate --generator snowflake --datacenter-id 3 --worker-id 17
  uidring generate --worker-id 5 --start-after 240518209538
  uidring segment create orders --step 1000 --if-not-exists
  uidring generate --generator segment --tag orders -n 10")]
pub struct GenerateArgs {
    /// How many uids to print
    #[arg(short = 'n', long, value_name = "N", default_value = "1", allow_hyphen_values = true,
          value_parser = number::<u64>(0..=u64::MAX))]
    pub count: u64,

    /// The form of the uids
    #[arg(long, value_enum, default_value = "dec")]
    pub format: Format,

    /// How "uid" is printed for --format json; without it, safe
    #[arg(long, value_enum, value_name = "AS")]
    pub json_uid: Option<JsonUid>,

    /// Write the uids into this new file instead of stdout (`-` for stdout); they are on the disk when
    /// the program succeeds. If the disk fills up, the file keeps whole uids, and the program says how
    /// many
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Where the uids come from
    #[arg(long, value_enum, default_value = "cached")]
    pub generator: Generator,

    /// The tag whose ids are wanted, for --generator segment; `uidring segment create` creates it
    #[arg(long, value_name = "T")]
    pub tag: Option<String>,

    #[command(flatten)]
    pub layout: LayoutArgs,

    /// The ring's size: (max sequence + 1) << P uids, P from 0 to 16; without it, 3. For --generator
    /// cached
    #[arg(long, value_name = "P", value_parser = number::<u32>(0..=16), allow_hyphen_values = true)]
    pub boost_power: Option<u32>,

    /// Issue no uid further ahead of the clock than this: when these are used up, wait for the clock.
    /// Without it, a burst borrows the future without limit, with --worker lease up to 600. For
    /// --generator cached
    #[arg(long, value_name = "SECONDS", value_parser = time(Duration::ZERO..=CENTURY),
          allow_hyphen_values = true)]
    pub max_borrow: Option<Duration>,

    /// Issue no uid further behind the clock than this: discard what has been ready for longer;
    /// without it, 1. For --generator cached
    #[arg(long, value_name = "SECONDS", value_parser = time(Duration::ZERO..=CENTURY),
          allow_hyphen_values = true)]
    pub max_lag: Option<Duration>,

    /// A worker id of your choice. It has no memory: a second run within one tick, after a long
    /// borrow, or after the clock was set back, repeats uids unless --start-after is given
    #[arg(long, value_name = "N", conflicts_with_all = STORES, allow_hyphen_values = true,
          value_parser = number::<u64>(0..=u64::MAX))]
    pub worker_id: Option<u64>,

    /// The datacenter, 0 to 31, for --generator snowflake; --worker-id is then the worker in the
    /// datacenter, 0 to 31
    #[arg(long, value_name = "D", requires = "worker_id", allow_hyphen_values = true,
          value_parser = number::<u64>(0..=31))]
    pub datacenter_id: Option<u64>,

    /// Issue only uids above this one: the greatest so far with this worker id of your choice
    #[arg(long, value_name = "UID", conflicts_with_all = STORES, allow_hyphen_values = true)]
    pub start_after: Option<Uid>,

    #[command(flatten)]
    pub lease: LeaseArgs,

    #[command(flatten)]
    pub table: WorkerTableArgs,

    #[command(flatten)]
    pub registry: RegistryArgs,

    #[command(flatten)]
    pub instance: InstanceArgs,
}

impl GenerateArgs {
    /// Refuses the flags for the ring of --generator cached.
    pub fn refuse_ring_flags(&self, rule: &str) -> Result<(), Failure> {
        check(&[
            ("--boost-power", self.boost_power.is_some(), rule),
            ("--max-borrow", self.max_borrow.is_some(), rule),
            ("--max-lag", self.max_lag.is_some(), rule),
        ])
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Generator {
    /// From a ring that a thread keeps filled; borrows the future when callers are faster than the
    /// clock
    Cached,
    /// From the clock, like Baidu's DefaultUidGenerator; waits for the next tick when one is used up
    Clock,
    /// From the clock, like Twitter's Snowflake, with its layout
    Snowflake,
    /// From the clock, like Meituan's Leaf: Snowflake's layout, and each millisecond's sequence starts
    /// at random
    LeafSnowflake,
    /// Dense numbers of a tag (--tag), from ranges that a database reserves; no worker id and no time
    Segment,
}

/// How a table assigns worker ids.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WorkerKind {
    /// A new one for each start, which uses it up
    Disposable,
    /// One that the program holds, renews, and gives back when it ends
    Lease,
}

/// Worker ids that are given back.
#[derive(Args)]
pub struct LeaseArgs {
    /// How a table assigns worker ids; see docs/worker-ids.md before you mix the two
    #[arg(long, value_enum, default_value = "disposable")]
    pub worker: WorkerKind,

    /// How long a lease lasts unless it is renewed, from 1s to 1h; without it, 30s. For --worker lease
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true,
          value_parser = time(Duration::from_secs(1)..=Duration::from_secs(3_600)))]
    pub lease: Option<Duration>,

    /// How long to wait for a worker id when all are held; without it, fail at once. For --worker
    /// lease
    #[arg(long, value_name = "SECONDS", value_parser = time(Duration::ZERO..=CENTURY),
          allow_hyphen_values = true)]
    pub lease_wait: Option<Duration>,
}
