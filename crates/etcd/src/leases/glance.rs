//! Finding a free lease without reading all of them. If hundreds start at once among hundreds of leases, reading all
//! would keep etcd busy for longer than they wait.

use uidring_store::leases::AcquireRequest;

use super::acquire::{Taken, may_use, refuse_others, take_row};
use super::row::{Row, State};
use crate::client::Client;
use crate::key_value::{get_last, get_page};
use crate::node::worker_id;
use crate::problem::Problem;

/// How many leases are read at a time, and how many pages at random places.
const PAGE: usize = 64;
const PAGES: usize = 3;

/// How many leases of a page are tried. Most are soon taken.
const TRIES: usize = 4;

/// Takes a free lease from a sample of all. Returns `None` if it finds none, or if reading all is as cheap. It does not
/// look for a lease that an earlier attempt took if the answer was lost. So it only serves a start that `is_new`, which
/// ends with the first attempt to take one.
pub fn glance(
    client: &mut Client,
    request: &AcquireRequest,
    is_new: &mut bool,
) -> Result<Option<Taken>, Problem> {
    let prefix = client.store.key("leases/");
    let page_at = |client: &Client, id| get_page(&prefix, &client.store.lease(id), PAGE);
    let look = [page_at(client, 0), get_last(&prefix)];
    let mut read = client.transact(&[], &look, &[])?.reads.into_iter();
    let (mut page, last) = (read.next().unwrap_or_default(), read.next().unwrap_or_default());
    let Some(last) = last.first().filter(|_| page.len() == PAGE) else { return Ok(None) };
    let last = worker_id(last)?;
    for round in 0..=PAGES {
        if round > 0 {
            let look = [page_at(client, fastrand::u64(..=last))];
            page = client.transact(&[], &look, &[])?.reads.pop().unwrap_or_default();
        }
        let flawed = |row: &Result<Row, Problem>| matches!(row, Err(Problem::Flawed(_)));
        let rows = page.iter().map(Row::read).filter(|row| !flawed(row));
        let mut rows = rows.collect::<Result<Vec<_>, _>>()?;
        refuse_others(&client.store, rows.iter(), &request.fingerprint)?;
        rows.retain(|row| row.state != State::Held && may_use(row, request));
        // Try the lowest, so that few worker ids serve many starts. Simultaneous starts collide there, and go on
        // elsewhere.
        let mut tries = 1;
        if round > 0 {
            fastrand::shuffle(&mut rows);
            tries = TRIES;
        }
        for row in rows.iter().take(tries) {
            *is_new = false;
            if let Ok(taken) = take_row(client, request, row)? {
                return Ok(Some(taken));
            }
        }
    }
    Ok(None)
}
