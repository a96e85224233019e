//! Flags that name an etcd cluster.

use std::path::PathBuf;

use clap::Args;

use super::check;
use crate::failure::Failure;

/// An etcd cluster.
#[derive(Args)]
pub struct EtcdArgs {
    /// The etcd cluster (3.4 or later) that holds the worker ids: HOST:PORT,HOST:PORT, or
    /// https://HOST:PORT,https://HOST:PORT for TLS. Else the environment variable UIDRING_ETCD
    #[arg(long, value_name = "ENDPOINTS", conflicts_with_all = ["sqlite", "mysql", "mysql_url_file"])]
    pub etcd: Option<String>,

    /// What the keys in etcd begin with; without it, /uidring/
    #[arg(long, value_name = "PREFIX")]
    pub etcd_prefix: Option<String>,

    /// A file whose first line is the USER:PASSWORD for etcd; else the environment variable
    /// UIDRING_ETCD_AUTH, if it is set
    #[arg(long, value_name = "PATH")]
    pub etcd_auth_file: Option<PathBuf>,

    /// Accept only certificates of etcd that are signed by an authority in this PEM file
    #[arg(long, value_name = "PATH")]
    pub etcd_ca: Option<PathBuf>,

    /// Show etcd this certificate, a PEM file
    #[arg(long, value_name = "PATH", requires = "etcd_key")]
    pub etcd_cert: Option<PathBuf>,

    /// The private key of that certificate, a PEM file
    #[arg(long, value_name = "PATH", requires = "etcd_cert")]
    pub etcd_key: Option<PathBuf>,
}

impl EtcdArgs {
    /// Refuses flags that need a cluster. They promise something: ignoring them is dangerous.
    pub fn refuse(&self) -> Result<(), Failure> {
        const NEEDS: &str = "needs --etcd, or the environment variable UIDRING_ETCD";
        check(&[
            ("--etcd-prefix", self.etcd_prefix.is_some(), NEEDS),
            ("--etcd-auth-file", self.etcd_auth_file.is_some(), NEEDS),
            ("--etcd-ca", self.etcd_ca.is_some(), NEEDS),
            ("--etcd-cert", self.etcd_cert.is_some(), NEEDS),
        ])
    }
}
