//! What the attackers were given, and what went wrong.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::target::{Kind, files};
use super::torment::Tally;
use crate::suite::{Cause, Store};

/// How long after an outage its errors may come: that of a deadline.
const AFTERMATH: Duration = Duration::from_secs(15);

#[derive(Default)]
pub struct Account {
    /// Ids with the process that was given them, by kind and space.
    ids: BTreeMap<(String, String), Vec<(u64, u32)>>,
    processes: Vec<String>,
    errors: Vec<Error>,
}

/// When it was attempted, when it failed, and how.
struct Error {
    start: u64,
    end: u64,
    text: String,
}

impl Account {
    pub fn read(records: &Path) -> Self {
        let mut account = Self::default();
        for path in files(records) {
            let name = path.file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned();
            let bytes = fs::read(&path).expect("reads");
            let parts: Vec<&str> = name.split('.').collect();
            match parts[..] {
                ["errors", _] => account.add_errors(&String::from_utf8_lossy(&bytes)),
                ["log", _] => {}
                [kind, space, _] => account.add_ids(kind, space, &name, &bytes),
                _ => panic!("{name}"),
            }
        }
        for ids in account.ids.values_mut() {
            ids.sort_unstable();
        }
        account
    }

    fn add_errors(&mut self, text: &str) {
        // Of a line that was cut off nobody was told.
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let mut words = line.splitn(3, ' ');
            let mut next = || words.next().expect("three parts");
            let [start, end] = [next(), next()].map(|time| time.parse().expect("a time"));
            self.errors.push(Error { start, end, text: next().to_owned() });
        }
    }

    fn add_ids(&mut self, kind: &str, space: &str, process: &str, bytes: &[u8]) {
        let number = u32::try_from(self.processes.len()).expect("fewer");
        self.processes.push(process.to_owned());
        let ids = self.ids.entry((kind.to_owned(), space.to_owned())).or_default();
        // What was not written as a whole was not used.
        let whole = bytes.chunks_exact(8).map(|id| u64::from_le_bytes(id.try_into().expect("8")));
        ids.extend(whole.map(|id| (id, number)));
    }

    pub fn count(&self, kind: Kind) -> usize {
        let of_kind = self.ids.iter().filter(|((name, _), _)| name == kind.name());
        of_kind.map(|(_, ids)| ids.len()).sum()
    }

    /// Says of each id that came twice who has it.
    pub fn twice(&self) -> Vec<String> {
        let mut twice = Vec::new();
        for ((kind, space), ids) in &self.ids {
            for pair in ids.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
                let [one, other] = [pair[0].1, pair[1].1].map(|n| &self.processes[n as usize]);
                twice.push(format!("{kind} {space} {}: {one} and {other}", pair[0].0));
            }
        }
        twice
    }

    /// How many errors come of which cause, and those that come of none.
    pub fn judge(&self, store: &dyn Store, tally: &Tally) -> (BTreeMap<Cause, usize>, Vec<String>) {
        let mut pauses = tally.pauses.lock().expect("whole").clone();
        pauses.extend(&*tally.stalls.lock().expect("whole"));
        let outages = tally.outages.lock().expect("whole");
        let mut explained = BTreeMap::new();
        let mut unexplained = tally.failures.lock().expect("whole").clone();
        for Error { start, end, text } in &self.errors {
            let before = start.saturating_sub(u64::try_from(AFTERMATH.as_millis()).expect("short"));
            let overlap = |spans: &[(u64, u64)], from: u64| -> u64 {
                spans.iter().map(|(a, b)| (*b).min(*end + 1).saturating_sub((*a).max(from))).sum()
            };
            let holds = |cause: &Cause| match cause {
                Cause::NoneFree | Cause::Lost => true,
                Cause::Locked => 2 * overlap(&pauses, *start) >= end - start,
                Cause::Away => overlap(&pauses, before) + overlap(&outages, before) > 0,
            };
            match store.cause(text).filter(holds) {
                Some(cause) => *explained.entry(cause).or_default() += 1,
                None => unexplained.push(format!("after {} ms: {text}", end - start)),
            }
        }
        (explained, unexplained)
    }
}
