//! A stream whose first byte has been read: until that comes, a connection needs none of hyper's buffers.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// A stream, and its first byte until that is read again.
pub struct Begun<S> {
    first: Option<u8>,
    stream: S,
}

impl<S: AsyncRead + Unpin> Begun<S> {
    /// Waits for the first byte; none if there is no more.
    pub async fn wait(mut stream: S) -> Option<Self> {
        let first = stream.read_u8().await.ok()?;
        Some(Self { first: Some(first), stream })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Begun<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let Some(first) = this.first else {
            return Pin::new(&mut this.stream).poll_read(context, into);
        };
        if into.remaining() > 0 {
            into.put_slice(&[first]);
            this.first = None;
            // The rest, as a rule. What else it says, it says again at the next read.
            let _ = Pin::new(&mut this.stream).poll_read(context, into);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Begun<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
