//! HTTP/1.1: Leaf's paths, the server's own, and a page to look at.

mod answer;
mod begun;
mod body;
mod dashboard;
mod events;
mod health;
mod ids;
mod ids_text;
mod kind;
mod leaf;
mod metrics;
mod pages;
mod parse;
mod request;
mod site;
mod snapshot;
mod watch;

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Method, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use self::answer::Answer;
use self::begun::Begun;
use self::body::Body;
use self::request::Asked;
use crate::listener::Protocol;
use crate::seat::{Farewell, Place};
use crate::shared::Shared;

/// What hyper needs for a request's head.
const SMALLEST_BUFFER: usize = 8192;

/// Answers a connection's requests until it ends.
pub async fn serve<S>(stream: S, place: &Arc<Place>, shared: &Arc<Shared>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    if let Some(begun) = Begun::wait(stream).await {
        // In memory of its own, which connections that ask nothing do without.
        Box::pin(converse(begun, place, shared)).await;
    }
}

async fn converse<S>(stream: S, place: &Arc<Place>, shared: &Arc<Shared>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = Client { shared: Arc::clone(shared), place: Arc::clone(place) };
    // The seat ends slow and idle connections, with no timer for each. When the server drains, reading ends as
    // if the client had closed its half: with `half_close`, what has arrived is still answered. Answers to a
    // pipeline are not gathered (`pipeline_flush`), as hyper sets no limit to their bytes.
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
        // One try: a client that does not read is not waited for.
        let mut write = pin!(stream.write_all(goodbye.as_bytes()));
        poll_fn(|context| Poll::Ready(write.as_mut().poll(context).is_ready())).await;
    }
}

/// What a client gets that is refused for lack of room.
pub fn refusal() -> String {
    answer::without_hyper(
        StatusCode::SERVICE_UNAVAILABLE,
        "the server has as many connections as it may have; try again later",
    )
}

/// A connection, to hyper.
struct Client {
    shared: Arc<Shared>,
    place: Arc<Place>,
}

impl Service<hyper::Request<Incoming>> for Client {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: hyper::Request<Incoming>) -> Answering {
        let begin = Instant::now();
        // No path reads a body; hyper skips a short one, and closes after the answer to a long one.
        let (parts, _) = request.into_parts();
        match route(&self.shared, &self.place, Asked::new(parts)) {
            Answer::Now(response) => {
                count(&self.shared, begin, &response);
                Answering::Now(Some(response))
            }
            Answer::Later(later) => {
                let shared = Arc::clone(&self.shared);
                Answering::Later(Box::pin(async move {
                    let response = later.await;
                    count(&shared, begin, &response);
                    response
                }))
            }
        }
    }
}

fn count(shared: &Shared, begin: Instant, response: &Response<Body>) {
    let status = response.status();
    let errors = u64::from(status.is_client_error() || status.is_server_error());
    shared.counters(Protocol::Http).answered(1, errors, begin.elapsed());
}

/// Most answers are there at once, and need no future of their own in memory.
enum Answering {
    Now(Option<Response<Body>>),
    Later(Pin<Box<dyn Future<Output = Response<Body>> + Send>>),
}

impl Future for Answering {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Now(response) => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                None => Poll::Pending,
            },
            Self::Later(later) => later.as_mut().poll(context).map(Ok),
        }
    }
}

fn route(shared: &Arc<Shared>, place: &Arc<Place>, asked: Asked) -> Answer {
    if let Some(text) = site::problem(&asked) {
        return answer::bad_request(asked, text).into();
    }
    let path = asked.path();
    let is_open = matches!(path, "/healthz" | "/");
    if !is_open && !is_trusted(shared, &asked) {
        return answer::unauthorized(asked).into();
    }
    if let Some(text) = site::refusal(shared, &asked) {
        return answer::error(asked, StatusCode::FORBIDDEN, text).into();
    }
    // As in Leaf, with any method.
    if let Some(key) = path.strip_prefix("/api/snowflake/get/")
        && is_segment(key)
    {
        return leaf::snowflake(shared, asked);
    }
    if let Some(key) = path.strip_prefix("/api/segment/get/")
        && is_segment(key)
    {
        return leaf::segment(shared, asked);
    }
    match path {
        "/decodeSnowflakeId" => return leaf::decode(shared, asked).into(),
        "/cache" => return Answer::long(shared, asked, pages::cache),
        "/db" => return pages::table(shared, asked),
        _ => {}
    }
    let id = path.strip_prefix("/v1/parse/").filter(|id| is_segment(id));
    let is_known = matches!(
        path,
        "/" | "/healthz" | "/readyz" | "/metrics" | "/v1/ids" | "/v1/events" | "/v1/parse"
    );
    if !is_known && id.is_none() {
        return answer::error(
            asked,
            StatusCode::NOT_FOUND,
            "there is no such path; there are /v1/ids, /v1/parse/{id}, /v1/events, /healthz, /readyz, /metrics and \
             /, and of Leaf's /api/segment/get/{key}, /api/snowflake/get/{key}, /decodeSnowflakeId, /cache and \
             /db",
        )
        .into();
    }
    if !matches!(*asked.method(), Method::GET | Method::HEAD | Method::POST) {
        let text = "the method is not GET, HEAD or POST";
        let mut response = answer::error(asked, StatusCode::METHOD_NOT_ALLOWED, text);
        let allowed = header::HeaderValue::from_static("GET, HEAD, POST");
        response.headers_mut().insert(header::ALLOW, allowed);
        return response.into();
    }
    match path {
        "/" => dashboard::page(asked).into(),
        "/healthz" => health::liveness(shared, asked).into(),
        "/readyz" => Answer::beside(shared, asked, health::answer),
        "/metrics" => Answer::long(shared, asked, metrics::answer),
        "/v1/ids" => ids::answer(shared, asked),
        "/v1/events" => watch::answer(shared, place, asked).into(),
        _ => parse::answer(shared, asked),
    }
}

/// Whether this is one part of a path.
fn is_segment(text: &str) -> bool {
    !text.is_empty() && !text.contains('/')
}

/// Whether the client may ask for what not everybody may.
fn is_trusted(shared: &Shared, asked: &Asked) -> bool {
    let Some(password) = &shared.password else { return true };
    let given = asked.header(header::AUTHORIZATION).and_then(|value| {
        let (scheme, token) = value.split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
    });
    given.is_some_and(|token| password.is(token))
}
