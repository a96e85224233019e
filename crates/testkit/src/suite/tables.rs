//! What the suite needs from stores on the tables of `uidring-store`.

use uidring::segment::SegmentTag;
use uidring::worker::Lease;
use uidring::{Error, WorkerRequest};
use uidring_store::{LeaseOptions, LeaseState, LeaseTable, WorkerRange};

use super::store::{Cause, Change, Row, Terms};

/// Returns the options of a lease on these terms.
pub fn options(terms: &Terms) -> LeaseOptions {
    LeaseOptions::default().lasts(terms.lasts).wait_for(terms.wait_for).owner("suite")
}

pub fn lease(
    table: &dyn LeaseTable,
    request: &WorkerRequest,
    terms: &Terms,
) -> Result<Lease, Error> {
    table.lease(request, &options(terms))
}

pub fn range(first: u64, last: u64) -> WorkerRange {
    WorkerRange::new(first, last).expect("a range")
}

pub fn row(table: &dyn LeaseTable, worker_id: u64) -> Option<Row> {
    let rows = table.list().expect("listed");
    let row = rows.into_iter().find(|row| row.worker_id == worker_id)?;
    Some(Row {
        holder: format!("{} {}", row.token, row.owner),
        is_held: matches!(row.state, LeaseState::Held(_)),
        horizon: row.horizon.map(|(tick, _)| tick),
    })
}

/// Returns the statement of a change. `now` is the current time in the table's form.
pub fn change(worker_id: u64, change: Change, now: &str) -> String {
    let set = match change {
        Change::Fenced => format!("TOKEN = TOKEN + 1, LEASE_END = {now}"),
        Change::Taken => "TOKEN = TOKEN + 1, OWNER = 'other/1'".into(),
        Change::Twin => "OWNER = 'twin/1'".into(),
        Change::SetBack => "HORIZON_TICK = HORIZON_TICK - 1".into(),
        Change::Removed => {
            return format!("DELETE FROM UIDRING_LEASE WHERE WORKER_ID = {worker_id}");
        }
    };
    format!("UPDATE UIDRING_LEASE SET {set} WHERE WORKER_ID = {worker_id}")
}

/// Returns the statements that add or replace a tag.
pub fn put(tag: &SegmentTag) -> [String; 2] {
    let (max_id, step) = (tag.max_id.expect("a number"), tag.step.expect("a number"));
    let tag = tag.tag.replace('\'', "''");
    let columns = "biz_tag, max_id, step";
    [
        format!("DELETE FROM leaf_alloc WHERE biz_tag = '{tag}'"),
        format!("INSERT INTO leaf_alloc ({columns}) VALUES ('{tag}', {max_id}, {step})"),
    ]
}

/// Returns the statement that changes a step.
pub fn set_step(tag: &str, step: i64) -> String {
    format!("UPDATE leaf_alloc SET step = {step} WHERE biz_tag = '{tag}'")
}

/// Returns the cause of a lease's error, from the text that all tables share.
pub fn lease_cause(error: &str) -> Option<Cause> {
    if error.contains("no worker id is free") || error.contains(" ahead of the clock, which says") {
        Some(Cause::NoneFree)
    } else if error.contains("lease of the worker id is lost")
        // Before it was in use.
        || (error.contains("the lease of worker id") && error.contains(" has it (token"))
    {
        Some(Cause::Lost)
    } else {
        None
    }
}

/// Returns the cause of an error, from the text that all tables on a server share.
pub fn server_cause(error: &str) -> Option<Cause> {
    let away = [
        "no answer within",
        "a statement did not end within",
        "the server closed the connection",
        "is the server running",
        "onnection reset by peer",
        // The other one was stopped.
        "another transaction has it locked",
        // Another thread's start waits for its first renewal and has lost the lease that this one got. The register
        // refuses the later one.
        "is in use: a generator of this process",
    ];
    let is_away = away.iter().any(|text| error.contains(text));
    lease_cause(error).or(is_away.then_some(Cause::Away))
}
