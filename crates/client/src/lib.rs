//! A blocking client of uidring's server, by its binary batch (docs/server-batch.md): many ids with one
//! request, over a Unix socket or TCP.
//!
//! ```no_run
//! use uidring_client::Client;
//!
//! let mut client = Client::connect_unix("/run/uidring/batch.sock")?;
//! // The name that the server has as its default.
//! let mut ids = [0; 4096];
//! client.fill("", &mut ids)?;
//!
//! // One at a time, of batches of 1,000.
//! let mut orders = client.prefetch("orders", 1000);
//! let id = orders.next_id()?;
//! # Ok::<(), uidring_client::ClientError>(())
//! ```
//!
//! Ids of one client increase, as long as its connection lasts, and after that where the server's order is
//! `ordered`. An id that a client prefetched and did not hand out is lost, as are those of an
//! answer that did not arrive: no id is handed out twice.

mod connection;
mod error;
mod prefetch;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
#[cfg(unix)]
use std::path::PathBuf;
use std::time::Duration;

use self::connection::Connection;
pub use crate::error::{ClientError, Refusal};
pub use crate::prefetch::Prefetch;

/// How to connect.
///
/// ```no_run
/// use std::time::Duration;
/// use uidring_client::Options;
///
/// let client = Options::new()
///     .timeout(Duration::from_secs(1))
///     .password(std::fs::read_to_string("/run/secrets/uidring").expect("a secret").trim_end())
///     .connect_tcp("127.0.0.1:7610")?;
/// # Ok::<(), uidring_client::ClientError>(())
/// ```
#[derive(Clone)]
pub struct Options {
    timeout: Duration,
    password: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(10), password: None }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let password = self.password.as_ref().map(|_| "…");
        f.debug_struct("Options")
            .field("timeout", &self.timeout)
            .field("password", &password)
            .finish()
    }
}

impl Options {
    /// A timeout of 10 seconds, and no password.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets for how long to wait for a connection, and for an answer. A millisecond at least.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.max(Duration::from_millis(1));
        self
    }

    /// Sets the server's password, of 255 bytes at most. It is sent as it is: beyond one host, the connection
    /// has to be a private one.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Connects to a Unix socket. While the server accepts nobody and its queue is full, this waits without a
    /// timeout.
    ///
    /// # Errors
    ///
    /// [`ClientError::Connect`], and as [`Client::fill`] where there is a password.
    #[cfg(unix)]
    pub fn connect_unix(self, path: impl AsRef<Path>) -> Result<Client, ClientError> {
        self.connect(Address::Unix(path.as_ref().to_owned()))
    }

    /// Connects to a TCP socket, the first one of `address` that answers. A name is looked up here alone: to
    /// connect again goes to the same addresses.
    ///
    /// # Errors
    ///
    /// As [`connect_unix`](Self::connect_unix).
    pub fn connect_tcp(self, address: impl ToSocketAddrs) -> Result<Client, ClientError> {
        let addresses = address.to_socket_addrs();
        let addresses: Vec<_> = addresses
            .map_err(|cause| ClientError::Connect { address: "that host's name".into(), cause })?
            .collect();
        self.connect(Address::Tcp(addresses))
    }

    fn connect(self, address: Address) -> Result<Client, ClientError> {
        let mut client = Client { address, options: self, connection: None };
        client.connection = Some(client.connect()?);
        Ok(client)
    }
}

/// Where the server is.
#[derive(Clone, Debug)]
enum Address {
    #[cfg(unix)]
    Unix(PathBuf),
    Tcp(Vec<SocketAddr>),
}

/// A connection to a server, which is made anew when it broke.
#[derive(Debug)]
pub struct Client {
    address: Address,
    options: Options,
    /// None since it broke.
    connection: Option<Connection>,
}

impl Client {
    /// Connects to a Unix socket, with the default [`Options`].
    ///
    /// # Errors
    ///
    /// As [`Options::connect_unix`].
    #[cfg(unix)]
    pub fn connect_unix(path: impl AsRef<Path>) -> Result<Self, ClientError> {
        Options::new().connect_unix(path)
    }

    /// Connects to a TCP socket, with the default [`Options`].
    ///
    /// # Errors
    ///
    /// As [`Options::connect_tcp`].
    pub fn connect_tcp(address: impl ToSocketAddrs) -> Result<Self, ClientError> {
        Options::new().connect_tcp(address)
    }

    /// Fills the whole of `out` with increasing ids of a name, the server's default one if `name` is empty.
    /// That is one request, and the server limits how many ids one may ask for (100,000 by default).
    ///
    /// If the connection breaks, which a server does to those that ask for nothing for long, it is made anew
    /// and ids are asked for once more. Ids of an answer that broke off are dropped.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; `out` is as it was then.
    pub fn fill(&mut self, name: &str, out: &mut [u64]) -> Result<(), ClientError> {
        if out.is_empty() {
            return Ok(());
        }
        let Ok(count) = u32::try_from(out.len()) else {
            return Err(ClientError::TooMany { count: out.len() });
        };
        if let Some(mut connection) = self.connection.take() {
            let done = connection.ids(name, count, out);
            match done {
                // It was broken already, or the server has ended meanwhile.
                Err(ClientError::Broken(_)) => {}
                done => {
                    self.keep(connection, &done);
                    return done;
                }
            }
        }
        let mut connection = self.connect()?;
        let done = connection.ids(name, count, out);
        self.keep(connection, &done);
        done
    }

    /// Ids of a name one at a time, of batches of so many. A batch that is not used up when the client is
    /// dropped is lost.
    pub fn prefetch(&mut self, name: impl Into<String>, size: usize) -> Prefetch<'_> {
        Prefetch::new(self, name.into(), size)
    }

    /// Keeps a connection unless answers could be taken for those of other requests.
    fn keep(&mut self, connection: Connection, done: &Result<(), ClientError>) {
        let is_whole = match done {
            Ok(()) | Err(ClientError::LongName { .. }) => true,
            // After some of these it ends; then it is found broken.
            Err(ClientError::Refused { .. }) => true,
            Err(_) => false,
        };
        self.connection = is_whole.then_some(connection);
    }

    fn connect(&self) -> Result<Connection, ClientError> {
        let mut connection = Connection::new(&self.address, self.options.timeout)?;
        if let Some(password) = &self.options.password {
            connection.authenticate(password)?;
        }
        Ok(connection)
    }
}
