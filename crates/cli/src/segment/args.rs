//! The words of `uidring segment`.

use clap::{Args, Subcommand};

use crate::args::PlaceArgs;

/// Look after the tags of segments
///
/// A tag is a row of a table leaf_alloc, from which `uidring generate --generator segment` and
/// SegmentGenerator load ranges of ids. The table is the one of --sqlite or --mysql
/// (--mysql-url-file), else of the environment variable UIDRING_MYSQL_URL, else the file
/// uidring/segments.db in your data directory.
#[derive(Args)]
#[command(arg_required_else_help = true)]
pub struct SegmentArgs {
    #[command(subcommand)]
    pub command: SegmentCommand,
}

#[derive(Subcommand)]
pub enum SegmentCommand {
    /// Add a tag; makes the table, unless it is there
    #[command(after_help = "\
Examples:
  uidring segment create orders --step 1000
  uidring segment create invoices --step 100 --start 50000 --description 'numbers of invoices'
  uidring segment create orders --step 10000 --mysql-url-file /run/secrets/mysql-url")]
    Create {
        /// Its name, of 128 characters at most
        tag: String,

        /// How many ids a load reserves at least, from 1 to 2147483647. What is reserved and not
        /// used at the end of a process is never issued
        #[arg(long, value_name = "S")]
        step: u64,

        /// The first id, from 1
        #[arg(long, value_name = "N", default_value_t = 1)]
        start: u64,

        /// What it is for, in 256 characters at most
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,

        #[command(flatten)]
        place: PlaceArgs,
    },
    /// List the tags, by name
    List {
        #[command(flatten)]
        place: PlaceArgs,

        /// A JSON array instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Tell how far each tag has come, and how much is left of it
    Stats {
        #[command(flatten)]
        place: PlaceArgs,

        /// A JSON array instead of a table
        #[arg(long)]
        json: bool,
    },
}
