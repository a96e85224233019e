//! `/v1/events`: the dashboard's data, once a second, for a limited number of watchers.

use std::sync::Arc;

use hyper::StatusCode;

use super::answer::{self, Answer, Answered};
use super::body::Body;
use super::events::Events;
use super::request::Asked;
use crate::seat::Place;
use crate::shared::Shared;

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
    Ok(Answer::new(KIND, Body::Events(Events::new(shared, place, permit))))
}
