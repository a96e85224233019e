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
//! Ids of one name increase as long as the connection lasts. After that, where the server's order is `ordered`,
//! they go on increasing as long as the server runs; one that starts again may begin below what the last one had
//! borrowed. An id that a client prefetched and did not hand out is lost, as are those of an
//! answer that did not arrive: no id is handed out twice.

mod client;
mod connection;
mod error;
mod options;

pub use crate::client::{Client, Prefetch};
pub use crate::error::{ClientError, Refusal};
pub use crate::options::Options;
