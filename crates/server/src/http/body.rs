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
    /// Bytes, sent in pieces, and the permit for their memory if they may be many.
    Bytes(Bytes, Option<Room>),
    /// A watcher's events, until the watcher leaves or the server stops.
    Events(Events),
}

/// A permit for memory, until the last piece of a body is taken.
pub type Room = OwnedSemaphorePermit;

impl<B: Into<Bytes>> From<B> for Body {
    fn from(bytes: B) -> Self {
        Self::Bytes(bytes.into(), None)
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
            Self::Bytes(bytes, room) => {
                let piece = bytes.split_to(bytes.len().min(PIECE));
                if bytes.is_empty() {
                    *room = None;
                }
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
            Self::Bytes(bytes, _) => SizeHint::with_exact(bytes.len() as u64),
            Self::Events(_) => SizeHint::default(),
        }
    }
}
