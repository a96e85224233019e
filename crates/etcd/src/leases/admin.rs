//! Operators' changes to leases.

use std::mem;
use std::ops::RangeInclusive;
use std::thread;
use std::time::Duration;

use uidring::Error;
use uidring::adapter::{Deadline, log};
use uidring::clock::{Clock, SystemClock};
use uidring_store::leases::{Denial, Horizon, LeaseRow};

use super::acquire::refuse_others;
use super::row::{Row, State};
use super::view::View;
use crate::client::Client;
use crate::counter::{Counter, create};
use crate::key_value::{get, modified_at, put};
use crate::node::numbered;
use crate::problem::Problem;

/// How often somebody may change the key in between.
const READINGS: usize = 16;

/// How many rows one transaction adds. etcd allows 128 requests.
const PART: usize = 100;

/// How often an apparently expired lease is checked.
const LOOK: Duration = Duration::from_millis(250);

pub fn list(client: &mut Client) -> Result<Vec<LeaseRow>, Error> {
    let now = SystemClock.now();
    client.run(|client| {
        let mut view = View::default();
        view.refresh(client)?;
        for flaw in view.flaws() {
            log!(warn, "etcd {}: {flaw}; it is not listed", client.store());
        }
        Ok(view.all().map(|row| row.clone().shown(now)).collect())
    })
}

/// Changes a lease, whatever its state; `None` if it does not exist.
pub fn change(
    client: &mut Client,
    worker_id: u64,
    new: impl Fn(&Row) -> Row,
) -> Result<Option<Row>, Error> {
    client.run(|client| {
        let key = numbered(&client.store().lease_keys(), worker_id);
        for _ in 0..READINGS {
            let Some(row) = row(client, &key)? else { return Ok(None) };
            let next = new(&row);
            if let Some(done) = write(client, &key, &row, next)? {
                return Ok(Some(done));
            }
        }
        Err(Problem::Contended)
    })
}

/// Ends a lease, whoever holds it.
pub fn fenced(row: &Row) -> Row {
    let state = if row.state == State::Held { State::Fenced } else { row.state };
    Row { token: row.token + 1, state, renewed: SystemClock.now(), ..row.clone() }
}

/// Frees an expired lease, and returns whether it was one. Unless fenced, it has expired once its key has not changed
/// for its length and the margin.
pub fn free(client: &mut Client, worker_id: u64) -> Result<Option<(bool, Row)>, Error> {
    let key = numbered(&client.store().lease_keys(), worker_id);
    let Some(found) = client.run(|client| row(client, &key))? else { return Ok(None) };
    // Two hosts' clocks decide here, and may be wrong. So an apparently expired lease is watched below.
    let seems_held = found.state == State::Held
        && SystemClock.now() <= found.renewed.saturating_add(found.patience());
    if seems_held {
        return Ok(Some((false, found)));
    }
    if found.state == State::Free {
        return Ok(Some((true, found)));
    }
    if found.state == State::Held {
        let end = Deadline::after(Some(found.patience()));
        while !end.is_over() {
            thread::sleep(LOOK.min(end.remaining().unwrap_or_default()));
            match client.run(|client| row(client, &key))? {
                None => return Ok(None),
                Some(now) if now.revision != found.revision => return Ok(Some((false, now))),
                Some(_) => {}
            }
        }
    }
    let next = Row {
        token: found.token + 1,
        state: State::Free,
        renewed: SystemClock.now(),
        ..found.clone()
    };
    let done = client.run(|client| write(client, &key, &found, next.clone()))?;
    Ok(match done {
        Some(done) => Some((true, done)),
        None => client.run(|client| row(client, &key))?.map(|row| (row.state == State::Free, row)),
    })
}

/// Adds free rows for worker ids that the counter has handed out.
pub fn reuse(
    client: &mut Client,
    worker_ids: &RangeInclusive<u64>,
    fingerprint: &str,
    horizon: Horizon,
) -> Result<Result<(), Denial>, Error> {
    client.run(|client| {
        let mut view = View::default();
        view.refresh(client)?;
        refuse_others(view.all(), fingerprint)?;
        let counter = Counter::open(client)?;
        let mut claim = counter.claim(client.store(), fingerprint)?;
        if let Some(flaw) = view.flaws().next() {
            return Err(Problem::Damaged(flaw.clone()));
        }
        let leased = view.all().map(|row| row.worker_id).find(|id| worker_ids.contains(id));
        let (first, last) = (*worker_ids.start(), *worker_ids.end());
        let newest = counter.newest();
        if let Err(denial) = Denial::check_reuse(first, last, newest, leased, counter.range) {
            return Ok(Err(denial));
        }
        let now = SystemClock.now();
        let rows: Vec<_> = worker_ids.clone().collect();
        for part in rows.chunks(PART) {
            let key = |worker_id: &u64| numbered(&client.store().lease_keys(), *worker_id);
            let value = |worker_id: &u64| {
                Row {
                    worker_id: *worker_id,
                    owner: String::new(),
                    token: 1,
                    state: State::Free,
                    lasts: Duration::ZERO,
                    horizon: Some(horizon),
                    layout: fingerprint.to_owned(),
                    created: now,
                    renewed: now,
                    revision: 0,
                }
                .write()
            };
            let row = |id| (key(id), Some(value(id)));
            let (new, puts) = create(&[part.iter().map(row).collect(), mem::take(&mut claim)]);
            if !client.transact(&new, &puts, &[])?.succeeded {
                return Err(Problem::Contended);
            }
        }
        Ok(Ok(()))
    })
}

fn row(client: &mut Client, key: &str) -> Result<Option<Row>, Problem> {
    let found = client.transact(&[], &[get(key)], &[])?.reads.into_iter().flatten().next();
    found.map(|found| Row::read(&found)).transpose()
}

/// Writes the row if it has not changed since it was read.
fn write(client: &mut Client, key: &str, row: &Row, next: Row) -> Result<Option<Row>, Problem> {
    let unchanged = [modified_at(key, row.revision)];
    let answer = client.transact(&unchanged, &[put(key, &next.write())], &[])?;
    Ok(answer.succeeded.then_some(Row { revision: answer.revision, ..next }))
}
