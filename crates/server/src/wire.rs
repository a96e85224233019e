//! What several protocols share: reading requests, answering them in order, and writing.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::answers::{Answers, at_once};
use crate::client::Client;
use crate::scratch::{self, Scratch};
use crate::seat::{Farewell, Place};

/// How long a client has to receive the answer that explains why its connection ends.
const LINGER: Duration = Duration::from_millis(500);

/// A connection's bytes.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

/// A request and its length; `None` if it is incomplete; else why the bytes are no request.
pub type Parsed<T, E = String> = Result<Option<(T, usize)>, E>;

/// The length of the answered request; `None` if it is incomplete.
pub type Answered = io::Result<Option<usize>>;

/// One connection's session: requests in, answers out.
pub trait Session {
    /// Answers the request at the front of `bytes`. Must refuse requests longer than a chunk.
    async fn answer(&mut self, bytes: &[u8], answers: &mut Answers<'_>) -> Answered;

    fn client(&mut self) -> &mut Client;

    /// Whether the answered requests began something that must also end in time.
    fn is_amid_request(&self) -> bool {
        false
    }

    /// What to tell a client that did not end its request in time.
    fn goodbye() -> Vec<u8>;
}

/// Answers a connection's requests until it ends.
pub async fn serve<T: Session>(mut stream: impl Stream, place: &Place, session: &mut T) {
    // On an error, the client is gone or was told why.
    let _ = converse(&mut stream, place, session).await;
    // Only in the middle of a request. Otherwise the client would take this for the next answer.
    if place.farewell() == Some(Farewell::Slow) {
        write_at_once(&mut stream, &T::goodbye()).await;
    }
}

async fn converse<T: Session>(
    stream: &mut impl Stream,
    place: &Place,
    session: &mut T,
) -> io::Result<()> {
    // The incomplete request at the end of the last read.
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
        // A waiting connection keeps as little as possible.
        begun = scratch.input[start..end].to_vec();
        // Count the ids before the client gets them.
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

/// Reads and discards for a while. Closing a socket with unread bytes could lose the last answer.
async fn linger(stream: &mut impl Stream) -> io::Result<()> {
    // On the heap, because an array would enlarge each connection's future.
    let mut bytes = vec![0; 1024];
    let discard = async {
        stream.shutdown().await?;
        while stream.read(&mut bytes).await? > 0 {}
        Ok(())
    };
    tokio::time::timeout(LINGER, discard).await.unwrap_or(Ok(()))
}

/// Waits for bytes without holding a buffer. Returns them behind the earlier ones.
async fn read(stream: &mut impl Stream, begun: &[u8]) -> io::Result<(Scratch, usize)> {
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

/// Writes the answers. While waiting for the client, it keeps only what is left.
async fn write(stream: &mut impl Stream, scratch: Scratch) -> io::Result<()> {
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
    // TLS may hold something back.
    stream.flush().await
}

/// Writes what fits at once, without waiting for the client.
pub async fn write_at_once(stream: &mut impl Stream, bytes: &[u8]) {
    let _ = at_once(pin!(stream.write_all(bytes))).await;
}
