//! `uidring worker`.

mod leases;

use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};
use uidring_store::{LeaseOptions, WorkerNode, WorkerRange};

use self::leases::LeaseCommand;
use crate::args::database::WorkerTableArgs;
use crate::args::layout::{LayoutArgs, Preset};
use crate::args::registry::RegistryArgs;
use crate::failure::Failure;
use crate::table::{self, Column};
use crate::text::{rfc3339, visible};
use crate::{report, stdio, stores};
use uidring_store::values::{days, shown};

#[derive(Subcommand)]
pub enum WorkerCommand {
    /// Create the table unless it exists, and say where, and whether it was there
    Init {
        #[command(flatten)]
        table: WorkerTableArgs,

        /// Create the table of leases, too
        #[arg(long)]
        leases: bool,

        /// Record the worker ids of this database, such as 100-199: starts and leases get no others from now on. Give
        /// each of several databases a range of its own
        #[arg(long, value_name = "FIRST-LAST")]
        workers: Option<WorkerRange>,
    },
    /// List the starts, oldest first; with --zookeeper the instances, by number
    List {
        #[command(flatten)]
        table: WorkerTableArgs,

        #[command(flatten)]
        registry: RegistryArgs,

        /// Print a JSON array instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Use up a worker id and print it, for a program that takes its worker id from outside
    Assign {
        #[command(flatten)]
        table: WorkerTableArgs,

        #[command(flatten)]
        layout: LayoutArgs,
    },
    /// Remove the rows of old starts, but never the newest row
    ///
    /// Removing a row never makes its worker id available again.
    Prune {
        #[command(flatten)]
        table: WorkerTableArgs,

        /// Keep the rows of this many days, or of another time, such as 12h
        #[arg(long, value_name = "DAYS", default_value = "30", value_parser = days,
              allow_hyphen_values = true)]
        keep_days: Duration,
    },
    #[command(flatten)]
    Lease(LeaseCommand),
}

pub fn run(command: &WorkerCommand) -> Result<(), Failure> {
    done(command).map_err(|failure| failure.advised(&flags(command)))
}

/// The flags that name where worker ids come from.
fn flags(command: &WorkerCommand) -> String {
    match command {
        WorkerCommand::List { registry, .. } if registry.zookeeper.is_some() => registry.flags(),
        WorkerCommand::Init { table, .. }
        | WorkerCommand::List { table, .. }
        | WorkerCommand::Assign { table, .. }
        | WorkerCommand::Prune { table, .. } => table.database.flags(),
        WorkerCommand::Lease(
            LeaseCommand::Leases { database, .. }
            | LeaseCommand::Release { database, .. }
            | LeaseCommand::Fence { database, .. }
            | LeaseCommand::Reuse { database, .. },
        ) => database.flags(),
    }
}

fn done(command: &WorkerCommand) -> Result<(), Failure> {
    match command {
        WorkerCommand::Init { table, leases, workers } => init(table, *leases, *workers)?,
        WorkerCommand::List { table, registry, json } if registry.zookeeper.is_some() => {
            table.refuse_server_flags()?;
            stores::list_instances(registry, *json)?;
        }
        WorkerCommand::List { table, json, .. } => {
            let columns = [
                Column::number("ID", |row: &WorkerNode| row.id.to_string()),
                Column::text("TYPE", |row| kind(row).into()),
                Column::text("CREATED", |row| rfc3339(&row.created)),
                Column::text("HOST_NAME:PORT", |row| {
                    format!("{}:{}", visible(&row.host_name), visible(&row.port))
                }),
            ];
            let nodes = stores::worker_table(table)?;
            table::print(&nodes.list()?, *json, row_as_json, &columns)?;
            if let Some(range) = nodes.range()? {
                let left = range.left_after(nodes.usage()?.newest);
                report::note(format_args!(
                    "the worker ids here are {range}; left for new starts: {left}"
                ));
            }
        }
        WorkerCommand::Assign { table, layout } => {
            let layout = layout.resolve(Preset::Uid)?;
            // A layout that cannot express the present time must not use up a worker id.
            layout.check_now()?;
            // Nor must a worker id that nobody would see.
            drop(stdio::stdout()?);
            stdio::print(&stores::worker_table(table)?.assign(&layout.layout)?.to_string())?;
        }
        WorkerCommand::Prune { table, keep_days } => {
            let pruned = stores::worker_table(table)?.prune(*keep_days)?;
            match pruned.newest {
                None => report::note("the table is empty: nothing to remove"),
                Some(newest) => report::note(format_args!(
                    "rows removed, of starts more than {} ago: {}; the newest row, of worker id \
                     {newest}, always stays, so that the counter cannot start again",
                    shown(*keep_days),
                    pruned.removed
                )),
            }
        }
        WorkerCommand::Lease(command) => leases::run(command)?,
    }
    Ok(())
}

fn init(
    table: &WorkerTableArgs,
    leases: bool,
    workers: Option<WorkerRange>,
) -> Result<(), Failure> {
    let nodes = stores::worker_table(table)?;
    let (is_there, tables) = match leases {
        true => {
            let leases = stores::open(&table.database)?.lease_table(LeaseOptions::default())?;
            let is_there = leases.list().is_ok();
            leases.create()?;
            (is_there, "tables WORKER_NODE and UIDRING_LEASE")
        }
        false => {
            let is_there = nodes.usage().is_ok();
            nodes.create()?;
            (is_there, "table WORKER_NODE")
        }
    };
    let verb = if is_there { "found" } else { "created" };
    report::note(format_args!("{verb} the {tables} in {}", table.database.place()?));
    if let Some(range) = workers {
        nodes.record_range(range)?;
    }
    if let Some(range) = nodes.range()? {
        report::note(format_args!("starts and leases get worker ids {range}"));
    }
    Ok(())
}

fn kind(row: &WorkerNode) -> &'static str {
    match row.kind {
        1 => "container",
        2 => "actual",
        _ => "unknown",
    }
}

fn row_as_json(row: &WorkerNode) -> Value {
    json!({
        "id": row.id,
        "host_name": row.host_name,
        "port": row.port,
        "type": row.kind,
        "launch_date": row.launch_date,
        "modified": rfc3339(&row.modified),
        "created": rfc3339(&row.created),
    })
}
