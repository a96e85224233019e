//! Renewing and giving back a lease.

use uidring::Error;
use uidring::clock::{Clock, SystemClock};
use uidring_store::leases::{Horizon, LeasedRow, Loss, RowStore};

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
    /// revision lets the write pass. If an earlier attempt changed the key and its answer was lost, this goes on from
    /// there, or is done.
    fn change(
        &mut self,
        row: &LeasedRow,
        new: impl Fn(&Row) -> Row,
        is_done: impl Fn(&Row) -> bool,
    ) -> Result<(), Error> {
        let Self { client, known } = self;
        let (worker_id, location) = (row.worker_id, client.store.to_string());
        let lost = |loss| {
            let (place, why) = (location.clone(), row.why(loss));
            Problem::Final(Error::LeaseLost { worker_id, place, why })
        };
        client.run(|client| {
            for _ in 0..READINGS {
                let (answer, next) = replace(client, known, new(known))?;
                if row.server != Some(answer.cluster) {
                    return Err(lost(Loss::OtherServer));
                }
                if answer.succeeded {
                    *known = next;
                    return Ok(());
                }
                let found = answer.first().ok_or_else(|| lost(Loss::Gone))?;
                let found = Row::read(&found).map_err(|problem| match problem {
                    Problem::Damaged(why) | Problem::Flawed(why) => lost(Loss::Unreadable(why)),
                    problem => problem,
                })?;
                if is_done(&found) {
                    return Ok(());
                }
                if (&found.owner, found.token) != (&row.owner, row.token) {
                    return Err(lost(Loss::Taken { owner: found.owner, token: found.token }));
                }
                let tick = found.horizon.map(|horizon| horizon.tick);
                if tick < row.confirmed || found.revision < known.revision {
                    let confirmed = row.confirmed.unwrap_or(0);
                    return Err(lost(Loss::Forgotten { confirmed, found: tick }));
                }
                *known = found;
            }
            Err(Problem::Contended)
        })
    }
}
