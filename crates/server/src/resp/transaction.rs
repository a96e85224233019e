//! Transactions: commands that are kept between `MULTI` and `EXEC`, and answered together.

use std::io;

use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::parse::{self, Args, Parsed};
use super::reply::Reply;
use super::session::{Session, Transaction, Words};
use super::table::{self, MAX_COMMAND, upper};
use crate::scratch::CHUNK;
use crate::wire::FLUSH;

/// What the commands of a transaction may have in bytes: 100,000 times `INCR` fit.
const MAX_BYTES: usize = 64 * CHUNK;

/// The ids whose memory is as large as a chunk.
const IDS_PER_CHUNK: u64 = CHUNK as u64 / 8;

impl Session {
    /// Keeps a request for `EXEC`, unless it ends the transaction.
    pub(super) async fn transact<S: AsyncWrite + Unpin>(
        &mut self,
        request: &[u8],
        args: &Args,
        out: &mut Vec<u8>,
        stream: &mut S,
    ) -> io::Result<()> {
        let Some(command) = args.get(request, 0) else { return Ok(()) };
        // Who says something now and then is never slow, and keeps what is queued in memory.
        let idle = self.shared.limits.idle;
        if self.transaction.as_ref().is_some_and(|begun| begun.begun.elapsed() >= idle) {
            self.transaction = None;
            self.refuse(
                out,
                &format!("the transaction did not end in time, within {idle:?} of MULTI"),
            );
            return Ok(());
        }
        let mut name = [0; MAX_COMMAND];
        match (upper(command, &mut name), args.len()) {
            (b"EXEC", 1) => {
                self.requests += 1;
                return self.exec(out, stream).await;
            }
            (b"DISCARD", 1) => {
                self.requests += 1;
                self.transaction = None;
                Reply::new(out, self.is_3).simple("OK");
            }
            (b"MULTI", 1) => self.error(out, "ERR", "MULTI calls can not be nested"),
            (b"WATCH", 2..) => self.error(out, "ERR", "WATCH inside MULTI is not allowed"),
            (b"QUIT" | b"RESET", _) => return self.execute(request, args, out, stream).await,
            (name, _) => match self.queue(name, &Words { request, args }) {
                Ok(()) => Reply::new(out, self.is_3).simple("QUEUED"),
                Err(text) => {
                    if let Some(transaction) = &mut self.transaction {
                        // Nothing of it will be needed.
                        let nothing = Transaction::begun_at(transaction.begun);
                        *transaction = Transaction { is_broken: true, ..nothing };
                    }
                    self.error(out, "ERR", &text);
                }
            },
        }
        Ok(())
    }

    /// Keeps a request, or says why that cannot be.
    fn queue(&mut self, name: &[u8], words: &Words<'_>) -> Result<(), String> {
        let Some(transaction) = &mut self.transaction else { return Ok(()) };
        let Words { request, args } = words;
        if !table::is_command(name, args.len()) {
            return Err(table::problem(args.get(request, 0).unwrap_or_default()));
        }
        if name == b"CLIENT" && words.is(0, "REPLY") {
            return Err("CLIENT REPLY inside MULTI is not allowed".into());
        }
        if transaction.is_broken {
            return Ok(());
        }
        let max = self.shared.limits.batch;
        transaction.ids = transaction.ids.saturating_add(ids_of(name, words));
        if transaction.ids > max {
            return Err(format!("a transaction asks for at most {max} ids; make it shorter"));
        }
        let length = transaction.requests.len() + request.len();
        if length > MAX_BYTES {
            return Err(format!("a transaction has at most {MAX_BYTES} bytes; make it shorter"));
        }
        if length / CHUNK > transaction.room.len() {
            let room = self.shared.budget.take(IDS_PER_CHUNK).map_err(|error| error.to_string())?;
            transaction.room.extend(room);
        }
        transaction.requests.extend_from_slice(request);
        transaction.count += 1;
        Ok(())
    }

    /// Answers what was kept.
    async fn exec<S: AsyncWrite + Unpin>(
        &mut self,
        out: &mut Vec<u8>,
        stream: &mut S,
    ) -> io::Result<()> {
        let Some(transaction) = self.transaction.take() else { return Ok(()) };
        if transaction.is_broken {
            let text = "Transaction discarded because of previous errors.";
            self.error(out, "EXECABORT", text);
            return Ok(());
        }
        Reply::new(out, self.is_3).array(transaction.count);
        let mut rest = &transaction.requests[..];
        let mut args = Args::default();
        // They were read before.
        while let Ok(Parsed::Request(length)) = parse::request(rest, &mut args) {
            self.execute(&rest[..length], &args, out, stream).await?;
            rest = &rest[length..];
            if out.len() >= FLUSH {
                stream.write_all(out).await?;
                out.clear();
            }
        }
        Ok(())
    }
}

/// How many ids a command asks for; 0 where it is wrong.
fn ids_of(name: &[u8], words: &Words<'_>) -> u64 {
    match (name, words.len()) {
        (b"INCR" | b"GET", _) | (b"UID.NEXT", 0 | 1) => 1,
        (b"MGET", names) => names as u64,
        (b"INCRBY" | b"UID.NEXT", count) => words.number(count - 1).unwrap_or(0),
        _ => 0,
    }
}
