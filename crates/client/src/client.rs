//! A client: a connection that is made anew when it broke, and ids by it.

use std::net::ToSocketAddrs;
use std::path::Path;

use crate::connection::{Address, Connection};
use crate::error::ClientError;
use crate::options::Options;

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

impl Options {
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

/// Ids of one name that a [`Client`] asks for in batches; from [`Client::prefetch`].
#[derive(Debug)]
pub struct Prefetch<'a> {
    client: &'a mut Client,
    name: String,
    batch: Vec<u64>,
    /// How many of the batch are handed out, or are no ids.
    used: usize,
}

impl<'a> Prefetch<'a> {
    fn new(client: &'a mut Client, name: String, size: usize) -> Self {
        let size = size.max(1);
        Self { client, name, batch: vec![0; size], used: size }
    }

    /// Returns the next id; a request is made when the batch is used up.
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
