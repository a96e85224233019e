//! Where a server listens, and for which protocol.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
#[cfg(unix)]
use std::path::Path;

use socket2::Socket;

/// The protocol of a listener's clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// Redis's protocol, versions 2 and 3.
    Redis,
    /// HTTP/1.1.
    Http,
    /// Twitter's Snowflake over Thrift, with the framed binary protocol. It has no passwords, so its clients need none
    /// even if the server has one.
    Thrift,
    /// Binary batches of ids, specified in docs/server-batch.md.
    Batch,
}

impl Protocol {
    /// The number of protocols.
    pub(crate) const COUNT: usize = 4;

    /// All protocols.
    pub const ALL: [Self; Self::COUNT] = [Self::Redis, Self::Http, Self::Thrift, Self::Batch];

    /// Returns the name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Http => "http",
            Self::Thrift => "thrift",
            Self::Batch => "batch",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The addresses of a connection's ends, which clients may ask for.
#[derive(Clone, Copy)]
pub(crate) struct Ends {
    pub here: SocketAddr,
    pub there: SocketAddr,
}

/// A bound socket and its clients' protocol.
#[derive(Debug)]
pub struct Listener {
    protocol: Protocol,
    address: String,
    is_local: bool,
    #[cfg(unix)]
    pub(crate) is_unix: bool,
    pub(crate) socket: Socket,
}

impl Listener {
    /// Listens on a TCP socket.
    pub fn tcp(protocol: Protocol, socket: TcpListener) -> Self {
        let address = socket.local_addr();
        Self {
            protocol,
            is_local: address.as_ref().is_ok_and(|at| at.ip().is_loopback()),
            address: address.map_or_else(|error| error.to_string(), |at| at.to_string()),
            #[cfg(unix)]
            is_unix: false,
            socket: socket.into(),
        }
    }

    /// Listens on a Unix socket with this path.
    #[cfg(unix)]
    pub fn unix(protocol: Protocol, socket: std::os::unix::net::UnixListener, path: &Path) -> Self {
        let address = path.display().to_string();
        Self { protocol, address, is_local: true, is_unix: true, socket: socket.into() }
    }

    /// Returns the clients' protocol.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Returns the address, for people.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether only this host can reach it.
    pub fn is_local(&self) -> bool {
        self.is_local
    }
}
