//! Tables of a PostgreSQL server.

use uidring_postgres::{PostgresError, PostgresStore};

use super::database::Database;
use super::server::{OnServer, wrong_url};
use crate::args::database::DatabaseArgs;
use crate::failure::Failure;

/// The server that the flags name, else the environment.
pub fn open(args: &DatabaseArgs) -> Result<Box<dyn Database>, Failure> {
    let flags = &args.postgres_args;
    let server = match (&flags.postgres, &flags.postgres_url_file) {
        (Some(url), _) => PostgresStore::from_url(url).map(Some),
        (None, Some(path)) => PostgresStore::from_url_file(path).map(Some),
        (None, None) => PostgresStore::from_env(),
    };
    let gone = || Failure::Usage("UIDRING_POSTGRES_URL is no longer set".into());
    let server = server.map_err(wrong_url::<PostgresError>)?.ok_or_else(gone)?;
    let mut server = server.deadline(args.deadline());
    if flags.postgres_require_durability {
        server = server.require_durability();
    }
    if flags.postgres_cluster {
        server = server.synchronous_cluster();
    }
    if let Some(path) = &flags.postgres_ca {
        server = server.tls_authority(path)?;
    }
    Ok(Box::new(OnServer(server)))
}
