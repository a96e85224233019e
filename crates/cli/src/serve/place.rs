//! Where a server listens, as written in flags.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

/// A TCP address, or nowhere.
#[derive(Clone, Debug)]
pub enum Place {
    Nowhere,
    /// The address as written, and what it resolves to.
    At(String, Vec<SocketAddr>),
}

impl Place {
    /// Returns a port on loopback.
    pub fn loopback(port: u16) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Self::At(address.to_string(), vec![address])
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::Nowhere);
        }
        if let Ok(port) = text.parse() {
            return Ok(Self::loopback(port));
        }
        let addresses = text.to_socket_addrs().map_err(|error| {
            format!("{error}; write ADDRESS:PORT, as in 127.0.0.1:6379, a port, or none")
        })?;
        Ok(Self::At(text.to_owned(), addresses.collect()))
    }
}

/// A path, or nowhere.
#[derive(Clone, Debug)]
pub enum BatchPlace {
    Nowhere,
    At(PathBuf),
}

impl FromStr for BatchPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "none" => Self::Nowhere,
            "" => return Err("write the path of a socket, or none".into()),
            path => Self::At(path.into()),
        })
    }
}
