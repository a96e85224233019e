//! `uidring segment`.

use clap::Subcommand;
use serde_json::{Value, json};
use uidring::Error;
use uidring::segment::{SegmentTag, TagNumber};
use uidring_store::{NewSegmentTag, TableError};

use crate::args::url::UrlArgs;
use crate::failure::Failure;
use crate::table::{self, Column};
use crate::text::{instant, visible};
use crate::{report, stdio};
use uidring_store::values::number;

/// The greatest next id that the column holds.
const MAX_ID: u64 = i64::MAX.unsigned_abs();

#[derive(Subcommand)]
pub enum SegmentCommand {
    /// Add a tag; creates the table unless it exists
    #[command(after_help = "\
Examples:
  uidring segment create orders --step 1000
  uidring segment create invoices --step 100 --start 50000 --description 'numbers of invoices'
  uidring segment create orders --step 10000 --url-file /run/secrets/mysql-url")]
    Create {
        /// The name of the tag, up to 128 characters
        tag: String,

        /// The least number of ids that a load reserves, from 1 to 2147483647. Ids that a process has
        /// reserved and not used when it ends are never issued
        #[arg(long, value_name = "S", value_parser = step(), allow_hyphen_values = true)]
        step: u64,

        /// The first id, from 1
        #[arg(long, value_name = "N", default_value = "1", value_parser = number::<u64>(1..=MAX_ID),
              allow_hyphen_values = true)]
        start: u64,

        /// If the tag exists, leave it as it is and succeed
        #[arg(long)]
        if_not_exists: bool,

        /// What the tag is for, up to 256 characters
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,

        #[command(flatten)]
        url: UrlArgs,
    },
    /// Set the step of a tag; generators go by it from their next load on
    #[command(after_help = "\
Examples:
  uidring segment create orders --step 1000 --if-not-exists
  uidring segment set-step orders 5000")]
    SetStep {
        /// The tag
        tag: String,

        /// The least number of ids that a load reserves, from 1 to 2147483647
        #[arg(value_parser = step(), allow_negative_numbers = true)]
        step: u64,

        #[command(flatten)]
        url: UrlArgs,
    },
    /// Delete a tag, and with it the record of which of its ids are in use
    ///
    /// Generators stop issuing its ids as soon as they read the tags again (after a minute), or need
    /// another range. If you create the tag again, start it where the deleted one ended, or its ids
    /// come twice: the command prints the next id on stdout, and the flags for that on stderr.
    #[command(after_help = "\
Examples:
  uidring segment create trial --step 100
  uidring segment delete trial --forget-ids > next-id")]
    Delete {
        /// The tag
        tag: String,

        /// Confirm that nothing else has to know which ids of the tag are in use
        #[arg(long)]
        forget_ids: bool,

        #[command(flatten)]
        url: UrlArgs,
    },
    /// List the tags, by name: how far each has come, and how many ids are left
    List {
        #[command(flatten)]
        url: UrlArgs,

        /// Print a JSON array instead of a table
        #[arg(long)]
        json: bool,
    },
}

pub fn run(command: &SegmentCommand) -> Result<(), Failure> {
    let (SegmentCommand::Create { url, .. }
    | SegmentCommand::SetStep { url, .. }
    | SegmentCommand::Delete { url, .. }
    | SegmentCommand::List { url, .. }) = command;
    done(command).map_err(|failure| failure.advised(&url.flags()))
}

fn done(command: &SegmentCommand) -> Result<(), Failure> {
    match command {
        SegmentCommand::Create { tag, step, start, if_not_exists, description, url } => {
            // The server's uids would hide the tag.
            if tag == "uid" {
                return Err(Failure::Usage(
                    "`uid` is what `uidring serve` calls its uids; choose another tag".into(),
                ));
            }
            let mut new = NewSegmentTag::new(tag, *step)?.start(*start)?;
            if let Some(text) = description {
                new = new.description(text)?;
            }
            if let Err(error) = url.store()?.segment_table()?.create_tag(&new) {
                return report_existing(error, tag, *if_not_exists);
            }
            let tag = visible(tag);
            report::note(format_args!(
                "created tag `{tag}`: its first id is {start}, its step {step}"
            ));
            Ok(())
        }
        SegmentCommand::SetStep { tag, step, url } => {
            let before = url.store()?.segment_table()?.set_step(tag, *step);
            let before = number_of(before.map_err(unknown_tag)?.step);
            let tag = visible(tag);
            report::note(format_args!("the step of tag `{tag}` is now {step}; it was {before}"));
            Ok(())
        }
        SegmentCommand::Delete { tag, forget_ids, url } => {
            if !forget_ids {
                return Err(Failure::Usage(
                    "--forget-ids is needed to delete a tag: with the tag goes what is known about its ids in use, and \
                     created again it would repeat them; `uidring segment list` shows how far it has come"
                        .into(),
                ));
            }
            // Check stdout first: only this command tells where a deleted tag ended.
            drop(stdio::stdout()?);
            let deleted = url.store()?.segment_table()?.delete_tag(tag);
            let deleted = deleted.map_err(unknown_tag)?;
            let (max_id, step) = (number_of(deleted.max_id), number_of(deleted.step));
            let text = format!(
                "deleted tag `{tag}`, whose next id was {max_id}: to create it again, use `--start {max_id} \
                 --step {step}`, or its ids come twice"
            );
            if stdio::print(&max_id).is_err() {
                return Err(Failure::Failed(format!("stdout cannot be written; {text}")));
            }
            report::note(text);
            Ok(())
        }
        SegmentCommand::List { url, json } => {
            let columns = [
                Column::text("TAG", |tag: &SegmentTag| visible(&tag.tag)),
                Column::number("MAX_ID", |tag| number_of(tag.max_id)),
                Column::number("STEP", |tag| number_of(tag.step)),
                Column::number("IDS LEFT", |tag| number_of(left(tag))),
                Column::text("STATE", state),
                Column::text("UPDATED", |tag| instant(tag.update_time)),
                Column::text("DESCRIPTION", |tag| {
                    visible(tag.description.as_deref().unwrap_or(""))
                }),
            ];
            let tags = url.store()?.segment_table()?.list_tags()?;
            table::print(&tags, *json, as_json, &columns)
        }
    }
}

fn step() -> impl Fn(&str) -> Result<u64, String> + Clone {
    number(1..=i32::MAX.unsigned_abs().into())
}

/// Reports why a tag was not created. With `if_not_exists`, an existing tag is only a note.
fn report_existing(error: Error, tag: &str, if_not_exists: bool) -> Result<(), Failure> {
    match error.store() {
        // In a table of others, the collation may find a tag of another name.
        Some(TableError::TagExists { tag: found, max_id, step })
            if if_not_exists && found == tag =>
        {
            report::note(format_args!(
                "tag `{}` exists and was left as it is, at max_id {max_id} with step {step}",
                visible(tag)
            ));
            Ok(())
        }
        Some(TableError::TagExists { .. }) => {
            Err(Failure::Failed(format!("{error}; with --if-not-exists, this is no error")))
        }
        _ => Err(error.into()),
    }
}

fn unknown_tag(error: Error) -> Failure {
    match error.store() {
        Some(TableError::NoSuchTag { .. }) => {
            Failure::Failed(format!("{error}; `uidring segment list` shows those that exist"))
        }
        _ => error.into(),
    }
}

fn as_json(tag: &SegmentTag) -> Value {
    json!({
        "tag": tag.tag,
        "max_id": tag.max_id.ok(),
        "step": tag.step.ok(),
        "ids_left": left(tag).ok(),
        "state": state(tag),
        "update_time": instant(tag.update_time),
        "description": tag.description,
    })
}

/// Returns how many ids are not reserved yet. The greatest possible id is 2^63 - 2.
fn left(tag: &SegmentTag) -> TagNumber {
    tag.max_id.map(|max_id| i64::MAX - max_id.max(1))
}

/// Whether a load would reserve a range.
fn state(tag: &SegmentTag) -> String {
    let state = match (tag.step, tag.max_id) {
        (Err(why), _) => return format!("its step {why}"),
        (_, Err(why)) => return format!("its max_id {why}"),
        (Ok(..1), _) => "its step is not positive",
        (_, Ok(..1)) => "its max_id is not positive",
        _ if left(tag) == Ok(0) => "used up",
        _ => "has ids",
    };
    state.into()
}

/// Shows a column, as `-` if it cannot be read.
fn number_of(column: TagNumber) -> String {
    column.map_or_else(|_| "-".into(), |number| number.to_string())
}
