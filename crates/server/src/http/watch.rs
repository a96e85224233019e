//! `/v1/events`: the dashboard's data, for a limited number of watchers.

use std::sync::Arc;

use hyper::{Response, StatusCode};

use super::answer;
use super::body::Body;
use super::events::Events;
use super::kind;
use super::request::Asked;
use crate::seat::Place;
use crate::shared::Shared;

pub fn answer(shared: &Arc<Shared>, place: &Arc<Place>, asked: Asked) -> Response<Body> {
    if let Some(text) = asked.problem_of_query(&[]) {
        return answer::bad_request(asked, text);
    }
    if asked.is_head() {
        return answer::with(asked, StatusCode::OK, kind::EVENTS, Body::Empty);
    }
    let Ok(permit) = Arc::clone(&shared.http.watchers).try_acquire_owned() else {
        let max = shared.limits.watchers;
        let text = format!("{max} others are watching, which is as many as may; try again later");
        return answer::error(asked, StatusCode::SERVICE_UNAVAILABLE, text);
    };
    let events = Events::new(shared, place, permit);
    answer::with(asked, StatusCode::OK, kind::EVENTS, Body::Events(Box::new(events)))
}
