//! `/readyz`: which names issue nothing, and why. `/healthz`: whether the server needs a restart.

use hyper::{Response, StatusCode};
use serde_json::json;

use super::answer;
use super::body::Body;
use super::request::Asked;
use crate::names::SHOWN;
use crate::shared::Shared;

/// Fails only for a lost lease. A restart cures nothing else, and would stop the names that still issue ids. Names are
/// not shown, because anybody may ask.
pub fn liveness(shared: &Shared, asked: Asked) -> Response<Body> {
    if !shared.names.any_lost_lease() {
        return answer::text(asked, "ok\n");
    }
    let text = "a name has lost the lease of its worker id, and gets another only when the server is restarted";
    answer::error(asked, StatusCode::SERVICE_UNAVAILABLE, text)
}

pub fn answer(shared: &Shared, asked: Asked) -> Response<Body> {
    let names = shared.names.list();
    let (mut failing, mut not_shown) = (Vec::new(), 0);
    for name in &names {
        match name.problem() {
            Some(error) if failing.len() < SHOWN => {
                failing.push(json!({ "name": name.text(), "error": error }));
            }
            Some(_) => not_shown += 1,
            None => {}
        }
    }
    let is_ready = failing.is_empty();
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let value = json!({
        "ready": is_ready,
        "names": names.len(),
        "failing": failing,
        "failing_not_shown": not_shown,
    });
    answer::json(asked, status, &value)
}
