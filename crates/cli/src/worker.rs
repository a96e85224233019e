//! `uidring worker`.

use std::io::{self, BufWriter, Write};
use std::time::Duration;

use serde_json::{Value, json};
use uidring::clock::{Clock, SystemClock};
use uidring_store::WorkerNode;

use super::Failure;
use super::args::{WorkerArgs, WorkerCommand};
use super::lease;
use super::output;
use super::text::visible;

pub fn run(args: &WorkerArgs) -> Result<(), Failure> {
    match &args.command {
        WorkerCommand::Init { table, leases } => {
            if *leases {
                table.place.any()?.lease_table().create()?;
                eprintln!("the tables WORKER_NODE and UIDRING_LEASE are there");
            } else {
                table.any()?.create()?;
                eprintln!("the table WORKER_NODE is there");
            }
            Ok(())
        }
        WorkerCommand::List { table, registry, json } => {
            if registry.zookeeper.is_some() {
                table.refuse_mysql_flags()?;
            }
            if registry.list(*json)? {
                return Ok(());
            }
            let rows = table.any()?.list()?;
            let mut output = BufWriter::new(output::stdout()?);
            if *json {
                let rows: Vec<Value> = rows.iter().map(row_as_json).collect();
                writeln!(output, "{}", Value::from(rows))?;
            } else {
                write_table(&mut output, &rows)?;
            }
            Ok(output.flush()?)
        }
        WorkerCommand::Assign { table, layout } => {
            let layout = layout.layout()?;
            // A layout that cannot express the present time must not cost a worker id.
            layout.tick_at(SystemClock.now())?;
            // Nor must one that nobody would get to know.
            let mut output = output::stdout()?;
            let worker_id = table.any()?.assign(&layout)?;
            Ok(writeln!(output, "{worker_id}")?)
        }
        WorkerCommand::Prune { table, keep_days } => {
            let done = table.any()?.prune(Duration::from_secs(keep_days * 86_400))?;
            match done.newest {
                None => eprintln!("the table is empty: nothing to remove"),
                Some(newest) => eprintln!(
                    "rows removed, of starts more than {keep_days} days ago: {}; the newest row, of \
                     worker id {newest}, stays in any case, so that the counter cannot start again",
                    done.removed
                ),
            }
            Ok(())
        }
        WorkerCommand::Leases { place, json } => lease::list(place, *json),
        WorkerCommand::Release { worker_id, force, place } => {
            lease::release(place, *worker_id, *force)
        }
        WorkerCommand::Fence { worker_id, place } => lease::fence(place, *worker_id),
        WorkerCommand::Reuse { first, last, used_until, layout, place } => {
            lease::reuse(place, layout, (*first, *last), *used_until)
        }
    }
}

fn row_as_json(row: &WorkerNode) -> Value {
    json!({
        "id": row.id,
        "host_name": row.host_name,
        "port": row.port,
        "type": row.kind,
        "launch_date": row.launch_date,
        "modified": row.modified,
        "created": row.created,
    })
}

fn write_table(output: &mut impl Write, rows: &[WorkerNode]) -> io::Result<()> {
    writeln!(output, "{:>10}  {:<9}  {:<19}  HOST_NAME:PORT", "ID", "TYPE", "CREATED (UTC)")?;
    for row in rows {
        let kind = match row.kind {
            1 => "container",
            2 => "actual",
            _ => "unknown",
        };
        let WorkerNode { id, created, host_name, port, .. } = row;
        let (host_name, port) = (visible(host_name), visible(port));
        writeln!(output, "{id:>10}  {kind:<9}  {created:<19}  {host_name}:{port}")?;
    }
    Ok(())
}
