//! Twitter's Snowflake over Thrift: the binary protocol in frames.

pub mod message;

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thrift::{ApplicationError, ApplicationErrorKind as Kind};
use tokio::io::{AsyncRead, AsyncWrite};
use uidring::adapter::Chain;

use self::message::{Call, Front, Head, Style, Unreadable};
use crate::issuer::Issuer;
use crate::listener::Protocol;
use crate::names::Name;
use crate::scratch::CHUNK;
use crate::seat::Place;
use crate::shared::Shared;
use crate::wire::{self, patiently};

const PROTOCOL: Protocol = Protocol::Thrift;

/// The bits of Twitter's worker id, and those of its datacenter above it.
const TWITTERS_BITS: u32 = 5;

/// Answers a connection's requests until it ends.
pub async fn serve<S>(mut stream: S, place: &Place, shared: &Arc<Shared>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut session = Session::new(shared);
    // The client is gone, or was told why it has to go.
    let _ = wire::converse(&mut stream, place, &mut session).await;
}

/// What a client gets for which there is no room: clients take it for the answer to their first call.
pub fn refusal() -> Vec<u8> {
    let mut answer = Vec::new();
    let text = "the server has no room for more connections; try again later";
    message::put_error(&mut answer, &Head::unknown(), &failure(Kind::InternalError, text));
    answer
}

/// What the server knows of a client.
struct Session {
    shared: Arc<Shared>,
    is_over: bool,
    /// Since they were last counted.
    requests: u64,
    errors: u64,
    issued: u64,
}

fn failure(kind: Kind, text: impl Into<String>) -> ApplicationError {
    ApplicationError { kind, message: text.into() }
}

impl Session {
    fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), is_over: false, requests: 0, errors: 0, issued: 0 }
    }

    /// So many bytes may a frame have after its length: with that, it has to fit a chunk.
    fn frame_limit(&self) -> usize {
        self.shared.limits.request.min(CHUNK - message::LENGTH)
    }

    fn error(&mut self, head: &Head, error: &ApplicationError, out: &mut Vec<u8>) {
        self.errors += 1;
        message::put_error(out, head, error);
    }

    async fn call<S: AsyncWrite + Unpin>(
        &mut self,
        frame: &[u8],
        out: &mut Vec<u8>,
        stream: &mut S,
    ) -> io::Result<()> {
        let Call { head, useragent } = match message::read(frame) {
            Ok(call) => call,
            Err(Unreadable::Head(text)) => {
                // Whether and by what number an answer is awaited is unknown: the next one could be taken
                // for another's.
                self.is_over = true;
                self.error(&Head::unknown(), &failure(Kind::ProtocolError, text), out);
                return Ok(());
            }
            Err(Unreadable::Call(head, error)) => {
                if head.style != Style::OneWay {
                    self.error(&head, &error, out);
                }
                return Ok(());
            }
        };
        // No method is declared oneway. To take an id for nobody would be a waste.
        if head.style == Style::OneWay {
            return Ok(());
        }
        let done = match head.name.as_str() {
            "get_id" => match check_useragent(useragent.as_deref()) {
                Ok(()) => self.next_id(out, stream).await?,
                Err(error) => Err(error),
            },
            "get_timestamp" => Ok(now_in_millis()),
            "get_worker_id" => self.worker_id().map(|(_, worker_id)| worker_id),
            "get_datacenter_id" => self.worker_id().map(|(datacenter_id, _)| datacenter_id),
            name => {
                let name: String = name.chars().take(64).collect();
                let text = format!(
                    "there is no method '{name}': the service Snowflake has get_id, get_worker_id, \
                     get_datacenter_id and get_timestamp"
                );
                Err(failure(Kind::UnknownMethod, text))
            }
        };
        match done {
            Ok(number) => message::put_i64(out, &head, number),
            Err(error) => self.error(&head, &error, out),
        }
        Ok(())
    }

    fn default_name(&self) -> Result<Arc<Name>, ApplicationError> {
        let name = self.shared.names.default_name().ok_or_else(|| {
            failure(Kind::InternalError, "the server has no name that this protocol could serve")
        })?;
        match name.issuer() {
            Issuer::Segment(_) => Err(failure(
                Kind::InternalError,
                format!(
                    "the default name '{}' is a segment, whose numbers are no uids with a worker id; \
                     make a generator of uids the server's default name",
                    name.text()
                ),
            )),
            _ => Ok(Arc::clone(name)),
        }
    }

    async fn next_id<S: AsyncWrite + Unpin>(
        &mut self,
        out: &mut Vec<u8>,
        stream: &mut S,
    ) -> io::Result<Result<i64, ApplicationError>> {
        let name = match self.default_name() {
            Ok(name) => name,
            Err(error) => return Ok(Err(error)),
        };
        let taken = match name.issuer().ready() {
            Some(id) => Ok(id),
            None => patiently(name.issuer().take(), out, stream).await?,
        };
        Ok(match taken {
            Ok(id) => {
                self.issued += 1;
                // A uid has 63 bits.
                Ok(id.cast_signed())
            }
            Err(error) => {
                name.counters.failed(PROTOCOL);
                Err(failure(Kind::InternalError, Chain(&error).to_string()))
            }
        })
    }

    /// The ids of datacenter and worker. Twitter's layout has five bits for each; any other one has no
    /// datacenter, which is 0 then.
    fn worker_id(&self) -> Result<(i64, i64), ApplicationError> {
        let name = self.default_name()?;
        let generator = name.issuer().generator();
        let generator = generator
            .ok_or_else(|| failure(Kind::InternalError, "the default name has no worker id"))?;
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
    async fn answer<S: AsyncWrite + Unpin>(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        stream: &mut S,
    ) -> io::Result<Option<usize>> {
        let length = match message::front(bytes, self.frame_limit()) {
            Front::Part => return Ok(None),
            Front::Frame { frame, length } => {
                self.call(frame, out, stream).await?;
                length
            }
            Front::Bad(text) => {
                self.is_over = true;
                self.error(&Head::unknown(), &failure(Kind::ProtocolError, text), out);
                bytes.len()
            }
        };
        self.requests += 1;
        Ok(Some(length))
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn count(&mut self, time: Duration) {
        if self.issued > 0
            && let Some(name) = self.shared.names.default_name()
        {
            name.counters.issued(PROTOCOL, self.issued);
        }
        self.shared.counters(PROTOCOL).answered(self.requests, self.errors, time);
        (self.requests, self.errors, self.issued) = (0, 0, 0);
    }
}

/// Twitter's rule: a letter, then letters, digits and hyphens.
fn check_useragent(text: Option<&str>) -> Result<(), ApplicationError> {
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
    Err(failure(
        Kind::InternalError,
        format!(
            "InvalidUserAgentError: the useragent was {given}, and has to be a letter, then letters, digits \
             and hyphens"
        ),
    ))
}

fn now_in_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
