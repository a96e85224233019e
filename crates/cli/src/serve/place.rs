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

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::Nowhere);
        }
        let text = match text.parse::<u16>() {
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
