//! `uidring worker leases|release|fence|reuse`, and the lease of `uidring generate`.

use std::io::{BufWriter, Write};
use std::time::Duration;

use serde_json::{Value, json};
use uidring::worker::EnvWorkerId;
use uidring::{Timestamp, WorkerSource};
use uidring_store::{LeaseOptions, LeaseRow, LeaseState};

use super::Failure;
use super::args::{GenerateArgs, LayoutArgs, PlaceArgs, WorkerKind};
use super::output;
use super::text::visible;

/// What is wrong with the flags about leases.
pub fn check_usage(args: &GenerateArgs) -> Result<(), Failure> {
    let wrong = |flag: &str, why: &str| Err(Failure::usage(format_args!("{flag} {why}")));
    if args.lease.worker == WorkerKind::Disposable {
        return match () {
            () if args.lease.lease.is_some() => wrong("--lease", "needs --worker lease"),
            () if args.lease.lease_wait.is_some() => wrong("--lease-wait", "needs --worker lease"),
            () => Ok(()),
        };
    }
    let lasts = args.lease.lease.unwrap_or(Duration::from_secs(30));
    if !(Duration::from_secs(1)..=Duration::from_hours(1)).contains(&lasts) {
        return wrong("--lease", "is out of range: 1 to 3600 seconds are allowed");
    }
    let own = "is a worker id of your choice, and --worker lease takes one from a table";
    match () {
        () if args.worker_id.is_some() => wrong("--worker-id", own),
        () if EnvWorkerId::is_set() && args.table.place.is_unnamed() => {
            wrong(EnvWorkerId::VARIABLE, own)
        }
        () if args.registry.zookeeper.is_some() => {
            wrong("--worker lease", "is of a table; --zookeeper holds worker ids by itself")
        }
        () if args.start_after.is_some() => {
            wrong("--start-after", "is not for --worker lease, which knows what was issued")
        }
        () if args.table.max_clock_difference.is_some() => {
            wrong("--max-clock-difference", "is for --worker disposable")
        }
        () => Ok(()),
    }
}

/// The table that a generator leases its worker id from.
pub fn source(args: &GenerateArgs) -> Result<Box<dyn WorkerSource + Send>, Failure> {
    let mut options = LeaseOptions::default().wait_for(args.lease.lease_wait.unwrap_or_default());
    if let Some(lasts) = args.lease.lease {
        options = options.lasts(lasts);
    }
    Ok(args.table.place.any()?.leases(options))
}

pub fn list(place: &PlaceArgs, as_json: bool) -> Result<(), Failure> {
    let rows = place.any()?.lease_table().list()?;
    let mut output = BufWriter::new(output::stdout()?);
    if as_json {
        writeln!(output, "{}", Value::from_iter(rows.iter().map(row_as_json)))?;
        return Ok(output.flush()?);
    }
    writeln!(
        output,
        "{:>10}  {:<7}  {:<24}  {:>8}  {:<24}  OWNER",
        "WORKER ID", "STATE", "LEASE ENDS", "TOKEN", "USED UNTIL"
    )?;
    for row in &rows {
        let (state, end) = state(row);
        let time = |time: Option<Timestamp>| time.map_or_else(|| "-".into(), |t| t.to_string());
        let (end, used, owner) = (time(end), time(row.used_until()), visible(&row.owner));
        let LeaseRow { worker_id, token, .. } = row;
        writeln!(
            output,
            "{worker_id:>10}  {state:<7}  {end:<24}  {token:>8}  {used:<24}  {owner}"
        )?;
    }
    Ok(output.flush()?)
}

pub fn release(place: &PlaceArgs, worker_id: u64, force: bool) -> Result<(), Failure> {
    let table = place.any()?.lease_table();
    if force {
        table.fence(worker_id)?;
    }
    let row = table.release(worker_id)?;
    eprintln!("worker id {worker_id} is free; its token is now {}", row.token);
    Ok(())
}

pub fn fence(place: &PlaceArgs, worker_id: u64) -> Result<(), Failure> {
    let row = place.any()?.lease_table().fence(worker_id)?;
    let token = row.token;
    match row.state {
        LeaseState::Free => {
            eprintln!("nobody holds worker id {worker_id}; its token is now {token}");
        }
        LeaseState::Held(_) | LeaseState::Expired(_) => eprintln!(
            "worker id {worker_id} is fenced: {} stops at its next renewal; the token is now {token}",
            visible(&row.owner)
        ),
    }
    Ok(())
}

pub fn reuse(
    place: &PlaceArgs,
    layout: &LayoutArgs,
    (first, last): (u64, u64),
    used_until: Timestamp,
) -> Result<(), Failure> {
    let layout = layout.layout()?;
    if first > last {
        return Err(Failure::usage("the first worker id is above the last"));
    }
    layout.check_worker_id(last).map_err(Failure::usage)?;
    place.any()?.lease_table().reuse(first..=last, &layout, used_until)?;
    eprintln!("worker ids {first} to {last} may be leased: uids start after {used_until}");
    Ok(())
}

fn state(row: &LeaseRow) -> (&'static str, Option<Timestamp>) {
    match row.state {
        LeaseState::Free => ("free", None),
        LeaseState::Held(end) => ("held", Some(end)),
        LeaseState::Expired(end) => ("expired", Some(end)),
    }
}

fn row_as_json(row: &LeaseRow) -> Value {
    let (state, end) = state(row);
    json!({
        "worker_id": row.worker_id,
        "state": state,
        "lease_end": end.map(|time| time.to_string()),
        "owner": row.owner,
        "token": row.token,
        "horizon_tick": row.horizon.map(|horizon| horizon.0),
        "horizon_sequence": row.horizon.map(|horizon| horizon.1),
        "used_until": row.used_until().map(|time| time.to_string()),
        "layout": row.layout,
        "created": row.created.to_string(),
        "renewed": row.renewed.to_string(),
    })
}
