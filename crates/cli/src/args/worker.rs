//! Flags that say where a worker id comes from.

use std::time::Duration;

use clap::{Args, ValueEnum};
use uidring::Uid;

use super::database::WorkerTableArgs;
use super::registry::{InstanceArgs, RegistryArgs};
use uidring_store::values::{CENTURY, number, time};

/// The flags that name where worker ids come from.
const STORES: [&str; 7] =
    ["sqlite", "mysql", "mysql_url_file", "postgres", "postgres_url_file", "zookeeper", "etcd"];

/// A worker id of the user's choice, or who assigns it.
#[derive(Args)]
pub struct WorkerArgs {
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

    /// How long a start may wait for the clock, if uids that were issued before are further ahead of it
    /// than --max-borrow allows; without it, 30, or what a killed process with the same lease leaves ahead
    #[arg(long, value_name = "SECONDS", value_parser = time(Duration::ZERO..=CENTURY),
          allow_hyphen_values = true)]
    pub max_start_wait: Option<Duration>,

    #[command(flatten)]
    pub lease: LeaseArgs,

    #[command(flatten)]
    pub table: WorkerTableArgs,

    #[command(flatten)]
    pub registry: RegistryArgs,

    #[command(flatten)]
    pub instance: InstanceArgs,
}

impl WorkerArgs {
    /// The flags that name where worker ids come from, as one writes them.
    pub fn flags(&self) -> String {
        match self.registry.zookeeper {
            Some(_) => self.registry.flags(),
            None => self.table.database.flags(),
        }
    }
}

/// How a table assigns worker ids.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WorkerKind {
    /// A new one for each start, which uses it up
    Disposable,
    /// One that the program holds, renews, and gives back when it ends
    Lease,
    /// That of this pod in its StatefulSet, from UIDRING_ORDINAL or the host name's last number, held in a
    /// file on the pod's volume (--sqlite)
    Ordinal,
}

/// Worker ids that are given back.
#[derive(Args)]
pub struct LeaseArgs {
    /// How a table assigns worker ids; see docs/leases.md before you mix the two
    #[arg(long, value_enum, default_value = "disposable")]
    pub worker: WorkerKind,

    /// How long a lease lasts unless it is renewed, from 1s to 1h; without it, 30s. For --worker lease
    /// and ordinal
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true,
          value_parser = time(Duration::from_secs(1)..=Duration::from_secs(3_600)))]
    pub lease: Option<Duration>,

    /// How long to wait for a worker id when all are held; without it, fail at once. For --worker
    /// lease; --worker ordinal waits for as long as a lease lasts, and 5s more, if this is less
    #[arg(long, value_name = "SECONDS", value_parser = time(Duration::ZERO..=CENTURY),
          allow_hyphen_values = true)]
    pub lease_wait: Option<Duration>,

    /// Added to the ordinal, so that several StatefulSets share a layout. For --worker ordinal
    #[arg(long, value_name = "N", allow_hyphen_values = true,
          value_parser = number::<u64>(0..=u64::MAX))]
    pub ordinal_offset: Option<u64>,
}
