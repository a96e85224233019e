//! The table of leases: what a store does in one transaction.

use std::ops::RangeInclusive;

use uidring::{Fields, Layout, Timestamp, Uid};

use super::beside::{Beside, Setting, StoredLease};
use super::holding::{Fenced, Holding};
use super::trace::RowSeen;

/// The store. Its times are milliseconds of its own clock.
///
/// It hands out the last worker ids of the layout. Starts without a lease use up those below.
pub(super) struct Store {
    layout: Layout,
    worker_ids: RangeInclusive<u64>,
    rows: Vec<Row>,
    /// Worker ids and tokens that an operator has fenced.
    fenced: Vec<(u64, u64)>,
    /// The length of a lease, in milliseconds.
    lasts: i64,
    beside: Option<Beside>,
}

struct Row {
    owner: u64,
    token: u64,
    /// By the store's clock; `None` if it was given back.
    ends: Option<i64>,
    horizon: Option<Uid>,
}

impl Row {
    fn is_free(&self, now: i64) -> bool {
        self.ends.is_none_or(|end| end <= now)
    }
}

impl Store {
    pub(super) fn new(setting: &Setting, beside: Option<Beside>) -> Self {
        let Setting { layout, worker_ids, lasts, .. } = setting.clone();
        let lasts = lasts.as_millis() as i64;
        Self { layout, worker_ids, rows: Vec::new(), fenced: Vec::new(), lasts, beside }
    }

    /// The worker ids that were ever leased.
    pub(super) fn worker_ids(&self) -> Vec<u64> {
        self.worker_ids.clone().take(self.rows.len()).collect()
    }

    pub(super) fn seen(&self, now: i64) -> Vec<RowSeen> {
        let seen = |row: &Row| RowSeen {
            owner: row.owner,
            token: row.token,
            ends_in: row.ends.map(|end| end - now),
            horizon: row.horizon,
        };
        self.rows.iter().map(seen).collect()
    }

    pub(super) fn last_end(&self) -> Option<i64> {
        self.rows.iter().filter_map(|row| row.ends).max()
    }

    pub(super) fn horizon(&self, worker_id: u64) -> Option<Uid> {
        self.rows[self.index(worker_id)].horizon
    }

    pub(super) fn is_owner(&self, owner: u64, holding: Holding) -> bool {
        let row = &self.rows[self.index(holding.worker_id)];
        row.owner == owner && row.token == holding.token
    }

    pub(super) fn is_fenced(&self, holding: Holding) -> bool {
        self.fenced.contains(&(holding.worker_id, holding.token))
    }

    /// Leases the lowest free or expired row, or else a new one.
    pub(super) fn acquire(&mut self, owner: u64, now: i64) -> Option<Holding> {
        let holding = self.acquire_row(owner, now);
        if let Some(beside) = &mut self.beside {
            beside.acquire(time(now), holding);
        }
        self.compare();
        holding
    }

    fn acquire_row(&mut self, owner: u64, now: i64) -> Option<Holding> {
        let found = self.rows.iter().position(|row| row.is_free(now));
        let index = match found {
            Some(index) => index,
            None if self.rows.len() < self.worker_ids.clone().count() => {
                self.rows.push(Row { owner, token: 0, ends: None, horizon: None });
                self.rows.len() - 1
            }
            None => return None,
        };
        let worker_id = self.worker_ids.start() + index as u64;
        let row = &mut self.rows[index];
        let is_seized = row.ends.is_some();
        row.owner = owner;
        row.token += 1;
        row.ends = Some(now + self.lasts);
        Some(Holding { worker_id, token: row.token, before: row.horizon, is_seized })
    }

    pub(super) fn renew(&mut self, holding: Holding, horizon: u64, now: i64) -> Result<(), Fenced> {
        let answer = self.renew_row(holding, horizon, now);
        if let Some(beside) = &mut self.beside {
            beside.renew(time(now), holding, horizon, answer);
        }
        self.compare();
        answer
    }

    fn renew_row(&mut self, holding: Holding, horizon: u64, now: i64) -> Result<(), Fenced> {
        let sequence = self.layout.max_sequence();
        let fields = Fields { tick: horizon, worker_id: holding.worker_id, sequence };
        let last = self.layout.compose(fields).expect("in range");
        let ends = now + self.lasts;
        let row = self.row(holding)?;
        row.ends = Some(ends);
        row.horizon = row.horizon.max(Some(last));
        Ok(())
    }

    pub(super) fn release(&mut self, holding: Holding, last: Option<Uid>) -> Result<(), Fenced> {
        let answer = self.release_row(holding, last);
        if let Some(beside) = &mut self.beside {
            beside.release(holding, last, answer);
        }
        self.compare();
        answer
    }

    fn release_row(&mut self, holding: Holding, last: Option<Uid>) -> Result<(), Fenced> {
        let row = self.row(holding)?;
        row.token += 1;
        row.ends = None;
        row.horizon = last.or(holding.before);
        Ok(())
    }

    fn row(&mut self, holding: Holding) -> Result<&mut Row, Fenced> {
        let index = self.index(holding.worker_id);
        let row = &mut self.rows[index];
        if row.token == holding.token { Ok(row) } else { Err(Fenced) }
    }

    fn index(&self, worker_id: u64) -> usize {
        (worker_id - self.worker_ids.start()) as usize
    }

    /// An operator ends a lease: its owner stops at its next renewal, and others may take the row at once.
    pub(super) fn fence(&mut self, worker_id: u64, now: i64) {
        let index = self.index(worker_id);
        let row = &mut self.rows[index];
        self.fenced.push((worker_id, row.token));
        row.token += 1;
        row.ends = row.ends.map(|_| now);
        if let Some(beside) = &mut self.beside {
            beside.fence(time(now), worker_id);
        }
        self.compare();
    }

    /// Frees an expired row for an operator.
    pub(super) fn free(&mut self, worker_id: u64, now: i64) -> bool {
        let index = self.index(worker_id);
        let row = &mut self.rows[index];
        let is_free = row.is_free(now);
        if is_free {
            row.token += 1;
            row.ends = None;
        }
        if let Some(beside) = &mut self.beside {
            beside.free(time(now), worker_id, is_free);
        }
        self.compare();
        is_free
    }

    /// Checks that the store beside has the same rows.
    fn compare(&mut self) {
        let Some(beside) = &mut self.beside else { return };
        let position = |uid| {
            let found = self.layout.decode(uid).expect("of the layout");
            (found.tick, found.sequence)
        };
        let rows = self.worker_ids.clone().zip(&self.rows).map(|(worker_id, row)| StoredLease {
            worker_id,
            token: row.token,
            ends: row.ends.map(time),
            horizon: row.horizon.map(position),
        });
        beside.compare(&rows.collect::<Vec<_>>());
    }
}

fn time(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}
