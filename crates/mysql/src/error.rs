//! What goes wrong, with the values and what to do.

/// Why a MySQL or MariaDB server could not be used; the source of `Database` is one of the driver's errors,
/// such as [`mysql_async::ServerError`], or the system's.
pub type MySqlError = uidring_store::server::ServerError;
