//! The client: ids over a connection that it re-establishes.

use std::net::ToSocketAddrs;
use std::path::Path;

use crate::connection::{Address, Connection};
use crate::error::ClientError;
use crate::options::Options;

/// A connection to a server. It reconnects if the connection breaks.
#[derive(Debug)]
pub struct Client {
    address: Address,
    options: Options,
    /// `None` after it broke.
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

    /// Fills `out` with increasing ids of a name, or of the server's default name if `name` is empty. This is one
    /// request, and the server limits its number of ids (100,000 by default).
    ///
    /// If the connection is broken, for example because the server closed it as idle, the client reconnects and asks
    /// once more. Ids of an incomplete answer are dropped.
    ///
    /// # Errors
    ///
    /// [`ClientError`]. `out` is then unchanged.
    pub fn fill(&mut self, name: &str, out: &mut [u64]) -> Result<(), ClientError> {
        if out.is_empty() {
            return Ok(());
        }
        let Ok(count) = u32::try_from(out.len()) else {
            return Err(ClientError::TooMany { count: out.len() });
        };
        if let Some(mut connection) = self.connection.take() {
            let done = connection.ids(name, count, out);
            // If it broke, it was idle too long or the server restarted: reconnect below.
            if !matches!(done, Err(ClientError::Broken(_))) {
                self.keep(connection, &done);
                return done;
            }
        }
        let mut connection = self.connect()?;
        let done = connection.ids(name, count, out);
        self.keep(connection, &done);
        done
    }

    /// Returns a source of single ids of a name, which asks for `size` at a time. Ids left when it is dropped are lost.
    pub fn prefetch(&mut self, name: impl Into<String>, size: usize) -> Prefetch<'_> {
        let size = size.max(1);
        Prefetch { client: self, name: name.into(), batch: vec![0; size], used: size }
    }

    /// Keeps a connection, unless a late answer could be taken for that of another request.
    fn keep(&mut self, connection: Connection, done: &Result<(), ClientError>) {
        // The server ends the connection after some refusals. The next request then finds it broken.
        let is_whole = matches!(
            done,
            Ok(()) | Err(ClientError::LongName { .. } | ClientError::Refused { .. })
        );
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

impl Options {
    /// Connects to a Unix socket. If the server accepts no connections and its queue is full, this waits without a
    /// timeout.
    ///
    /// # Errors
    ///
    /// [`ClientError::Connect`]; with a password, also those of [`Client::fill`].
    #[cfg(unix)]
    pub fn connect_unix(self, path: impl AsRef<Path>) -> Result<Client, ClientError> {
        self.connect(Address::Unix(path.as_ref().to_owned()))
    }

    /// Connects to a TCP socket, the first address that answers. A host name is only resolved here: reconnecting uses
    /// the same addresses.
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

/// Single ids of one name, which a [`Client`] fetches in batches. Created by [`Client::prefetch`].
#[derive(Debug)]
pub struct Prefetch<'a> {
    client: &'a mut Client,
    name: String,
    batch: Vec<u64>,
    /// How many of the batch are handed out, or not filled yet.
    used: usize,
}

impl Prefetch<'_> {
    /// Returns the next id. Sends a request if the batch is used up.
    ///
    /// # Errors
    ///
    /// As [`Client::fill`].
    #[inline]
    pub fn next_id(&mut self) -> Result<u64, ClientError> {
        match self.batch.get(self.used) {
            Some(id) => {
                self.used += 1;
                Ok(*id)
            }
            None => self.refill(),
        }
    }

    #[cold]
    fn refill(&mut self) -> Result<u64, ClientError> {
        self.client.fill(&self.name, &mut self.batch)?;
        self.used = 1;
        Ok(self.batch[0])
    }
}
