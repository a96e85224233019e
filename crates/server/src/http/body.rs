//! Bodies of answers.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Buf, Bytes, Frame, SizeHint};

use tokio::sync::OwnedSemaphorePermit;

use super::events::Events;
use super::ids_text::{IdsText, PIECE};

/// The body of an answer.
pub enum Body {
    /// Nothing, or nothing more.
    Empty,
    /// One id in decimal.
    Id(Digits),
    /// Bytes that are there.
    Bytes(Bytes),
    /// Bytes that may be many, and go piece by piece.
    Page { bytes: Bytes, _room: Room },
    /// Many ids.
    Ids(IdsText),
    /// What a watcher sees, until the connection ends.
    Events(Box<Events>),
}

/// A right to memory, until the last piece of a body is taken from it.
pub type Room = OwnedSemaphorePermit;

/// A number in decimal, in place.
pub struct Digits {
    text: [u8; 20],
    start: u8,
    end: u8,
}

impl Digits {
    pub fn new(number: u64) -> Self {
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(number).as_bytes();
        let mut text = [0; 20];
        text[..digits.len()].copy_from_slice(digits);
        Self { text, start: 0, end: digits.len() as u8 }
    }
}

/// A piece of a body.
pub enum Chunk {
    Id(Digits),
    Bytes(Bytes),
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        match self {
            Self::Id(digits) => usize::from(digits.end - digits.start),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    fn chunk(&self) -> &[u8] {
        match self {
            Self::Id(digits) => &digits.text[digits.start.into()..digits.end.into()],
            Self::Bytes(bytes) => bytes,
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            // Within what remains, says the trait: below 20.
            Self::Id(digits) => digits.start = (digits.start + count as u8).min(digits.end),
            Self::Bytes(bytes) => bytes.advance(count),
        }
    }
}

impl hyper::body::Body for Body {
    type Data = Chunk;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Chunk>, Infallible>>> {
        let this = self.get_mut();
        let chunk = match this {
            Self::Ids(ids) => ids.next().map(Chunk::Bytes),
            Self::Page { bytes, .. } if bytes.len() > PIECE => {
                Some(Chunk::Bytes(bytes.split_to(PIECE)))
            }
            Self::Events(events) => match events.poll_next(context) {
                Poll::Ready(event) => event.map(Chunk::Bytes),
                Poll::Pending => return Poll::Pending,
            },
            _ => match std::mem::replace(this, Self::Empty) {
                Self::Id(digits) => Some(Chunk::Id(digits)),
                Self::Bytes(bytes) | Self::Page { bytes, .. } => Some(Chunk::Bytes(bytes)),
                _ => None,
            },
        };
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Bytes(bytes) | Self::Page { bytes, .. } => bytes.is_empty(),
            Self::Ids(ids) => ids.left() == 0,
            Self::Id(_) | Self::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Id(digits) => SizeHint::with_exact((digits.end - digits.start).into()),
            Self::Bytes(bytes) | Self::Page { bytes, .. } => {
                SizeHint::with_exact(bytes.len() as u64)
            }
            Self::Ids(ids) => SizeHint::with_exact(ids.left()),
            Self::Events(_) => SizeHint::default(),
        }
    }
}
