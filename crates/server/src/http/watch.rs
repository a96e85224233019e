//! `/v1/events`: the dashboard's data, once a second, for a limited number of watchers.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::StatusCode;
use hyper::body::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::answer::{self, Answer, Answered};
use super::body::Body;
use super::request::Asked;
use super::snapshot;
use crate::seat::{Farewell, Place};
use crate::shared::Shared;

/// How often a watcher checks whether the server stops.
const LOOK: Duration = Duration::from_millis(250);

/// Checks per event.
const LOOKS: u8 = 4;

pub fn answer(shared: &Arc<Shared>, place: &Arc<Place>, asked: &Asked) -> Answered {
    const KIND: &str = "text/event-stream";
    asked.check_query(&[]).map_err(answer::bad_request)?;
    if asked.is_head() {
        return Ok(Answer::new(KIND, ""));
    }
    let Ok(permit) = Arc::clone(&shared.http.watchers).try_acquire_owned() else {
        let max = shared.limits.watchers;
        let text = format!("{max} others are watching, which is as many as may; try again later");
        return Err(answer::error(StatusCode::SERVICE_UNAVAILABLE, text));
    };
    let (shared, place) = (Arc::clone(shared), Arc::clone(place));
    let mut timer = interval(LOOK);
    // A watcher that has not read for a while needs no events of that time.
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let events = Events { shared, place, timer, looks: 0, _permit: permit };
    Ok(Answer::new(KIND, Body::Events(events)))
}

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
