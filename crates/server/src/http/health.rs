//! `/readyz`: which names issue nothing, and why.

use std::sync::Arc;

use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use uidring::segment::{SegmentError, SegmentHandle};

use super::answer;
use super::body::Body;
use super::request::Asked;
use crate::issuer::Issuer;
use crate::names::Name;
use crate::server::Shared;

pub fn answer(shared: &Arc<Shared>, asked: Asked) -> Response<Body> {
    let names = shared.names.list();
    let failing: Vec<Value> = names
        .iter()
        .filter_map(|name| Some(json!({ "name": name.text(), "error": problem(name)? })))
        .collect();
    let is_ready = failing.is_empty();
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let value = json!({ "ready": is_ready, "names": names.len(), "failing": failing });
    answer::json(asked, status, &value)
}

/// Why a name issues nothing, as far as that is known without waiting. Of uids, one is taken.
pub fn problem(name: &Name) -> Option<String> {
    let issuer = name.issuer();
    if let Issuer::Segment(handle) = issuer {
        return of_segment(handle);
    }
    match issuer.generator()?.try_next_uid() {
        Err(error) if !error.may_pass() => Some(error.to_string()),
        _ => None,
    }
}

fn of_segment(handle: &SegmentHandle) -> Option<String> {
    let stats = match handle.stats() {
        Ok(stats) => stats,
        Err(error) => return Some(error.to_string()),
    };
    // A take of a tag that nobody has used would reserve a segment of it.
    if stats.left > 0 || stats.loads + stats.load_failures == 0 {
        return None;
    }
    match handle.try_next_id() {
        Ok(_) | Err(SegmentError::Empty) => None,
        Err(error) => Some(uidring::adapter::Chain(&error).to_string()),
    }
}
