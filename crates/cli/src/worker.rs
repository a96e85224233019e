//! `uidring worker`.

mod instances;
mod leases;

use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};
use uidring_any::{AnyStore, LeaseOptions, StoreUse, WorkerKind, WorkerNode, WorkerRange};

use self::leases::LeaseCommand;
use crate::args::layout::{LayoutArgs, ResolvedLayout};
use crate::args::url::{UrlArgs, wrong};
use crate::failure::Failure;
use crate::table::{self, Column};
use crate::text::{rfc3339, visible};
use crate::{report, stdio};
use uidring_store::Fitting;
use uidring_store::values::{days, shown};

#[derive(Subcommand)]
pub enum WorkerCommand {
    /// Create the table unless it exists, and say where, and whether it was there
    Init {
        #[command(flatten)]
        url: UrlArgs,

        /// Create the table of leases, too; without it, only if generators of the URL lease
        #[arg(long)]
        leases: bool,

        /// Record the worker ids of this database, such as 100-199: starts and leases get no others from now on. Give
        /// each of several databases a range of its own
        #[arg(long, value_name = "FIRST-LAST")]
        workers: Option<WorkerRange>,
    },
    /// List the starts, oldest first; of a registry in ZooKeeper the instances, by number
    List {
        #[command(flatten)]
        url: UrlArgs,

        /// Print a JSON array instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Use up a worker id and print it, for a program that takes its worker id from outside
    Assign {
        #[command(flatten)]
        url: UrlArgs,

        #[command(flatten)]
        layout: LayoutArgs,
    },
    /// Remove the rows of old starts, but never the newest row
    ///
    /// Removing a row never makes its worker id available again.
    Prune {
        #[command(flatten)]
        url: UrlArgs,

        /// Keep the rows of this many days, or of another time, such as 12h
        #[arg(long, value_name = "DAYS", default_value = "30", value_parser = days,
              allow_hyphen_values = true)]
        keep_days: Duration,
    },
    #[command(flatten)]
    Lease(LeaseCommand),
}

pub fn run(command: &WorkerCommand) -> Result<(), Failure> {
    done(command).map_err(|failure| failure.advised(&url(command).flags()))
}

fn url(command: &WorkerCommand) -> &UrlArgs {
    match command {
        WorkerCommand::Init { url, .. }
        | WorkerCommand::List { url, .. }
        | WorkerCommand::Assign { url, .. }
        | WorkerCommand::Prune { url, .. }
        | WorkerCommand::Lease(
            LeaseCommand::Leases { url, .. }
            | LeaseCommand::Release { url, .. }
            | LeaseCommand::Fence { url, .. }
            | LeaseCommand::Reuse { url, .. },
        ) => url,
    }
}

fn done(command: &WorkerCommand) -> Result<(), Failure> {
    match command {
        WorkerCommand::Init { url, leases, workers } => {
            let options = url.options([])?;
            let leases = *leases || matches!(options.store_use(), Ok(StoreUse::Lease(_)));
            init(&*options.store().map_err(wrong)?, leases, *workers)?;
        }
        WorkerCommand::List { url, json } => {
            let options = url.options([])?;
            let store = options.store().map_err(wrong)?;
            match options.worker_kind() {
                WorkerKind::Registered => instances::list(&*store, *json)?,
                _ => list(&*store, *json)?,
            }
        }
        WorkerCommand::Assign { url, layout } => {
            let options = url.options(layout.option())?;
            let layout = ResolvedLayout::of(&options);
            // A layout that cannot express the present time must not use up a worker id.
            layout.check_now()?;
            let table = options.store().map_err(wrong)?.worker_table(None)?;
            // Nor must a closed stdout.
            drop(stdio::stdout()?);
            stdio::print(&table.assign(&layout.layout)?.to_string())?;
        }
        WorkerCommand::Prune { url, keep_days } => {
            let pruned = url.store()?.worker_table(None)?.prune(*keep_days)?;
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

fn init(store: &dyn AnyStore, leases: bool, workers: Option<WorkerRange>) -> Result<(), Failure> {
    let nodes = store.worker_table(None)?;
    match leases {
        true => store.lease_table(LeaseOptions::default())?.create()?,
        false => nodes.create()?,
    }
    if let Some(range) = workers {
        nodes.record_range(range)?;
    }
    let usage = nodes.usage()?;
    let file = store.worker_file().map(|path| path.display().to_string());
    let place = file.unwrap_or_else(|| store.to_string());
    let what = if leases { "worker ids and leases" } else { "worker ids" };
    report::note(format_args!("{place} is set up for {what}; starts so far: {}", usage.rows));
    if let Some(range) = usage.range {
        report::note(format_args!("starts and leases get worker ids {range}"));
    }
    Ok(())
}

fn list(store: &dyn AnyStore, as_json: bool) -> Result<(), Failure> {
    let columns = [
        Column::number("ID", |row: &WorkerNode| row.id.to_string()),
        Column::text("TYPE", |row| kind(row).into()),
        Column::text("CREATED", |row| rfc3339(&row.created)),
        Column::text("HOST_NAME:PORT", |row| {
            format!("{}:{}", visible(&row.host_name), visible(&row.port))
        }),
    ];
    let nodes = store.worker_table(None)?;
    table::print(&nodes.list()?, as_json, row_as_json, &columns)?;
    if let Some(range) = nodes.range()? {
        let all = Fitting { max: range.last(), range: Some(range) };
        let left = all.left_after(nodes.usage()?.last());
        report::note(format_args!("the worker ids here are {range}; left for new starts: {left}"));
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
