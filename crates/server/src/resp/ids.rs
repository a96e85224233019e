//! Commands that issue or parse ids.

use std::mem;

use uidring::Uid;

use super::reply::Reply;
use super::session::{Done, Refusal, Session, Words, err};
use crate::answers::{Answers, FLUSH};

impl Session {
    /// Takes the next id of a name, or of the default one.
    pub async fn take(
        &mut self,
        text: Option<&[u8]>,
        answers: &mut Answers<'_>,
    ) -> Result<u64, Refusal> {
        if let Some(id) = self.client.ready(text) {
            return Ok(id);
        }
        Ok(self.find(text, answers).await?.take(answers).await?)
    }

    /// `MGET name …`: an id of each name, and null for each unknown name. If one fails, the whole command does.
    pub async fn get_many(&mut self, words: &Words<'_>, answers: &mut Answers<'_>) -> Done {
        self.batch(Some(words.len() as u64))?;
        let mut ids = Vec::with_capacity(words.len());
        for index in 0..words.len() {
            let found = self.client.look_up(words.get(index), answers).await?;
            ids.push(match found {
                Some(found) => Some(found.take(answers).await?),
                None => None,
            });
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
    pub async fn reserve(&mut self, words: &Words<'_>, answers: &mut Answers<'_>) -> Done {
        let found = self.find(words.get(0), answers).await?;
        let max = found.shared.limits.batch.min(found.name.issuer().longest_run());
        let count = within(words.number(1), max)?;
        let reserved = answers.wait(found.name.issuer().reserve(count)).await?;
        let last = found.counted(count, reserved)?;
        Reply::new(answers.bytes, self.is_3).integer(last);
        Ok(())
    }

    /// `UID.NEXT [name] [COUNT n]`
    pub async fn next(&mut self, words: &Words<'_>, answers: &mut Answers<'_>) -> Done {
        // With two words, the first is COUNT. Alone, COUNT is a name.
        let (text, count) = match words.len() {
            0 => (None, None),
            1 => (words.get(0), None),
            2 if words.is(0, "COUNT") => (None, Some(words.number(1))),
            3 if words.is(1, "COUNT") => (words.get(0), Some(words.number(2))),
            _ => return Err(err("syntax error: UID.NEXT [name] [COUNT n]")),
        };
        let Some(count) = count else {
            let id = self.take(text, answers).await?;
            Reply::new(answers.bytes, self.is_3).integer(id);
            return Ok(());
        };
        let count = self.batch(count)?;
        let mut ids = mem::take(&mut self.ids);
        ids.clear();
        let found = self.find(text, answers).await?;
        // Held until all but the last part is written.
        let room = found.shared.budget.take(count);
        let filled = match &room {
            Ok(_) => answers.wait(found.name.issuer().fill(&mut ids, count as usize)).await?,
            Err(error) => Err(error.clone()),
        };
        found.counted(count, filled)?;
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

    /// Returns the number of ids if it is within the limit.
    fn batch(&self, count: Option<u64>) -> Result<u64, Refusal> {
        within(count, self.client.shared.limits.batch)
    }

    /// `UID.PARSE id [name]`
    pub async fn parse(&mut self, words: &Words<'_>, answers: &mut Answers<'_>) -> Done {
        let found = self.find(words.get(1), answers).await?;
        let layout = found.name.issuer().layout();
        let layout = layout.ok_or_else(|| err("a segment's ids are numbers without parts"))?;
        let uid = words.number(0).and_then(Uid::new);
        let uid =
            uid.ok_or_else(|| err("the id is not an integer from 0 to 9223372036854775807"))?;
        let decoded = layout.decode(uid).map_err(|error| err(error.to_string()))?;
        let mut reply = Reply::new(answers.bytes, self.is_3);
        reply.map(4);
        reply.bulks(["timestamp", &decoded.timestamp.to_string()]);
        for (key, number) in [
            ("tick", decoded.tick),
            ("worker_id", decoded.worker_id),
            ("sequence", decoded.sequence),
        ] {
            reply.bulk(key);
            reply.integer(number);
        }
        Ok(())
    }
}

fn within(count: Option<u64>, max: u64) -> Result<u64, Refusal> {
    let count = count.filter(|count| (1..=max).contains(count));
    count.ok_or_else(|| err(format!("the number of ids is not an integer from 1 to {max}")))
}
