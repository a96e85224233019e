//! The command line of `uidring generate`.

use std::path::PathBuf;

use clap::Args;
use uidring::Uid;
use uidring_store::values::number;

use crate::args::options::OptionFlags;
use crate::args::url::UrlArgs;
use crate::lines::Format;

/// Print fresh ids, one per line
///
/// Ids of different runs, processes and hosts differ because each generator has a worker id of its own. The store at the
/// URL hands them out; by default that is the file uidring/workers.db in your data directory. A layout with fewer than
/// 100,000 worker ids leases them, and gives them back; with more, each start uses one up. A file belongs to one host: do
/// not copy it to another, and do not restore an older state of it.
///
/// With --tag, the ids are the dense numbers of a tag that `uidring segment create` has created. The program reserves as
/// many as it prints, a million at a time, but at least the tag's step: with -n 10 and a step of 1000, the other 990 are
/// never issued. Neither is what an interrupted run has reserved.
#[derive(Args)]
#[command(after_help = "\
Examples:
  uidring generate -n 10 --format base62
  uidring generate -u 'sqlite:/var/lib/shop/workers.db?mode=rwc' -n 1M > ids.txt
  uidring generate --url-file /run/secrets/postgres-url --worker lease --layout snowflake")]
pub struct GenerateArgs {
    /// How many ids to print
    #[arg(short = 'n', long, value_name = "N", default_value = "1", allow_hyphen_values = true,
          value_parser = number::<u64>(0..=u64::MAX))]
    pub count: u64,

    /// The form of the ids
    #[arg(long, value_enum, default_value = "dec")]
    pub format: Format,

    /// Write the ids into this new file instead of stdout (`-` for stdout)
    ///
    /// They are on the disk when the program succeeds. If the disk fills up, the file keeps whole ids, and the program
    /// says how many.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    #[command(flatten, next_help_heading = "Where ids come from")]
    pub url: UrlArgs,

    #[command(flatten, next_help_heading = "Generator")]
    pub options: OptionFlags<true>,

    /// Issue only uids above this one
    ///
    /// For worker:N, which has no memory: the greatest uid so far with the worker id.
    #[arg(long, value_name = "UID", allow_hyphen_values = true)]
    pub start_after: Option<Uid>,
}
