//! What a watcher is sent.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Interval, MissedTickBehavior, interval};

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
    timer: Interval,
    /// Checks since the last event.
    looks: u8,
    _permit: OwnedSemaphorePermit,
}

impl Events {
    pub fn new(shared: Arc<Shared>, place: Arc<Place>, permit: OwnedSemaphorePermit) -> Self {
        let mut timer = interval(LOOK);
        // A watcher that has not read for a while needs no events of that time.
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { shared, place, timer, looks: 0, _permit: permit }
    }

    /// Returns the next event; `None` once the server stops.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            ready!(self.timer.poll_tick(context));
            if self.place.farewell() == Some(Farewell::Draining) {
                return Poll::Ready(None);
            }
            let is_due = self.looks == 0;
            self.looks = (self.looks + 1) % LOOKS;
            if is_due {
                return Poll::Ready(Some(snapshot::event(&self.shared)));
            }
        }
    }
}
