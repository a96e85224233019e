//! `/v1/ids`: ids of a name, in several formats.

use std::sync::Arc;

use hyper::{Response, StatusCode};

use super::answer;
use super::body::Body;
use super::ids_text::{Format, text};
use super::request::Asked;
use crate::listener::Protocol;
use crate::names::Name;
use crate::shared::Shared;

pub async fn answer(shared: &Shared, asked: Asked) -> Response<Body> {
    let (count, format) = match wanted(shared, &asked) {
        Ok(wanted) => wanted,
        Err(text) => return answer::bad_request(asked, text),
    };
    let (asked, name) = match find(shared, asked).await {
        Ok(found) => found,
        Err(response) => return *response,
    };
    if asked.is_head() {
        return answer::with(asked, StatusCode::OK, format.kind(), Body::Empty);
    }
    let mut ids = Vec::new();
    let filled = match shared.budget.take(count as u64) {
        Ok(room) => name.issuer().fill(&mut ids, count).await.map(|()| room),
        Err(error) => Err(error),
    };
    match filled {
        Ok(room) => {
            name.counters.issued(Protocol::Http, count as u64);
            let bytes = text(name.text(), format, &ids).into();
            answer::with(asked, StatusCode::OK, format.kind(), Body::Bytes { bytes, _room: room })
        }
        Err(error) => {
            name.counters.failed(Protocol::Http);
            answer::not_issued(asked, &error)
        }
    }
}

/// Finds the requested name or the default one, or answers that there is none.
pub async fn find(
    shared: &Shared,
    asked: Asked,
) -> Result<(Asked, Arc<Name>), Box<Response<Body>>> {
    let found = match asked.parameter("name") {
        Ok(Some(text)) => match shared.names.find_or_look(&text, &mut None).await {
            Ok(Some(name)) => Ok(name),
            Ok(None) => {
                let text: String = text.chars().take(128).collect();
                Err(format!(
                    "there is no name `{text}`; the page at `/` shows those that there are"
                ))
            }
            Err(error) => return Err(answer::not_issued(asked, &error).into()),
        },
        Ok(None) => match shared.names.default_name() {
            Some(name) => Ok(Arc::clone(name)),
            None => Err("there is no default name; add `name=`".into()),
        },
        Err(error) => {
            let text = error.to_string();
            return Err(answer::bad_request(asked, text).into());
        }
    };
    match found {
        Ok(name) => Ok((asked, name)),
        Err(text) => Err(answer::error(asked, StatusCode::NOT_FOUND, text).into()),
    }
}

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
