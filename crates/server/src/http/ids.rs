//! `/v1/ids`: ids of a name, in several formats.

use std::sync::Arc;

use hyper::StatusCode;

use super::answer::{self, Answer, Answered};
use super::body::Body;
use super::ids_text::{Format, text};
use super::request::Asked;
use crate::listener::Protocol;
use crate::names::Name;
use crate::shared::Shared;

pub async fn answer(shared: &Shared, asked: &Asked) -> Answered {
    let (count, format) = wanted(shared, asked).map_err(answer::bad_request)?;
    let name = find(shared, asked).await?;
    if asked.is_head() {
        return Ok(Answer::new(format.kind(), ""));
    }
    let mut ids = Vec::new();
    let filled = match shared.budget.take(count as u64) {
        Ok(room) => name.issuer().fill(&mut ids, count).await.map(|()| room),
        Err(error) => Err(error),
    };
    name.counters.count(Protocol::Http, count as u64, &filled);
    let room = filled.map_err(answer::not_issued)?;
    let text = text(name.text(), format, &ids);
    Ok(Answer::new(format.kind(), Body::with_room(text, room)))
}

/// Finds the requested name or the default one, or answers that there is none.
pub async fn find(shared: &Shared, asked: &Asked) -> Result<Arc<Name>, Answer> {
    let missing = |text: String| answer::error(StatusCode::NOT_FOUND, text);
    let Some(text) = asked.parameter("name").map_err(answer::bad_request)? else {
        let name = shared.names.default_name().map(Arc::clone);
        return name.ok_or_else(|| missing("there is no default name; add `name=`".into()));
    };
    let found = shared.names.find_or_look(&text, &mut None).await.map_err(answer::not_issued)?;
    found.ok_or_else(|| {
        let text: String = text.chars().take(128).collect();
        missing(format!("there is no name `{text}`; the page at `/` shows those that there are"))
    })
}

fn wanted(shared: &Shared, asked: &Asked) -> Result<(usize, Format), String> {
    asked.check_query(&["name", "count", "format"])?;
    let max = shared.limits.batch;
    let count = match asked.parameter("count")?.as_deref().map(str::parse) {
        None => 1,
        Some(Ok(count)) if (1..=max).contains(&count) => count,
        Some(_) => return Err(format!("count is not an integer from 1 to {max}")),
    };
    let format = match asked.parameter("format")?.as_deref() {
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
