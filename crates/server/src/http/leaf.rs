//! The paths of Leaf's server.

use hyper::StatusCode;
use serde_json::{Value, json};
use uidring::adapter::Chain;
use uidring::segment::SegmentError;
use uidring::{Layout, TakeError, Timestamp, Uid};

use super::answer::{self, Answer, Answered};
use super::request::Asked;
use crate::error::IssueError;
use crate::issuer::Issuer;
use crate::listener::Protocol;
use crate::names::Name;
use crate::shared::Shared;

/// Leaf's code for a mode or generator that issues nothing.
const NOT_INITIALISED: i64 = -1;
const NO_SUCH_KEY: i64 = -2;
const SEGMENTS_EMPTY: i64 = -3;
const CLOCK_WENT_BACK: i64 = -1;
const INTERRUPTED: i64 = -2;
const CLOCK_BEHIND: i64 = -3;

/// `/api/snowflake/get/{key}`: an id of the default name, for any key.
pub async fn snowflake(shared: &Shared, asked: &Asked) -> Answered {
    match shared.names.default_name() {
        Some(name) if name.issuer().layout().is_some() => one(name, asked).await,
        _ => {
            let text = "the snowflake mode is off: the default name is none of uids";
            Err(failed(asked, NOT_INITIALISED, text))
        }
    }
}

/// `/api/segment/get/{key}`: an id of the tag.
pub async fn segment(shared: &Shared, asked: &Asked) -> Answered {
    let key = asked.last_segment("the key").map_err(answer::bad_request)?;
    let found = shared.names.find_or_look(&key, &mut None).await.map_err(answer::not_issued)?;
    match found {
        Some(name) if matches!(name.issuer(), Issuer::Segment(_)) => one(&name, asked).await,
        _ if !shared.names.have_segments() => {
            Err(failed(asked, NOT_INITIALISED, "the segment mode is off: there are no tags"))
        }
        _ => {
            let text = format!("there is no tag `{}`", key.chars().take(128).collect::<String>());
            Err(failed(asked, NO_SUCH_KEY, &text))
        }
    }
}

/// Answers with one id as plain digits.
async fn one(name: &Name, asked: &Asked) -> Answered {
    if asked.is_head() {
        return Ok(Answer::new(answer::TEXT, ""));
    }
    let taken = name.issuer().take().await;
    name.counters.count(Protocol::Http, 1, &taken);
    match taken {
        Ok(id) => Ok(Answer::new(answer::TEXT, id.to_string())),
        Err(error) => Err(failed(asked, code(&error), &Chain(&error).to_string())),
    }
}

/// Returns the code that Leaf would give, or the nearest.
fn code(error: &IssueError) -> i64 {
    match error {
        IssueError::Uid(TakeError::ClockBackwards { .. } | TakeError::ClockBeforeEpoch) => {
            CLOCK_WENT_BACK
        }
        IssueError::Uid(TakeError::BorrowLimit { .. }) => CLOCK_BEHIND,
        IssueError::Uid(TakeError::Empty | TakeError::DeadlineExceeded) => INTERRUPTED,
        IssueError::Segment(SegmentError::UnknownTag(_) | SegmentError::RemovedTag(_)) => {
            NO_SUCH_KEY
        }
        IssueError::Segment(SegmentError::Closed | SegmentError::Forked) => NOT_INITIALISED,
        IssueError::Segment(_) => SEGMENTS_EMPTY,
        _ => NOT_INITIALISED,
    }
}

/// Leaf's answer to an exception, in the form of its framework.
fn failed(asked: &Asked, code: i64, text: &str) -> Answer {
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    let value = json!({
        "status": status.as_u16(),
        "error": status.canonical_reason(),
        "message": format!("Result{{id={code}, status=EXCEPTION}}: {text}"),
        "path": asked.path(),
    });
    answer::json(status, &value)
}

/// `/decodeSnowflakeId?snowflakeId=`: an object of strings.
pub fn decode(shared: &Shared, asked: &Asked) -> Answer {
    let layout = shared.names.default_name().and_then(|name| name.issuer().layout());
    // Leaf's layout.
    let layout = layout.unwrap_or(&Layout::SNOWFLAKE);
    let value = match asked.parameter("snowflakeId") {
        Ok(text) => decoded(layout, text.as_deref().unwrap_or_default()),
        Err(error) => json!({ "errorMsg": error }),
    };
    answer::json(StatusCode::OK, &value)
}

fn decoded(layout: &Layout, text: &str) -> Value {
    let Some(uid) = text.parse().ok().and_then(Uid::new) else {
        let text = "snowflakeId is not an integer from 0 to 9223372036854775807";
        return json!({ "errorMsg": text });
    };
    match layout.decode(uid) {
        Ok(fields) => json!({
            "timestamp": format!("{}({})", fields.timestamp.as_millis(), clock_face(fields.timestamp)),
            "workerId": fields.worker_id.to_string(),
            "sequenceId": fields.sequence.to_string(),
        }),
        Err(error) => json!({ "errorMsg": error.to_string() }),
    }
}

/// Formats as `yyyy-MM-dd HH:mm:ss.SSS`, with the zone, which Leaf omits.
fn clock_face(time: Timestamp) -> String {
    let text = time.to_string();
    let (date, clock) = text.split_once('T').unwrap_or((&text, ""));
    let seconds = clock.get(..8).unwrap_or(clock);
    format!("{date} {seconds}.{:03} UTC", time.as_millis().rem_euclid(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snowflake_is_taken_apart_as_by_leaf() {
        // 10 s and 7 ms after the epoch, worker 5, sequence 9.
        let id = 10_007_u64 << 22 | 5 << 12 | 9;
        let value = decoded(&Layout::SNOWFLAKE, &id.to_string());
        assert_eq!(
            value,
            json!({
                "timestamp": "1288834984664(2010-11-04 01:43:04.664 UTC)",
                "workerId": "5",
                "sequenceId": "9",
            })
        );
        for text in ["", "-1", "x", "9223372036854775808", "1 "] {
            let value = decoded(&Layout::SNOWFLAKE, text);
            assert!(value["errorMsg"].is_string() && value.get("workerId").is_none(), "{value}");
        }
    }

    #[test]
    fn a_time_has_three_digits_of_milliseconds() {
        for (millis, text) in [
            (0, "1970-01-01 00:00:00.000 UTC"),
            (1_500, "1970-01-01 00:00:01.500 UTC"),
            (-1, "1969-12-31 23:59:59.999 UTC"),
        ] {
            assert_eq!(clock_face(Timestamp::from_millis(millis)), text);
        }
    }
}
