//! `uidring worker`.

use std::io::{self, BufWriter, Write};

use serde_json::{Value, json};
use uidring::SqliteWorkerNodes;
use uidring::store::sqlite::WorkerNode;

use super::Failure;
use super::args::{WorkerArgs, WorkerCommand};

pub fn run(args: &WorkerArgs) -> Result<(), Failure> {
    match &args.command {
        WorkerCommand::List { sqlite, json } => {
            let nodes = match sqlite {
                Some(path) => SqliteWorkerNodes::new(path),
                None => SqliteWorkerNodes::in_data_directory()?,
            };
            let rows = nodes.list()?;
            let mut output = BufWriter::new(io::stdout().lock());
            if *json {
                let rows: Vec<Value> = rows.iter().map(row_as_json).collect();
                writeln!(output, "{}", Value::from(rows))?;
            } else {
                write_table(&mut output, &rows)?;
            }
            Ok(output.flush()?)
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
        writeln!(output, "{id:>10}  {kind:<9}  {created:<19}  {host_name}:{port}")?;
    }
    Ok(())
}
