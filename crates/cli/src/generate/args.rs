//! The command line of `uidring generate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::layout::LayoutArgs;
use crate::args::ring::RingArgs;
use crate::args::worker::WorkerArgs;
use crate::lines::Format;
use uidring_store::values::number;

/// Print fresh uids, one per line
///
/// The worker id, which makes this process's uids differ from those of all others, comes from
/// --worker-id, --sqlite, --mysql (--mysql-url-file), --postgres (--postgres-url-file), --etcd or --zookeeper;
/// else from the environment variable UIDRING_WORKER_ID; else from the database in UIDRING_MYSQL_URL or
/// UIDRING_POSTGRES_URL; else from the etcd cluster in UIDRING_ETCD; else from the file uidring/workers.db in your
/// data directory. A table gives every start a worker id of its own, for
/// good, or with --worker lease until the program ends. A file belongs to one host and must be kept: do
/// not copy it to another host, and do not restore an older state of it.
///
/// With --generator segment there is no worker id: the ids continue where the row of --tag in the table
/// leaf_alloc stands. The table is in the database of --sqlite, --mysql (--mysql-url-file) or
/// --postgres (--postgres-url-file), else of UIDRING_MYSQL_URL or UIDRING_POSTGRES_URL, else in the file
/// uidring/segments.db. The program reserves as many ids as it
/// prints, a million at a time, but at least the tag's step: with -n 10 and a step of 1000, the other
/// 990 are never issued. Neither is what an interrupted run has reserved.
#[derive(Args)]
#[command(after_help = "\
Examples:
  uidring generate -n 10
  uidring generate -n 3 --format base62
  uidring generate --layout 41/10/12 --tick ms --epoch 2020-01-01 --format json
  uidring worker init --sqlite /var/lib/shop/workers.db
  uidring generate --sqlite /var/lib/shop/workers.db -n 1000000 > ids.txt
  uidring generate -n 1M --format binary --output ids.bin
  uidring generate --mysql-url-file /run/secrets/mysql-url -n 10
  uidring generate --worker lease --mysql-url-file /run/secrets/mysql-url -n 10
  uidring generate --worker lease --postgres-url-file /run/secrets/postgres-url -n 10
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

    #[command(flatten)]
    pub ring: RingArgs,

    #[command(flatten)]
    pub worker: WorkerArgs,
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
