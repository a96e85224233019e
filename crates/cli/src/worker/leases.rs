//! The commands of `uidring worker` about leases.

use clap::Subcommand;
use serde_json::{Value, json};
use uidring::Timestamp;
use uidring_any::{LeaseOptions, LeaseRow, LeaseState, LeaseTable};

use crate::args::layout::LayoutArgs;
use crate::args::url::{UrlArgs, wrong};
use crate::failure::Failure;
use crate::report;
use crate::table::{self, Column};
use crate::text::visible;
use uidring_store::values::number;

#[derive(Subcommand)]
pub enum LeaseCommand {
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

pub fn run(command: &LeaseCommand) -> Result<(), Failure> {
    match command {
        LeaseCommand::Leases { url, json } => {
            let columns = [
                Column::number("WORKER ID", |row: &LeaseRow| row.worker_id.to_string()),
                Column::text("STATE", |row| state(row).0.into()),
                Column::text("LEASE ENDS", |row| time(state(row).1)),
                Column::number("TOKEN", |row| row.token.to_string()),
                Column::text("USED UNTIL", |row| time(row.used_until())),
                Column::text("OWNER", |row| visible(&row.owner)),
            ];
            table::print(&leases(url)?.list()?, *json, row_as_json, &columns)?;
        }
        LeaseCommand::Release { worker_id, force, url } => {
            let leases = leases(url)?;
            if *force {
                leases.fence(*worker_id)?;
            }
            let row = leases.release(*worker_id)?;
            report::note(format_args!(
                "worker id {worker_id} is free; its token is now {}",
                row.token
            ));
        }
        LeaseCommand::Fence { worker_id, url } => {
            let LeaseRow { state, token, owner, .. } = leases(url)?.fence(*worker_id)?;
            match state {
                LeaseState::Free => {
                    report::note(format_args!(
                        "nobody holds worker id {worker_id}; its token is now {token}"
                    ));
                }
                LeaseState::Held(_) | LeaseState::Expired(_) => report::note(format_args!(
                    "worker id {worker_id} is fenced: {} stops at its next renewal; the token is \
                     now {token}",
                    visible(&owner)
                )),
            }
        }
        LeaseCommand::Reuse { first, last, used_until, layout, url } => {
            let options = url.options(layout.option())?;
            let layout = options.layout();
            if first > last {
                return Err(Failure::Usage(format!(
                    "the first worker id, {first}, is above the last, {last}"
                )));
            }
            if *last > layout.max_worker_id() {
                return Err(Failure::Usage(format!(
                    "worker id {last} is out of range: layout {layout} holds 0 to {}",
                    layout.max_worker_id()
                )));
            }
            layout.tick_at(*used_until).map_err(|_| {
                Failure::Usage(format!(
                    "--used-until {used_until} is not within the life of layout {layout}, which ends \
                     at {}",
                    layout.last_instant()
                ))
            })?;
            let leases = options.store().map_err(wrong)?.lease_table(LeaseOptions::default())?;
            leases.reuse(*first..=*last, &layout, *used_until)?;
            report::note(format_args!(
                "worker ids {first} to {last} may be leased: uids start after {used_until}"
            ));
        }
    }
    Ok(())
}

fn leases(url: &UrlArgs) -> Result<Box<dyn LeaseTable + Send>, Failure> {
    Ok(url.store()?.lease_table(LeaseOptions::default())?)
}

fn time(time: Option<Timestamp>) -> String {
    time.map_or_else(|| "-".into(), |time| time.to_string())
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
