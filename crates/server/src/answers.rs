//! Answers on their way to a client.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;

use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::scratch::CHUNK;

/// Answers this long are written before more requests are read.
pub const FLUSH: usize = CHUNK;

/// Answers that were not written yet, and their stream.
pub struct Answers<'a> {
    pub bytes: &'a mut Vec<u8>,
    stream: &'a mut (dyn AsyncWrite + Send + Unpin),
}

impl<'a> Answers<'a> {
    pub fn new(bytes: &'a mut Vec<u8>, stream: &'a mut (dyn AsyncWrite + Send + Unpin)) -> Self {
        Self { bytes, stream }
    }

    /// Awaits a future. If it is not ready at once, the answers are written first.
    pub fn wait<T>(
        &mut self,
        future: impl Future<Output = T>,
    ) -> impl Future<Output = io::Result<T>> {
        self.wait_behind(self.bytes.len(), future)
    }

    /// Awaits a future. If it is not ready at once, the first `length` bytes are written first.
    pub async fn wait_behind<T>(
        &mut self,
        length: usize,
        future: impl Future<Output = T>,
    ) -> io::Result<T> {
        let mut future = pin!(future);
        if let Some(done) = at_once(future.as_mut()).await {
            return Ok(done);
        }
        self.write(length).await?;
        Ok(future.await)
    }

    /// Writes the first `length` bytes.
    async fn write(&mut self, length: usize) -> io::Result<()> {
        self.stream.write_all(&self.bytes[..length]).await?;
        self.bytes.drain(..length);
        Ok(())
    }

    pub async fn write_if_long(&mut self) -> io::Result<()> {
        if self.bytes.len() >= FLUSH {
            self.write(self.bytes.len()).await?;
        }
        Ok(())
    }
}

/// Polls once. Returns the output if the future is ready.
pub async fn at_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        })
    })
    .await
}
