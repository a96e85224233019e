//! Batches of ids in binary, for clients that want to pay only for the wire. docs/server-batch.md specifies the bytes.

pub mod parse;

use std::io;
use std::sync::Arc;

use self::parse::Request;
use crate::answers::Answers;
use crate::client::Client;
use crate::error::{ErrorKind, IssueError, Refusal};
use crate::issuer::Issuer;
use crate::listener::Protocol;
use crate::shared::Shared;
use crate::wire::{self, Answered};

/// The greatest length of a text in an answer, in bytes.
const MAX_TEXT: usize = 1000;

/// How many ids are taken and written at a time. They fit in the processor's first-level cache.
const BLOCK: usize = 256;

/// How many ids are awaited at a time. A generator hands out as many at once.
const WAITED: usize = 1024;

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

impl ErrorKind for Status {
    fn of(error: &IssueError) -> Self {
        if error.may_pass() { Self::TryAgain } else { Self::Failed }
    }
}

/// The answer to a client if there is no room for it.
pub fn refusal() -> Vec<u8> {
    error(Status::TryAgain, "the server has no room for more connections")
}

pub struct Session(Client);

impl Session {
    pub fn new(shared: &Arc<Shared>) -> Self {
        Self(Client::new(shared, Protocol::Batch))
    }

    fn authenticate(&mut self, given: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal<Status>> {
        let text = match self.0.authenticate(given) {
            Some(true) => {
                put_head(out, Status::Ok, 0);
                return Ok(());
            }
            Some(false) => "wrong password",
            None => "the server has no password; connect without one",
        };
        self.0.is_over = true;
        Err(Refusal::new(Status::NotAllowed, text))
    }

    async fn issue(
        &mut self,
        text: &[u8],
        count: u32,
        answers: &mut Answers<'_>,
    ) -> Result<(), Refusal<Status>> {
        if !self.0.is_trusted {
            let text = "authenticate first: the server has a password";
            return Err(Refusal::new(Status::NotAllowed, text));
        }
        let max = self.0.shared.limits.batch;
        if !(1..=max).contains(&u64::from(count)) {
            let text = format!("{count} ids were asked for; a request is for 1 to {max}");
            return Err(Refusal::new(Status::BadRequest, text));
        }
        // An empty name means the default one.
        let name = (!text.is_empty()).then_some(text);
        let found = self.0.look_up(name, answers).await?.ok_or_else(|| {
            let text = match name {
                Some(name) => format!("there is no name '{}'", String::from_utf8_lossy(name)),
                None => "the server has no default name; ask for one of its names".to_owned(),
            };
            Refusal::new(Status::UnknownName, text)
        })?;
        let done = match found.shared.budget.take(count.into()) {
            Ok(room) => {
                let done = put_ids(found.name.issuer(), count as usize, answers).await?;
                answers.write_if_long().await?;
                drop(room);
                done
            }
            Err(error) => Err(error),
        };
        Ok(found.counted(count.into(), done)?)
    }
}

impl wire::Session for Session {
    async fn answer(&mut self, bytes: &[u8], answers: &mut Answers<'_>) -> Answered {
        let (done, length) = match parse::request(bytes) {
            Ok(None) => return Ok(None),
            Ok(Some((Request::Ids { name, count }, length))) => {
                (self.issue(name, count, answers).await, length)
            }
            Ok(Some((Request::Password(given), length))) => {
                (self.authenticate(given, answers.bytes), length)
            }
            Err(text) => {
                self.0.is_over = true;
                (Err(Refusal::new(Status::BadRequest, text)), bytes.len())
            }
        };
        self.0.requests += 1;
        if let Err(refusal) = done {
            let (status, text) = refusal.said()?;
            self.0.errors += 1;
            answers.bytes.extend(error(status, &text));
        }
        Ok(Some(length))
    }

    fn client(&mut self) -> &mut Client {
        &mut self.0
    }

    fn goodbye() -> Vec<u8> {
        error(Status::BadRequest, "the request did not end in time")
    }
}

fn put_head(out: &mut Vec<u8>, status: Status, length: usize) {
    out.extend_from_slice(&(status as u32).to_le_bytes());
    // Ids and texts have far lower limits.
    out.extend_from_slice(&(length as u32).to_le_bytes());
}

fn error(status: Status, text: &str) -> Vec<u8> {
    let mut answer = Vec::new();
    let end = (0..=text.len().min(MAX_TEXT)).rfind(|end| text.is_char_boundary(*end));
    let text = &text[..end.unwrap_or(0)];
    put_head(&mut answer, status, text.len());
    answer.extend_from_slice(text.as_bytes());
    answer
}

/// Writes an answer with ids, or nothing after an error.
async fn put_ids(
    issuer: &Issuer,
    count: usize,
    answers: &mut Answers<'_>,
) -> io::Result<Result<(), IssueError>> {
    answers.bytes.reserve(8 + 8 * count);
    let mut start = answers.bytes.len();
    put_head(answers.bytes, Status::Ok, count);
    let mut rest = Vec::new();
    let mut left = count;
    while left > 0 {
        left -= put_ready(issuer, left, answers.bytes);
        let wanted = left.min(WAITED);
        if wanted > 0 {
            rest.clear();
            // Earlier answers need not wait for this one, which may still become an error.
            let own = answers.bytes.len() - start;
            let filled = answers.wait_behind(start, issuer.fill(&mut rest, wanted)).await?;
            start = answers.bytes.len() - own;
            if let Err(error) = filled {
                answers.bytes.truncate(start);
                return Ok(Err(error));
            }
            rest.chunks(BLOCK).for_each(|ids| put_block(answers.bytes, ids));
            left -= wanted;
        }
    }
    Ok(Ok(()))
}

/// Writes the ids that are ready, and returns how many. This function keeps its block out of each connection's future.
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
    let mut bytes = [[0; 8]; BLOCK];
    for (bytes, id) in bytes.iter_mut().zip(ids) {
        *bytes = id.to_le_bytes();
    }
    out.extend_from_slice(bytes[..ids.len()].as_flattened());
}
