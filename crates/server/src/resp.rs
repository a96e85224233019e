//! Redis's protocol: a connection of a client that speaks RESP2 or RESP3.

mod commands;
pub mod parse;
mod reply;

use std::io;
use std::sync::Arc;
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use self::commands::Session;
use self::parse::{Args, Parsed};
use crate::scratch::Scratch;
use crate::seat::{Farewell, Place};
use crate::server::Shared;
use crate::wire::{self, FLUSH, read, write};

/// Answers a connection's requests until it ends.
pub async fn serve<S>(mut stream: S, place: &Place, shared: &Arc<Shared>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut session = Session::new(shared);
    // The client is gone, or was told why it has to go.
    let _ = answer(&mut stream, place, &mut session).await;
    let goodbye: &[u8] = match place.farewell() {
        Some(Farewell::Idle) => b"-ERR nothing was asked for too long; connect again\r\n",
        Some(Farewell::Slow) => b"-ERR the request did not end in time\r\n",
        Some(Farewell::Draining) | None => b"",
    };
    wire::write_at_once(&mut stream, goodbye).await;
}

async fn answer<S>(stream: &mut S, place: &Place, session: &mut Session) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    // The part of a request that has come so far.
    let mut begun = Vec::new();
    let mut args = Args::default();
    loop {
        let (mut scratch, end) = read(stream, &begun).await?;
        if end == begun.len() {
            return Ok(());
        }
        begun.clear();
        let begin = Instant::now();
        let mut start = 0;
        let limit = session.request_limit();
        while start < end && !session.has_quit() {
            let Scratch { input, output } = &mut scratch;
            match parse::request(&input[start..end], &mut args) {
                Ok(Parsed::Request(length)) => {
                    session.execute(&input[start..], &args, output, stream).await?;
                    start += length;
                }
                Ok(Parsed::Part) if end - start < limit => break,
                Ok(Parsed::Part) => session.refuse(
                    output,
                    &format!("Protocol error: a request has at most {limit} bytes"),
                ),
                Err(error) => session.refuse(output, &format!("Protocol error: {error}")),
            }
            if scratch.output.len() >= FLUSH {
                stream.write_all(&scratch.output).await?;
                scratch.output.clear();
            }
        }
        begun.extend_from_slice(&scratch.input[start..end]);
        write(stream, scratch).await?;
        session.count(begin.elapsed());
        if session.has_quit() {
            return Ok(());
        }
        if start > 0 && !begun.is_empty() {
            place.is_amid_request();
        }
    }
}
