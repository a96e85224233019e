//! Answers on their way to a client.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;

use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::scratch::CHUNK;

/// Answers of so many bytes are written before more requests are looked at.
pub const FLUSH: usize = CHUNK;

/// Answers that have yet to be written, and where to.
pub struct Answers<'a> {
    pub bytes: &'a mut Vec<u8>,
    stream: &'a mut (dyn AsyncWrite + Send + Unpin),
}

impl<'a> Answers<'a> {
    pub fn new(bytes: &'a mut Vec<u8>, stream: &'a mut (dyn AsyncWrite + Send + Unpin)) -> Self {
        Self { bytes, stream }
    }

    /// Waits for a future. Unless it is ready at once, writes the answers first.
    pub async fn wait<T>(&mut self, future: impl Future<Output = T>) -> io::Result<T> {
        let mut future = pin!(future);
        if let Some(done) = at_once(future.as_mut()).await {
            return Ok(done);
        }
        self.write(self.bytes.len()).await?;
        Ok(future.await)
    }

    /// Writes so many bytes of them.
    pub async fn write(&mut self, length: usize) -> io::Result<()> {
        self.stream.write_all(&self.bytes[..length]).await?;
        self.bytes.drain(..length);
        Ok(())
    }

    /// Writes them if they are long.
    pub async fn write_if_long(&mut self) -> io::Result<()> {
        if self.bytes.len() >= FLUSH {
            self.write(self.bytes.len()).await?;
        }
        Ok(())
    }
}

/// What a future comes to if that needs no waiting.
pub async fn at_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        })
    })
    .await
}
