//! `/v1/parse/{id}`: the fields of a uid.

use uidring::{ParseUidError, Uid};

use super::answer::{self, Answer, Answered, bad_request};
use super::ids;
use super::request::Asked;
use crate::shared::Shared;

/// Parses an id in one text form.
type Read = fn(&str) -> Result<Uid, ParseUidError>;

pub async fn answer(shared: &Shared, asked: &Asked) -> Answered {
    let (form, read) = form(asked).map_err(bad_request)?;
    let name = ids::find(shared, asked).await?;
    let Some(layout) = name.issuer().layout() else {
        let text =
            format!("`{}` has a segment's ids, which are numbers without parts", name.text());
        return Err(bad_request(text));
    };
    let text = asked.last_segment("the id").map_err(bad_request)?;
    let uid = read(&text).map_err(|error| {
        let text = format!("the id cannot be read as `{form}`: {error}");
        bad_request(format!("{text}; `format` says how it is written"))
    })?;
    let fields = layout.decode(uid).map_err(bad_request)?;
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
    Ok(Answer::new(answer::JSON, text))
}

fn form(asked: &Asked) -> Result<(&'static str, Read), String> {
    asked.check_query(&["name", "format"])?;
    Ok(match asked.parameter("format")?.as_deref() {
        None | Some("dec") => ("dec", |text| text.parse()),
        Some("hex") => ("hex", Uid::from_hex),
        Some("base62") => ("base62", Uid::from_base62),
        Some("base32") => ("base32", Uid::from_base32),
        Some(_) => return Err("format is not dec, hex, base62 or base32".into()),
    })
}
