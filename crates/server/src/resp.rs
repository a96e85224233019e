//! Redis's protocol, RESP2 and RESP3.

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

pub async fn serve<S>(mut stream: S, ends: Option<Ends>, place: &Place, shared: &Arc<Shared>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin,
{
    let mut session = Session::new(shared, ends);
    // On an error, the client is gone or was told why.
    let _ = wire::converse(&mut stream, place, &mut session).await;
    // Only amid a request: otherwise the client would take this for the answer to its next one.
    if place.farewell() == Some(Farewell::Slow) {
        let goodbye = b"-ERR the request or transaction did not end in time\r\n";
        wire::write_at_once(&mut stream, goodbye).await;
    }
}
