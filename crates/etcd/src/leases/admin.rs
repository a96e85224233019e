//! Operators' changes to leases.

use std::mem;
use std::ops::RangeInclusive;
use std::thread;
use std::time::Duration;

use uidring::adapter::{Deadline, log};
use uidring::clock::{Clock, SystemClock};
use uidring::{Error, Layout};
use uidring_store::leases::{Denial, Horizon, LeaseRow};

use super::acquire::refuse_others;
use super::row::{Row, State, replace};
use super::view::View;
use crate::client::Client;
use crate::counter::{Counter, create};
use crate::key_value::get;
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
            log!(warn, "etcd {}: {flaw}; it is not listed", client.store);
        }
        Ok(view.all().map(|row| row.clone().shown(now)).collect())
    })
}

/// A lease, if it exists, and whether it was changed as asked.
pub type Changed = Result<Option<(bool, Row)>, Error>;

/// Ends a lease, whoever holds it.
pub fn fence(client: &mut Client, worker_id: u64) -> Changed {
    client.run(|client| {
        for _ in 0..READINGS {
            let Some(found) = row(client, worker_id)? else { return Ok(None) };
            let state = if found.state == State::Held { State::Fenced } else { found.state };
            let (answer, row) = replace(client, &found, next(&found, state))?;
            if answer.succeeded {
                return Ok(Some((true, row)));
            }
        }
        Err(Problem::Contended)
    })
}

/// Frees an expired lease. Unless fenced, it has expired once its key has not changed for its length and the margin.
pub fn free(client: &mut Client, worker_id: u64) -> Changed {
    let Some(found) = client.run(|client| row(client, worker_id))? else { return Ok(None) };
    if found.state == State::Free {
        return Ok(Some((true, found)));
    }
    if found.state == State::Held {
        // This compares two hosts' clocks, which may be wrong. So watch a lease that seems expired.
        if SystemClock.now() <= found.renewed.saturating_add(found.patience()) {
            return Ok(Some((false, found)));
        }
        let end = Deadline::after(Some(found.patience()));
        while !end.is_over() {
            thread::sleep(LOOK.min(end.remaining().unwrap_or_default()));
            match client.run(|client| row(client, worker_id))? {
                None => return Ok(None),
                Some(now) if now.revision != found.revision => return Ok(Some((false, now))),
                Some(_) => {}
            }
        }
    }
    client.run(|client| {
        let (answer, row) = replace(client, &found, next(&found, State::Free))?;
        if answer.succeeded {
            return Ok(Some((true, row)));
        }
        let now = answer.first().map(|found| Row::read(&found)).transpose()?;
        Ok(now.map(|row| (row.state == State::Free, row)))
    })
}

/// The row after an operator has changed its state.
fn next(found: &Row, state: State) -> Row {
    Row { token: found.token + 1, state, renewed: SystemClock.now(), ..found.clone() }
}

/// Adds free rows for worker ids that the counter has handed out.
pub fn reuse(
    client: &mut Client,
    worker_ids: &RangeInclusive<u64>,
    layout: &Layout,
    horizon: Horizon,
) -> Result<(), Error> {
    let fingerprint = &layout.to_string();
    client.run(|client| {
        let mut view = View::default();
        view.refresh(client)?;
        refuse_others(&client.store, view.all(), fingerprint)?;
        let counter = Counter::open(client)?;
        let mut claim = counter.claim(&client.store, fingerprint)?;
        if let Some(flaw) = view.flaws().next() {
            return Err(Problem::Damaged(flaw.clone()));
        }
        let leased = view.all().map(|row| row.worker_id).find(|id| worker_ids.contains(id));
        let (first, last) = (*worker_ids.start(), *worker_ids.end());
        let newest = counter.newest();
        if let Err(denial) = Denial::check_reuse(first, last, newest, leased, counter.range) {
            let place = client.store.to_string();
            return Err(Problem::Final(denial.error(place, layout)));
        }
        let now = SystemClock.now();
        let rows: Vec<_> = worker_ids.clone().collect();
        for part in rows.chunks(PART) {
            let row = |id: &u64| {
                let row = Row { horizon: Some(horizon), ..Row::new(*id, fingerprint, now) };
                (client.store.lease(*id), Some(row.write()))
            };
            let (mut new, mut puts) = Default::default();
            create(&[part.iter().map(row).collect(), mem::take(&mut claim)], &mut new, &mut puts);
            if !client.transact(&new, &puts, &[])?.succeeded {
                return Err(Problem::Contended);
            }
        }
        Ok(())
    })
}

fn row(client: &mut Client, worker_id: u64) -> Result<Option<Row>, Problem> {
    let key = client.store.lease(worker_id);
    let found = client.transact(&[], &[get(&key)], &[])?.first();
    found.map(|found| Row::read(&found)).transpose()
}
