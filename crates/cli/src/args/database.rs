//! Flags that name a database.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::check;
use super::etcd::EtcdArgs;
use super::values::{CENTURY, time};
use crate::failure::Failure;

/// A database: the one that the flags name, else the one of UIDRING_MYSQL_URL, else the user's own
/// file.
#[derive(Args)]
pub struct DatabaseArgs {
    /// The SQLite file that holds the table
    #[arg(long, value_name = "PATH", conflicts_with_all = ["mysql", "mysql_url_file"])]
    pub sqlite: Option<PathBuf>,

    /// The MySQL or MariaDB database that holds the table:
    /// mysql://USER:PASSWORD@HOST:PORT/DATABASE. Other users of this machine can see it in the list
    /// of processes: prefer --mysql-url-file, or the environment variable UIDRING_MYSQL_URL
    #[arg(long, value_name = "URL", conflicts_with = "mysql_url_file")]
    pub mysql: Option<String>,

    /// A file whose first line is such a URL
    #[arg(long, value_name = "PATH")]
    pub mysql_url_file: Option<PathBuf>,

    /// Require TLS from the MySQL server, with a certificate signed by an authority in this PEM file
    #[arg(long, value_name = "PATH")]
    pub mysql_ca: Option<PathBuf>,

    /// Refuse a MySQL server whose settings may lose confirmed commits when its machine crashes,
    /// instead of warning: sync_binlog, innodb_flush_log_at_trx_commit, the engine of a table
    #[arg(long)]
    pub mysql_require_durability: bool,

    /// The address stands for several MySQL servers, none of which confirms a commit that the others
    /// may lack, as in a Galera cluster: a change from one to another is no failover
    #[arg(long)]
    pub mysql_cluster: bool,

    /// How long to try to reach the MySQL server, from 1s to 1h; without it, 10s
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true,
          value_parser = time(Duration::from_secs(1)..=Duration::from_secs(3_600)))]
    mysql_deadline: Option<Duration>,

    #[command(flatten)]
    pub etcd: EtcdArgs,
}

impl DatabaseArgs {
    /// How long to try to reach the server.
    pub fn mysql_deadline(&self) -> Duration {
        self.mysql_deadline.unwrap_or(Duration::from_secs(10))
    }

    /// Whether a flag names a database that has segments, too.
    fn is_named_sql(&self) -> bool {
        self.sqlite.is_some() || self.mysql.is_some() || self.mysql_url_file.is_some()
    }

    /// Whether a flag names the database.
    pub fn is_named(&self) -> bool {
        self.is_named_sql() || self.etcd.etcd.is_some()
    }

    /// Whether the database is a MySQL server, by flag or environment.
    pub fn is_server(&self) -> bool {
        let is_other = self.sqlite.is_some() || self.etcd.etcd.is_some();
        !is_other && (self.is_named() || env::var_os("UIDRING_MYSQL_URL").is_some())
    }

    /// Whether worker ids are in an etcd cluster, by flag or environment.
    pub fn is_etcd(&self) -> bool {
        let by_variable = env::var_os("UIDRING_ETCD").is_some();
        self.etcd.etcd.is_some() || !self.is_named() && !self.is_server() && by_variable
    }

    /// Refuses flags that need a MySQL server. They promise something: ignoring them is dangerous.
    pub fn refuse_server_flags(&self) -> Result<(), Failure> {
        check(&[
            ("--mysql-ca", self.mysql_ca.is_some(), NEEDS_SERVER),
            ("--mysql-require-durability", self.mysql_require_durability, NEEDS_SERVER),
            ("--mysql-cluster", self.mysql_cluster, NEEDS_SERVER),
            ("--mysql-deadline", self.mysql_deadline.is_some(), NEEDS_SERVER),
        ])
    }
}

/// The table of worker ids in a database.
#[derive(Args)]
pub struct WorkerTableArgs {
    #[command(flatten)]
    pub database: DatabaseArgs,

    /// Refuse a worker id if the clocks of the MySQL server and of this host differ by more than this;
    /// with --zookeeper, this host's clock and the median of the running instances' clocks
    #[arg(long, value_name = "SECONDS", value_parser = time(Duration::ZERO..=CENTURY),
          allow_hyphen_values = true)]
    pub max_clock_difference: Option<Duration>,
}

impl WorkerTableArgs {
    /// Refuses flags that need a MySQL server.
    pub fn refuse_server_flags(&self) -> Result<(), Failure> {
        self.database.refuse_server_flags()?;
        let is_given = self.max_clock_difference.is_some();
        let needs = "needs a MySQL server, or `generate --zookeeper`";
        check(&[("--max-clock-difference", is_given, needs)])
    }
}

const NEEDS_SERVER: &str = "needs a MySQL server";
