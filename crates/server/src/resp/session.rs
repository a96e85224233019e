//! What the server knows of a client of Redis, and the words of a request.

use std::io;
use std::str;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::io::AsyncWrite;
use tokio::sync::OwnedSemaphorePermit;

use super::parse::Args;
use super::reply::Reply;
use crate::error::IssueError;
use crate::listener::{Ends, Protocol};
use crate::names::Name;
use crate::shared::Shared;
use crate::wire;

/// What the server knows of a client.
pub struct Session {
    pub(super) shared: Arc<Shared>,
    /// None through a Unix socket.
    pub(super) ends: Option<Ends>,
    pub(super) number: u64,
    pub(super) client_name: Vec<u8>,
    pub(super) is_3: bool,
    pub(super) is_trusted: bool,
    pub(super) has_quit: bool,
    pub(super) since: Instant,
    /// What `MULTI` has begun.
    pub(super) transaction: Option<Transaction>,
    pub(super) replies: Replies,
    /// The name that was asked for last, which is the next one's as a rule.
    pub(super) recent: Option<Arc<Name>>,
    /// When the requests that are being answered had arrived, if one asked for an unknown name.
    pub(super) arrived: Option<Instant>,
    /// Where the words of a request lie; and ids for answers of many.
    pub(super) args: Args,
    pub(super) ids: Vec<u64>,
    /// Since they were last counted.
    pub(super) requests: u64,
    pub(super) errors: u64,
    /// Ids of the recent name, likewise.
    pub(super) issued: u64,
}

/// Which commands are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replies {
    On,
    Off,
    /// All but the next one.
    Skip,
}

/// What was said since `MULTI`.
pub struct Transaction {
    pub(super) begun: Instant,
    /// Requests as they came, one after the other.
    pub(super) requests: Vec<u8>,
    pub(super) count: usize,
    /// How many ids they ask for.
    pub(super) ids: u64,
    /// Whether one of them could not be kept.
    pub(super) is_broken: bool,
    /// For more than a connection may hold anyhow.
    pub(super) room: Vec<OwnedSemaphorePermit>,
}

impl Transaction {
    pub fn begun_at(begun: Instant) -> Self {
        let (requests, room) = (Vec::new(), Vec::new());
        Self { begun, requests, count: 0, ids: 0, is_broken: false, room }
    }
}

/// A command's words after its own.
pub struct Words<'a> {
    pub(super) request: &'a [u8],
    pub(super) args: &'a Args,
}

impl<'a> Words<'a> {
    pub fn len(&self) -> usize {
        self.args.len() - 1
    }

    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.args.get(self.request, index + 1)
    }

    pub fn is(&self, index: usize, word: &str) -> bool {
        self.get(index).is_some_and(|text| text.eq_ignore_ascii_case(word.as_bytes()))
    }

    pub fn number(&self, index: usize) -> Option<u64> {
        str::from_utf8(self.get(index)?).ok()?.parse().ok()
    }
}

impl Session {
    pub fn new(shared: &Arc<Shared>, ends: Option<Ends>) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        Self {
            // Relaxed: no more than a number.
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            is_trusted: shared.password.is_none(),
            shared: Arc::clone(shared),
            ends,
            client_name: Vec::new(),
            is_3: false,
            has_quit: false,
            since: Instant::now(),
            transaction: None,
            replies: Replies::On,
            recent: None,
            arrived: None,
            args: Args::default(),
            ids: Vec::new(),
            requests: 0,
            errors: 0,
            issued: 0,
        }
    }

    /// Says why no more requests are looked at.
    pub(super) fn refuse(&mut self, out: &mut Vec<u8>, text: &str) {
        self.has_quit = true;
        self.error(out, "ERR", text);
    }

    pub(super) fn count_issued(&mut self) {
        if let Some(name) = &self.recent
            && self.issued > 0
        {
            name.counters.issued(Protocol::Redis, self.issued);
            self.issued = 0;
        }
    }

    pub(super) fn error(&mut self, out: &mut Vec<u8>, kind: &str, text: &str) {
        self.errors += 1;
        Reply::new(out, self.is_3).error(kind, text);
    }

    pub(super) fn failed(&mut self, out: &mut Vec<u8>, error: &IssueError) {
        if let Some(name) = &self.recent {
            name.counters.failed(Protocol::Redis);
        }
        self.not_issued(out, error);
    }

    /// The same where it is not the recent name that failed.
    pub(super) fn not_issued(&mut self, out: &mut Vec<u8>, error: &IssueError) {
        let kind = if error.may_pass() { "TRYAGAIN" } else { "ERR" };
        self.error(out, kind, &uidring::adapter::Chain(error).to_string());
    }

    /// Makes a name the recent one, or says that there is none.
    pub(super) async fn find<S: AsyncWrite + Unpin>(
        &mut self,
        text: Option<&[u8]>,
        out: &mut Vec<u8>,
        stream: &mut S,
    ) -> io::Result<bool> {
        let found = self.look_up(text, out, stream).await?;
        if let Err(error) = &found {
            self.not_issued(out, error);
        } else if let Ok(false) = found {
            let text = String::from_utf8_lossy(text.unwrap_or_default());
            let text: String = text.chars().take(128).collect();
            self.error(
                out,
                "ERR",
                &format!("there is no name '{text}'; KEYS * lists those that there are"),
            );
        }
        Ok(found.unwrap_or(false))
    }

    /// Makes a name the recent one, if there is one.
    pub(super) async fn look_up<S: AsyncWrite + Unpin>(
        &mut self,
        text: Option<&[u8]>,
        out: &mut Vec<u8>,
        stream: &mut S,
    ) -> io::Result<Result<bool, IssueError>> {
        match (&self.recent, text) {
            (Some(recent), Some(text))
                if recent.text().as_bytes() == text && !recent.is_removed() =>
            {
                return Ok(Ok(true));
            }
            _ => {}
        }
        let names = &self.shared.names;
        let found = match text {
            Some(text) => wire::find_name(names, text, &mut self.arrived, out, stream).await?,
            None => Ok(names.default_name().map(Arc::clone)),
        };
        Ok(found.map(|found| {
            let is_found = found.is_some();
            if is_found {
                self.count_issued();
                self.recent = found;
            }
            is_found
        }))
    }

    /// Whether this is the name of something, as far as the server knows.
    pub(super) fn is_name(&self, text: Option<&[u8]>) -> bool {
        let text = text.and_then(|text| str::from_utf8(text).ok());
        text.is_some_and(|text| self.shared.names.get(text).is_some())
    }

    /// As just connected.
    pub(super) fn reset(&mut self) {
        self.transaction = None;
        self.replies = Replies::On;
        self.client_name.clear();
        self.is_3 = false;
        self.is_trusted = self.shared.password.is_none();
    }
}
