//! Renewing and giving back a lease.

use uidring::Error;
use uidring::clock::{Clock, SystemClock};
use uidring_store::leases::{Horizon, LeasedRow, RowStore, other_server, unreadable};

use super::row::{Row, State, replace};
use crate::client::Client;
use crate::problem::Problem;

/// How often one renewal may find that an earlier attempt of it was committed, and start again from that.
const READINGS: usize = 8;

pub struct Holder {
    pub client: Client,
    /// The lease as this holder wrote it last, as far as it knows.
    pub known: Row,
}

impl RowStore for Holder {
    fn renew(&mut self, row: &LeasedRow, horizon: Horizon) -> Result<(), Error> {
        let new = |known: &Row| Row {
            horizon: known.horizon.max(Some(horizon)),
            renewed: SystemClock.now(),
            ..known.clone()
        };
        self.change(row, new, |_| false)
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
        self.change(row, new, |found| {
            (&found.owner, found.token) == (&row.owner, row.token + 1)
                && (found.state, found.horizon) == (State::Free, last)
        })
    }
}

impl Holder {
    /// Writes the key unless somebody else has changed it. `known` must be what this holder wrote last, because its
    /// revision lets the write pass. If an earlier attempt wrote the key and its answer was lost, continues from what
    /// it wrote, or is done.
    fn change(
        &mut self,
        row: &LeasedRow,
        new: impl Fn(&Row) -> Row,
        is_done: impl Fn(&Row) -> bool,
    ) -> Result<(), Error> {
        let Self { client, known } = self;
        let (worker_id, location) = (row.worker_id, client.store.to_string());
        let lost = |why| {
            let place = location.clone();
            Problem::Final(Error::LeaseLost { worker_id, place, why })
        };
        client.run(|client| {
            for _ in 0..READINGS {
                let (answer, next) = replace(client, known, new(known))?;
                if row.server != Some(answer.cluster) {
                    return Err(lost(other_server()));
                }
                if answer.succeeded {
                    *known = next;
                    return Ok(());
                }
                let found = answer.first().map(|found| Row::read(&found)).transpose();
                let found = found.map_err(|problem| match problem {
                    Problem::Damaged(why) | Problem::Flawed(why) => lost(unreadable(&why)),
                    problem => problem,
                })?;
                if found.as_ref().is_some_and(&is_done) {
                    return Ok(());
                }
                let tick =
                    found.as_ref().and_then(|found| found.horizon).map(|horizon| horizon.tick);
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
        })
    }
}
