//! Commands that issue or parse ids.

use std::io;
use std::mem;

use uidring::Uid;

use super::reply::Reply;
use super::session::{Session, Words};
use crate::answers::{Answers, FLUSH};

impl Session {
    /// Takes the next id of a name, or of the default one, or answers why there is none.
    pub(super) async fn take(
        &mut self,
        text: Option<&[u8]>,
        answers: &mut Answers<'_>,
    ) -> io::Result<Option<u64>> {
        if let Some(id) = self.client.ready(text) {
            return Ok(Some(id));
        }
        let Some(found) = self.find(text, answers).await? else { return Ok(None) };
        let taken = found.take(answers).await?;
        Ok(taken.inspect_err(|error| self.failed(answers.bytes, error)).ok())
    }

    /// `MGET name …`: an id of each name, and null for each unknown name. If one fails, the whole command does.
    pub(super) async fn get_many(
        &mut self,
        words: &Words<'_>,
        answers: &mut Answers<'_>,
    ) -> io::Result<()> {
        if self.batch(Some(words.len() as u64), answers.bytes).is_none() {
            return Ok(());
        }
        let mut ids = Vec::with_capacity(words.len());
        for index in 0..words.len() {
            let taken = match self.client.look_up(words.get(index), answers).await? {
                Ok(true) => match self.client.recent() {
                    Some(found) => found.take(answers).await?.map(Some),
                    None => Ok(None),
                },
                Ok(false) => Ok(None),
                Err(error) => Err(error),
            };
            match taken {
                Ok(id) => ids.push(id),
                Err(error) => {
                    self.failed(answers.bytes, &error);
                    return Ok(());
                }
            }
        }
        let mut reply = Reply::new(answers.bytes, self.is_3);
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
    pub(super) async fn reserve(
        &mut self,
        words: &Words<'_>,
        answers: &mut Answers<'_>,
    ) -> io::Result<()> {
        let Some(found) = self.find(words.get(0), answers).await? else { return Ok(()) };
        let max = found.shared.limits.batch.min(found.name.issuer().longest_run());
        let Some(count) = words.number(1).filter(|count| (1..=max).contains(count)) else {
            self.out_of_range(max, answers.bytes);
            return Ok(());
        };
        let reserved = answers.wait(found.name.issuer().reserve(count)).await?;
        match found.counted(count, reserved) {
            Ok(last) => Reply::new(answers.bytes, self.is_3).integer(last),
            Err(error) => self.failed(answers.bytes, &error),
        }
        Ok(())
    }

    /// `UID.NEXT [name] [COUNT n]`
    pub(super) async fn next(
        &mut self,
        words: &Words<'_>,
        answers: &mut Answers<'_>,
    ) -> io::Result<()> {
        // With two words, the first is COUNT. Alone, COUNT is a name.
        let (text, count) = match words.len() {
            0 => (None, None),
            1 => (words.get(0), None),
            2 if words.is(0, "COUNT") => (None, Some(words.number(1))),
            3 if words.is(1, "COUNT") => (words.get(0), Some(words.number(2))),
            _ => {
                self.error(answers.bytes, "ERR", "syntax error: UID.NEXT [name] [COUNT n]");
                return Ok(());
            }
        };
        let Some(count) = count else {
            if let Some(id) = self.take(text, answers).await? {
                Reply::new(answers.bytes, self.is_3).integer(id);
            }
            return Ok(());
        };
        let Some(count) = self.batch(count, answers.bytes) else { return Ok(()) };
        let mut ids = mem::take(&mut self.ids);
        ids.clear();
        let Some(found) = self.find(text, answers).await? else { return Ok(()) };
        // Held until all but the last part is written.
        let room = found.shared.budget.take(count);
        let filled = match &room {
            Ok(_) => answers.wait(found.name.issuer().fill(&mut ids, count as usize)).await?,
            Err(error) => Err(error.clone()),
        };
        if let Err(error) = found.counted(count, filled) {
            self.failed(answers.bytes, &error);
            return Ok(());
        }
        Reply::new(answers.bytes, self.is_3).array(ids.len());
        for part in ids.chunks(FLUSH / 32) {
            let mut reply = Reply::new(answers.bytes, self.is_3);
            part.iter().for_each(|id| reply.integer(*id));
            answers.write_if_long().await?;
        }
        // A waiting connection keeps little memory.
        ids.shrink_to(64);
        self.ids = ids;
        Ok(())
    }

    /// Returns the number of ids if it is within the limit, or answers what the limit is.
    fn batch(&mut self, count: Option<u64>, out: &mut Vec<u8>) -> Option<u64> {
        let max = self.client.shared.limits.batch;
        let count = count.filter(|count| (1..=max).contains(count));
        if count.is_none() {
            self.out_of_range(max, out);
        }
        count
    }

    fn out_of_range(&mut self, max: u64, out: &mut Vec<u8>) {
        self.error(out, "ERR", &format!("the number of ids is not an integer from 1 to {max}"));
    }

    /// `UID.PARSE id [name]`
    pub(super) async fn parse(
        &mut self,
        words: &Words<'_>,
        answers: &mut Answers<'_>,
    ) -> io::Result<()> {
        let Some(found) = self.find(words.get(1), answers).await? else { return Ok(()) };
        let Some(layout) = found.name.issuer().layout() else {
            self.error(answers.bytes, "ERR", "a segment's ids are numbers without parts");
            return Ok(());
        };
        let uid = words.number(0).and_then(Uid::new);
        let decoded =
            uid.ok_or_else(|| "the id is not an integer from 0 to 9223372036854775807".to_owned());
        let decoded = decoded.and_then(|uid| layout.decode(uid).map_err(|error| error.to_string()));
        match decoded {
            Ok(decoded) => {
                let mut reply = Reply::new(answers.bytes, self.is_3);
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
            Err(text) => self.error(answers.bytes, "ERR", &text),
        }
        Ok(())
    }
}
