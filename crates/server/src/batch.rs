//! Batches of ids in binary, for clients that want no more than the wire's cost; docs/server-batch.md
//! specifies the bytes.

pub mod parse;

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use self::parse::Parsed;
use crate::error::IssueError;
use crate::issuer::Issuer;
use crate::listener::Protocol;
use crate::names::Name;
use crate::seat::{Farewell, Place};
use crate::shared::Shared;
use crate::wire::{self, FLUSH};

const PROTOCOL: Protocol = Protocol::Batch;

/// A text in an answer has at most so many bytes.
const MAX_TEXT: usize = 1000;

/// Ids that are taken and written at once: they stay in the first level of the processor's caches.
const BLOCK: usize = 256;

/// Ids that may be waited for at once; a generator takes as many at a time.
const WAITED: usize = 1024;

/// What an answer begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Status {
    Ok = 0,
    BadRequest = 1,
    UnknownName = 2,
    TryAgain = 3,
    Failed = 4,
    NotAllowed = 5,
}

/// Answers a connection's requests until it ends.
pub async fn serve<S>(mut stream: S, place: &Place, shared: &Arc<Shared>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut session = Session::new(shared);
    // The client is gone, or was told why it has to go.
    let _ = wire::converse(&mut stream, place, &mut session).await;
    // Between requests, a client would take it for the answer to its next one.
    if place.farewell() == Some(Farewell::Slow) {
        let mut text = Vec::new();
        put_error(&mut text, Status::BadRequest, "the request did not end in time");
        wire::write_at_once(&mut stream, &text).await;
    }
}

/// What a client gets for which there is no room.
pub fn refusal() -> Vec<u8> {
    let mut answer = Vec::new();
    put_error(&mut answer, Status::TryAgain, "the server has no room for more connections");
    answer
}

/// What the server knows of a client.
struct Session {
    shared: Arc<Shared>,
    is_trusted: bool,
    is_over: bool,
    /// The name that was asked for last, which is the next one's as a rule.
    recent: Option<Arc<Name>>,
    /// When the requests that are being answered had arrived, if one asked for an unknown name.
    arrived: Option<Instant>,
    /// Since they were last counted.
    requests: u64,
    errors: u64,
}

impl Session {
    fn new(shared: &Arc<Shared>) -> Self {
        Self {
            is_trusted: shared.password.is_none(),
            shared: Arc::clone(shared),
            is_over: false,
            recent: None,
            arrived: None,
            requests: 0,
            errors: 0,
        }
    }

    fn error(&mut self, out: &mut Vec<u8>, status: Status, text: &str) {
        self.errors += 1;
        put_error(out, status, text);
    }

    /// Says why no more requests are looked at.
    fn refuse(&mut self, out: &mut Vec<u8>, status: Status, text: &str) {
        self.is_over = true;
        self.error(out, status, text);
    }

    fn authenticate(&mut self, given: &[u8], out: &mut Vec<u8>) {
        match &self.shared.password {
            Some(password) if password.is(given) => {
                self.is_trusted = true;
                put_head(out, Status::Ok, 0);
            }
            Some(_) => self.refuse(out, Status::NotAllowed, "wrong password"),
            None => self.refuse(
                out,
                Status::NotAllowed,
                "the server has no password; connect without one",
            ),
        }
    }

    /// Finds a name, the default for an empty one, or says that there is none.
    async fn find<S: AsyncWrite + Unpin>(
        &mut self,
        text: &[u8],
        out: &mut Vec<u8>,
        stream: &mut S,
    ) -> io::Result<Option<Arc<Name>>> {
        if let Some(recent) = &self.recent
            && recent.text().as_bytes() == text
            && !recent.is_removed()
        {
            return Ok(Some(Arc::clone(recent)));
        }
        let names = &self.shared.names;
        let found = match text {
            [] => names.default_name().map(Arc::clone),
            text => match wire::find_name(names, text, &mut self.arrived, out, stream).await? {
                Ok(found) => found,
                Err(error) => {
                    self.error(out, Status::TryAgain, &error.to_string());
                    return Ok(None);
                }
            },
        };
        match &found {
            Some(_) => self.recent.clone_from(&found),
            None if text.is_empty() => self.error(
                out,
                Status::UnknownName,
                "the server has no default name; ask for one of its names",
            ),
            None => {
                let text = format!("there is no name '{}'", String::from_utf8_lossy(text));
                self.error(out, Status::UnknownName, &text);
            }
        }
        Ok(found)
    }

    async fn issue<S: AsyncWrite + Unpin>(
        &mut self,
        text: &[u8],
        count: u32,
        out: &mut Vec<u8>,
        stream: &mut S,
    ) -> io::Result<()> {
        if !self.is_trusted {
            let text = "authenticate first: the server has a password";
            self.error(out, Status::NotAllowed, text);
            return Ok(());
        }
        let max = self.shared.limits.batch;
        if !(1..=max).contains(&u64::from(count)) {
            let text = format!("{count} ids were asked for; a request is for 1 to {max}");
            self.error(out, Status::BadRequest, &text);
            return Ok(());
        }
        let Some(name) = self.find(text, out, stream).await? else { return Ok(()) };
        let done = match self.shared.budget.take(count.into()) {
            Ok(room) => {
                let done = put_ids(name.issuer(), count as usize, out, stream).await?;
                if out.len() >= FLUSH {
                    stream.write_all(out).await?;
                    out.clear();
                }
                drop(room);
                done
            }
            Err(error) => Err(error),
        };
        match done {
            Ok(()) => name.counters.issued(PROTOCOL, count.into()),
            Err(error) => {
                name.counters.failed(PROTOCOL);
                let status = if error.may_pass() { Status::TryAgain } else { Status::Failed };
                self.error(out, status, &uidring::adapter::Chain(&error).to_string());
            }
        }
        Ok(())
    }
}

impl wire::Session for Session {
    async fn answer<S: AsyncWrite + Unpin>(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        stream: &mut S,
    ) -> io::Result<Option<usize>> {
        let length = match parse::request(bytes) {
            Ok(Parsed::Part) => return Ok(None),
            Ok(Parsed::Ids { name, count, length }) => {
                self.issue(name, count, out, stream).await?;
                length
            }
            Ok(Parsed::Password { password, length }) => {
                self.authenticate(password, out);
                length
            }
            Err(error) => {
                self.refuse(out, Status::BadRequest, &error.to_string());
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
        self.shared.counters(PROTOCOL).answered(self.requests, self.errors, time);
        (self.requests, self.errors, self.arrived) = (0, 0, None);
    }
}

fn put_head(out: &mut Vec<u8>, status: Status, length: usize) {
    out.extend_from_slice(&(status as u32).to_le_bytes());
    // Ids and texts are limited to far less.
    out.extend_from_slice(&(length as u32).to_le_bytes());
}

fn put_error(out: &mut Vec<u8>, status: Status, text: &str) {
    let end = (0..=text.len().min(MAX_TEXT)).rfind(|end| text.is_char_boundary(*end));
    let text = &text[..end.unwrap_or(0)];
    put_head(out, status, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// Writes an answer with ids, or nothing if there are not enough.
async fn put_ids<S: AsyncWrite + Unpin>(
    issuer: &Issuer,
    count: usize,
    out: &mut Vec<u8>,
    stream: &mut S,
) -> io::Result<Result<(), IssueError>> {
    out.reserve(8 + 8 * count);
    let mut start = out.len();
    put_head(out, Status::Ok, count);
    let mut rest = Vec::new();
    let mut left = count;
    while left > 0 {
        left -= put_ready(issuer, left, out);
        let wanted = left.min(WAITED);
        if wanted > 0 {
            rest.clear();
            let filled = {
                let mut fill = pin!(issuer.fill(&mut rest, wanted));
                match wire::at_once(fill.as_mut()).await {
                    Some(filled) => filled,
                    None => {
                        // Earlier answers do not wait for this one, which may become an error yet.
                        stream.write_all(&out[..start]).await?;
                        out.drain(..start);
                        start = 0;
                        fill.await
                    }
                }
            };
            if let Err(error) = filled {
                out.truncate(start);
                return Ok(Err(error));
            }
            rest.chunks(BLOCK).for_each(|ids| put_block(out, ids));
            left -= wanted;
        }
    }
    Ok(Ok(()))
}

/// Writes the ids that are ready, and returns how many. Its block is not in the future of each connection.
fn put_ready(issuer: &Issuer, count: usize, out: &mut Vec<u8>) -> usize {
    let mut ids = [0; BLOCK];
    let mut done = 0;
    while done < count {
        let wanted = (count - done).min(BLOCK);
        let ready = issuer.fill_ready(&mut ids[..wanted]);
        put_block(out, &ids[..ready]);
        done += ready;
        if ready < wanted {
            break;
        }
    }
    done
}

/// Writes up to a block of ids with one copy.
fn put_block(out: &mut Vec<u8>, ids: &[u64]) {
    let mut bytes = [0; 8 * BLOCK];
    for (bytes, id) in bytes.chunks_exact_mut(8).zip(ids) {
        bytes.copy_from_slice(&id.to_le_bytes());
    }
    out.extend_from_slice(&bytes[..8 * ids.len()]);
}
