//! Commands about names, which frameworks and graphical clients use.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{SystemTime, UNIX_EPOCH};

use super::glob::Pattern;
use super::reply::Reply;
use super::session::{Done, Session, Words, err};

/// How many names `SCAN` visits by default.
const SCANNED: u64 = 10;

impl Session {
    /// `KEYS pattern`
    pub fn keys(&self, words: &Words<'_>, mut reply: Reply<'_>) {
        let pattern = Pattern::new(words.get(0).unwrap_or_default());
        let mut names = self.client.shared.names.texts();
        names.retain(|name| pattern.matches(name.as_bytes()));
        names.sort();
        reply.array(names.len());
        reply.bulks(names);
    }

    /// `SCAN cursor [MATCH pattern] [COUNT n] [TYPE kind]`. Names come in the order of their hashes, and the cursor is
    /// the next hash. So names that come and go in between do not affect others.
    pub fn scan(&self, words: &Words<'_>, mut reply: Reply<'_>) -> Done {
        let cursor = words.number(0).ok_or_else(|| err("invalid cursor"))?;
        let (mut pattern, mut count, mut is_string) = (&b"*"[..], SCANNED, true);
        for at in (1..words.len()).step_by(2) {
            match (words.get(at + 1), words.number(at + 1)) {
                (Some(value), _) if words.is(at, "MATCH") => pattern = value,
                (_, Some(number @ 1..)) if words.is(at, "COUNT") => count = number,
                (Some(_), _) if words.is(at, "TYPE") => is_string = words.is(at + 1, "string"),
                _ => {
                    let text = "syntax error: SCAN cursor [MATCH pattern] [COUNT n] [TYPE kind]";
                    return Err(err(text));
                }
            }
        }
        let names = self.client.shared.names.texts().into_iter().map(|name| (hash(&name), name));
        let mut names: Vec<_> = names.filter(|(hash, _)| *hash >= cursor).collect();
        names.sort();
        let last = usize::try_from(count - 1).ok().and_then(|last| names.get(last));
        // Names with equal hashes stay together.
        let end =
            last.map_or(names.len(), |(last, _)| names.partition_point(|(hash, _)| hash <= last));
        let next = names.get(end).map_or(0, |(hash, _)| *hash);
        names.truncate(end);
        let pattern = Pattern::new(pattern);
        names.retain(|(_, name)| is_string && pattern.matches(name.as_bytes()));
        reply.array(2);
        reply.id(next);
        reply.array(names.len());
        reply.bulks(names.into_iter().map(|(_, name)| name));
        Ok(())
    }
}

/// `TIME`: seconds since 1970, and microseconds.
pub fn time(mut reply: Reply<'_>) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    reply.array(2);
    reply.id(now.as_secs());
    reply.id(now.subsec_micros().into());
}

/// Returns a 53-bit hash, which every client's language can represent.
fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish() >> 11
}
