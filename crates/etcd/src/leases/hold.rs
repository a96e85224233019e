//! Renewing and giving back a lease.

use uidring::Error;
use uidring::clock::{Clock, SystemClock};
use uidring_store::leases::{Horizon, LeasedRow, RowStore, other_server, unreadable};

use super::row::{Row, State};
use crate::client::Client;
use crate::key_value::{get, modified_at, put};
use crate::node::numbered;
use crate::problem::Problem;

/// How often one renewal may find that an earlier attempt of it was committed, and start again from that.
const READINGS: usize = 8;

pub struct Holder {
    client: Client,
    /// The lease as this holder wrote it last, as far as it knows.
    known: Row,
}

impl Holder {
    pub fn new(client: Client, known: Row) -> Self {
        Self { client, known }
    }
}

impl RowStore for Holder {
    fn renew(&mut self, row: &LeasedRow, horizon: Horizon) -> Result<(), Error> {
        let new = |known: &Row| Row {
            horizon: known.horizon.max(Some(horizon)),
            renewed: SystemClock.now(),
            ..known.clone()
        };
        let Self { client, known } = self;
        client.run(|client| change(client, known, row, new, |_| false))
    }

    /// Succeeds if an earlier attempt, whose answer was lost, has freed the row.
    fn release(&mut self, row: &LeasedRow, last: Option<Horizon>) -> Result<(), Error> {
        let new = |known: &Row| Row {
            token: row.token + 1,
            state: State::Free,
            horizon: last,
            renewed: SystemClock.now(),
            ..known.clone()
        };
        let is_done = |found: &Row| {
            (&found.owner, found.token) == (&row.owner, row.token + 1)
                && (found.state, found.horizon) == (State::Free, last)
        };
        let Self { client, known } = self;
        client.run(|client| change(client, known, row, new, is_done))
    }
}

/// Writes the key unless somebody else has changed it. `known` must be what this holder wrote last, because its
/// revision lets the write pass. If an earlier attempt changed the key and its answer was lost, this goes on from
/// there, or is done.
fn change(
    client: &mut Client,
    known: &mut Row,
    row: &LeasedRow,
    new: impl Fn(&Row) -> Row,
    is_done: impl Fn(&Row) -> bool,
) -> Result<(), Problem> {
    let key = numbered(&client.store().lease_keys(), row.worker_id);
    let lost = |why| Problem::Lost { worker_id: row.worker_id, why };
    for _ in 0..READINGS {
        let next = new(known);
        let unchanged = [modified_at(&key, known.revision)];
        let answer = client.transact(&unchanged, &[put(&key, &next.write())], &[get(&key)])?;
        if row.server != Some(answer.cluster) {
            return Err(lost(other_server()));
        }
        if answer.succeeded {
            *known = Row { revision: answer.revision, ..next };
            return Ok(());
        }
        let found = answer.reads.into_iter().flatten().next();
        let found = found.map(|found| Row::read(&found)).transpose();
        let found = found.map_err(|problem| match problem {
            Problem::Damaged(why) | Problem::Flawed(why) => lost(unreadable(&why)),
            problem => problem,
        })?;
        if found.as_ref().is_some_and(&is_done) {
            return Ok(());
        }
        let tick = found.as_ref().and_then(|found| found.horizon).map(|horizon| horizon.tick);
        let present = found.as_ref().map(|found| (&*found.owner, found.token, tick));
        if let Some(why) = row.loss(present) {
            return Err(lost(why));
        }
        match found {
            Some(found) if found.revision >= known.revision => *known = found,
            _ => return Err(lost(row.lost_commits(tick))),
        }
    }
    Err(Problem::Contended)
}
