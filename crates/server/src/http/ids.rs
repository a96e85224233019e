//! `/v1/ids`: ids of a name, in the form that the client reads best.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::sync::OwnedSemaphorePermit;
use uidring::Uid;

use super::answer::{self, Answer};
use super::body::{Body, Digits};
use super::ids_text::{Format, IdsText};
use super::kind;
use super::request::Asked;
use crate::error::IssueError;
use crate::issuer::Issuer;
use crate::listener::Protocol;
use crate::names::Name;
use crate::shared::Shared;

pub fn answer(shared: &Arc<Shared>, asked: Asked) -> Answer {
    match wanted(shared, &asked) {
        Ok((count, format)) => with_name(shared, asked, move |shared, asked, name| {
            issue(shared, asked, name, count, format)
        }),
        Err(text) => answer::bad_request(asked, text).into(),
    }
}

/// What is answered with the name that is asked for, or the default one.
pub fn with_name<F>(shared: &Arc<Shared>, asked: Asked, answer: F) -> Answer
where
    F: FnOnce(&Shared, Asked, Arc<Name>) -> Answer + Send + 'static,
{
    let name = match asked.parameter("name") {
        Ok(Some(text)) => shared.names.get_present(&text).ok_or_else(|| text.into_owned()),
        Ok(None) => match shared.names.default_name() {
            Some(name) => Ok(Arc::clone(name)),
            None => {
                let text = "there is no default name; add `name=`";
                return answer::error(asked, StatusCode::NOT_FOUND, text).into();
            }
        },
        Err(error) => {
            let text = error.to_string();
            return answer::bad_request(asked, text).into();
        }
    };
    Answer::of_name(shared, asked, name, |shared, asked, name| match name {
        Ok(name) => answer(shared, asked, name),
        Err(text) => {
            let text: String = text.chars().take(128).collect();
            let text =
                format!("there is no name `{text}`; the page at `/` shows those that there are");
            answer::error(asked, StatusCode::NOT_FOUND, text).into()
        }
    })
}

fn issue(shared: &Shared, asked: Asked, name: Arc<Name>, count: usize, format: Format) -> Answer {
    if asked.is_head() {
        return answer::with(asked, StatusCode::OK, format.kind(), Body::Empty).into();
    }
    if count == 1 {
        return match at_once(name.issuer()) {
            Some(taken) => one(asked, &name, format, taken).into(),
            None => Answer::later(async move {
                let taken = name.issuer().take().await;
                one(asked, &name, format, taken)
            }),
        };
    }
    let room = match shared.budget.take(count as u64) {
        Ok(room) => room,
        Err(error) => return failed(asked, &name, &error).into(),
    };
    Answer::later(async move {
        let mut ids = Vec::with_capacity(count);
        match name.issuer().fill(&mut ids, count).await {
            Ok(()) => good(asked, &name, format, ids, room),
            Err(error) => failed(asked, &name, &error),
        }
    })
}

/// How many ids, and in which form.
fn wanted(shared: &Shared, asked: &Asked) -> Result<(usize, Format), String> {
    if let Some(text) = asked.problem_of_query(&["name", "count", "format"]) {
        return Err(text);
    }
    let count = asked.parameter("count").map_err(|error| error.to_string())?;
    let max = shared.limits.batch;
    let count = match count.as_deref().map(str::parse) {
        None => 1,
        Some(Ok(count)) if (1..=max).contains(&count) => count,
        Some(_) => return Err(format!("count is not an integer from 1 to {max}")),
    };
    let format = asked.parameter("format").map_err(|error| error.to_string())?;
    let format = match format.as_deref() {
        None | Some("json") => Format::Json,
        Some("text" | "dec") => Format::Text,
        Some("hex") => Format::Hex,
        Some("base62") => Format::Base62,
        Some("base32") => Format::Base32,
        Some("ndjson") => Format::Ndjson,
        Some("binary") => Format::Binary,
        Some(_) => {
            let text = "format is not json, ndjson, text (or dec), hex, base62, base32 or binary";
            return Err(text.into());
        }
    };
    let count = usize::try_from(count).map_err(|_| "count is too great")?;
    Ok((count, format))
}

/// The next id, or why there is none, unless that has to be waited for.
pub fn at_once(issuer: &Issuer) -> Option<Result<u64, IssueError>> {
    if let Some(id) = issuer.ready() {
        return Some(Ok(id));
    }
    // A take that is dropped while it waits has taken nothing.
    match pin!(issuer.take()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(taken) => Some(taken),
        Poll::Pending => None,
    }
}

fn one(
    asked: Asked,
    name: &Name,
    format: Format,
    taken: Result<u64, IssueError>,
) -> Response<Body> {
    match taken {
        Ok(id) => good(asked, name, format, vec![id], None),
        Err(error) => failed(asked, name, &error),
    }
}

fn good(
    asked: Asked,
    name: &Name,
    format: Format,
    ids: Vec<u64>,
    room: Option<OwnedSemaphorePermit>,
) -> Response<Body> {
    name.counters.issued(Protocol::Http, ids.len() as u64);
    // So have those of segments: a table's `max_id`, which is above them, is an `i64`.
    let ids = ids.into_iter().map(|id| Uid::new(id).expect("an id has 63 bits")).collect();
    let body = Body::Ids(IdsText::new(name.text(), format, ids, room));
    answer::with(asked, StatusCode::OK, format.kind(), body)
}

/// One id, and no more than its digits.
pub fn digits(asked: Asked, name: &Name, id: u64) -> Response<Body> {
    name.counters.issued(Protocol::Http, 1);
    answer::with(asked, StatusCode::OK, kind::TEXT, Body::Id(Digits::new(id)))
}

fn failed(asked: Asked, name: &Name, error: &IssueError) -> Response<Body> {
    name.counters.failed(Protocol::Http);
    let text = uidring::adapter::Chain(error).to_string();
    let mut response = answer::error(asked, StatusCode::SERVICE_UNAVAILABLE, text);
    if error.may_pass() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
