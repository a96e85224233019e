//! Commands that ask for ids, or for what is in one.

use std::io;
use std::mem;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use uidring::Uid;

use super::reply::Reply;
use super::session::{Session, Words};
use crate::wire::{FLUSH, patiently};

impl Session {
    /// The next id of the recent name. What was answered before is written before it is waited for.
    pub(super) async fn take<S: AsyncWrite + Unpin>(
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

    /// `MGET name …`: an id of each, and none of what is no name. One that fails is the answer to all.
    pub(super) async fn get_many<S: AsyncWrite + Unpin>(
        &mut self,
        words: &Words<'_>,
        out: &mut Vec<u8>,
        stream: &mut S,
    ) -> io::Result<()> {
        if self.batch(Some(words.len() as u64), out).is_none() {
            return Ok(());
        }
        let mut ids = Vec::with_capacity(words.len());
        for index in 0..words.len() {
            ids.push(match self.look_up(words.get(index), out, stream).await? {
                Err(error) => {
                    self.not_issued(out, &error);
                    return Ok(());
                }
                Ok(false) => None,
                Ok(true) => match self.take(out, stream).await? {
                    None => return Ok(()),
                    id => id,
                },
            });
        }
        let mut reply = Reply::new(out, self.is_3);
        reply.array(ids.len());
        for id in ids {
            match id {
                Some(id) => reply.id(id),
                None => reply.null(),
            }
        }
        Ok(())
    }

    /// `INCRBY name n`
    pub(super) async fn reserve<S: AsyncWrite + Unpin>(
        &mut self,
        words: &Words<'_>,
        out: &mut Vec<u8>,
        stream: &mut S,
    ) -> io::Result<()> {
        if !self.find(words.get(0), out, stream).await? {
            return Ok(());
        }
        let Some(name) = self.recent.clone() else { return Ok(()) };
        let max = self.shared.limits.batch.min(name.issuer().longest_run());
        let Some(count) = self.at_most(max, words.number(1), out) else { return Ok(()) };
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
    pub(super) async fn next<S: AsyncWrite + Unpin>(
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
            if self.find(text, out, stream).await?
                && let Some(id) = self.take(out, stream).await?
            {
                Reply::new(out, self.is_3).integer(id);
            }
            return Ok(());
        };
        let Some(count) = self.batch(count, out) else { return Ok(()) };
        if !self.find(text, out, stream).await? {
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
    pub(super) fn batch(&mut self, count: Option<u64>, out: &mut Vec<u8>) -> Option<u64> {
        self.at_most(self.shared.limits.batch, count, out)
    }

    fn at_most(&mut self, max: u64, count: Option<u64>, out: &mut Vec<u8>) -> Option<u64> {
        let count = count.filter(|count| (1..=max).contains(count));
        if count.is_none() {
            self.error(out, "ERR", &format!("the number of ids is not an integer from 1 to {max}"));
        }
        count
    }

    /// `UID.PARSE id [name]`
    pub(super) async fn parse<S: AsyncWrite + Unpin>(
        &mut self,
        words: &Words<'_>,
        out: &mut Vec<u8>,
        stream: &mut S,
    ) -> io::Result<()> {
        if !self.find(words.get(1), out, stream).await? {
            return Ok(());
        }
        let layout = self.recent.as_ref().and_then(|name| name.issuer().layout());
        let Some(layout) = layout else {
            self.error(out, "ERR", "a segment's ids are numbers without parts");
            return Ok(());
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
        Ok(())
    }
}
