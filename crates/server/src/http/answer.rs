//! HTTP answers: status, headers and body.

use std::fmt::Display;
use std::sync::Arc;

use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::json;
use uidring::adapter::Chain;

use super::body::{Body, Room};
use super::request::Asked;
use crate::error::IssueError;
use crate::shared::Shared;

/// Content types.
pub const TEXT: &str = "text/plain; charset=utf-8";
pub const JSON: &str = "application/json";

/// What to answer. Becomes a response last, because that reuses the request's memory.
pub struct Answer {
    status: StatusCode,
    kind: &'static str,
    body: Body,
    /// Headers that few answers have.
    more: Vec<(HeaderName, &'static str)>,
}

/// An answer, or one that refuses the request.
pub type Answered = Result<Answer, Answer>;

impl Answer {
    pub fn new(kind: &'static str, body: impl Into<Body>) -> Self {
        Self { status: StatusCode::OK, kind, body: body.into(), more: Vec::new() }
    }

    /// Makes a response. Caches must not keep it: no id may be used twice, and everything else changes.
    pub fn into_response(self, asked: Asked) -> Response<Body> {
        let is_head = asked.is_head();
        let mut response = Response::new(if is_head { "".into() } else { self.body });
        *response.status_mut() = self.status;
        // Hyper reuses the memory of these headers for the next request, so nothing is allocated.
        let mut headers = asked.into_headers();
        let all = [
            (header::CONTENT_TYPE, self.kind),
            (header::CACHE_CONTROL, "no-store"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ];
        for (name, value) in all.into_iter().chain(self.more) {
            headers.insert(name, HeaderValue::from_static(value));
        }
        *response.headers_mut() = headers;
        response
    }

    pub fn with(mut self, header: HeaderName, value: &'static str) -> Self {
        self.more.push((header, value));
        self
    }
}

/// Makes an answer on a thread that serves nobody, because it takes longer the more names there are.
pub async fn beside(make: impl FnOnce() -> Answer + Send + 'static) -> Answer {
    tokio::task::spawn_blocking(make).await.unwrap_or_else(|_| {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Answer { status, ..Answer::new(TEXT, "") }
    })
}

/// Like [`beside`], for an answer that may also be long. It holds a permit until its last piece is written, and fails
/// if there is none. Long answers are made one at a time, so `/readyz` and other short ones have a free thread.
pub async fn long(shared: &Arc<Shared>, make: fn(&Shared, Room) -> Answer) -> Answered {
    let Ok(room) = Arc::clone(&shared.http.pages).try_acquire_owned() else {
        let text = "as many long pages are on their way as may be; try again later";
        return Err(error(StatusCode::SERVICE_UNAVAILABLE, text));
    };
    let shared = Arc::clone(shared);
    let turn = Arc::clone(&shared.http.turn).acquire_owned().await;
    let made = beside(move || {
        let made = make(&shared, room);
        drop(turn);
        made
    });
    Ok(made.await)
}

/// Answers with a value and a newline.
pub fn json(status: StatusCode, value: &serde_json::Value) -> Answer {
    Answer { status, ..Answer::new(JSON, format!("{value}\n")) }
}

pub fn error(status: StatusCode, text: impl Display) -> Answer {
    json(status, &json!({ "error": text.to_string() }))
}

pub fn bad_request(text: impl Display) -> Answer {
    error(StatusCode::BAD_REQUEST, text)
}

/// Says why no id was issued, and whether to retry soon.
pub fn not_issued(why: IssueError) -> Answer {
    let answer = error(StatusCode::SERVICE_UNAVAILABLE, Chain(&why));
    if why.may_pass() { answer.with(header::RETRY_AFTER, "1") } else { answer }
}

/// A page that loads nothing and cannot be framed.
pub fn page(policy: &'static str, body: impl Into<Body>) -> Answer {
    Answer::new("text/html; charset=utf-8", body)
        .with(header::CONTENT_SECURITY_POLICY, policy)
        .with(header::REFERRER_POLICY, "no-referrer")
}

/// A complete answer that closes the connection, for use without hyper.
pub fn without_hyper(status: StatusCode, text: &str) -> String {
    let body = json!({ "error": text });
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {JSON}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n\
         {body}\n",
        body.to_string().len() + 1
    )
}
