//! Messages: a JSON object per line.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::{Value, json};

/// What goes out, and who waits for answers.
#[derive(Default)]
pub struct Wire {
    node: OnceLock<String>,
    asked: Mutex<Asked>,
}

#[derive(Default)]
struct Asked {
    last: u64,
    waiting: HashMap<u64, SyncSender<Value>>,
}

impl Wire {
    /// The node's own name. A second one is left out.
    pub fn set_node(&self, name: &str) {
        self.node.get_or_init(|| name.to_owned());
    }

    /// Asks another node. The answer, if it comes, is received from what is returned; what is returned has to
    /// be [forgotten](Self::forget).
    pub fn ask(&self, to: &str, mut body: Value) -> io::Result<(u64, Receiver<Value>)> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let number = {
            let mut asked = self.asked();
            asked.last += 1;
            let number = asked.last;
            asked.waiting.insert(number, sender);
            number
        };
        body["msg_id"] = number.into();
        self.send(to, body)?;
        Ok((number, receiver))
    }

    /// Waits for the answer to a question no longer.
    pub fn forget(&self, number: u64) {
        self.asked().waiting.remove(&number);
    }

    /// Hands an answer to who waits for it. One that comes twice, or too late, is nobody's.
    pub fn answered(&self, body: &Value) {
        let waiting = body["in_reply_to"].as_u64().and_then(|to| self.asked().waiting.remove(&to));
        if let Some(waiting) = waiting {
            // Nobody receives it any more, perhaps.
            let _ = waiting.try_send(body.clone());
        }
    }

    /// Answers a message.
    pub fn answer(&self, message: &Value, mut body: Value) -> io::Result<()> {
        body["in_reply_to"] = message["body"]["msg_id"].clone();
        self.send(message["src"].as_str().unwrap_or_default(), body)
    }

    /// Answers a message with an error.
    pub fn refuse(&self, message: &Value, code: u64, text: &str) -> io::Result<()> {
        self.answer(message, json!({ "type": "error", "code": code, "text": text }))
    }

    fn send(&self, to: &str, body: Value) -> io::Result<()> {
        let node = self.node.get().map(String::as_str);
        let line = json!({ "src": node.unwrap_or_default(), "dest": to, "body": body });
        // In one write: several threads send.
        let mut out = io::stdout().lock();
        out.write_all(format!("{line}\n").as_bytes())?;
        out.flush()
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
