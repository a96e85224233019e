//! Flags that name a database.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use uidring_store::files::data_folder;

use super::check;
use super::etcd::EtcdArgs;
use crate::advice::{file, value};
use crate::failure::Failure;
use uidring_store::values::{CENTURY, time};

/// The kind of a server that a database is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    MySql,
    Postgres,
}

/// A database: the one that the flags name, else the one of UIDRING_MYSQL_URL, else of UIDRING_POSTGRES_URL,
/// else of UIDRING_ETCD, else the user's own file.
#[derive(Args)]
pub struct DatabaseArgs {
    /// The SQLite file that holds the table. It must exist: `uidring worker init` and `uidring segment
    /// create` create it, and so does mode=rwc after the path, as in a.db?mode=rwc
    #[arg(long, value_name = "PATH",
          conflicts_with_all = ["mysql", "mysql_url_file", "postgres", "postgres_url_file"])]
    pub sqlite: Option<PathBuf>,

    #[command(flatten)]
    pub mysql_args: MySqlArgs,

    #[command(flatten)]
    pub postgres_args: PostgresArgs,

    #[command(flatten)]
    pub etcd: EtcdArgs,
}

/// A database of a MySQL or MariaDB server.
#[derive(Args)]
pub struct MySqlArgs {
    /// The MySQL or MariaDB database that holds the table:
    /// mysql://USER:PASSWORD@HOST:PORT/DATABASE. Other users of this machine can see it in the list
    /// of processes: prefer --mysql-url-file, or the environment variable UIDRING_MYSQL_URL
    #[arg(long, value_name = "URL",
          conflicts_with_all = ["mysql_url_file", "postgres", "postgres_url_file"])]
    pub mysql: Option<String>,

    /// A file whose first line is such a URL
    #[arg(long, value_name = "PATH", conflicts_with_all = ["postgres", "postgres_url_file"])]
    pub mysql_url_file: Option<PathBuf>,

    /// Require TLS from the MySQL server, with a certificate signed by an authority in this PEM file
    #[arg(long, value_name = "PATH")]
    pub mysql_ca: Option<PathBuf>,

    /// Require TLS from the MySQL server, and show it this certificate, a PEM file
    #[arg(long, value_name = "PATH", requires = "mysql_key")]
    pub mysql_cert: Option<PathBuf>,

    /// The private key of that certificate, a PEM file that others may not read
    #[arg(long, value_name = "PATH", requires = "mysql_cert")]
    pub mysql_key: Option<PathBuf>,

    /// Refuse a MySQL server whose settings may lose confirmed commits when its machine crashes,
    /// instead of warning: sync_binlog, innodb_flush_log_at_trx_commit, the engine of a table, a node
    /// of a Galera cluster
    #[arg(long)]
    pub mysql_require_durability: bool,

    /// The address stands for several MySQL servers, none of which confirms a commit that the others
    /// may lack, as with synchronous replication: a change from one to another is no failover
    #[arg(long)]
    pub mysql_cluster: bool,

    /// How long to try to reach the MySQL server, from 1s to 1h; without it, 10s
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true,
          value_parser = time(Duration::from_secs(1)..=Duration::from_secs(3_600)))]
    pub mysql_deadline: Option<Duration>,
}

/// A database of a PostgreSQL server.
#[derive(Args)]
pub struct PostgresArgs {
    /// The PostgreSQL database that holds the table: postgres://USER:PASSWORD@HOST:PORT/DATABASE. Other
    /// users of this machine can see it in the list of processes: prefer --postgres-url-file, or the
    /// environment variable UIDRING_POSTGRES_URL
    #[arg(long, value_name = "URL", conflicts_with = "postgres_url_file")]
    pub postgres: Option<String>,

    /// A file whose first line is such a URL
    #[arg(long, value_name = "PATH")]
    pub postgres_url_file: Option<PathBuf>,

    /// Require TLS from the PostgreSQL server, with a certificate signed by an authority in this PEM file
    #[arg(long, value_name = "PATH")]
    pub postgres_ca: Option<PathBuf>,

    /// Refuse a PostgreSQL server that may lose confirmed commits when its machine crashes, instead of
    /// warning: fsync, full_page_writes, a table that is not logged
    #[arg(long)]
    pub postgres_require_durability: bool,

    /// Whichever PostgreSQL server answers has all that another has confirmed: the standbys are
    /// synchronous, and a change from one to another loses nothing
    #[arg(long)]
    pub postgres_cluster: bool,

    /// How long to try to reach the PostgreSQL server, from 1s to 1h; without it, 10s
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true,
          value_parser = time(Duration::from_secs(1)..=Duration::from_secs(3_600)))]
    pub postgres_deadline: Option<Duration>,
}

impl DatabaseArgs {
    /// Whether a flag names the database.
    pub fn is_named(&self) -> bool {
        self.sqlite.is_some() || self.named_server().is_some() || self.etcd.etcd.is_some()
    }

    /// Whether worker ids are in an etcd cluster, by flag or environment.
    pub fn is_etcd(&self) -> bool {
        let by_variable = env::var_os("UIDRING_ETCD").is_some();
        self.etcd.etcd.is_some() || !self.is_named() && self.server().is_none() && by_variable
    }

    /// Where worker ids are, for people. No URL: it may hold a password.
    pub fn place(&self) -> Result<String, Failure> {
        Ok(match (&self.sqlite, self.server()) {
            (Some(path), _) => path.display().to_string(),
            (None, _) if self.is_etcd() => "etcd".into(),
            (None, Some(Server::MySql)) => "the database on the MySQL server".into(),
            (None, Some(Server::Postgres)) => "the database on the PostgreSQL server".into(),
            (None, None) => data_folder()?.join("workers.db").display().to_string(),
        })
    }

    /// The flags that name the database, as one writes them. A URL, which may hold a password, is left out.
    pub fn flags(&self) -> String {
        let (mysql, postgres, etcd) = (&self.mysql_args, &self.postgres_args, &self.etcd);
        // It may hold a password, which is then in the URL before an @.
        let endpoints =
            etcd.etcd.as_deref().map(|etcd| if etcd.contains('@') { "ENDPOINTS" } else { etcd });
        let flags = [
            file("--sqlite", self.sqlite.as_deref()),
            mysql.mysql.as_ref().map(|_| "--mysql URL".into()),
            file("--mysql-url-file", mysql.mysql_url_file.as_deref()),
            file("--mysql-ca", mysql.mysql_ca.as_deref()),
            file("--mysql-cert", mysql.mysql_cert.as_deref()),
            file("--mysql-key", mysql.mysql_key.as_deref()),
            postgres.postgres.as_ref().map(|_| "--postgres URL".into()),
            file("--postgres-url-file", postgres.postgres_url_file.as_deref()),
            file("--postgres-ca", postgres.postgres_ca.as_deref()),
            endpoints.map(|endpoints| value("--etcd", endpoints)),
            etcd.etcd_prefix.as_deref().map(|prefix| value("--etcd-prefix", prefix)),
            file("--etcd-auth-file", etcd.etcd_auth_file.as_deref()),
            file("--etcd-ca", etcd.etcd_ca.as_deref()),
            file("--etcd-cert", etcd.etcd_cert.as_deref()),
            file("--etcd-key", etcd.etcd_key.as_deref()),
        ];
        flags.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    fn named_server(&self) -> Option<Server> {
        let (mysql, postgres) = (&self.mysql_args, &self.postgres_args);
        if mysql.mysql.is_some() || mysql.mysql_url_file.is_some() {
            Some(Server::MySql)
        } else if postgres.postgres.is_some() || postgres.postgres_url_file.is_some() {
            Some(Server::Postgres)
        } else {
            None
        }
    }

    /// The server that the database is on, by flag or environment.
    pub fn server(&self) -> Option<Server> {
        if self.is_named() {
            return self.named_server();
        }
        let variables =
            [("UIDRING_MYSQL_URL", Server::MySql), ("UIDRING_POSTGRES_URL", Server::Postgres)];
        variables
            .into_iter()
            .find(|(name, _)| env::var_os(name).is_some())
            .map(|(_, server)| server)
    }

    /// Refuses flags that need a server. They promise something: ignoring them is dangerous.
    pub fn refuse_server_flags(&self) -> Result<(), Failure> {
        self.refuse_flags_of_others(None)
    }

    /// Refuses flags that need another server than this one.
    pub fn refuse_flags_of_others(&self, server: Option<Server>) -> Result<(), Failure> {
        let (mysql, postgres) = (&self.mysql_args, &self.postgres_args);
        if server != Some(Server::MySql) {
            check(&[
                ("--mysql-ca", mysql.mysql_ca.is_some(), NEEDS_MYSQL),
                ("--mysql-cert", mysql.mysql_cert.is_some(), NEEDS_MYSQL),
                ("--mysql-require-durability", mysql.mysql_require_durability, NEEDS_MYSQL),
                ("--mysql-cluster", mysql.mysql_cluster, NEEDS_MYSQL),
                ("--mysql-deadline", mysql.mysql_deadline.is_some(), NEEDS_MYSQL),
            ])?;
        }
        if server != Some(Server::Postgres) {
            let is_strict = postgres.postgres_require_durability;
            check(&[
                ("--postgres-ca", postgres.postgres_ca.is_some(), NEEDS_POSTGRES),
                ("--postgres-require-durability", is_strict, NEEDS_POSTGRES),
                ("--postgres-cluster", postgres.postgres_cluster, NEEDS_POSTGRES),
                ("--postgres-deadline", postgres.postgres_deadline.is_some(), NEEDS_POSTGRES),
            ])?;
        }
        Ok(())
    }
}

/// The table of worker ids in a database.
#[derive(Args)]
pub struct WorkerTableArgs {
    #[command(flatten)]
    pub database: DatabaseArgs,

    /// Refuse a worker id if the clocks of the database's server and of this host differ by more than
    /// this; with --zookeeper, this host's clock and the median of the running instances' clocks
    #[arg(long, value_name = "SECONDS", value_parser = time(Duration::ZERO..=CENTURY),
          allow_hyphen_values = true)]
    pub max_clock_difference: Option<Duration>,
}

impl WorkerTableArgs {
    /// Refuses flags that need a server.
    pub fn refuse_server_flags(&self) -> Result<(), Failure> {
        self.database.refuse_server_flags()?;
        let is_given = self.max_clock_difference.is_some();
        let needs = "needs a MySQL or PostgreSQL server, or `generate --zookeeper`";
        check(&[("--max-clock-difference", is_given, needs)])
    }
}

const NEEDS_MYSQL: &str = "needs a MySQL server";

const NEEDS_POSTGRES: &str = "needs a PostgreSQL server";
