//! The commands that a client of Redis may say here.

use std::io;
use std::mem;
use std::time::{Duration, Instant};

use tokio::io::AsyncWrite;

use super::parse::{self, Args, Parsed};
use super::reply::Reply;
use super::session::{Replies, Session, Transaction, Words};
use super::table::{self, MAX_COMMAND, upper};
use crate::listener::Protocol;
use crate::scratch::CHUNK;
use crate::wire;

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
                self.hear(&bytes[..length], &args, out, stream).await?;
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

    fn is_amid_request(&self) -> bool {
        self.transaction.is_some()
    }

    fn count(&mut self, time: Duration) {
        self.count_issued();
        self.shared.counters(Protocol::Redis).answered(self.requests, self.errors, time);
        (self.requests, self.errors, self.arrived) = (0, 0, None);
    }
}

impl Session {
    /// Answers one request, or keeps it for `EXEC`, or answers nobody.
    async fn hear<S: AsyncWrite + Unpin>(
        &mut self,
        request: &[u8],
        args: &Args,
        out: &mut Vec<u8>,
        stream: &mut S,
    ) -> io::Result<()> {
        match (self.replies, &self.transaction) {
            (Replies::On, None) => self.execute(request, args, out, stream).await,
            // In memory of their own, which connections without them do without.
            (Replies::On, Some(_)) => Box::pin(self.transact(request, args, out, stream)).await,
            (Replies::Off | Replies::Skip, _) => Box::pin(self.mutter(request, args, out)).await,
        }
    }

    /// Does as it is told without an answer, unless the client asks for answers again.
    async fn mutter(&mut self, request: &[u8], args: &Args, out: &mut Vec<u8>) -> io::Result<()> {
        if self.replies == Replies::Skip {
            self.replies = Replies::On;
            return self.aside(request, args, &mut Vec::new()).await;
        }
        let mut unsaid = Vec::new();
        self.aside(request, args, &mut unsaid).await?;
        if self.replies == Replies::On {
            out.append(&mut unsaid);
        }
        Ok(())
    }

    async fn aside(&mut self, request: &[u8], args: &Args, out: &mut Vec<u8>) -> io::Result<()> {
        let mut nowhere = tokio::io::sink();
        match self.transaction {
            None => self.execute(request, args, out, &mut nowhere).await,
            Some(_) => self.transact(request, args, out, &mut nowhere).await,
        }
    }

    /// Answers one request.
    pub(super) async fn execute<S: AsyncWrite + Unpin>(
        &mut self,
        request: &[u8],
        args: &Args,
        out: &mut Vec<u8>,
        stream: &mut S,
    ) -> io::Result<()> {
        let Some(command) = args.get(request, 0) else { return Ok(()) };
        self.requests += 1;
        let words = Words { request, args };
        let mut name = [0; MAX_COMMAND];
        let name = upper(command, &mut name);
        if !self.is_trusted && !matches!(name, b"AUTH" | b"HELLO" | b"QUIT" | b"POST" | b"HOST:") {
            self.error(out, "NOAUTH", "Authentication required.");
            return Ok(());
        }
        // They take the longer the more names there are: others have their turn between two of them, which may be many
        // thousand in one pipeline.
        if matches!(name, b"INFO" | b"KEYS" | b"SCAN" | b"DBSIZE") {
            tokio::task::yield_now().await;
        }
        match (name, words.len()) {
            (b"INCR", 1) => {
                if self.find(words.get(0), out, stream).await?
                    && let Some(id) = self.take(out, stream).await?
                {
                    Reply::new(out, self.is_3).integer(id);
                }
            }
            (b"GET", 1) => {
                if self.find(words.get(0), out, stream).await?
                    && let Some(id) = self.take(out, stream).await?
                {
                    Reply::new(out, self.is_3).id(id);
                }
            }
            (b"MGET", 1..) => self.get_many(&words, out, stream).await?,
            (b"INCRBY", 2) => self.reserve(&words, out, stream).await?,
            (b"UID.NEXT", 0..=3) => self.next(&words, out, stream).await?,
            (b"UID.PARSE", 1 | 2) => self.parse(&words, out, stream).await?,
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
                let text = self.info(&words);
                Reply::new(out, self.is_3).bulk(text);
            }
            (b"EXISTS", 1..) => self.exists(&words, out),
            (b"TYPE", 1) => self.kind(&words, out),
            (b"TTL" | b"PTTL", 1) => self.time_to_live(&words, out),
            (b"KEYS", 1) => self.keys(&words, out),
            (b"SCAN", 1..) => self.scan(&words, out),
            (b"DBSIZE", 0) => {
                let count = self.shared.names.texts().len();
                Reply::new(out, self.is_3).integer(count as u64);
            }
            (b"TIME", 0) => self.time(out),
            (b"MULTI", 0) => {
                self.transaction = Some(Transaction::begun_at(Instant::now()));
                Reply::new(out, self.is_3).simple("OK");
            }
            (b"EXEC", 0) => self.error(out, "ERR", "EXEC without MULTI"),
            (b"DISCARD", 0) => self.error(out, "ERR", "DISCARD without MULTI"),
            // What is watched are names, and no command here depends on what was read of one.
            (b"WATCH", 1..) | (b"UNWATCH", 0) => Reply::new(out, self.is_3).simple("OK"),
            (b"RESET", 0) => {
                self.reset();
                Reply::new(out, self.is_3).simple("RESET");
            }
            (b"QUIT", _) => {
                self.has_quit = true;
                Reply::new(out, self.is_3).simple("OK");
            }
            // A page in a browser may send HTTP here, with commands in it.
            (b"POST" | b"HOST:", _) => self.refuse(out, "this is not HTTP"),
            _ => self.error(out, "ERR", &table::problem(command)),
        }
        Ok(())
    }
}
