//! `/v1/events`: what the dashboard shows, once a second, for a bounded number of watchers.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::Bytes;
use hyper::{Response, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until};

use super::answer::{self, kind};
use super::body::Body;
use super::request::Asked;
use super::snapshot::Snapshots;
use crate::limits::Limits;
use crate::seat::{Farewell, Place};
use crate::server::Shared;

/// How often a watcher looks whether the server ends.
const LOOK: Duration = Duration::from_millis(250);

/// Looks from one event to the next.
const LOOKS: u8 = 4;

/// What HTTP's connections share.
#[derive(Debug)]
pub struct State {
    watchers: Arc<Semaphore>,
    table: Arc<Semaphore>,
    snapshots: Mutex<Snapshots>,
}

impl State {
    pub fn new(limits: &Limits) -> Self {
        Self {
            watchers: Arc::new(Semaphore::new(limits.watchers.min(Semaphore::MAX_PERMITS))),
            table: Arc::new(Semaphore::new(1)),
            snapshots: Mutex::default(),
        }
    }

    /// The right to read the table of segments.
    pub fn table(&self) -> &Arc<Semaphore> {
        &self.table
    }
}

pub fn answer(shared: &Arc<Shared>, place: &Arc<Place>, asked: Asked) -> Response<Body> {
    if asked.is_head() {
        return answer::with(asked, StatusCode::OK, kind::EVENTS, Body::Empty);
    }
    let Ok(permit) = Arc::clone(&shared.http.watchers).try_acquire_owned() else {
        let max = shared.limits.watchers;
        let text = format!("{max} others are watching, which is as many as may; try again later");
        return answer::error(asked, StatusCode::SERVICE_UNAVAILABLE, text);
    };
    let events = Events {
        shared: Arc::clone(shared),
        place: Arc::clone(place),
        timer: Box::pin(sleep_until(Instant::now())),
        looks: 0,
        _permit: permit,
    };
    answer::with(asked, StatusCode::OK, kind::EVENTS, Body::Events(Box::new(events)))
}

/// A watcher's events, until it or the server goes.
pub struct Events {
    shared: Arc<Shared>,
    place: Arc<Place>,
    timer: Pin<Box<Sleep>>,
    /// Until the next event.
    looks: u8,
    _permit: OwnedSemaphorePermit,
}

impl Events {
    /// The next event; none once the server ends.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            ready!(self.timer.as_mut().poll(context));
            self.timer.as_mut().reset(Instant::now() + LOOK);
            if self.place.farewell() == Some(Farewell::Draining) {
                return Poll::Ready(None);
            }
            if self.looks == 0 {
                self.looks = LOOKS - 1;
                let snapshots = &self.shared.http.snapshots;
                let mut snapshots = snapshots.lock().unwrap_or_else(|lock| lock.into_inner());
                return Poll::Ready(Some(snapshots.event(&self.shared)));
            }
            self.looks -= 1;
        }
    }
}
