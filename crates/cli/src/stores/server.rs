//! Tables of a database server, whichever it is.

use std::path::Path;
use std::time::Duration;

use uidring_store::server::{Engine, ServerStore};
use uidring_store::{AnyStore, ServerError};

use crate::failure::Failure;

/// What the flags of an engine say.
pub struct Flags<'a> {
    pub url: Option<&'a str>,
    pub url_file: Option<&'a Path>,
    pub authority: Option<&'a Path>,
    pub identity: Option<(&'a Path, &'a Path)>,
    pub requires_durability: bool,
    pub is_cluster: bool,
    pub deadline: Option<Duration>,
}

/// Opens the server that the flags name, else the environment.
pub fn open<E: Engine>(flags: Flags<'_>) -> Result<Box<dyn AnyStore>, Failure> {
    let server = match (flags.url, flags.url_file) {
        (Some(url), _) => ServerStore::<E>::from_url(url).map(Some),
        (None, Some(path)) => ServerStore::from_url_file(path).map(Some),
        (None, None) => ServerStore::from_env(),
    };
    // A wrong URL is wrong usage, wherever it was found; a file that cannot be read is a failure.
    let server = server.map_err(|error| match error.store::<ServerError>() {
        Some(_) => Failure::usage(error),
        None => error.into(),
    })?;
    let gone = || Failure::Usage(format!("{} is no longer set", E::URL.variable));
    let mut server = server.ok_or_else(gone)?;
    if let Some(deadline) = flags.deadline {
        server = server.deadline(deadline);
    }
    if flags.requires_durability {
        server = server.require_durability();
    }
    if flags.is_cluster {
        server = server.synchronous_cluster();
    }
    if let Some(path) = flags.authority {
        server = server.tls_authority(path)?;
    }
    if let Some((certificate, key)) = flags.identity {
        server = server.tls_certificate(certificate, key)?;
    }
    Ok(Box::new(server))
}
