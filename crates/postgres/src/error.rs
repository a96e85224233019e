//! What goes wrong, with the values and what to do.

/// Why a PostgreSQL server could not be used; the source of `Database` is one of the driver's errors
/// ([`tokio_postgres::Error`]) or the system's.
pub type PostgresError = uidring_store::server::ServerError;
