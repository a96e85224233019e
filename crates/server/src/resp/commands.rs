//! The Redis commands that the server answers.

use std::io;
use std::mem;
use std::time::Instant;

use super::parse;
use super::reply::Reply;
use super::session::{Done, Refusal, Replies, Session, Transaction, Words, err};
use super::table::{self, MAX_COMMAND, upper};
use super::{keys, small_talk};
use crate::answers::Answers;
use crate::client::Client;
use crate::scratch::CHUNK;
use crate::wire::{self, Answered};

impl wire::Session for Session {
    async fn answer(&mut self, bytes: &[u8], answers: &mut Answers<'_>) -> Answered {
        let limit = self.client.shared.limits.request.min(CHUNK);
        let mut args = mem::take(&mut self.args);
        let problem = match parse::request(bytes, &mut args) {
            Ok(Some(length)) => {
                let words = Words { request: &bytes[..length], args: &args };
                if !self.answer_at_once(&words, answers.bytes) {
                    self.hear(&words, answers).await?;
                }
                // Do not keep the memory of a request with very many words; such requests are rare.
                if args.len() <= 16 {
                    self.args = args;
                }
                return Ok(Some(length));
            }
            Ok(None) if bytes.len() < limit => {
                self.args = args;
                return Ok(None);
            }
            Ok(None) => format!("a request has at most {limit} bytes"),
            Err(text) => text.to_owned(),
        };
        self.client.is_over = true;
        let refusal = err(format!("Protocol error: {problem}"));
        self.answer_refusal(Err(refusal), answers.bytes)?;
        Ok(Some(bytes.len()))
    }

    fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    fn is_amid_request(&self) -> bool {
        self.transaction.is_some()
    }

    fn goodbye() -> Vec<u8> {
        b"-ERR the request or transaction did not end in time\r\n".into()
    }
}

impl Session {
    /// Answers `INCR name`, `UID.NEXT name` and `GET name` if the id is ready, and returns whether it did. Most
    /// requests are like this, and need no future.
    #[inline]
    fn answer_at_once(&mut self, words: &Words<'_>, out: &mut Vec<u8>) -> bool {
        let is_integer = match words.command() {
            Some(b"INCR" | b"incr" | b"UID.NEXT" | b"uid.next") => true,
            Some(b"GET" | b"get") => false,
            _ => return false,
        };
        let is_usual = self.transaction.is_none() && self.replies == Replies::On;
        if words.len() != 1 || !is_usual || !self.client.is_trusted {
            return false;
        }
        let Some(id) = self.client.ready(words.get(0)) else { return false };
        self.client.requests += 1;
        let mut reply = Reply::new(out, self.is_3);
        if is_integer {
            reply.integer(id)
        } else {
            reply.id(id)
        }
        true
    }

    /// Answers one request, keeps it for `EXEC`, or executes it without an answer.
    async fn hear(&mut self, words: &Words<'_>, answers: &mut Answers<'_>) -> io::Result<()> {
        let done = match (self.replies, &self.transaction) {
            (Replies::On, None) => self.execute(words, answers).await,
            // Boxed, to keep them out of the futures of connections without them.
            (Replies::On, Some(_)) => Box::pin(self.transact(words, answers)).await,
            (Replies::Off | Replies::Skip, _) => {
                return Box::pin(self.mutter(words, answers.bytes)).await;
            }
        };
        self.answer_refusal(done, answers.bytes)
    }

    /// Executes a request without an answer, unless it turns answers on again.
    async fn mutter(&mut self, words: &Words<'_>, out: &mut Vec<u8>) -> io::Result<()> {
        let skips = self.replies == Replies::Skip;
        if skips {
            self.replies = Replies::On;
        }
        let (mut unsaid, mut nowhere) = (Vec::new(), tokio::io::sink());
        let mut answers = Answers::new(&mut unsaid, &mut nowhere);
        let done = match self.transaction {
            None => self.execute(words, &mut answers).await,
            Some(_) => self.transact(words, &mut answers).await,
        };
        self.answer_refusal(done, answers.bytes)?;
        if !skips && self.replies == Replies::On {
            out.append(&mut unsaid);
        }
        Ok(())
    }

    pub async fn execute(&mut self, words: &Words<'_>, answers: &mut Answers<'_>) -> Done {
        let Some(command) = words.command() else { return Ok(()) };
        self.client.requests += 1;
        let mut name = [0; MAX_COMMAND];
        let name = upper(command, &mut name);
        if !self.client.is_trusted
            && !matches!(name, b"AUTH" | b"HELLO" | b"QUIT" | b"POST" | b"HOST:")
        {
            return Err(Refusal::new("NOAUTH", "Authentication required."));
        }
        // These take longer the more names there are, and a pipeline may have many thousands. Let others run in
        // between.
        if matches!(name, b"INFO" | b"KEYS" | b"SCAN" | b"DBSIZE") {
            tokio::task::yield_now().await;
        }
        let mut reply = Reply::new(answers.bytes, self.is_3);
        match (name, words.len()) {
            (b"INCR", 1) => {
                let id = self.take(words.get(0), answers).await?;
                Reply::new(answers.bytes, self.is_3).integer(id);
            }
            (b"GET", 1) => {
                let id = self.take(words.get(0), answers).await?;
                Reply::new(answers.bytes, self.is_3).id(id);
            }
            (b"MGET", 1..) => self.get_many(words, answers).await?,
            (b"INCRBY", 2) => self.reserve(words, answers).await?,
            (b"UID.NEXT", 0..=3) => self.next(words, answers).await?,
            (b"UID.PARSE", 1 | 2) => self.parse(words, answers).await?,
            (b"PING", 0) => reply.simple("PONG"),
            (b"PING" | b"ECHO", 1) => reply.bulk(words.get(0).unwrap_or_default()),
            (b"HELLO", _) => self.hello(words, answers.bytes)?,
            (b"AUTH", 1 | 2) => {
                self.authenticate(words.get(words.len() - 1))?;
                reply.simple("OK");
            }
            (b"SELECT", 1) if words.get(0) == Some(b"0") => reply.simple("OK"),
            (b"SELECT", 1) => {
                return Err(err("DB index is out of range: there is database 0 alone"));
            }
            (b"CLIENT", 1..) => self.client(words, reply)?,
            (b"COMMAND", _) => small_talk::command(words, reply)?,
            (b"CONFIG", 2..) if words.is(0, "GET") => small_talk::config(words, reply),
            (b"CONFIG", 1..) => {
                let text = "CONFIG knows GET alone: settings are flags of `uidring serve`";
                return Err(err(text));
            }
            (b"INFO", _) => reply.bulk(self.info(words)),
            (b"EXISTS", 1..) => {
                let count = (0..words.len()).filter(|index| self.is_name(words.get(*index)));
                reply.integer(count.count() as u64);
            }
            (b"TYPE", 1) if self.is_name(words.get(0)) => reply.simple("string"),
            (b"TYPE", 1) => reply.simple("none"),
            // Names do not expire.
            (b"TTL" | b"PTTL", 1) => reply.signed(if self.is_name(words.get(0)) { -1 } else { -2 }),
            (b"KEYS", 1) => self.keys(words, reply),
            (b"SCAN", 1..) => self.scan(words, reply)?,
            (b"DBSIZE", 0) => reply.integer(self.client.shared.names.texts().len() as u64),
            (b"TIME", 0) => keys::time(reply),
            (b"MULTI", 0) => {
                self.transaction = Some(Transaction::begun_at(Instant::now()));
                reply.simple("OK");
            }
            (b"EXEC", 0) => return Err(err("EXEC without MULTI")),
            (b"DISCARD", 0) => return Err(err("DISCARD without MULTI")),
            // Nothing to watch: no command here depends on what was read earlier.
            (b"WATCH", 1..) | (b"UNWATCH", 0) => reply.simple("OK"),
            (b"RESET", 0) => {
                self.reset();
                reply.simple("RESET");
            }
            (b"QUIT", _) => {
                self.client.is_over = true;
                reply.simple("OK");
            }
            // A page in a browser may send HTTP here, with commands in it.
            (b"POST" | b"HOST:", _) => {
                self.client.is_over = true;
                return Err(err("this is not HTTP"));
            }
            _ => return Err(err(table::problem(command))),
        }
        Ok(())
    }
}
