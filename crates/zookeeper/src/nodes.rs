//! The names of the nodes and their JSON, as Leaf writes them.

use std::time::Duration;

use serde_json::Value;
use uidring::Timestamp;

/// How old Leaf's uploaded timestamp may be while it issues ids.
pub const UPLOAD_GAP: Duration = Duration::from_secs(3);

/// The version of nodes and local files. Any other version is refused.
pub const VERSION: i64 = 1;

/// The suffix of the nodes of an instance that issues only what it has reserved. No Java Leaf uses such a name, so none
/// takes that instance's number.
pub const BOUNDED: &str = "@bounded";

/// Returns instance and number of a node below `forever`; `None` if the name does not have Leaf's form.
pub fn instance_and_number(node: &str) -> Option<(&str, i64)> {
    let (instance, number) = node.split_once('-')?;
    Some((instance, number.parse().ok()?))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub ip: String,
    pub port: String,
    pub timestamp: Timestamp,
}

impl Endpoint {
    /// Writes exactly these fields in this order, because Leaf's reader refuses unknown ones.
    pub fn to_json(&self) -> String {
        let (ip, port) = (Value::from(&*self.ip), Value::from(&*self.port));
        format!(r#"{{"ip":{ip},"port":{port},"timestamp":{}}}"#, self.timestamp.as_millis())
    }

    /// Adds a version and the session timeout, for nodes that Leaf does not read.
    pub fn to_own_json(&self, session: Duration) -> String {
        let (json, session) = (self.to_json(), session.as_millis());
        format!(r#"{},"version":{VERSION},"session_ms":{session}}}"#, json.trim_end_matches('}'))
    }

    pub fn from_json(json: &[u8]) -> Option<Self> {
        let fields: Value = serde_json::from_slice(json).ok()?;
        let text = |name: &str| match fields.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        let timestamp = Timestamp::from_millis(fields.get("timestamp")?.as_i64()?);
        Some(Self { ip: text("ip"), port: text("port"), timestamp })
    }
}

/// The timeout of the session that made a node, if the node has it.
pub fn session_from_json(json: &[u8]) -> Option<Duration> {
    let fields: Value = serde_json::from_slice(json).ok()?;
    fields.get("session_ms")?.as_u64().map(Duration::from_millis)
}

/// What an instance has reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The last millisecond with ids that may have been issued.
    pub until: Timestamp,
    /// The start that reserved it, by a name unique to that start. If a start finds another name, it has lost its
    /// worker id.
    pub holder: String,
}

impl Reserved {
    pub fn to_json(&self) -> String {
        let (until, holder) = (self.until.as_millis(), Value::from(&*self.holder));
        format!(r#"{{"until":{until},"holder":{holder},"version":{VERSION}}}"#)
    }

    pub fn from_json(json: &[u8]) -> Option<Self> {
        let fields: Value = serde_json::from_slice(json).ok()?;
        let until = Timestamp::from_millis(fields.get("until")?.as_i64()?);
        let holder = fields.get("holder").and_then(Value::as_str).unwrap_or_default().to_owned();
        (version_from_json(json)? == VERSION).then_some(Self { until, holder })
    }
}

/// The version in one of our nodes.
pub fn version_from_json(json: &[u8]) -> Option<i64> {
    serde_json::from_slice::<Value>(json).ok()?.get("version")?.as_i64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_as_leaf_does() {
        let parts = instance_and_number;
        assert_eq!(parts("10.0.0.7:8080-0000000012"), Some(("10.0.0.7:8080", 12)));
        assert_eq!(parts("web_0-0000000000"), Some(("web_0", 0)));
        assert_eq!(parts("web_0--2147483648"), Some(("web_0", -2_147_483_648)));
        assert_eq!(parts("web-0-0000000001"), None);
        assert_eq!(parts("web"), None);
    }

    #[test]
    fn the_json_is_leafs_to_the_byte() {
        let json = r#"{"ip":"10.0.0.7","port":"8080","timestamp":1596957371092}"#;
        let endpoint = Endpoint::from_json(json.as_bytes()).expect("Leaf's");
        assert_eq!(
            endpoint,
            Endpoint {
                ip: "10.0.0.7".into(),
                port: "8080".into(),
                timestamp: Timestamp::from_millis(1_596_957_371_092),
            }
        );
        assert_eq!(endpoint.to_json(), json);
        for wrong in ["", "{}", "5", r#"{"ip":"1","port":"2","timestamp":"x"}"#, "{\"timestamp\":1"]
        {
            assert_eq!(Endpoint::from_json(wrong.as_bytes()), None, "{wrong}");
        }
        let own = endpoint.to_own_json(Duration::from_secs(10));
        let start = &json[..json.len() - 1];
        assert_eq!(own, format!(r#"{start},"version":1,"session_ms":10000}}"#));
        assert_eq!(session_from_json(own.as_bytes()), Some(Duration::from_secs(10)));
        assert_eq!(session_from_json(json.as_bytes()), None);
        assert_eq!(Endpoint::from_json(own.as_bytes()), Some(endpoint));
        let timestamp = Timestamp::from_millis(-1);
        let odd = Endpoint { ip: "a\"b\\".into(), port: "\u{e9}".into(), timestamp };
        assert_eq!(Endpoint::from_json(odd.to_json().as_bytes()), Some(odd));
    }

    #[test]
    fn a_reservation_reads_back() {
        let until = Timestamp::from_millis(1_596_957_371_092);
        let reserved = Reserved { until, holder: "1f".into() };
        assert_eq!(reserved.to_json(), r#"{"until":1596957371092,"holder":"1f","version":1}"#);
        assert_eq!(Reserved::from_json(reserved.to_json().as_bytes()), Some(reserved));
        for wrong in
            ["{}", r#"{"until":1,"holder":"1f"}"#, r#"{"until":1,"holder":"1f","version":"1"}"#]
        {
            assert_eq!(Reserved::from_json(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
