//! The table of leases: what a store does in one transaction each.

use crate::layout::Layout;
use crate::uid::Uid;

/// The store, which has a clock of its own.
pub(super) struct Store {
    layout: Layout,
    rows: Vec<Row>,
    /// Worker ids and tokens whose owners an operator has fenced.
    fenced: Vec<(u64, u64)>,
    /// How many rows there may be.
    most: usize,
    /// How long a lease lasts, in nanoseconds.
    lasts: i64,
}

/// A worker id.
struct Row {
    owner: Option<u64>,
    token: u64,
    /// By the store's clock.
    ends: i64,
    /// The greatest uid that any owner may have issued.
    horizon: Option<Uid>,
}

/// What an owner knows of its row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holding {
    pub(super) worker_id: u64,
    pub(super) token: u64,
    /// The horizon when it was acquired.
    pub(super) before: Option<Uid>,
    /// From somebody who did not give it back.
    pub(super) is_seized: bool,
}

/// Another one has the row, or may.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fenced;

impl Store {
    pub(super) fn new(layout: Layout, most: usize, lasts: u64) -> Self {
        Self { layout, rows: Vec::new(), fenced: Vec::new(), most, lasts: lasts as i64 }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// When the last of the leases ends.
    pub(super) fn last_end(&self) -> i64 {
        self.rows.iter().map(|row| row.ends).max().unwrap_or_default()
    }

    pub(super) fn horizon(&self, worker_id: u64) -> Option<Uid> {
        self.rows[worker_id as usize].horizon
    }

    pub(super) fn is_owner(&self, owner: u64, holding: Holding) -> bool {
        let row = &self.rows[holding.worker_id as usize];
        row.owner == Some(owner) && row.token == holding.token
    }

    pub(super) fn is_fenced(&self, holding: Holding) -> bool {
        self.fenced.contains(&(holding.worker_id, holding.token))
    }

    /// The lowest row that is free or has run out, else a new one.
    pub(super) fn acquire(&mut self, owner: u64, now: i64) -> Option<Holding> {
        let found = self.rows.iter().position(|row| row.owner.is_none() || row.ends <= now);
        let place = match found {
            Some(place) => place,
            None if self.rows.len() < self.most => {
                self.rows.push(Row { owner: None, token: 0, ends: 0, horizon: None });
                self.rows.len() - 1
            }
            None => return None,
        };
        let row = &mut self.rows[place];
        let is_seized = row.owner.is_some();
        row.owner = Some(owner);
        row.token += 1;
        row.ends = now + self.lasts;
        let (token, before) = (row.token, row.horizon);
        Some(Holding { worker_id: place as u64, token, before, is_seized })
    }

    pub(super) fn renew(&mut self, holding: Holding, horizon: u64, now: i64) -> Result<(), Fenced> {
        let Holding { worker_id, .. } = holding;
        let last = self.layout.pack(horizon, worker_id, self.layout.max_sequence());
        let ends = now + self.lasts;
        let row = self.row(holding)?;
        row.ends = ends;
        row.horizon = row.horizon.max(Some(last));
        Ok(())
    }

    pub(super) fn release(&mut self, holding: Holding, last: Option<Uid>) -> Result<(), Fenced> {
        let row = self.row(holding)?;
        row.owner = None;
        row.horizon = last.or(holding.before);
        Ok(())
    }

    fn row(&mut self, holding: Holding) -> Result<&mut Row, Fenced> {
        let row = &mut self.rows[holding.worker_id as usize];
        if row.token == holding.token { Ok(row) } else { Err(Fenced) }
    }

    /// Its owner stops at its next renewal, and others may have the row at once or when the lease
    /// has run out.
    pub(super) fn fence(&mut self, worker_id: u64, free: bool) {
        let row = &mut self.rows[worker_id as usize];
        self.fenced.push((worker_id, row.token));
        row.token += 1;
        if free {
            row.owner = None;
        }
    }
}
