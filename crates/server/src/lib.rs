//! A server for uidring's ids: one engine behind protocols that clients already speak.
//!
//! A [`Server`] serves [`Names`], each with a source of ids in this process. It listens for clients of Redis, of HTTP,
//! of Twitter's Snowflake over Thrift, and of binary batches. It neither assigns worker ids nor opens databases: you
//! pass it generators.

mod answers;
mod batch;
mod client;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod http_state;
mod issuer;
mod lead;
mod limits;
mod listener;
mod names;
mod resp;
mod scratch;
mod seat;
mod secret;
mod server;
mod shared;
mod stats;
mod thrift;
mod tls;
mod wire;

pub use crate::error::{IssueError, ServeError};
pub use crate::issuer::Issuer;
pub use crate::limits::Limits;
pub use crate::listener::{Listener, Protocol};
pub use crate::names::{Name, Names};
pub use crate::server::{Running, Server};
pub use crate::stats::ProtocolStats;
pub use crate::tls::{TlsError, certificate_validity};
