//! A watcher's events: a snapshot of the server once a second.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep_until};

use super::snapshot;
use crate::seat::{Farewell, Place};
use crate::shared::Shared;

/// How often a watcher checks whether the server stops.
const LOOK: Duration = Duration::from_millis(250);

/// Checks per event.
const LOOKS: u8 = 4;

/// A watcher's events, until it leaves or the server stops.
pub struct Events {
    shared: Arc<Shared>,
    place: Arc<Place>,
    timer: Pin<Box<Sleep>>,
    /// Checks left until the next event.
    looks: u8,
    _permit: OwnedSemaphorePermit,
}

impl Events {
    pub fn new(shared: &Arc<Shared>, place: &Arc<Place>, permit: OwnedSemaphorePermit) -> Self {
        Self {
            shared: Arc::clone(shared),
            place: Arc::clone(place),
            timer: Box::pin(sleep_until(Instant::now())),
            looks: 0,
            _permit: permit,
        }
    }

    /// Returns the next event; `None` once the server stops.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            ready!(self.timer.as_mut().poll(context));
            self.timer.as_mut().reset(Instant::now() + LOOK);
            if self.place.farewell() == Some(Farewell::Draining) {
                return Poll::Ready(None);
            }
            if self.looks == 0 {
                self.looks = LOOKS - 1;
                return Poll::Ready(Some(snapshot::event(&self.shared)));
            }
            self.looks -= 1;
        }
    }
}
