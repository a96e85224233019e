//! The commands that a client of Redis may say here.

use std::io;
use std::mem;
use std::time::Duration;

use tokio::io::AsyncWrite;

use super::parse::{self, Args, Parsed};
use super::reply::Reply;
use super::session::{Session, Words};
use super::small_talk::COMMANDS;
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
        self.shared.counters(Protocol::Redis).answered(self.requests, self.errors, time);
        (self.requests, self.errors) = (0, 0);
    }
}

impl Session {
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
}
