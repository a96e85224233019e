//! The state of a Redis client, and the words of a request.

use std::io;
use std::str;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::sync::OwnedSemaphorePermit;

use super::parse::Args;
use super::reply::Reply;
use crate::answers::Answers;
use crate::client::{Client, Found};
use crate::error::{self, ErrorKind, IssueError};
use crate::listener::{Ends, Protocol};
use crate::shared::Shared;

/// The kind is the first word of an error.
pub type Refusal = error::Refusal<&'static str>;

pub type Done = Result<(), Refusal>;

impl ErrorKind for &'static str {
    fn of(error: &IssueError) -> Self {
        if error.may_pass() { "TRYAGAIN" } else { "ERR" }
    }
}

pub fn err(text: impl Into<String>) -> Refusal {
    Refusal::new("ERR", text)
}

pub struct Session {
    pub client: Client,
    /// `None` on a Unix socket.
    pub ends: Option<Ends>,
    pub number: u64,
    pub client_name: Vec<u8>,
    pub is_3: bool,
    pub since: Instant,
    /// Begun by `MULTI`.
    pub transaction: Option<Transaction>,
    pub replies: Replies,
    /// Reused memory: the positions of a request's words, and ids of long answers.
    pub args: Args,
    pub ids: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replies {
    On,
    Off,
    /// All but the next.
    Skip,
}

/// A transaction since `MULTI`.
pub struct Transaction {
    pub begun: Instant,
    /// The requests, concatenated.
    pub requests: Vec<u8>,
    pub count: usize,
    /// How many ids the requests ask for.
    pub ids: u64,
    /// Whether a request could not be kept.
    pub is_broken: bool,
    /// Permits for memory beyond what any connection may hold.
    pub room: Vec<OwnedSemaphorePermit>,
}

impl Transaction {
    pub fn begun_at(begun: Instant) -> Self {
        let (requests, room) = (Vec::new(), Vec::new());
        Self { begun, requests, count: 0, ids: 0, is_broken: false, room }
    }
}

/// A request: a command and its arguments.
pub struct Words<'a> {
    pub request: &'a [u8],
    pub args: &'a Args,
}

impl<'a> Words<'a> {
    pub fn command(&self) -> Option<&'a [u8]> {
        self.args.get(self.request, 0)
    }

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
            // Relaxed: only a number.
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            client: Client::new(shared, Protocol::Redis),
            ends,
            client_name: Vec::new(),
            is_3: false,
            since: Instant::now(),
            transaction: None,
            replies: Replies::On,
            args: Args::default(),
            ids: Vec::new(),
        }
    }

    /// Writes the error of a refused request.
    #[inline]
    pub fn answer_refusal(&mut self, done: Done, out: &mut Vec<u8>) -> io::Result<()> {
        done.or_else(|refusal| {
            let (kind, text) = refusal.said()?;
            self.client.errors += 1;
            Reply::new(out, self.is_3).error(kind, &text);
            Ok(())
        })
    }

    /// Finds a name, or the default one without a text.
    pub async fn find(
        &mut self,
        text: Option<&[u8]>,
        answers: &mut Answers<'_>,
    ) -> Result<Found<'_>, Refusal> {
        self.client.look_up(text, answers).await?.ok_or_else(|| {
            let text = String::from_utf8_lossy(text.unwrap_or_default());
            let text: String = text.chars().take(128).collect();
            err(format!("there is no name '{text}'; KEYS * lists those that there are"))
        })
    }

    /// Whether the server knows this name.
    pub fn is_name(&self, text: Option<&[u8]>) -> bool {
        let text = text.and_then(|text| str::from_utf8(text).ok());
        text.is_some_and(|text| self.client.shared.names.get(text).is_some())
    }

    /// Resets the session to its initial state.
    pub fn reset(&mut self) {
        self.transaction = None;
        self.replies = Replies::On;
        self.client_name.clear();
        self.is_3 = false;
        self.client.is_trusted = self.client.shared.password.is_none();
    }
}
