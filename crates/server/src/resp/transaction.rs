//! Transactions: commands between `MULTI` and `EXEC`, which are answered together.

use super::parse::{self, Args};
use super::reply::Reply;
use super::session::{Done, Refusal, Session, Transaction, Words, err};
use super::table::{self, MAX_COMMAND, upper};
use crate::answers::Answers;
use crate::scratch::CHUNK;

/// The greatest size of a transaction's commands in bytes. 100,000 times `INCR` fits.
const MAX_BYTES: usize = 64 * CHUNK;

/// The number of ids whose memory equals a chunk.
const IDS_PER_CHUNK: u64 = CHUNK as u64 / 8;

impl Session {
    /// Keeps a request for `EXEC`, unless it ends the transaction.
    pub async fn transact(&mut self, words: &Words<'_>, answers: &mut Answers<'_>) -> Done {
        let Some(command) = words.command() else { return Ok(()) };
        // A client that sends something now and then is never slow, and its queue stays in memory.
        let idle = self.client.shared.limits.idle;
        if self.transaction.as_ref().is_some_and(|begun| begun.begun.elapsed() >= idle) {
            self.transaction = None;
            self.client.is_over = true;
            let text = format!("the transaction did not end in time, within {idle:?} of MULTI");
            return Err(err(text));
        }
        let mut name = [0; MAX_COMMAND];
        match (upper(command, &mut name), words.len()) {
            (b"EXEC", 0) => {
                self.client.requests += 1;
                self.exec(answers).await?;
            }
            (b"DISCARD", 0) => {
                self.client.requests += 1;
                self.transaction = None;
                Reply::new(answers.bytes, self.is_3).simple("OK");
            }
            (b"MULTI", 0) => return Err(err("MULTI calls can not be nested")),
            (b"WATCH", 1..) => return Err(err("WATCH inside MULTI is not allowed")),
            (b"QUIT" | b"RESET", _) => self.execute(words, answers).await?,
            (name, _) => {
                let queued = self.queue(name, words);
                if let (Err(_), Some(transaction)) = (&queued, &mut self.transaction) {
                    // Free its memory; nothing in it will run.
                    let nothing = Transaction::begun_at(transaction.begun);
                    *transaction = Transaction { is_broken: true, ..nothing };
                }
                queued.map_err(err)?;
                Reply::new(answers.bytes, self.is_3).simple("QUEUED");
            }
        }
        Ok(())
    }

    /// Keeps a request, or returns why it cannot.
    fn queue(&mut self, name: &[u8], words: &Words<'_>) -> Result<(), String> {
        let Some(transaction) = &mut self.transaction else { return Ok(()) };
        let Words { request, args } = words;
        if !table::is_command(name, args.len()) {
            return Err(table::problem(words.command().unwrap_or_default()));
        }
        if name == b"CLIENT" && words.is(0, "REPLY") {
            return Err("CLIENT REPLY inside MULTI is not allowed".into());
        }
        if transaction.is_broken {
            return Ok(());
        }
        let max = self.client.shared.limits.batch;
        transaction.ids = transaction.ids.saturating_add(ids_of(name, words));
        if transaction.ids > max {
            return Err(format!("a transaction asks for at most {max} ids; make it shorter"));
        }
        let length = transaction.requests.len() + request.len();
        if length > MAX_BYTES {
            return Err(format!("a transaction has at most {MAX_BYTES} bytes; make it shorter"));
        }
        if length / CHUNK > transaction.room.len() {
            let room = self.client.shared.budget.take(IDS_PER_CHUNK);
            transaction.room.extend(room.map_err(|error| error.to_string())?);
        }
        transaction.requests.extend_from_slice(request);
        transaction.count += 1;
        Ok(())
    }

    async fn exec(&mut self, answers: &mut Answers<'_>) -> Done {
        let Some(transaction) = self.transaction.take() else { return Ok(()) };
        if transaction.is_broken {
            let text = "Transaction discarded because of previous errors.";
            return Err(Refusal::new("EXECABORT", text));
        }
        Reply::new(answers.bytes, self.is_3).array(transaction.count);
        let mut rest = &transaction.requests[..];
        let mut args = Args::default();
        // They were parsed successfully before.
        while let Ok(Some(length)) = parse::request(rest, &mut args) {
            let words = Words { request: &rest[..length], args: &args };
            let done = self.execute(&words, answers).await;
            self.answer_refusal(done, answers.bytes)?;
            rest = &rest[length..];
            answers.write_if_long().await?;
        }
        Ok(())
    }
}

/// How many ids a command asks for; 0 if it is invalid.
fn ids_of(name: &[u8], words: &Words<'_>) -> u64 {
    match (name, words.len()) {
        (b"INCR" | b"GET", _) | (b"UID.NEXT", 0 | 1) => 1,
        (b"MGET", names) => names as u64,
        (b"INCRBY" | b"UID.NEXT", count) => words.number(count - 1).unwrap_or(0),
        _ => 0,
    }
}
