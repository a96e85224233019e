//! The stores of this project, as the suite uses them.

mod etcd;
mod mysql;
mod ordinal;
mod postgres;
mod sqlite;
mod zookeeper;

use uidring::segment::SegmentTag;
use uidring::worker::Lease;
use uidring::{Error, WorkerRequest};
use uidring_store::{LeaseOptions, LeaseState, LeaseTable};
use uidring_testkit::suite::{Cause, Change, Row, Terms};

pub use self::etcd::EtcdKeys;
pub use self::mysql::MySql;
pub use self::ordinal::OrdinalFile;
pub use self::postgres::PostgreSql;
pub use self::sqlite::Sqlite;
pub use self::zookeeper::Leaf;

/// The present time, as SQLite has it in the table of leases.
const SQLITE_NOW: &str = "strftime('%Y-%m-%d %H:%M:%f', 'now')";

fn options(terms: &Terms) -> LeaseOptions {
    LeaseOptions::default().lasts(terms.lasts).wait_for(terms.wait_for).owner("suite")
}

/// A row of leases, of any table.
fn row(table: &dyn LeaseTable, worker_id: u64) -> Option<Row> {
    let rows = table.list().expect("listed");
    let row = rows.into_iter().find(|row| row.worker_id == worker_id)?;
    Some(Row {
        holder: format!("{} {}", row.token, row.owner),
        is_held: matches!(row.state, LeaseState::Held(_)),
        horizon: row.horizon.map(|(tick, _)| tick),
    })
}

/// The statement of a change, where the table is one of SQL; `now` is the store's present time.
fn change(worker_id: u64, change: Change, now: &str) -> String {
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

/// The statements that add a tag, or replace it.
fn put(tag: &SegmentTag) -> [String; 2] {
    let SegmentTag { tag, max_id, step, .. } = tag;
    let tag = tag.replace('\'', "''");
    [
        format!("DELETE FROM leaf_alloc WHERE biz_tag = '{tag}'"),
        format!(
            "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('{tag}', {max_id}, {step})"
        ),
    ]
}

fn set_step(tag: &str, step: i64) -> String {
    format!("UPDATE leaf_alloc SET step = {step} WHERE biz_tag = '{tag}'")
}

/// What every store says of leases.
fn lease_cause(error: &str) -> Option<Cause> {
    if error.contains("no worker id is free") || error.contains("ahead; set the clock") {
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

/// What every server's store says.
fn server_cause(error: &str) -> Option<Cause> {
    let away = [
        "no answer within",
        "a statement did not end within",
        "the server closed the connection",
        "is the server running",
        "onnection reset by peer",
        // By somebody who was stopped.
        "another transaction has it locked",
        // Another thread's start, whose first renewal waits for the server, has lost the lease that
        // this one was given: the register refuses the later one.
        "is in use: a generator of this process",
    ];
    let is_away = away.iter().any(|text| error.contains(text));
    lease_cause(error).or(is_away.then_some(Cause::Away))
}

/// A lease of a table.
fn lease(table: &dyn LeaseTable, request: &WorkerRequest, terms: &Terms) -> Result<Lease, Error> {
    table.lease(request, &options(terms))
}
