//! `/readyz`: which names issue nothing, and why. `/healthz`: whether the server needs a restart.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use serde_json::json;

use super::answer::{self, Answer};
use crate::names::SHOWN;
use crate::shared::Shared;

const PUBLIC_INTERVAL: Duration = Duration::from_secs(1);

/// Fails only for a lost lease. A restart cures nothing else, and would stop the names that still issue ids. Names are
/// not shown, because anybody may ask.
pub fn liveness(shared: &Shared) -> Answer {
    if !shared.names.any_lost_lease() {
        return Answer::new(answer::TEXT, "ok\n");
    }
    let text = "a name has lost the lease of its worker id, and gets another only when the server is restarted";
    answer::error(StatusCode::SERVICE_UNAVAILABLE, text)
}

/// Says which names fail, and why.
pub fn readiness(shared: &Shared) -> Answer {
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
    let value = json!({
        "ready": failing.is_empty(),
        "names": names.len(),
        "failing": failing,
        "failing_not_shown": not_shown,
    });
    answer::json(status(failing.is_empty()), &value)
}

/// For a client without the password, such as Kubernetes' probe: says only whether a name fails. All of them share a
/// check a second, because each check takes a uid of every generator.
pub fn public_readiness(shared: &Shared) -> Answer {
    let mut last = shared.http.readiness.lock().unwrap_or_else(PoisonError::into_inner);
    let is_ready = match *last {
        Some((checked, is_ready)) if checked.elapsed() < PUBLIC_INTERVAL => is_ready,
        _ => {
            let is_ready = shared.names.list().iter().all(|name| name.problem().is_none());
            *last = Some((Instant::now(), is_ready));
            is_ready
        }
    };
    answer::json(status(is_ready), &json!({ "ready": is_ready }))
}

fn status(is_ready: bool) -> StatusCode {
    if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}
