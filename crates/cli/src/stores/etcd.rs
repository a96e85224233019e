//! Worker ids and leases in an etcd cluster.

use std::env;

use uidring::Error;
use uidring_etcd::EtcdStore;
use uidring_store::{AnyStore, ServerError};

use crate::args::etcd::EtcdArgs;
use crate::failure::Failure;

/// The cluster that the flags name, else the environment.
pub fn open(args: &EtcdArgs) -> Result<Box<dyn AnyStore>, Failure> {
    let endpoints = match &args.etcd {
        Some(endpoints) => endpoints.clone(),
        None => env::var_os("UIDRING_ETCD").unwrap_or_default().to_string_lossy().into_owned(),
    };
    let mut store = EtcdStore::new(&endpoints).map_err(wrong)?;
    if let Some(prefix) = &args.etcd_prefix {
        store = store.prefix(prefix).map_err(wrong)?;
    }
    store = match &args.etcd_auth_file {
        Some(path) => store.auth_file(path),
        None => store.auth_from_env(),
    }
    .map_err(wrong)?;
    if let Some(path) = &args.etcd_ca {
        store = store.tls_authority(path).map_err(wrong)?;
    }
    if let (Some(certificate), Some(key)) = (&args.etcd_cert, &args.etcd_key) {
        store = store.tls_client(certificate, key).map_err(wrong)?;
    }
    Ok(Box::new(store))
}

/// What is written wrongly is wrong usage, wherever it was found; a file that cannot be read is a failure.
fn wrong(error: Error) -> Failure {
    if error.store::<ServerError>().is_some() { Failure::usage(error) } else { error.into() }
}
