//! `/v1/ids`: ids of a name, in the form that the client reads best.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::sync::OwnedSemaphorePermit;

use super::answer::{self, Answer, kind};
use super::body::{Body, Digits};
use super::request::Asked;
use super::{PROTOCOL, request};
use crate::error::IssueError;
use crate::issuer::Issuer;
use crate::names::Name;
use crate::server::Shared;

/// Bytes of ids that are written at once.
const PIECE: usize = 32 * 1024;

/// How ids are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Text,
    Json,
    Ndjson,
    Binary,
}

impl Format {
    fn kind(self) -> &'static str {
        match self {
            Self::Text => kind::TEXT,
            Self::Json => kind::JSON,
            Self::Ndjson => kind::NDJSON,
            Self::Binary => kind::BINARY,
        }
    }
}

/// What is asked for, once it is known to be possible.
struct Wanted {
    name: Arc<Name>,
    count: usize,
    format: Format,
}

pub fn answer(shared: &Arc<Shared>, asked: Asked) -> Answer {
    let Wanted { name, count, format } = match wanted(shared, &asked) {
        Ok(wanted) => wanted,
        Err((status, text)) => return answer::error(asked, status, text).into(),
    };
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

fn wanted(shared: &Shared, asked: &Asked) -> Result<Wanted, (StatusCode, String)> {
    let bad = |text: String| (StatusCode::BAD_REQUEST, text);
    let malformed = |error: request::Malformed<'_>| bad(error.to_string());
    let count = asked.parameter("count").map_err(malformed)?;
    let max = shared.limits.batch;
    let count = match count.as_deref().map(str::parse) {
        None => 1,
        Some(Ok(count)) if (1..=max).contains(&count) => count,
        Some(_) => return Err(bad(format!("count is not an integer from 1 to {max}"))),
    };
    let format = match asked.parameter("format").map_err(malformed)?.as_deref() {
        None | Some("json") => Format::Json,
        Some("text") => Format::Text,
        Some("ndjson") => Format::Ndjson,
        Some("binary") => Format::Binary,
        Some(_) => return Err(bad("format is not text, json, ndjson or binary".into())),
    };
    let name = find(shared, asked)?;
    let count = usize::try_from(count).map_err(|_| bad("count is too great".into()))?;
    Ok(Wanted { name, count, format })
}

/// The name that is asked for, or the default one.
pub fn find(shared: &Shared, asked: &Asked) -> Result<Arc<Name>, (StatusCode, String)> {
    let text = asked.parameter("name");
    let text = text.map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
    let Some(text) = text else {
        let name = shared.names.default_name().map(Arc::clone);
        let text = || "there is no default name; add `name=`".to_owned();
        return name.ok_or_else(|| (StatusCode::NOT_FOUND, text()));
    };
    shared.names.get(&text).ok_or_else(|| {
        let text: String = text.chars().take(128).collect();
        (
            StatusCode::NOT_FOUND,
            format!("there is no name `{text}`; the page at `/` shows those that there are"),
        )
    })
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
    name.counters.issued(PROTOCOL, ids.len() as u64);
    let mut text = IdsText::new(name.text(), format, ids);
    text.room = room;
    let body = Body::Ids(text);
    answer::with(asked, StatusCode::OK, format.kind(), body)
}

/// One id, and no more than its digits.
pub fn digits(asked: Asked, name: &Name, id: u64) -> Response<Body> {
    name.counters.issued(PROTOCOL, 1);
    answer::with(asked, StatusCode::OK, kind::TEXT, Body::Id(Digits::new(id)))
}

fn failed(asked: Asked, name: &Name, error: &IssueError) -> Response<Body> {
    name.counters.failed(PROTOCOL);
    let text = uidring::adapter::Chain(error).to_string();
    let mut response = answer::error(asked, StatusCode::SERVICE_UNAVAILABLE, text);
    if error.may_pass() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Ids, which become text piece by piece as the client reads.
pub struct IdsText {
    ids: Vec<u64>,
    done: usize,
    format: Format,
    /// What is before the ids; nothing, once it is written.
    head: Vec<u8>,
    /// Bytes that are not written.
    left: u64,
    /// Given back when all are.
    room: Option<OwnedSemaphorePermit>,
}

impl IdsText {
    fn new(name: &str, format: Format, ids: Vec<u64>) -> Self {
        let digits = || ids.iter().map(|id| u64::from(id.checked_ilog10().unwrap_or(0)) + 1);
        let (count, mut head) = (ids.len() as u64, Vec::new());
        let left = match format {
            Format::Text => digits().sum::<u64>() + count,
            Format::Ndjson => digits().sum::<u64>() + 3 * count,
            Format::Binary => 8 * count,
            Format::Json => {
                let name = serde_json::Value::from(name);
                head = format!("{{\"name\":{name},\"ids\":[").into_bytes();
                // Commas between them, and what ends the object.
                head.len() as u64 + digits().sum::<u64>() + 3 * count - 1 + 3
            }
        };
        Self { ids, done: 0, format, head, left, room: None }
    }

    /// Bytes to come.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next piece.
    pub fn next(&mut self) -> Option<Bytes> {
        if self.left == 0 {
            return None;
        }
        let mut piece = std::mem::take(&mut self.head);
        // The longest id has 20 digits, and three more bytes around it.
        let end = self.ids.len().min(self.done + PIECE / 23);
        piece.reserve(PIECE.min(usize::try_from(self.left).unwrap_or(PIECE)));
        let mut digits = itoa::Buffer::new();
        for (index, id) in self.ids.iter().enumerate().take(end).skip(self.done) {
            let quote: &[u8] = match self.format {
                Format::Binary => {
                    piece.extend_from_slice(&id.to_le_bytes());
                    continue;
                }
                Format::Text => b"",
                Format::Json | Format::Ndjson => b"\"",
            };
            if self.format == Format::Json && index > 0 {
                piece.push(b',');
            }
            piece.extend_from_slice(quote);
            piece.extend_from_slice(digits.format(*id).as_bytes());
            piece.extend_from_slice(quote);
            if self.format != Format::Json {
                piece.push(b'\n');
            }
        }
        self.done = end;
        if self.format == Format::Json && end == self.ids.len() {
            piece.extend_from_slice(b"]}\n");
        }
        self.left = self.left.saturating_sub(piece.len() as u64);
        Some(piece.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_is_known_before_the_text() {
        let ids = [0, 1, 9, 10, 99, 100, 12_345_678_901, u64::MAX];
        for format in [Format::Text, Format::Json, Format::Ndjson, Format::Binary] {
            for count in [1, 2, 8, PIECE / 23, PIECE / 23 + 1, 10_000] {
                let ids: Vec<u64> = ids.iter().cycle().copied().take(count).collect();
                let mut text = IdsText::new("a \"name\"\n", format, ids.clone());
                let (length, mut all) = (text.left(), Vec::new());
                while let Some(piece) = text.next() {
                    assert!(piece.len() <= PIECE + 64, "{}", piece.len());
                    all.extend_from_slice(&piece);
                }
                assert_eq!((all.len() as u64, text.left()), (length, 0), "{format:?} {count}");
                let read: Vec<u64> = match format {
                    Format::Binary => {
                        let id = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes);
                        all.chunks(8).map(|bytes| id(bytes).expect("eight")).collect()
                    }
                    Format::Json => {
                        let value: serde_json::Value = serde_json::from_slice(&all).expect("JSON");
                        assert_eq!(value["name"], "a \"name\"\n");
                        let ids = value["ids"].as_array().expect("a list").iter();
                        ids.map(|id| id.as_str().expect("a string").parse().expect("id")).collect()
                    }
                    Format::Text | Format::Ndjson => {
                        let text = String::from_utf8(all).expect("text");
                        text.lines().map(|id| id.trim_matches('"').parse().expect("id")).collect()
                    }
                };
                assert_eq!(read, ids);
            }
        }
    }
}
