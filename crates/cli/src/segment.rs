//! `uidring segment`.

use clap::Subcommand;
use serde_json::{Value, json};
use uidring::segment::SegmentTag;
use uidring_store::NewSegmentTag;

use crate::args::database::DatabaseArgs;
use crate::failure::Failure;
use crate::stores;
use crate::table::{self, Column};
use crate::text::visible;

#[derive(Subcommand)]
pub enum SegmentCommand {
    /// Add a tag; creates the table unless it exists
    #[command(after_help = "\
Examples:
  uidring segment create orders --step 1000
  uidring segment create invoices --step 100 --start 50000 --description 'numbers of invoices'
  uidring segment create orders --step 10000 --mysql-url-file /run/secrets/mysql-url")]
    Create {
        /// The name of the tag, up to 128 characters
        tag: String,

        /// The least number of ids that a load reserves, from 1 to 2147483647. Ids that a process has
        /// reserved and not used when it ends are never issued
        #[arg(long, value_name = "S")]
        step: u64,

        /// The first id, from 1
        #[arg(long, value_name = "N", default_value_t = 1)]
        start: u64,

        /// What the tag is for, up to 256 characters
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,

        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// List the tags, by name
    List {
        #[command(flatten)]
        database: DatabaseArgs,

        /// Print a JSON array instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Show how far each tag has come, and how many ids are left
    Stats {
        #[command(flatten)]
        database: DatabaseArgs,

        /// Print a JSON array instead of a table
        #[arg(long)]
        json: bool,
    },
}

pub fn run(command: &SegmentCommand) -> Result<(), Failure> {
    match command {
        SegmentCommand::Create { tag, step, start, description, database } => {
            let new = NewSegmentTag::new(tag, *step).map_err(Failure::usage)?;
            let mut new = new.start(*start).map_err(Failure::usage)?;
            if let Some(text) = description {
                new = new.description(text).map_err(Failure::usage)?;
            }
            stores::open(database)?.segment_table().create_tag(&new)?;
            eprintln!("created tag `{}`: its first id is {start}, its step {step}", visible(tag));
            Ok(())
        }
        SegmentCommand::List { database, json } => {
            let columns = [
                Column::text("TAG", name),
                Column::number("MAX_ID", |tag| tag.max_id.to_string()),
                Column::number("STEP", |tag| tag.step.to_string()),
                Column::text("UPDATED (UTC)", updated),
                Column::text("DESCRIPTION", |tag| {
                    visible(tag.description.as_deref().unwrap_or(""))
                }),
            ];
            table::print(&tags(database)?, *json, list_as_json, &columns)
        }
        SegmentCommand::Stats { database, json } => {
            let columns = [
                Column::text("TAG", name),
                Column::number("NEXT ID", |tag| tag.max_id.to_string()),
                Column::number("IDS LEFT", |tag| left(tag).to_string()),
                Column::number("STEP", |tag| tag.step.to_string()),
                Column::text("UPDATED (UTC)", updated),
                Column::text("STATE", |tag| state(tag).into()),
            ];
            table::print(&tags(database)?, *json, stats_as_json, &columns)
        }
    }
}

fn tags(database: &DatabaseArgs) -> Result<Vec<SegmentTag>, Failure> {
    Ok(stores::open(database)?.segment_table().list_tags()?)
}

fn name(tag: &SegmentTag) -> String {
    visible(&tag.tag)
}

fn list_as_json(tag: &SegmentTag) -> Value {
    json!({
        "tag": tag.tag,
        "max_id": tag.max_id,
        "step": tag.step,
        "description": tag.description,
        "update_time": tag.update_time,
    })
}

fn stats_as_json(tag: &SegmentTag) -> Value {
    json!({
        "tag": tag.tag,
        "max_id": tag.max_id,
        "ids_left": left(tag),
        "step": tag.step,
        "update_time": tag.update_time,
        "state": state(tag),
    })
}

/// How many ids are not reserved yet; the greatest that the column has room for is 2^63 - 2.
fn left(tag: &SegmentTag) -> i64 {
    i64::MAX - tag.max_id.max(1)
}

/// Whether a load would reserve a range.
fn state(tag: &SegmentTag) -> &'static str {
    match () {
        () if tag.step < 1 => "its step is not positive",
        () if tag.max_id < 1 => "its max_id is not positive",
        () if left(tag) < tag.step => "used up",
        () => "serves",
    }
}

/// The time in whole seconds; a table may have fractions.
fn updated(tag: &SegmentTag) -> String {
    visible(tag.update_time.split('.').next().unwrap_or_default())
}
