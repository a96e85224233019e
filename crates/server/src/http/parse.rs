//! `/v1/parse/{id}`: the fields of a uid.

use hyper::{Response, StatusCode};
use uidring::{ParseUidError, Uid};

use super::answer;
use super::body::Body;
use super::ids;
use super::kind;
use super::request::Asked;
use crate::names::Name;
use crate::shared::Shared;

/// Parses an id in one text form.
type Read = fn(&str) -> Result<Uid, ParseUidError>;

pub async fn answer(shared: &Shared, asked: Asked) -> Response<Body> {
    let (form, read) = match form(&asked) {
        Ok(form) => form,
        Err(text) => return answer::bad_request(asked, text),
    };
    match ids::find(shared, asked).await {
        Ok((asked, name)) => parse(asked, &name, form, read),
        Err(response) => *response,
    }
}

fn form(asked: &Asked) -> Result<(&'static str, Read), String> {
    if let Some(text) = asked.problem_of_query(&["name", "format"]) {
        return Err(text);
    }
    let form = asked.parameter("format").map_err(|error| error.to_string())?;
    Ok(match form.as_deref() {
        None | Some("dec") => ("dec", |text| text.parse()),
        Some("hex") => ("hex", Uid::from_hex),
        Some("base62") => ("base62", Uid::from_base62),
        Some("base32") => ("base32", Uid::from_base32),
        Some(_) => return Err("format is not dec, hex, base62 or base32".into()),
    })
}

fn parse(asked: Asked, name: &Name, form: &str, read: Read) -> Response<Body> {
    let Some(layout) = name.issuer().layout() else {
        let text =
            format!("`{}` has a segment's ids, which are numbers without parts", name.text());
        return answer::bad_request(asked, text);
    };
    let read = match asked.last_segment("the id") {
        Ok(text) => read(&text).map_err(|error| {
            format!("the id cannot be read as `{form}`: {error}; `format` says how it is written")
        }),
        Err(error) => Err(error.to_string()),
    };
    let uid = match read {
        Ok(uid) => uid,
        Err(text) => return answer::bad_request(asked, text),
    };
    match layout.decode(uid) {
        Ok(fields) => {
            // Formatted by hand to keep the order of the fields.
            let text = format!(
                "{{\"name\":{},\"uid\":\"{}\",\"timestamp\":\"{}\",\"tick\":{},\
                 \"worker_id\":{},\"sequence\":{},\"layout\":\"{layout}\"}}\n",
                serde_json::Value::from(name.text()),
                u64::from(uid),
                fields.timestamp,
                fields.tick,
                fields.worker_id,
                fields.sequence,
            );
            answer::with(asked, StatusCode::OK, kind::JSON, Body::whole(text))
        }
        Err(error) => answer::bad_request(asked, error),
    }
}
