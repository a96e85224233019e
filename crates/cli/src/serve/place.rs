//! Where a server listens, as written in flags.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

/// A TCP address, or nowhere.
#[derive(Clone, Debug)]
pub enum Place {
    Nowhere,
    /// The address as written, and what it resolves to.
    At(String, Vec<SocketAddr>),
}

impl Place {
    pub fn read(text: &str) -> Result<Self, String> {
        let text = match text.parse::<u16>() {
            _ if text == "none" => return Ok(Self::Nowhere),
            Ok(port) => format!("127.0.0.1:{port}"),
            Err(_) => text.to_owned(),
        };
        let addresses = text.to_socket_addrs().map_err(|error| {
            format!("{error}; write ADDRESS:PORT, as in 127.0.0.1:6379, a port, or none")
        })?;
        let addresses = addresses.collect();
        Ok(Self::At(text, addresses))
    }
}

/// A path, or nowhere.
#[derive(Clone, Debug)]
pub enum BatchPlace {
    Nowhere,
    At(PathBuf),
}

impl BatchPlace {
    pub fn read(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::Nowhere),
            "" => Err("write the path of a socket, or none".into()),
            path => Ok(Self::At(path.into())),
        }
    }
}
