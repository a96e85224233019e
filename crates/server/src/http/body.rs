//! Bodies of answers.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Bytes, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

use super::events::Events;

/// How many bytes are written at a time.
const PIECE: usize = 32 * 1024;

pub enum Body {
    Empty,
    /// Bytes, sent in pieces, and the permit for their memory if they may be many.
    Bytes {
        bytes: Bytes,
        _room: Option<Room>,
    },
    /// A watcher's events, until the connection ends.
    Events(Box<Events>),
}

/// A permit for memory, until the last piece of a body is taken.
pub type Room = OwnedSemaphorePermit;

impl Body {
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Bytes { bytes: bytes.into(), _room: None }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let piece = match this {
            Self::Empty => None,
            Self::Bytes { bytes, .. } => {
                let piece = bytes.split_to(bytes.len().min(PIECE));
                if bytes.is_empty() {
                    *this = Self::Empty;
                }
                Some(piece)
            }
            Self::Events(events) => match events.poll_next(context) {
                Poll::Ready(event) => event,
                Poll::Pending => return Poll::Pending,
            },
        };
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.size_hint().exact() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Bytes { bytes, .. } => SizeHint::with_exact(bytes.len() as u64),
            Self::Events(_) => SizeHint::default(),
        }
    }
}
