//! HTTP/1.1: Leaf's paths, the server's own, and a dashboard.

mod answer;
mod body;
mod dashboard;
mod events;
mod health;
mod ids;
mod ids_text;
mod leaf;
mod metrics;
mod pages;
mod parse;
mod request;
mod site;
mod snapshot;
mod watch;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, StatusCode, header};
use hyper_util::rt::TokioIo;

use self::answer::Answered;
use self::request::Asked;
use crate::listener::Protocol;
use crate::seat::{Farewell, Place};
use crate::shared::Shared;
use crate::wire::{self, Stream};

/// The least buffer that hyper accepts.
const SMALLEST_BUFFER: usize = 8192;

pub async fn serve(stream: impl Stream, place: &Arc<Place>, shared: &Arc<Shared>) {
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let begin = Instant::now();
        // No path reads a body. Hyper skips one that has arrived, and otherwise closes the connection after the answer.
        // Drop it here: only before the future does hyper also say `connection: close`.
        let asked = Asked(request.into_parts().0);
        async move {
            let (Ok(answer) | Err(answer)) = route(shared, place, &asked).await;
            let response = answer.into_response(asked);
            let status = response.status();
            let errors = u64::from(status.is_client_error() || status.is_server_error());
            shared.counters(Protocol::Http).answered(1, errors, begin.elapsed());
            Ok::<_, Infallible>(response)
        }
    });
    // The seat ends slow and idle connections without a timer for each. When the server drains, reading ends as if the
    // client had closed its half, and `half_close` makes hyper answer what has arrived. No `pipeline_flush`: hyper does
    // not limit the gathered bytes.
    let mut connection = http1::Builder::new()
        .half_close(true)
        .header_read_timeout(None)
        .max_buf_size(shared.limits.request.max(SMALLEST_BUFFER))
        .serve_connection(TokioIo::new(stream), service);
    let result = (&mut connection).await;
    if result.is_err() && place.farewell() == Some(Farewell::Slow) && !place.waits_for_reader() {
        let mut stream = connection.into_parts().io.into_inner();
        let goodbye = answer::without_hyper(
            StatusCode::REQUEST_TIMEOUT,
            "the request did not end in time; send it whole",
        );
        wire::write_at_once(&mut stream, goodbye.as_bytes()).await;
    }
}

/// The answer to a client if there is no room for it.
pub fn refusal() -> String {
    answer::without_hyper(
        StatusCode::SERVICE_UNAVAILABLE,
        "the server has as many connections as it may have; try again later",
    )
}

async fn route(shared: &Arc<Shared>, place: &Arc<Place>, asked: &Asked) -> Answered {
    site::check_host(asked).map_err(answer::bad_request)?;
    let path = asked.path();
    let is_open = matches!(path, "/healthz" | "/readyz" | "/");
    let is_trusted = is_trusted(shared, asked);
    if !is_open && !is_trusted {
        let text = "this server asks for a token: send the header `Authorization: Bearer TOKEN`";
        let refusal = answer::error(StatusCode::UNAUTHORIZED, text);
        return Err(refusal.with(header::WWW_AUTHENTICATE, "Bearer"));
    }
    site::check_origin(shared, asked).map_err(|text| answer::error(StatusCode::FORBIDDEN, text))?;
    // Leaf allows any method.
    if path.strip_prefix("/api/snowflake/get/").is_some_and(is_segment) {
        return leaf::snowflake(shared, asked).await;
    }
    if path.strip_prefix("/api/segment/get/").is_some_and(is_segment) {
        return leaf::segment(shared, asked).await;
    }
    match path {
        "/decodeSnowflakeId" => return Ok(leaf::decode(shared, asked)),
        "/cache" => return answer::long(shared, pages::cache).await,
        "/db" => return pages::table(shared).await,
        _ => {}
    }
    let is_known = matches!(
        path,
        "/" | "/healthz" | "/readyz" | "/metrics" | "/v1/ids" | "/v1/events" | "/v1/parse"
    );
    if !is_known && !path.strip_prefix("/v1/parse/").is_some_and(is_segment) {
        return Err(answer::error(
            StatusCode::NOT_FOUND,
            "there is no such path; there are /v1/ids, /v1/parse/{id}, /v1/events, /healthz, /readyz, /metrics and \
             /, and of Leaf's /api/segment/get/{key}, /api/snowflake/get/{key}, /decodeSnowflakeId, /cache and \
             /db",
        ));
    }
    if !matches!(asked.0.method, Method::GET | Method::HEAD | Method::POST) {
        let text = "the method is not GET, HEAD or POST";
        let refusal = answer::error(StatusCode::METHOD_NOT_ALLOWED, text);
        return Err(refusal.with(header::ALLOW, "GET, HEAD, POST"));
    }
    match path {
        "/" => Ok(dashboard::page()),
        "/healthz" => Ok(health::liveness(shared)),
        "/readyz" => {
            let shared = Arc::clone(shared);
            let answer = if is_trusted { health::readiness } else { health::public_readiness };
            Ok(answer::beside(move || answer(&shared)).await)
        }
        "/metrics" => answer::long(shared, metrics::answer).await,
        "/v1/ids" => ids::answer(shared, asked).await,
        "/v1/events" => watch::answer(shared, place, asked),
        _ => parse::answer(shared, asked).await,
    }
}

/// Whether the text is a single part of a path.
fn is_segment(text: &str) -> bool {
    !text.is_empty() && !text.contains('/')
}

/// Whether the client gave the password, or the server has none.
fn is_trusted(shared: &Shared, asked: &Asked) -> bool {
    let Some(password) = &shared.password else { return true };
    let given = asked.header(header::AUTHORIZATION).and_then(|value| {
        let (scheme, token) = value.split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
    });
    given.is_some_and(|token| password.is(token))
}
