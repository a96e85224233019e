//! What the attackers were given, and what went wrong.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::target::Kind;
use super::torment::Tally;
use crate::record;
use crate::suite::{Cause, Store};

/// How long after an outage errors may still be due to it: a deadline.
const AFTERMATH: Duration = Duration::from_secs(15);

pub struct Account {
    pub ids: record::Account,
    errors: Vec<Error>,
}

/// An error, and when its attempt started and failed.
struct Error {
    start: u64,
    end: u64,
    text: String,
}

impl Account {
    pub fn read(records: &Path) -> Self {
        let ids = record::Account::read(&records.join("ids"));
        let mut account = Self { ids, errors: Vec::new() };
        let errors = fs::read(records.join("errors")).unwrap_or_default();
        account.add_errors(&String::from_utf8_lossy(&errors));
        account
    }

    fn add_errors(&mut self, text: &str) {
        // Skip a line that was cut off: nobody was told of it.
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let mut words = line.splitn(3, ' ');
            let mut next = || words.next().expect("three parts");
            let [start, end] = [next(), next()].map(|time| time.parse().expect("a time"));
            self.errors.push(Error { start, end, text: next().to_owned() });
        }
    }

    pub fn count(&self, kind: Kind) -> u64 {
        let of_kind = self.ids.spaces.iter().filter(|(space, _)| space.starts_with(kind.name()));
        of_kind.map(|(_, (ids, _))| ids).sum()
    }

    /// Returns the number of errors by cause, and the errors without a cause.
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
