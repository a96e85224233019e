//! The words about worker ids.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use uidring::Timestamp;

use super::{LayoutArgs, PlaceArgs, TableArgs, parse_seconds};
use crate::registry::RegistryArgs;

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
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub lease: Option<Duration>,

    /// How long to wait for a worker id when all are held; an error at once if not given. For
    /// --worker lease
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub lease_wait: Option<Duration>,
}

/// Look after the table that hands out worker ids
///
/// The table is the one of --sqlite or --mysql (--mysql-url-file), else of the environment variable
/// UIDRING_MYSQL_URL, else the file uidring/workers.db in your data directory.
#[derive(Args)]
#[command(arg_required_else_help = true)]
pub struct WorkerArgs {
    #[command(subcommand)]
    pub command: WorkerCommand,
}

#[derive(Subcommand)]
pub enum WorkerCommand {
    /// Make the table, unless it is there
    Init {
        #[command(flatten)]
        table: TableArgs,

        /// Make the table of leases, too
        #[arg(long)]
        leases: bool,
    },
    /// List the starts, the oldest first; with --zookeeper the instances, by number
    List {
        #[command(flatten)]
        table: TableArgs,

        #[command(flatten)]
        registry: RegistryArgs,

        /// A JSON array instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Use up a worker id, and print it: for a program that takes its worker id from outside
    Assign {
        #[command(flatten)]
        table: TableArgs,

        #[command(flatten)]
        layout: LayoutArgs,
    },
    /// Remove the rows of old starts, but never the newest row
    ///
    /// No worker id is handed out again because its row is gone.
    Prune {
        #[command(flatten)]
        table: TableArgs,

        /// Keep the rows of so many days
        #[arg(long, value_name = "DAYS", default_value_t = 30,
              value_parser = clap::value_parser!(u64).range(0..=36_500))]
        keep_days: u64,
    },
    /// List the leases, by worker id
    Leases {
        #[command(flatten)]
        place: PlaceArgs,

        /// A JSON array instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Free a worker id whose lease has run out, so that it counts as given back
    ///
    /// One that is held is refused: its holder may be alive.
    Release {
        /// The worker id
        worker_id: u64,

        /// Even if it is held: fence it first
        #[arg(long)]
        force: bool,

        #[command(flatten)]
        place: PlaceArgs,
    },
    /// End a lease, whoever holds it: the holder stops at its next renewal
    ///
    /// Others may have the worker id at once. They start above all that the holder may issue until
    /// then.
    Fence {
        /// The worker id
        worker_id: u64,

        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Let worker ids be leased whose starts, as `worker list` has them, have all ended
    #[command(after_help = "\
Examples:
  uidring worker reuse 1 1000 --used-until 2026-11-01T12:00:00Z --preset snowflake")]
    Reuse {
        /// The first worker id
        first: u64,

        /// The last one
        last: u64,

        /// None of these starts issued a uid of a later time, borrowed time included
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        used_until: Timestamp,

        #[command(flatten)]
        layout: LayoutArgs,

        #[command(flatten)]
        place: PlaceArgs,
    },
}
