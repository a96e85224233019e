//! The command line of `uidring generate`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use uidring::Uid;

use crate::args::database::WorkerTableArgs;
use crate::args::layout::LayoutArgs;
use crate::args::registry::{InstanceArgs, RegistryArgs};
use crate::args::seconds;
use crate::lines::OutputFormat;

/// The flags that name where worker ids come from.
const STORES: [&str; 4] = ["sqlite", "mysql", "mysql_url_file", "zookeeper"];

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
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub max_borrow: Option<Duration>,

    /// No uid further behind the clock than this: what has stood ready for longer is discarded. 1
    /// if not given. For --generator cached
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
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
    pub table: WorkerTableArgs,

    #[command(flatten)]
    pub registry: RegistryArgs,

    #[command(flatten)]
    pub instance: InstanceArgs,
}

impl GenerateArgs {
    /// The flags for the ring of --generator cached, and whether they are given.
    pub fn ring_flags(&self) -> [(&'static str, bool); 3] {
        [
            ("--boost-power", self.boost_power.is_some()),
            ("--max-borrow", self.max_borrow.is_some()),
            ("--max-lag", self.max_lag.is_some()),
        ]
    }
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

/// How a table hands out worker ids.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WorkerKind {
    /// A new one for each start, used up by it
    Disposable,
    /// One that is held for a while, renewed, and given back at the end
    Lease,
}

/// Worker ids that are given back.
#[derive(Args)]
pub struct LeaseArgs {
    /// How a table hands out worker ids; see docs/worker-ids.md before you mix the two
    #[arg(long, value_enum, default_value = "disposable")]
    pub worker: WorkerKind,

    /// How long a lease lasts unless it is renewed, 1 to 3600; 30 if not given. For --worker lease
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub lease: Option<Duration>,

    /// How long to wait for a worker id when all are held; an error at once if not given. For
    /// --worker lease
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub lease_wait: Option<Duration>,
}
