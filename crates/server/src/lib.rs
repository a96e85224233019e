//! A server for uidring's ids: one engine behind the protocols that clients already speak.
//!
//! A [`Server`] has [`Names`], each of which stands for a source of ids in this process, and listens for
//! clients of Redis, of HTTP, of Twitter's Snowflake over Thrift, and of batches of ids in binary. Nothing in
//! here assigns worker ids or opens databases: generators come built.

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
pub use crate::tls::{TlsError, certificate_begins, certificate_ends};
