//! Tables of a MySQL or MariaDB server.

use uidring_mysql::{MySqlError, MySqlStore};

use super::database::Database;
use super::server::{OnServer, wrong_url};
use crate::args::database::DatabaseArgs;
use crate::failure::Failure;

/// The server that the flags name, else the environment.
pub fn open(args: &DatabaseArgs) -> Result<Box<dyn Database>, Failure> {
    let flags = &args.mysql_args;
    let server = match (&flags.mysql, &flags.mysql_url_file) {
        (Some(url), _) => MySqlStore::from_url(url).map(Some),
        (None, Some(path)) => MySqlStore::from_url_file(path).map(Some),
        (None, None) => MySqlStore::from_env(),
    };
    let gone = || Failure::Usage("UIDRING_MYSQL_URL is no longer set".into());
    let server = server.map_err(wrong_url::<MySqlError>)?.ok_or_else(gone)?;
    let mut server = server.deadline(args.deadline());
    if flags.mysql_require_durability {
        server = server.require_durability();
    }
    if flags.mysql_cluster {
        server = server.synchronous_cluster();
    }
    if let Some(path) = &flags.mysql_ca {
        server = server.tls_authority(path)?;
    }
    if let (Some(certificate), Some(key)) = (&flags.mysql_cert, &flags.mysql_key) {
        server = server.tls_certificate(certificate, key)?;
    }
    Ok(Box::new(OnServer(server)))
}
