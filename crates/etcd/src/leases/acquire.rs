//! Leasing a worker id. Each change is a transaction that compares the key's revision, so stale reads do no harm.

use std::time::Duration;

use uidring::clock::{Clock, SystemClock};
use uidring_store::leases::{AcquireRequest, Denial, LeasedRow, Shortage};

use super::row::{Row, State, replace};
use super::view::View;
use crate::EtcdStore;
use crate::client::Client;
use crate::counter::{Spent, foreign, spend};
use crate::key_value::KeyValue;
use crate::node::write;
use crate::problem::Problem;

/// How often the leases are read before acquiring fails.
const READINGS: usize = 64;

/// How many rows are tried before reading again. If many start at once, most rows that were read are soon taken.
const TRIES: usize = 4;

/// The row taken: for the common lease code, and as this engine stores it.
pub type Taken = (LeasedRow, Row);

/// Takes a free lease, or adds one.
pub fn take(
    client: &mut Client,
    view: &mut View,
    request: &AcquireRequest,
) -> Result<Result<Taken, Denial>, Problem> {
    for _ in 0..READINGS {
        view.refresh(client)?;
        refuse_others(&client.store, view.all(), &request.fingerprint)?;
        let mut candidates = candidates(view, request);
        let Some((_, rest)) = candidates.split_first_mut() else {
            return add(client, view, request);
        };
        // Try the lowest first, so that few worker ids serve many starts. The rest is shuffled, or simultaneous starts
        // would collide at each row.
        fastrand::shuffle(rest);
        for worker_id in candidates.into_iter().take(TRIES) {
            let Some(seen) = view.get(worker_id) else { continue };
            match take_row(client, request, seen)? {
                Ok(taken) => return Ok(Ok(taken)),
                Err(found) => view.replace(worker_id, found.as_ref())?,
            }
        }
    }
    Err(Problem::Contended)
}

/// The worker ids to try. First comes one that this acquire already took in an attempt whose answer was lost.
fn candidates(view: &View, request: &AcquireRequest) -> Vec<u64> {
    let is_own = |row: &Row| row.owner == request.owner && row.state == State::Held;
    let own = view.all().filter(|row| is_own(row)).map(|row| row.worker_id);
    let is_free = |row: &&Row| !is_own(row) && view.ends_in(row.worker_id).is_zero();
    let free = view.all().filter(is_free).filter(|row| may_use(row, request));
    own.chain(free.map(|row| row.worker_id)).collect()
}

pub fn refuse_others<'a>(
    store: &EtcdStore,
    mut rows: impl Iterator<Item = &'a Row>,
    layout: &str,
) -> Result<(), Problem> {
    let other = rows.find(|row| row.layout != layout);
    other.map_or(Ok(()), |other| Err(foreign(store, &other.layout, layout)))
}

/// Whether a start could use the row if it is free.
pub fn may_use(row: &Row, request: &AcquireRequest) -> bool {
    row.horizon.is_none_or(|horizon| horizon.tick <= request.last_tick)
        && request.layout.check_worker_id(row.worker_id).is_ok()
}

/// Takes a row that was seen like this. If it has changed, returns what is there now.
pub fn take_row(
    client: &mut Client,
    request: &AcquireRequest,
    seen: &Row,
) -> Result<Result<Taken, Option<KeyValue>>, Problem> {
    let next = Row {
        owner: request.owner.clone(),
        token: seen.token + 1,
        state: State::Held,
        lasts: request.lasts,
        renewed: SystemClock.now(),
        ..seen.clone()
    };
    let (answer, row) = replace(client, seen, next)?;
    if !answer.succeeded {
        return Ok(Err(answer.first()));
    }
    let cluster = Some(answer.cluster);
    Ok(Ok((request.taken(row.worker_id, row.token, row.horizon, cluster), row)))
}

/// Adds a worker id that nobody has had, if there is one.
fn add(
    client: &mut Client,
    view: &View,
    request: &AcquireRequest,
) -> Result<Result<Taken, Denial>, Problem> {
    let now = SystemClock.now();
    let row = |worker_id| Row {
        owner: request.owner.clone(),
        state: State::Held,
        lasts: request.lasts,
        ..Row::new(worker_id, &request.fingerprint, now)
    };
    let rows = |store: &EtcdStore, worker_id: u64| {
        vec![
            (store.lease(worker_id), Some(row(worker_id).write())),
            (store.node(worker_id), Some(write(&request.node, now))),
        ]
    };
    match spend(client, &request.layout, Some(&request.fingerprint), rows) {
        Ok(Spent { worker_id, answer, range }) => {
            let row = Row { revision: answer.revision, ..row(worker_id) };
            let taken = request.taken(worker_id, row.token, None, Some(answer.cluster));
            Ok(Ok((LeasedRow { range, ..taken }, row)))
        }
        Err(Problem::Unfit { fitting, .. }) => {
            let range = fitting.range;
            Ok(Err(Denial::Short(Shortage { range, ..shortage(view, request) })))
        }
        Err(problem) => Err(problem),
    }
}

fn shortage(view: &View, request: &AcquireRequest) -> Shortage {
    let flaw = view.flaws().next().cloned();
    let mut shortage =
        Shortage { leased: view.flaws().count() as u64, flaw, ..Shortage::default() };
    for row in view.all() {
        shortage.leased += 1;
        let left = view.ends_in(row.worker_id);
        if left > Duration::ZERO {
            let left = Duration::from_millis(left.as_millis().try_into().unwrap_or(u64::MAX));
            shortage.held += 1;
            shortage.ends_in = Some(shortage.ends_in.map_or(left, |first| first.min(left)));
        } else if let Some(horizon) = row.horizon.filter(|h| h.tick > request.last_tick) {
            let this = (row.worker_id, horizon.tick);
            shortage.ahead =
                Some(shortage.ahead.filter(|(_, tick)| *tick <= horizon.tick).unwrap_or(this));
        }
    }
    shortage
}
