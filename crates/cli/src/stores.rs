//! The stores that the flags and the environment name, each behind a feature.

#[cfg(feature = "etcd")]
mod etcd;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod server;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use std::path::Path;

use uidring_store::{AnyStore, WorkerTable};
#[cfg(not(feature = "zookeeper"))]
use {
    crate::args::registry::{InstanceArgs, RegistryArgs},
    std::time::Duration,
    uidring::WorkerSource,
};

#[cfg(feature = "zookeeper")]
pub use self::zookeeper::{instance, list_instances};
use crate::args::check;
use crate::args::database::{DatabaseArgs, Server, WorkerTableArgs};
use crate::failure::Failure;

/// The store of worker ids that the flags name, else the environment, else the user's own file.
pub fn open(args: &DatabaseArgs) -> Result<Box<dyn AnyStore>, Failure> {
    if args.is_etcd() {
        args.refuse_server_flags()?;
        #[cfg(feature = "etcd")]
        return etcd::open(&args.etcd);
        #[cfg(not(feature = "etcd"))]
        return Err(Failure::NotBuilt { feature: "etcd" });
    }
    open_segments(args)
}

/// The database, which has segments, too, that the flags name, else the environment, else the user's own
/// file.
pub fn open_segments(args: &DatabaseArgs) -> Result<Box<dyn AnyStore>, Failure> {
    let is_etcd = args.etcd.etcd.is_some();
    let where_segments = "has worker ids; segments are in a SQLite file, or on MySQL or PostgreSQL";
    check(&[("--etcd", is_etcd, where_segments)])?;
    args.etcd.refuse()?;
    let server = args.server();
    args.refuse_flags_of_others(server)?;
    match server {
        #[cfg(feature = "mysql")]
        Some(Server::MySql) => server::open::<uidring_mysql::MySql>(mysql(args)),
        #[cfg(not(feature = "mysql"))]
        Some(Server::MySql) => Err(Failure::NotBuilt { feature: "mysql" }),
        #[cfg(feature = "postgres")]
        Some(Server::Postgres) => server::open::<uidring_postgres::Postgres>(postgres(args)),
        #[cfg(not(feature = "postgres"))]
        Some(Server::Postgres) => Err(Failure::NotBuilt { feature: "postgres" }),
        None => file(args.sqlite.as_deref()),
    }
}

/// The SQLite file with this path, or the user's own.
#[cfg_attr(not(feature = "sqlite"), expect(unused_variables))]
pub fn file(path: Option<&Path>) -> Result<Box<dyn AnyStore>, Failure> {
    #[cfg(feature = "sqlite")]
    return sqlite::open(path);
    #[cfg(not(feature = "sqlite"))]
    return Err(Failure::NotBuilt { feature: "sqlite" });
}

#[cfg(feature = "mysql")]
fn mysql(args: &DatabaseArgs) -> server::Flags<'_> {
    let flags = &args.mysql_args;
    server::Flags {
        url: flags.mysql.as_deref(),
        url_file: flags.mysql_url_file.as_deref(),
        authority: flags.mysql_ca.as_deref(),
        identity: flags.mysql_cert.as_deref().zip(flags.mysql_key.as_deref()),
        requires_durability: flags.mysql_require_durability,
        is_cluster: flags.mysql_cluster,
        deadline: flags.mysql_deadline,
    }
}

#[cfg(feature = "postgres")]
fn postgres(args: &DatabaseArgs) -> server::Flags<'_> {
    let flags = &args.postgres_args;
    server::Flags {
        url: flags.postgres.as_deref(),
        url_file: flags.postgres_url_file.as_deref(),
        authority: flags.postgres_ca.as_deref(),
        identity: None,
        requires_durability: flags.postgres_require_durability,
        is_cluster: flags.postgres_cluster,
        deadline: flags.postgres_deadline,
    }
}

/// The table of worker ids in that database.
pub fn worker_table(args: &WorkerTableArgs) -> Result<Box<dyn WorkerTable + Send>, Failure> {
    if args.database.server().is_none() {
        args.refuse_server_flags()?;
    }
    Ok(open(&args.database)?.worker_table(args.max_clock_difference)?)
}

/// Prints all instances in the registry.
#[cfg(not(feature = "zookeeper"))]
pub fn list_instances(_: &RegistryArgs, _: bool) -> Result<(), Failure> {
    Err(Failure::NotBuilt { feature: "zookeeper" })
}

/// The registry as the source of the instance's worker id.
#[cfg(not(feature = "zookeeper"))]
pub fn instance(
    _: &RegistryArgs,
    _: &InstanceArgs,
    _: Option<Duration>,
) -> Result<Box<dyn WorkerSource + Send>, Failure> {
    Err(Failure::NotBuilt { feature: "zookeeper" })
}
