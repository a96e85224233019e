//! What connections of several protocols do alike: read requests, answer them in order, write.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::answers::{Answers, at_once};
use crate::client::Client;
use crate::scratch::{self, Scratch};
use crate::seat::Place;

/// A client that sent what ends its connection has so long to receive the answer that says why.
const LINGER: Duration = Duration::from_millis(500);

/// The length of the request that was answered; none if a part of it has yet to come.
pub type Answered = io::Result<Option<usize>>;

/// One side of a connection: requests in, answers out.
pub trait Session {
    /// Answers the request at the front of `bytes`. It refuses what is longer than a chunk.
    async fn answer(&mut self, bytes: &[u8], answers: &mut Answers<'_>) -> Answered;

    /// Whose session it is.
    fn client(&mut self) -> &mut Client;

    /// Whether what was answered is a part of something that has to end as a request has to.
    fn is_amid_request(&self) -> bool {
        false
    }
}

/// Answers a connection's requests until it ends.
pub async fn converse<S, T>(stream: &mut S, place: &Place, session: &mut T) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Send + Unpin,
    T: Session,
{
    // The part of a request that has come so far.
    let mut begun = Vec::new();
    loop {
        let (mut scratch, end) = read(stream, &begun).await?;
        if end == begun.len() {
            return Ok(());
        }
        let begin = Instant::now();
        let mut start = 0;
        let Scratch { input, output } = &mut scratch;
        let mut answers = Answers::new(output, stream);
        while start < end && !session.client().is_over {
            match session.answer(&input[start..end], &mut answers).await? {
                Some(length) => start += length,
                None => break,
            }
            answers.write_if_long().await?;
        }
        // A connection that waits keeps no more than it has to.
        begun = scratch.input[start..end].to_vec();
        // A client that has its ids finds them counted.
        session.client().count_issued();
        write(stream, scratch).await?;
        session.client().count_requests(begin.elapsed());
        if session.client().is_over {
            return linger(stream).await;
        }
        if session.is_amid_request() {
            place.is_amid_request();
        } else if begun.is_empty() {
            place.is_between_requests();
        } else if start > 0 {
            place.is_amid_request();
        }
    }
}

/// Reads and discards for a while: a socket that is closed with bytes unread takes the last answer with it.
async fn linger<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> io::Result<()> {
    // Not an array, which the future of each connection would have room for.
    let mut bytes = vec![0; 1024];
    let discard = async {
        stream.shutdown().await?;
        while stream.read(&mut bytes).await? > 0 {}
        Ok(())
    };
    tokio::time::timeout(LINGER, discard).await.unwrap_or(Ok(()))
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

/// Writes what fits at once: a client that does not read is not waited for.
pub async fn write_at_once<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8]) {
    let _ = at_once(pin!(stream.write_all(bytes))).await;
}
