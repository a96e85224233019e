//! `uidring worker`.

mod lists;

use std::time::Duration;

use clap::Subcommand;
use uidring::Timestamp;
use uidring_any::{
    AnyStore, LeaseOptions, LeaseRow, LeaseState, LeaseTable, StoreUse, WorkerKind, WorkerRange,
};

use crate::args::layout::{LayoutArgs, ResolvedLayout};
use crate::args::url::{UrlArgs, wrong};
use crate::failure::Failure;
use crate::text::visible;
use crate::{report, stdio};
use uidring_store::values::{days, number, shown};

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
    /// List the leases, by worker id
    Leases {
        #[command(flatten)]
        url: UrlArgs,

        /// Print a JSON array instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Free a worker id whose lease has expired, so that it counts as given back
    ///
    /// A worker id that is held is refused: its holder may be alive.
    Release {
        /// The worker id
        #[arg(allow_negative_numbers = true, value_parser = number::<u64>(0..=u64::MAX))]
        worker_id: u64,

        /// Free it even if it is held: fence it first
        #[arg(long)]
        force: bool,

        #[command(flatten)]
        url: UrlArgs,
    },
    /// End a lease that somebody holds: the holder stops at its next renewal
    ///
    /// Others may get the worker id at once. They start above all that the holder may issue until
    /// then.
    Fence {
        /// The worker id
        #[arg(allow_negative_numbers = true, value_parser = number::<u64>(0..=u64::MAX))]
        worker_id: u64,

        #[command(flatten)]
        url: UrlArgs,
    },
    /// Allow leases of worker ids whose starts in `worker list` have all ended
    #[command(after_help = "\
Examples:
  uidring worker assign --layout snowflake
  uidring worker reuse 1 1 --used-until 2026-11-01T12:00:00Z --layout snowflake")]
    Reuse {
        /// The first worker id
        #[arg(allow_negative_numbers = true, value_parser = number::<u64>(0..=u64::MAX))]
        first: u64,

        /// The last worker id
        #[arg(allow_negative_numbers = true, value_parser = number::<u64>(0..=u64::MAX))]
        last: u64,

        /// A time after which none of these starts issued a uid, borrowed time included
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        used_until: Timestamp,

        #[command(flatten)]
        layout: LayoutArgs,

        #[command(flatten)]
        url: UrlArgs,
    },
}

pub fn run(command: &WorkerCommand) -> Result<(), Failure> {
    let (WorkerCommand::Init { url, .. }
    | WorkerCommand::List { url, .. }
    | WorkerCommand::Assign { url, .. }
    | WorkerCommand::Prune { url, .. }
    | WorkerCommand::Leases { url, .. }
    | WorkerCommand::Release { url, .. }
    | WorkerCommand::Fence { url, .. }
    | WorkerCommand::Reuse { url, .. }) = command;
    done(command).map_err(|failure| failure.advised(&url.flags()))
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
                WorkerKind::Registered => lists::instances(&*store, *json)?,
                _ => lists::starts(&*store, *json)?,
            }
        }
        WorkerCommand::Assign { url, layout } => {
            let options = url.options(layout.option())?;
            let layout = ResolvedLayout::of(&options);
            // A layout that cannot express the present time must not use up a worker id.
            layout.check_now()?;
            let table = options.store().map_err(wrong)?.worker_table()?;
            // Nor must a closed stdout.
            drop(stdio::stdout()?);
            stdio::print(&table.assign(&layout.layout)?.to_string())?;
        }
        WorkerCommand::Prune { url, keep_days } => {
            let pruned = url.store()?.worker_table()?.prune(*keep_days)?;
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
        WorkerCommand::Leases { url, json } => lists::leases(&*leases(url)?, *json)?,
        WorkerCommand::Release { worker_id, force, url } => {
            let leases = leases(url)?;
            if *force {
                leases.fence(*worker_id)?;
            }
            let token = leases.release(*worker_id)?.token;
            report::note(format_args!("worker id {worker_id} is free; its token is now {token}"));
        }
        WorkerCommand::Fence { worker_id, url } => {
            let LeaseRow { state, token, owner, .. } = leases(url)?.fence(*worker_id)?;
            report::note(match state {
                LeaseState::Free => {
                    format!("nobody holds worker id {worker_id}; its token is now {token}")
                }
                LeaseState::Held(_) | LeaseState::Expired(_) => format!(
                    "worker id {worker_id} is fenced: {} stops at its next renewal; the token is now {token}",
                    visible(&owner)
                ),
            });
        }
        WorkerCommand::Reuse { first, last, used_until, layout, url } => {
            let options = url.options(layout.option())?;
            let layout = options.layout();
            let max = layout.max_worker_id();
            let problem = if first > last {
                Some(format!("the first worker id, {first}, is above the last, {last}"))
            } else if *last > max {
                Some(format!("worker id {last} is out of range: layout {layout} holds 0 to {max}"))
            } else if layout.tick_at(*used_until).is_err() {
                let end = layout.last_instant();
                Some(format!(
                    "--used-until {used_until} is not within the life of layout {layout}, which ends at {end}"
                ))
            } else {
                None
            };
            if let Some(problem) = problem {
                return Err(Failure::Usage(problem));
            }
            let leases = options.store().map_err(wrong)?.lease_table(LeaseOptions::default())?;
            leases.reuse(*first..=*last, &layout, *used_until)?;
            report::note(format_args!(
                "worker ids {first} to {last} may be leased: uids start after {used_until}"
            ));
        }
    }
    Ok(())
}

fn init(store: &dyn AnyStore, leases: bool, workers: Option<WorkerRange>) -> Result<(), Failure> {
    let nodes = store.worker_table()?;
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

fn leases(url: &UrlArgs) -> Result<Box<dyn LeaseTable + Send>, Failure> {
    Ok(url.store()?.lease_table(LeaseOptions::default())?)
}
