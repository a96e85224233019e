//! What an acquire has seen of the leases, and how long they have not changed.
//!
//! An etcd transaction cannot read a clock, and hosts' clocks are not compared. So a lease has expired once this
//! process, by its own monotonic clock, has seen the key unchanged for the lease's length and a margin, in which a live
//! holder renews three times.

use std::collections::BTreeMap;
use std::time::Duration;

use uidring::adapter::{Moment, Monotonic, SystemMonotonic};

use super::row::{Row, State};
use crate::client::Client;
use crate::key_value::{KeyValue, get_changed};
use crate::node::worker_id;
use crate::problem::Problem;

#[derive(Default)]
pub struct View {
    rows: BTreeMap<u64, Seen>,
    /// When the last read was sent, and what it saw.
    sent: Option<Moment>,
    cluster: u64,
    revision: i64,
}

struct Seen {
    /// A lease, or why it is unusable. Nobody may take an unusable one.
    row: Result<Row, String>,
    /// When the answer that first showed this revision had arrived.
    since: Moment,
}

impl View {
    /// Reads what changed since the last read.
    pub fn refresh(&mut self, client: &mut Client) -> Result<(), Problem> {
        let sent = SystemMonotonic.moment();
        let changed = get_changed(&client.store.key("leases/"), self.revision);
        let answer = client.transact(&[], &[changed], &[])?;
        let is_other = self.cluster != answer.cluster || self.revision > answer.revision;
        if self.sent.is_some() && is_other {
            // An older state was restored, or the endpoints belong to several clusters.
            *self = Self::default();
            return Err(Problem::Contended);
        }
        for found in answer.reads.iter().flatten() {
            self.take_in(found)?;
        }
        (self.sent, self.cluster, self.revision) = (Some(sent), answer.cluster, answer.revision);
        Ok(())
    }

    /// Replaces a row by what a transaction found; `None` if the key is gone.
    pub fn replace(&mut self, worker_id: u64, found: Option<&KeyValue>) -> Result<(), Problem> {
        match found {
            Some(found) => self.take_in(found),
            None => {
                self.rows.remove(&worker_id);
                Ok(())
            }
        }
    }

    fn take_in(&mut self, found: &KeyValue) -> Result<(), Problem> {
        let worker_id = worker_id(found)?;
        let row = match Row::read(found) {
            Err(Problem::Flawed(flaw)) => Err(flaw),
            row => Ok(row?),
        };
        if self.get(worker_id).is_none_or(|seen| seen.revision != found.mod_revision) {
            self.rows.insert(worker_id, Seen { row, since: SystemMonotonic.moment() });
        }
        Ok(())
    }

    pub fn all(&self) -> impl Iterator<Item = &Row> {
        self.rows.values().filter_map(|seen| seen.row.as_ref().ok())
    }

    pub fn flaws(&self) -> impl Iterator<Item = &String> {
        self.rows.values().filter_map(|seen| seen.row.as_ref().err())
    }

    pub fn get(&self, worker_id: u64) -> Option<&Row> {
        self.rows.get(&worker_id)?.row.as_ref().ok()
    }

    /// How long a row must stay unchanged before others may have the worker id; zero if they may now.
    pub fn ends_in(&self, worker_id: u64) -> Duration {
        let (Some(Seen { row: Ok(row), since }), Some(sent)) =
            (self.rows.get(&worker_id), self.sent)
        else {
            return Duration::MAX;
        };
        match row.state {
            State::Free | State::Fenced => Duration::ZERO,
            // The last read was executed after it was sent, and found the row unchanged.
            State::Held => row.patience().saturating_sub(sent.since(*since)),
        }
    }
}
