//! Redis's protocol: a connection of a client that speaks RESP2 or RESP3.

mod commands;
mod parse;
mod reply;

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use self::commands::Session;
use self::parse::{Args, Parsed};
use crate::scratch::{self, CHUNK, Scratch};
use crate::seat::{Farewell, Place};
use crate::server::Shared;

/// Answers of so many bytes are written before more requests are looked at.
const FLUSH: usize = CHUNK;

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
    // One try: a client that does not read is not waited for.
    let mut write = pin!(stream.write_all(goodbye));
    poll_fn(|context| Poll::Ready(write.as_mut().poll(context).is_ready())).await;
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

/// Waits for bytes, without a buffer; returns them behind those that have come already.
async fn read<S: AsyncRead + Unpin>(stream: &mut S, begun: &[u8]) -> io::Result<(Scratch, usize)> {
    poll_fn(|context| {
        let mut scratch = scratch::take();
        scratch.input[..begun.len()].copy_from_slice(begun);
        let mut into = ReadBuf::new(&mut scratch.input);
        into.set_filled(begun.len());
        match Pin::new(&mut *stream).poll_read(context, &mut into) {
            Poll::Ready(result) => {
                let end = into.filled().len();
                Poll::Ready(result.map(|()| (scratch, end)))
            }
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Writes the answers. Where the client has to be waited for, that takes no more memory than what is left.
async fn write<S: AsyncWrite + Unpin>(stream: &mut S, scratch: Scratch) -> io::Result<()> {
    let mut done = 0;
    let output = &scratch.output;
    let rest = poll_fn(|context| {
        while done < output.len() {
            match Pin::new(&mut *stream).poll_write(context, &output[done..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => done += written,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Ready(Ok(output[done..].to_vec())),
            }
        }
        Poll::Ready(Ok(Vec::new()))
    })
    .await?;
    drop(scratch);
    stream.write_all(&rest).await?;
    // Whoever encrypts may hold something back.
    stream.flush().await
}
