//! HTTP answers: status, headers and body.

use std::fmt::Display;
use std::sync::Arc;

use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::json;
use uidring::adapter::Chain;

use super::body::{Body, Room};
use super::kind;
use super::request::Asked;
use crate::error::IssueError;
use crate::shared::Shared;

/// Makes an answer on a thread that serves nobody, because it takes longer the more names there are.
pub async fn beside(make: impl FnOnce() -> Response<Body> + Send + 'static) -> Response<Body> {
    tokio::task::spawn_blocking(make).await.unwrap_or_else(|_| {
        let mut response = Response::new(Body::Empty);
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
}

/// Like [`beside`], for an answer that may also be long. It holds a permit until its last piece is written, and fails
/// if there is none. Long answers are made one at a time, so `/readyz` and other short ones have a free thread.
pub async fn long(
    shared: &Arc<Shared>,
    asked: Asked,
    make: fn(&Shared, Asked, Room) -> Response<Body>,
) -> Response<Body> {
    let Ok(room) = Arc::clone(&shared.http.pages).try_acquire_owned() else {
        let text = "as many long pages are on their way as may be; try again later";
        return error(asked, StatusCode::SERVICE_UNAVAILABLE, text);
    };
    let shared = Arc::clone(shared);
    let turn = Arc::clone(&shared.http.turn).acquire_owned().await;
    beside(move || {
        let made = make(&shared, asked, room);
        drop(turn);
        made
    })
    .await
}

/// Makes an answer. Caches must not keep it: no id may be used twice, and everything else changes.
pub fn with(asked: Asked, status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let is_head = asked.is_head();
    let mut response = Response::new(if is_head { Body::Empty } else { body });
    *response.status_mut() = status;
    // Hyper reuses the memory of these headers for the next request, so nothing is allocated.
    let mut headers = asked.into_headers();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    *response.headers_mut() = headers;
    response
}

pub fn text(asked: Asked, text: &'static str) -> Response<Body> {
    with(asked, StatusCode::OK, kind::TEXT, Body::whole(text))
}

/// Answers with a value and a newline.
pub fn json(asked: Asked, status: StatusCode, value: &serde_json::Value) -> Response<Body> {
    with(asked, status, kind::JSON, Body::whole(format!("{value}\n")))
}

pub fn error(asked: Asked, status: StatusCode, text: impl Display) -> Response<Body> {
    json(asked, status, &json!({ "error": text.to_string() }))
}

pub fn bad_request(asked: Asked, text: impl Display) -> Response<Body> {
    error(asked, StatusCode::BAD_REQUEST, text)
}

/// Says why no id was issued, and whether to retry soon.
pub fn not_issued(asked: Asked, why: &IssueError) -> Response<Body> {
    let mut response = error(asked, StatusCode::SERVICE_UNAVAILABLE, Chain(why));
    if why.may_pass() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// A page that loads nothing and cannot be framed.
pub fn page(asked: Asked, policy: &'static str, body: Body) -> Response<Body> {
    let mut response = with(asked, StatusCode::OK, kind::HTML, body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

pub fn unauthorized(asked: Asked) -> Response<Body> {
    let text = "this server asks for a token: send the header `Authorization: Bearer TOKEN`";
    let mut response = error(asked, StatusCode::UNAUTHORIZED, text);
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// A complete answer that closes the connection, for use without hyper.
pub fn without_hyper(status: StatusCode, text: &str) -> String {
    let body = json!({ "error": text });
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n\
         {body}\n",
        kind::JSON,
        body.to_string().len() + 1
    )
}
