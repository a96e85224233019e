//! Maelstrom's service `lin-kv`: a map that is linearizable.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::wire::Wire;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

const NO_SUCH_KEY: u64 = 20;
const NOT_AS_EXPECTED: u64 = 22;

#[derive(Clone)]
pub struct LinKv {
    wire: Arc<Wire>,
}

/// Why the service has not done what it was asked, as far as is known.
#[derive(Debug)]
pub enum KvError {
    /// It may have done it, or may do it yet.
    NoAnswer,
    /// It has not.
    Refused(Value),
    Broken(io::Error),
}

impl LinKv {
    pub fn new(wire: Arc<Wire>) -> Self {
        Self { wire }
    }

    /// The value of a key; null if there is none.
    pub fn read(&self, key: &str) -> Result<Value, KvError> {
        match self.ask(json!({ "type": "read", "key": key })) {
            Ok(mut body) => Ok(body["value"].take()),
            Err(KvError::Refused(body)) if body["code"] == NO_SUCH_KEY => Ok(Value::Null),
            Err(error) => Err(error),
        }
    }

    /// Sets a key whose value is `from` (null if there is none) to `to`, and says whether it was so.
    pub fn replace(&self, key: &str, from: &Value, to: &Value) -> Result<bool, KvError> {
        let asked = self.ask(json!({
            "type": "cas",
            "key": key,
            "from": from,
            "to": to,
            "create_if_not_exists": from.is_null(),
        }));
        match asked {
            Ok(_) => Ok(true),
            Err(KvError::Refused(body))
                if body["code"] == NOT_AS_EXPECTED || body["code"] == NO_SUCH_KEY =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn ask(&self, body: Value) -> Result<Value, KvError> {
        let (number, answer) = self.wire.ask("lin-kv", body).map_err(KvError::Broken)?;
        let answer = answer.recv_timeout(PATIENCE);
        self.wire.forget(number);
        match answer {
            Ok(body) if body["type"] == "error" => Err(KvError::Refused(body)),
            Ok(body) => Ok(body),
            Err(_) => Err(KvError::NoAnswer),
        }
    }
}

impl fmt::Display for KvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAnswer => write!(f, "lin-kv has not answered within {PATIENCE:?}"),
            Self::Refused(body) => write!(f, "lin-kv refused: {body}"),
            Self::Broken(error) => write!(f, "lin-kv could not be asked: {error}"),
        }
    }
}

impl std::error::Error for KvError {}
