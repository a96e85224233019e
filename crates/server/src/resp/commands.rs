//! The commands that a client of Redis may say here.

use std::io;
use std::mem;
use std::str;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use uidring::Uid;

use super::parse::{self, Args, Parsed};
use super::reply::Reply;
use super::small_talk::COMMANDS;
use crate::error::IssueError;
use crate::listener::Protocol;
use crate::names::Name;
use crate::scratch::CHUNK;
use crate::server::Shared;
use crate::wire::{self, FLUSH, patiently};

const PROTOCOL: Protocol = Protocol::Redis;

/// What the server knows of a client.
pub struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) number: u64,
    pub(super) client_name: Vec<u8>,
    pub(super) is_3: bool,
    pub(super) is_trusted: bool,
    has_quit: bool,
    /// The name that was asked for last, which is the next one's as a rule.
    recent: Option<Arc<Name>>,
    /// Where the words of a request lie; and ids for answers of many.
    args: Args,
    ids: Vec<u64>,
    /// Since they were last counted.
    requests: u64,
    errors: u64,
    /// Ids of the recent name, likewise.
    issued: u64,
}

/// A command's words after its own.
pub(super) struct Words<'a> {
    request: &'a [u8],
    args: &'a Args,
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

impl wire::Session for Session {
    async fn answer<S: AsyncWrite + Unpin>(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        stream: &mut S,
    ) -> io::Result<Option<usize>> {
        let limit = self.shared.limits.request.min(CHUNK);
        let mut args = mem::take(&mut self.args);
        let parsed = parse::request(bytes, &mut args);
        let done = match parsed {
            Ok(Parsed::Request(length)) => {
                self.execute(bytes, &args, out, stream).await?;
                Some(length)
            }
            Ok(Parsed::Part) if bytes.len() < limit => None,
            Ok(Parsed::Part) => {
                self.refuse(out, &format!("Protocol error: a request has at most {limit} bytes"));
                Some(bytes.len())
            }
            Err(error) => {
                self.refuse(out, &format!("Protocol error: {error}"));
                Some(bytes.len())
            }
        };
        // A request of very many words is rare.
        if args.len() <= 16 {
            self.args = args;
        }
        Ok(done)
    }

    fn is_over(&self) -> bool {
        self.has_quit
    }

    fn count(&mut self, time: Duration) {
        self.count_issued();
        self.shared.counters(PROTOCOL).answered(self.requests, self.errors, time);
        (self.requests, self.errors) = (0, 0);
    }
}

impl Session {
    pub fn new(shared: &Arc<Shared>) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        Self {
            // Relaxed: no more than a number.
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            is_trusted: shared.password.is_none(),
            shared: Arc::clone(shared),
            client_name: Vec::new(),
            is_3: false,
            has_quit: false,
            recent: None,
            args: Args::default(),
            ids: Vec::new(),
            requests: 0,
            errors: 0,
            issued: 0,
        }
    }

    /// Says why no more requests are looked at.
    fn refuse(&mut self, out: &mut Vec<u8>, text: &str) {
        self.has_quit = true;
        self.error(out, "ERR", text);
    }

    pub(super) fn count_issued(&mut self) {
        if let Some(name) = &self.recent
            && self.issued > 0
        {
            name.counters.issued(PROTOCOL, self.issued);
            self.issued = 0;
        }
    }

    pub(super) fn error(&mut self, out: &mut Vec<u8>, kind: &str, text: &str) {
        self.errors += 1;
        Reply::new(out, self.is_3).error(kind, text);
    }

    fn failed(&mut self, out: &mut Vec<u8>, error: &IssueError) {
        if let Some(name) = &self.recent {
            name.counters.failed(PROTOCOL);
        }
        let kind = if error.may_pass() { "TRYAGAIN" } else { "ERR" };
        self.error(out, kind, &uidring::adapter::Chain(error).to_string());
    }

    /// Answers one request.
    async fn execute<S: AsyncWrite + Unpin>(
        &mut self,
        request: &[u8],
        args: &Args,
        out: &mut Vec<u8>,
        stream: &mut S,
    ) -> io::Result<()> {
        let Some(command) = args.get(request, 0) else { return Ok(()) };
        self.requests += 1;
        let words = Words { request, args };
        let mut name = [0; 16];
        let name = match name.get_mut(..command.len()) {
            Some(name) => {
                name.copy_from_slice(command);
                name.make_ascii_uppercase();
                &*name
            }
            None => b"",
        };
        if !self.is_trusted && !matches!(name, b"AUTH" | b"HELLO" | b"QUIT" | b"POST" | b"HOST:") {
            self.error(out, "NOAUTH", "Authentication required.");
            return Ok(());
        }
        match (name, words.len()) {
            (b"INCR", 1) => {
                if self.find(words.get(0), out)
                    && let Some(id) = self.take(out, stream).await?
                {
                    Reply::new(out, self.is_3).integer(id);
                }
            }
            (b"GET", 1) => {
                if self.find(words.get(0), out)
                    && let Some(id) = self.take(out, stream).await?
                {
                    Reply::new(out, self.is_3).id(id);
                }
            }
            (b"INCRBY", 2) => self.reserve(&words, out, stream).await?,
            (b"UID.NEXT", 0..=3) => self.next(&words, out, stream).await?,
            (b"UID.PARSE", 1 | 2) => self.parse(&words, out),
            (b"PING", 0) => Reply::new(out, self.is_3).simple("PONG"),
            (b"PING" | b"ECHO", 1) => {
                Reply::new(out, self.is_3).bulk(words.get(0).unwrap_or_default())
            }
            (b"HELLO", _) => self.hello(&words, out),
            (b"AUTH", 1 | 2) => {
                if self.authenticate(&words, words.len() - 1, out) {
                    Reply::new(out, self.is_3).simple("OK");
                }
            }
            (b"SELECT", 1) if words.get(0) == Some(b"0") => Reply::new(out, self.is_3).simple("OK"),
            (b"SELECT", 1) => {
                self.error(out, "ERR", "DB index is out of range: there is database 0 alone")
            }
            (b"CLIENT", 1..) => self.client(&words, out),
            (b"COMMAND", _) => self.command(&words, out),
            (b"CONFIG", 2..) if words.is(0, "GET") => self.config(&words, out),
            (b"CONFIG", 1..) => self.error(
                out,
                "ERR",
                "CONFIG knows GET alone: settings are flags of `uidring serve`",
            ),
            (b"INFO", _) => {
                let text = self.info();
                Reply::new(out, self.is_3).bulk(text);
            }
            (b"QUIT", _) => {
                self.has_quit = true;
                Reply::new(out, self.is_3).simple("OK");
            }
            // A page in a browser may send HTTP here, with commands in it.
            (b"POST" | b"HOST:", _) => self.refuse(out, "this is not HTTP"),
            _ => {
                let text = String::from_utf8_lossy(&command[..command.len().min(64)]);
                let lower = text.to_ascii_lowercase();
                let known = COMMANDS.iter().any(|(name, _)| *name == lower);
                let text = match known {
                    true => format!("wrong number of arguments for '{lower}' command"),
                    false => format!("unknown command '{text}': this is uidring, which issues ids"),
                };
                self.error(out, "ERR", &text);
            }
        }
        Ok(())
    }

    /// Makes a name the recent one, or says that there is none.
    fn find(&mut self, text: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
        match (&self.recent, text) {
            (Some(recent), Some(text)) if recent.text().as_bytes() == text => return true,
            _ => {}
        }
        let found = match text {
            Some(text) => str::from_utf8(text).ok().and_then(|text| self.shared.names.get(text)),
            None => self.shared.names.default_name().map(Arc::clone),
        };
        if found.is_none() {
            let text = String::from_utf8_lossy(text.unwrap_or_default());
            let text: String = text.chars().take(128).collect();
            self.error(
                out,
                "ERR",
                &format!("there is no name '{text}'; INFO lists those that there are"),
            );
            return false;
        }
        self.count_issued();
        self.recent = found;
        true
    }

    /// The next id of the recent name. What was answered before is written before it is waited for.
    async fn take<S: AsyncWrite + Unpin>(
        &mut self,
        out: &mut Vec<u8>,
        stream: &mut S,
    ) -> io::Result<Option<u64>> {
        if let Some(id) = self.recent.as_ref().and_then(|name| name.issuer().ready()) {
            self.issued += 1;
            return Ok(Some(id));
        }
        let Some(name) = self.recent.clone() else { return Ok(None) };
        match patiently(name.issuer().take(), out, stream).await? {
            Ok(id) => {
                self.issued += 1;
                Ok(Some(id))
            }
            Err(error) => {
                self.failed(out, &error);
                Ok(None)
            }
        }
    }

    /// `INCRBY name n`
    async fn reserve<S: AsyncWrite + Unpin>(
        &mut self,
        words: &Words<'_>,
        out: &mut Vec<u8>,
        stream: &mut S,
    ) -> io::Result<()> {
        let Some(count) = self.batch(words.number(1), out) else { return Ok(()) };
        if !self.find(words.get(0), out) {
            return Ok(());
        }
        let Some(name) = self.recent.clone() else { return Ok(()) };
        match patiently(name.issuer().reserve(count), out, stream).await? {
            Ok(last) => {
                self.issued += count;
                Reply::new(out, self.is_3).integer(last);
            }
            Err(error) => self.failed(out, &error),
        }
        Ok(())
    }

    /// `UID.NEXT [name] [COUNT n]`
    async fn next<S: AsyncWrite + Unpin>(
        &mut self,
        words: &Words<'_>,
        out: &mut Vec<u8>,
        stream: &mut S,
    ) -> io::Result<()> {
        // With two words, the first is COUNT; a name may be COUNT as well, if it stands alone.
        let (text, count) = match words.len() {
            0 => (None, None),
            1 => (words.get(0), None),
            2 if words.is(0, "COUNT") => (None, Some(words.number(1))),
            3 if words.is(1, "COUNT") => (words.get(0), Some(words.number(2))),
            _ => {
                self.error(out, "ERR", "syntax error: UID.NEXT [name] [COUNT n]");
                return Ok(());
            }
        };
        let Some(count) = count else {
            if self.find(text, out)
                && let Some(id) = self.take(out, stream).await?
            {
                Reply::new(out, self.is_3).integer(id);
            }
            return Ok(());
        };
        let Some(count) = self.batch(count, out) else { return Ok(()) };
        if !self.find(text, out) {
            return Ok(());
        }
        let Some(name) = self.recent.clone() else { return Ok(()) };
        // Until all but the last part is written.
        let _room = match self.shared.budget.take(count) {
            Ok(room) => room,
            Err(error) => {
                self.failed(out, &error);
                return Ok(());
            }
        };
        let mut ids = mem::take(&mut self.ids);
        ids.clear();
        let filled = patiently(name.issuer().fill(&mut ids, count as usize), out, stream).await?;
        if let Err(error) = filled {
            self.failed(out, &error);
            return Ok(());
        }
        self.issued += count;
        Reply::new(out, self.is_3).array(ids.len());
        for part in ids.chunks(FLUSH / 32) {
            let mut reply = Reply::new(out, self.is_3);
            part.iter().for_each(|id| reply.integer(*id));
            if out.len() >= FLUSH {
                stream.write_all(out).await?;
                out.clear();
            }
        }
        // A connection that waits keeps little.
        ids.shrink_to(64);
        self.ids = ids;
        Ok(())
    }

    /// A number of ids within the limit, or says what that is.
    fn batch(&mut self, count: Option<u64>, out: &mut Vec<u8>) -> Option<u64> {
        let max = self.shared.limits.batch;
        let count = count.filter(|count| (1..=max).contains(count));
        if count.is_none() {
            self.error(out, "ERR", &format!("the number of ids is not an integer from 1 to {max}"));
        }
        count
    }

    /// `UID.PARSE id [name]`
    fn parse(&mut self, words: &Words<'_>, out: &mut Vec<u8>) {
        if !self.find(words.get(1), out) {
            return;
        }
        let layout = self.recent.as_ref().and_then(|name| name.issuer().layout());
        let Some(layout) = layout else {
            return self.error(out, "ERR", "a segment's ids are numbers without parts");
        };
        let uid = words.number(0).and_then(Uid::new);
        let decoded =
            uid.ok_or_else(|| "the id is not an integer from 0 to 9223372036854775807".to_owned());
        let decoded = decoded.and_then(|uid| layout.decode(uid).map_err(|error| error.to_string()));
        match decoded {
            Ok(decoded) => {
                let mut reply = Reply::new(out, self.is_3);
                reply.map(4);
                reply.bulk("timestamp");
                reply.bulk(decoded.timestamp.to_string());
                for (key, number) in [
                    ("tick", decoded.tick),
                    ("worker_id", decoded.worker_id),
                    ("sequence", decoded.sequence),
                ] {
                    reply.bulk(key);
                    reply.integer(number);
                }
            }
            Err(text) => self.error(out, "ERR", &text),
        }
    }
}
