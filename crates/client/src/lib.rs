//! A blocking client of uidring's server. It uses the binary batch (docs/server-batch.md): many ids per request, over a
//! Unix socket or TCP.
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
//! Ids of one name increase while the connection lasts. If the server's order is `ordered`, they keep increasing across
//! connections until the server restarts. A restarted server may begin below ids that the last one borrowed. No id is
//! handed out twice: ids that were prefetched but not handed out, or whose answer did not arrive, are lost.

mod client;
mod connection;
mod error;
mod options;

pub use crate::client::{Client, Prefetch};
pub use crate::error::{ClientError, Refusal};
pub use crate::options::Options;
