//! How the holder of a lease renews it and gives it back.

use uidring::Error;
use uidring::clock::{Clock, SystemClock};
use uidring_store::leases::{Horizon, LeasedRow, Loss, RowStore};

use super::row::{Row, State};
use crate::client::Client;
use crate::key_value::{KeyValue, get, modified_at, put};
use crate::node::numbered;
use crate::problem::Problem;

/// How often a renewal that finds an earlier one of its own goes on from there.
const READINGS: usize = 8;

/// A client that renews and gives back a lease.
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
    fn renew(&mut self, row: &LeasedRow, horizon: Horizon) -> Result<Result<(), Loss>, Error> {
        let Self { client, known } = self;
        client.run(|client| {
            let done = change(client, known, row, |known| Row {
                horizon: known.horizon.max(Some(horizon)),
                renewed: SystemClock.now(),
                ..known.clone()
            })?;
            Ok(done.map_err(|refusal| refusal.loss))
        })
    }

    /// Finds a row that an earlier attempt has freed, whose answer was lost, as it is to be.
    fn release(
        &mut self,
        row: &LeasedRow,
        last: Option<Horizon>,
    ) -> Result<Result<(), Loss>, Error> {
        let Self { client, known } = self;
        client.run(|client| {
            let done = change(client, known, row, |known| Row {
                token: row.token + 1,
                state: State::Free,
                horizon: last,
                renewed: SystemClock.now(),
                ..known.clone()
            })?;
            let is_done = |found: &Row| {
                found.owner == row.owner
                    && found.token == row.token + 1
                    && found.state == State::Free
                    && found.horizon == last
            };
            Ok(match done {
                Err(Refusal { found: Some(found), .. }) if is_done(&found) => Ok(()),
                done => done.map_err(|refusal| refusal.loss),
            })
        })
    }
}

/// Why the key is not this holder's any more, and what it holds if that can be read.
struct Refusal {
    loss: Loss,
    found: Option<Row>,
}

impl From<Loss> for Refusal {
    fn from(loss: Loss) -> Self {
        Self { loss, found: None }
    }
}

/// Writes the key if nobody else has changed it. `known` is what this holder wrote last, and never another's:
/// its revision is what lets a write through. Where this holder has, by an attempt whose answer was lost,
/// it goes on from what that wrote.
fn change(
    client: &mut Client,
    known: &mut Row,
    row: &LeasedRow,
    new: impl Fn(&Row) -> Row,
) -> Result<Result<(), Refusal>, Problem> {
    let key = numbered(&client.store().lease_keys(), row.worker_id);
    for _ in 0..READINGS {
        let next = new(known);
        let unchanged = [modified_at(&key, known.revision)];
        let answer = client.transact(&unchanged, &[put(&key, &next.write())], &[get(&key)])?;
        if row.server != Some(answer.cluster) {
            return Ok(Err(Loss::OtherServer.into()));
        }
        if answer.succeeded {
            *known = Row { revision: answer.revision, ..next };
            return Ok(Ok(()));
        }
        let found = match present(answer.reads.into_iter().flatten().next())? {
            Ok(found) => found,
            Err(loss) => return Ok(Err(loss.into())),
        };
        if (&found.owner, found.token) != (&row.owner, row.token) {
            let loss = Loss::Taken { owner: found.owner.clone(), token: found.token };
            return Ok(Err(Refusal { loss, found: Some(found) }));
        }
        let tick = found.horizon.map(|horizon| horizon.tick);
        if tick < row.confirmed || found.revision < known.revision {
            let confirmed = row.confirmed.unwrap_or(0);
            return Ok(Err(Loss::Forgotten { confirmed, found: tick }.into()));
        }
        *known = found;
    }
    Err(Problem::Contended)
}

/// A key that is gone or damaged is lost, too.
fn present(found: Option<KeyValue>) -> Result<Result<Row, Loss>, Problem> {
    let Some(found) = found else { return Ok(Err(Loss::Gone)) };
    match Row::read(&found) {
        Ok(row) => Ok(Ok(row)),
        Err(Problem::Damaged(why) | Problem::Flawed(why)) => Ok(Err(Loss::Unreadable(why))),
        Err(problem) => Err(problem),
    }
}
