//! `/v1/parse/{id}`: a uid taken apart.

use std::sync::Arc;

use hyper::{Response, StatusCode};
use uidring::Uid;

use super::answer::{self, Answer};
use super::body::Body;
use super::ids;
use super::kind;
use super::request::Asked;
use crate::names::Name;
use crate::shared::Shared;

pub fn answer(shared: &Arc<Shared>, asked: Asked) -> Answer {
    if let Some(text) = asked.problem_of_query(&["name", "format"]) {
        return answer::bad_request(asked, text).into();
    }
    let read: fn(&str) -> Option<Uid> = match asked
        .parameter("format")
        .as_ref()
        .map(Option::as_deref)
    {
        Ok(None | Some("dec")) => |text| text.parse().ok(),
        Ok(Some("hex")) => |text| Uid::from_hex(text).ok(),
        Ok(Some("base62")) => |text| Uid::from_base62(text).ok(),
        Ok(Some("base32")) => |text| Uid::from_base32(text).ok(),
        _ => return answer::bad_request(asked, "format is not dec, hex, base62 or base32").into(),
    };
    ids::with_name(shared, asked, move |_, asked, name| parse(asked, &name, read).into())
}

fn parse(asked: Asked, name: &Name, read: fn(&str) -> Option<Uid>) -> Response<Body> {
    let Some(layout) = name.issuer().layout() else {
        let text =
            format!("`{}` has a segment's ids, which are numbers without parts", name.text());
        return answer::bad_request(asked, text);
    };
    let uid = match asked.last_segment("the id") {
        Ok(text) => read(&text),
        Err(error) => {
            let text = error.to_string();
            return answer::bad_request(asked, text);
        }
    };
    let Some(uid) = uid else {
        return answer::bad_request(
            asked,
            "the id is not an integer from 0 to 9223372036854775807; `format` says how else it is written",
        );
    };
    match layout.decode(uid) {
        Ok(fields) => {
            // By hand, for the order of the fields.
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
            answer::with(asked, StatusCode::OK, kind::JSON, Body::Bytes(text.into()))
        }
        Err(error) => answer::bad_request(asked, error),
    }
}
