//! Bodies of answers.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::{Bytes, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

use super::events::Events;

/// How many bytes are written at a time.
const PIECE: usize = 32 * 1024;

pub enum Body {
    /// Bytes, sent in pieces.
    Bytes(Bytes),
    /// A watcher's events, until the watcher leaves or the server stops.
    Events(Events),
}

/// A permit for memory.
pub type Room = OwnedSemaphorePermit;

/// Bytes with the permit for their memory.
struct Roomy {
    bytes: Vec<u8>,
    _room: Room,
}

impl AsRef<[u8]> for Roomy {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Body {
    /// Keeps the permit until the last piece is written: the pieces share the bytes' memory.
    pub fn with_room(text: impl Into<Vec<u8>>, room: Option<Room>) -> Self {
        match room {
            Some(room) => Bytes::from_owner(Roomy { bytes: text.into(), _room: room }).into(),
            None => text.into().into(),
        }
    }
}

impl<B: Into<Bytes>> From<B> for Body {
    fn from(bytes: B) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match self.get_mut() {
            Self::Bytes(bytes) => {
                let piece = bytes.split_to(bytes.len().min(PIECE));
                (!piece.is_empty()).then_some(piece)
            }
            Self::Events(events) => ready!(events.poll_next(context)),
        };
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.size_hint().exact() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Bytes(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hyper::body::Body as _;
    use tokio::sync::Semaphore;

    use super::*;

    #[test]
    fn the_memory_of_bytes_is_free_once_the_last_piece_is_written() {
        let all = Arc::new(Semaphore::new(1));
        let room = Arc::clone(&all).try_acquire_owned().expect("a permit");
        let mut body = Body::with_room("x".repeat(2 * PIECE + 1), Some(room));
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut pieces = Vec::new();
        while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut context) {
            pieces.push(frame.into_data().expect("bytes"));
        }
        assert_eq!(pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [PIECE, PIECE, 1]);
        drop(body);
        assert_eq!(all.available_permits(), 0, "the pieces have the memory");
        drop(pieces);
        assert_eq!(all.available_permits(), 1);
    }
}
