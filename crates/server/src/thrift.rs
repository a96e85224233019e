//! Twitter's Snowflake over Thrift, with the framed binary protocol.

pub mod message;

use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use thrift::protocol::TMessageType;
use thrift::{ApplicationError, ApplicationErrorKind as Kind};

use self::message::Head;
use crate::answers::Answers;
use crate::client::{Client, Found};
use crate::error::{self, ErrorKind, IssueError};
use crate::issuer::Issuer;
use crate::listener::Protocol;
use crate::scratch::CHUNK;
use crate::shared::Shared;
use crate::wire::{self, Answered};

type Refusal = error::Refusal<Kind>;

/// The bits of Twitter's worker id, and of the datacenter above it.
const TWITTERS_BITS: u32 = 5;

/// The answer to a client if there is no room for it. Clients take it for the answer to their first call.
pub fn refusal() -> Vec<u8> {
    let mut answer = Vec::new();
    let message = "the server has no room for more connections; try again later".to_owned();
    let error = ApplicationError { kind: Kind::InternalError, message };
    message::put_error(&mut answer, &Head::unknown(), &error);
    answer
}

impl ErrorKind for Kind {
    fn of(_: &IssueError) -> Self {
        Self::InternalError
    }
}

fn failure(text: impl Into<String>) -> Refusal {
    Refusal::new(Kind::InternalError, text)
}

pub struct Session(Client);

impl Session {
    pub fn new(shared: &Arc<Shared>) -> Self {
        Self(Client::new(shared, Protocol::Thrift))
    }

    /// The greatest size of a frame without its length. With that, it must fit in a chunk.
    fn frame_limit(&self) -> usize {
        self.0.shared.limits.request.min(CHUNK - message::LENGTH)
    }

    fn error(&mut self, head: &Head, error: &ApplicationError, out: &mut Vec<u8>) {
        self.0.errors += 1;
        message::put_error(out, head, error);
    }

    /// Refuses a request, and reads no more.
    fn refuse(&mut self, message: String, out: &mut Vec<u8>) {
        self.0.is_over = true;
        let error = ApplicationError { kind: Kind::ProtocolError, message };
        self.error(&Head::unknown(), &error, out);
    }

    async fn answer_call(&mut self, frame: &[u8], answers: &mut Answers<'_>) -> io::Result<()> {
        let (head, useragent) = match message::read(frame) {
            Ok(call) => call,
            Err(text) => {
                // It is unknown whether an answer is expected, and with which number. Further answers could be mistaken
                // for others.
                self.refuse(text, answers.bytes);
                return Ok(());
            }
        };
        // No method is declared oneway. An id that nobody gets would be wasted.
        if head.id.message_type == TMessageType::OneWay {
            return Ok(());
        }
        let done = match useragent {
            Ok(useragent) => self.call(&head.id.name, useragent.as_deref(), answers).await,
            Err(error) => Err(Refusal::new(error.kind, error.message)),
        };
        match done {
            Ok(number) => message::put_i64(answers.bytes, &head, number),
            Err(refusal) => {
                let (kind, message) = refusal.said()?;
                self.error(&head, &ApplicationError { kind, message }, answers.bytes);
            }
        }
        Ok(())
    }

    async fn call(
        &mut self,
        method: &str,
        useragent: Option<&str>,
        answers: &mut Answers<'_>,
    ) -> Result<i64, Refusal> {
        match method {
            "get_id" => {
                check_useragent(useragent)?;
                // A uid has 63 bits.
                Ok(self.default_name()?.take(answers).await?.cast_signed())
            }
            "get_timestamp" => Ok(now_in_millis()),
            "get_worker_id" => self.worker_id().map(|(_, worker_id)| worker_id),
            "get_datacenter_id" => self.worker_id().map(|(datacenter_id, _)| datacenter_id),
            name => {
                let name: String = name.chars().take(64).collect();
                let text = format!(
                    "there is no method '{name}': the service Snowflake has get_id, get_worker_id, \
                     get_datacenter_id and get_timestamp"
                );
                Err(Refusal::new(Kind::UnknownMethod, text))
            }
        }
    }

    fn default_name(&mut self) -> Result<Found<'_>, Refusal> {
        let found = self.0.default_name();
        let found = found
            .ok_or_else(|| failure("the server has no name that this protocol could serve"))?;
        if let Issuer::Segment(_) = found.name.issuer() {
            return Err(failure(format!(
                "the default name '{}' is a segment, whose numbers are no uids with a worker id; \
                 make a generator of uids the server's default name",
                found.name.text()
            )));
        }
        Ok(found)
    }

    /// Returns the ids of datacenter and worker. Twitter's layout has five bits for each. In other layouts the
    /// datacenter is 0.
    fn worker_id(&mut self) -> Result<(i64, i64), Refusal> {
        let generator = self.default_name()?.name.issuer().generator();
        let generator = generator.ok_or_else(|| failure("the default name has no worker id"))?;
        let worker_id = generator.worker_id();
        let (datacenter, worker) = match generator.layout().max_worker_id() {
            max if max == (1 << (2 * TWITTERS_BITS)) - 1 => {
                (worker_id >> TWITTERS_BITS, worker_id & ((1 << TWITTERS_BITS) - 1))
            }
            _ => (0, worker_id),
        };
        Ok((datacenter.cast_signed(), worker.cast_signed()))
    }
}

impl wire::Session for Session {
    async fn answer(&mut self, bytes: &[u8], answers: &mut Answers<'_>) -> Answered {
        let length = match message::front(bytes, self.frame_limit()) {
            Ok(None) => return Ok(None),
            Ok(Some((frame, length))) => {
                self.answer_call(frame, answers).await?;
                length
            }
            Err(text) => {
                self.refuse(text, answers.bytes);
                bytes.len()
            }
        };
        self.0.requests += 1;
        Ok(Some(length))
    }

    fn client(&mut self) -> &mut Client {
        &mut self.0
    }

    fn goodbye() -> Vec<u8> {
        Vec::new()
    }
}

/// Twitter's rule: a letter, then letters, digits and hyphens.
fn check_useragent(text: Option<&str>) -> Result<(), Refusal> {
    let is_good = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_alphabetic())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if text.is_some_and(is_good) {
        return Ok(());
    }
    let given = match text {
        Some(text) => format!("'{}'", text.chars().take(64).collect::<String>().escape_debug()),
        None => "none".to_owned(),
    };
    Err(failure(format!(
        "InvalidUserAgentError: the useragent was {given}, and has to be a letter, then letters, digits and hyphens"
    )))
}

fn now_in_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
