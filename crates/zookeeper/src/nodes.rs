//! The nodes of a registry: their paths, their names and their JSON, as Leaf has them.

use serde_json::Value;

/// How old Leaf lets an uploaded timestamp become while it issues ids.
pub const UPLOAD_GAP_MILLIS: i64 = 3_000;

/// The version of nodes and local files. The first one, which they did not name, granted ids from
/// the local file alone.
pub const VERSION: i64 = 2;

/// What the nodes' names of an instance end with that issues only what it has reserved. A Java Leaf
/// knows no such name, nor do programs of the first version: neither takes a number from it, or
/// leaves it one that somebody may still use.
pub const BOUNDED: &str = "@bounded";

/// Where the nodes of one name are.
#[derive(Clone, Debug)]
pub struct Paths {
    root: String,
}

impl Paths {
    pub fn new(name: &str) -> Self {
        Self { root: format!("/snowflake/{name}") }
    }

    /// The folders, in which an instance has a node each.
    pub fn folders(&self) -> [String; 3] {
        [self.forever(), self.temporary(), self.reserved()]
    }

    /// Leaf's folder: nodes `<instance>-<number>`, of which the number is the worker id.
    pub fn forever(&self) -> String {
        format!("{}/forever", self.root)
    }

    /// Nodes that live as long as their instance does.
    pub fn temporary(&self) -> String {
        format!("{}/temporary", self.root)
    }

    /// What instances have reserved ahead.
    pub fn reserved(&self) -> String {
        format!("{}/reserved", self.root)
    }
}

/// Instance and number of a node below `forever`; `None` for what is not of Leaf's form.
pub fn instance_and_number(node: &str) -> Option<(&str, i64)> {
    let (instance, number) = node.split_once('-')?;
    Some((instance, number.parse().ok()?))
}

/// What a node of an instance holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub ip: String,
    pub port: String,
    /// Milliseconds since 1970.
    pub timestamp: i64,
}

impl Endpoint {
    /// These fields in this order and no others: Leaf's reader refuses what it does not know.
    pub fn to_json(&self) -> String {
        let (ip, port) = (Value::from(&*self.ip), Value::from(&*self.port));
        format!(r#"{{"ip":{ip},"port":{port},"timestamp":{}}}"#, self.timestamp)
    }

    /// The same with a version, for nodes that no Leaf reads.
    pub fn to_own_json(&self) -> String {
        let json = self.to_json();
        format!(r#"{},"version":{VERSION}}}"#, json.trim_end_matches('}'))
    }

    pub fn from_json(json: &[u8]) -> Option<Self> {
        let fields: Value = serde_json::from_slice(json).ok()?;
        let text = |name: &str| match fields.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        let timestamp = fields.get("timestamp")?.as_i64()?;
        Some(Self { ip: text("ip"), port: text("port"), timestamp })
    }
}

/// What an instance has reserved ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The last millisecond of which ids may have been issued.
    pub until: i64,
    /// The start that reserved it, of which each has a name of its own: one that finds another name
    /// here has lost its worker id.
    pub holder: String,
    pub version: i64,
}

impl Reserved {
    pub fn new(until: i64, holder: &str) -> Self {
        Self { until, holder: holder.into(), version: VERSION }
    }

    /// What the first version wrote comes first: it reads this, and starts above it.
    pub fn to_json(&self) -> String {
        let (holder, version) = (Value::from(&*self.holder), self.version);
        format!(r#"{{"until":{},"holder":{holder},"version":{version}}}"#, self.until)
    }

    pub fn from_json(json: &[u8]) -> Option<Self> {
        let fields: Value = serde_json::from_slice(json).ok()?;
        let version = match fields.get("version") {
            None => 1,
            Some(version) => version.as_i64()?,
        };
        let until = fields.get("until")?.as_i64()?;
        let holder = fields.get("holder").and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(Self { until, holder, version })
    }
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
            Endpoint { ip: "10.0.0.7".into(), port: "8080".into(), timestamp: 1_596_957_371_092 }
        );
        assert_eq!(endpoint.to_json(), json);
        for wrong in ["", "{}", "5", r#"{"ip":"1","port":"2","timestamp":"x"}"#, "{\"timestamp\":1"]
        {
            assert_eq!(Endpoint::from_json(wrong.as_bytes()), None, "{wrong}");
        }
        let own = endpoint.to_own_json();
        assert_eq!(own, format!(r#"{},"version":2}}"#, &json[..json.len() - 1]));
        assert_eq!(Endpoint::from_json(own.as_bytes()), Some(endpoint));
        let odd = Endpoint { ip: "a\"b\\".into(), port: "\u{e9}".into(), timestamp: -1 };
        assert_eq!(Endpoint::from_json(odd.to_json().as_bytes()), Some(odd));
    }

    #[test]
    fn a_reservation_reads_back() {
        let reserved = Reserved::new(1_596_957_371_092, "1f");
        assert_eq!(reserved.to_json(), r#"{"until":1596957371092,"holder":"1f","version":2}"#);
        assert_eq!(Reserved::from_json(reserved.to_json().as_bytes()), Some(reserved.clone()));
        let first = Reserved::from_json(br#"{"until":1596957371092,"holder":"1f"}"#);
        assert_eq!(first, Some(Reserved { version: 1, ..reserved }));
        for wrong in ["{}", r#"{"until":1,"holder":"1f","version":"2"}"#] {
            assert_eq!(Reserved::from_json(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
