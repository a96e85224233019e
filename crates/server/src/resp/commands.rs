//! The Redis commands that the server answers.

use std::io;
use std::mem;
use std::time::Instant;

use super::parse::{self, Parsed};
use super::reply::Reply;
use super::session::{Replies, Session, Transaction, Words};
use super::table::{self, MAX_COMMAND, upper};
use crate::answers::Answers;
use crate::client::Client;
use crate::scratch::CHUNK;
use crate::wire::{self, Answered};

impl wire::Session for Session {
    async fn answer(&mut self, bytes: &[u8], answers: &mut Answers<'_>) -> Answered {
        let limit = self.client.shared.limits.request.min(CHUNK);
        let mut args = mem::take(&mut self.args);
        let parsed = parse::request(bytes, &mut args);
        let done = match parsed {
            Ok(Parsed::Request(length)) => {
                let words = Words { request: &bytes[..length], args: &args };
                self.hear(&words, answers).await?;
                Some(length)
            }
            Ok(Parsed::Part) if bytes.len() < limit => None,
            Ok(Parsed::Part) => {
                self.refuse(
                    answers.bytes,
                    &format!("Protocol error: a request has at most {limit} bytes"),
                );
                Some(bytes.len())
            }
            Err(error) => {
                self.refuse(answers.bytes, &format!("Protocol error: {error}"));
                Some(bytes.len())
            }
        };
        // Requests with very many words are rare.
        if args.len() <= 16 {
            self.args = args;
        }
        Ok(done)
    }

    fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    fn is_amid_request(&self) -> bool {
        self.transaction.is_some()
    }
}

impl Session {
    /// Answers one request, keeps it for `EXEC`, or executes it without an answer.
    async fn hear(&mut self, words: &Words<'_>, answers: &mut Answers<'_>) -> io::Result<()> {
        match (self.replies, &self.transaction) {
            (Replies::On, None) => self.execute(words, answers).await,
            // Boxed, to keep them out of the futures of connections without them.
            (Replies::On, Some(_)) => Box::pin(self.transact(words, answers)).await,
            (Replies::Off | Replies::Skip, _) => Box::pin(self.mutter(words, answers.bytes)).await,
        }
    }

    /// Executes a request without an answer, unless it turns answers on again.
    async fn mutter(&mut self, words: &Words<'_>, out: &mut Vec<u8>) -> io::Result<()> {
        let skips = self.replies == Replies::Skip;
        if skips {
            self.replies = Replies::On;
        }
        let (mut unsaid, mut nowhere) = (Vec::new(), tokio::io::sink());
        let mut answers = Answers::new(&mut unsaid, &mut nowhere);
        match self.transaction {
            None => self.execute(words, &mut answers).await?,
            Some(_) => self.transact(words, &mut answers).await?,
        }
        if !skips && self.replies == Replies::On {
            out.append(&mut unsaid);
        }
        Ok(())
    }

    pub(super) async fn execute(
        &mut self,
        words: &Words<'_>,
        answers: &mut Answers<'_>,
    ) -> io::Result<()> {
        let Some(command) = words.command() else { return Ok(()) };
        self.client.requests += 1;
        let mut name = [0; MAX_COMMAND];
        let name = upper(command, &mut name);
        let out = &mut *answers.bytes;
        if !self.client.is_trusted
            && !matches!(name, b"AUTH" | b"HELLO" | b"QUIT" | b"POST" | b"HOST:")
        {
            self.error(out, "NOAUTH", "Authentication required.");
            return Ok(());
        }
        // These take longer the more names there are, and a pipeline may have many thousands. Let others run in
        // between.
        if matches!(name, b"INFO" | b"KEYS" | b"SCAN" | b"DBSIZE") {
            tokio::task::yield_now().await;
        }
        match (name, words.len()) {
            (b"INCR", 1) => {
                if let Some(id) = self.take(words.get(0), answers).await? {
                    Reply::new(answers.bytes, self.is_3).integer(id);
                }
            }
            (b"GET", 1) => {
                if let Some(id) = self.take(words.get(0), answers).await? {
                    Reply::new(answers.bytes, self.is_3).id(id);
                }
            }
            (b"MGET", 1..) => self.get_many(words, answers).await?,
            (b"INCRBY", 2) => self.reserve(words, answers).await?,
            (b"UID.NEXT", 0..=3) => self.next(words, answers).await?,
            (b"UID.PARSE", 1 | 2) => self.parse(words, answers).await?,
            (b"PING", 0) => Reply::new(out, self.is_3).simple("PONG"),
            (b"PING" | b"ECHO", 1) => {
                Reply::new(out, self.is_3).bulk(words.get(0).unwrap_or_default())
            }
            (b"HELLO", _) => self.hello(words, out),
            (b"AUTH", 1 | 2) => {
                if self.authenticate(words, words.len() - 1, out) {
                    Reply::new(out, self.is_3).simple("OK");
                }
            }
            (b"SELECT", 1) if words.get(0) == Some(b"0") => Reply::new(out, self.is_3).simple("OK"),
            (b"SELECT", 1) => {
                self.error(out, "ERR", "DB index is out of range: there is database 0 alone")
            }
            (b"CLIENT", 1..) => self.client(words, out),
            (b"COMMAND", _) => self.command(words, out),
            (b"CONFIG", 2..) if words.is(0, "GET") => self.config(words, out),
            (b"CONFIG", 1..) => self.error(
                out,
                "ERR",
                "CONFIG knows GET alone: settings are flags of `uidring serve`",
            ),
            (b"INFO", _) => {
                let text = self.info(words);
                Reply::new(out, self.is_3).bulk(text);
            }
            (b"EXISTS", 1..) => self.exists(words, out),
            (b"TYPE", 1) => self.kind(words, out),
            (b"TTL" | b"PTTL", 1) => self.time_to_live(words, out),
            (b"KEYS", 1) => self.keys(words, out),
            (b"SCAN", 1..) => self.scan(words, out),
            (b"DBSIZE", 0) => {
                let count = self.client.shared.names.texts().len();
                Reply::new(out, self.is_3).integer(count as u64);
            }
            (b"TIME", 0) => self.time(out),
            (b"MULTI", 0) => {
                self.transaction = Some(Transaction::begun_at(Instant::now()));
                Reply::new(out, self.is_3).simple("OK");
            }
            (b"EXEC", 0) => self.error(out, "ERR", "EXEC without MULTI"),
            (b"DISCARD", 0) => self.error(out, "ERR", "DISCARD without MULTI"),
            // Nothing to watch: no command here depends on what was read earlier.
            (b"WATCH", 1..) | (b"UNWATCH", 0) => Reply::new(out, self.is_3).simple("OK"),
            (b"RESET", 0) => {
                self.reset();
                Reply::new(out, self.is_3).simple("RESET");
            }
            (b"QUIT", _) => {
                self.client.is_over = true;
                Reply::new(out, self.is_3).simple("OK");
            }
            // A page in a browser may send HTTP here, with commands in it.
            (b"POST" | b"HOST:", _) => self.refuse(answers.bytes, "this is not HTTP"),
            _ => self.error(out, "ERR", &table::problem(command)),
        }
        Ok(())
    }
}
