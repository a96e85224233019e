//! Redis's protocol: a connection of a client that speaks RESP2 or RESP3.

mod commands;
mod glob;
mod ids;
mod keys;
pub mod parse;
mod reply;
mod session;
mod small_talk;
mod table;
mod transaction;

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use self::session::Session;
use crate::listener::Ends;
use crate::seat::{Farewell, Place};
use crate::shared::Shared;
use crate::wire;

/// Answers a connection's requests until it ends.
pub async fn serve<S>(mut stream: S, ends: Option<Ends>, place: &Place, shared: &Arc<Shared>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin,
{
    let mut session = Session::new(shared, ends);
    // The client is gone, or was answered why it has to go.
    let _ = wire::converse(&mut stream, place, &mut session).await;
    // Between requests, clients take it for the answer to their next one.
    if place.farewell() == Some(Farewell::Slow) {
        let goodbye = b"-ERR the request or transaction did not end in time\r\n";
        wire::write_at_once(&mut stream, goodbye).await;
    }
}
