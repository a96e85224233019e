//! `uidring segment`.

mod args;

use std::io::{BufWriter, Write};

use serde_json::{Value, json};
use uidring::segment::SegmentTag;
use uidring_store::NewSegmentTag;

pub use self::args::SegmentArgs;
use self::args::SegmentCommand;
use super::Failure;
use super::output;
use super::text::visible;

pub fn run(args: &SegmentArgs) -> Result<(), Failure> {
    match &args.command {
        SegmentCommand::Create { tag, step, start, description, place } => {
            let new = NewSegmentTag::new(tag, *step).map_err(Failure::usage)?;
            let mut new = new.start(*start).map_err(Failure::usage)?;
            if let Some(text) = description {
                new = new.description(text).map_err(Failure::usage)?;
            }
            place.any()?.segment_table().create_tag(&new)?;
            eprintln!("tag `{}` is there: its first id is {start}, its step {step}", visible(tag));
            Ok(())
        }
        SegmentCommand::List { place, json } => show(
            &place.any()?.segment_table().list_tags()?,
            *json,
            list_as_json,
            &[
                Column { name: "TAG", is_number: false, text: |tag| visible(&tag.tag) },
                Column { name: "MAX_ID", is_number: true, text: |tag| tag.max_id.to_string() },
                Column { name: "STEP", is_number: true, text: |tag| tag.step.to_string() },
                Column { name: "UPDATED (UTC)", is_number: false, text: updated },
                Column { name: "DESCRIPTION", is_number: false, text: description },
            ],
        ),
        SegmentCommand::Stats { place, json } => show(
            &place.any()?.segment_table().list_tags()?,
            *json,
            stats_as_json,
            &[
                Column { name: "TAG", is_number: false, text: |tag| visible(&tag.tag) },
                Column { name: "NEXT ID", is_number: true, text: |tag| tag.max_id.to_string() },
                Column { name: "IDS LEFT", is_number: true, text: |tag| left(tag).to_string() },
                Column { name: "STEP", is_number: true, text: |tag| tag.step.to_string() },
                Column { name: "UPDATED (UTC)", is_number: false, text: updated },
                Column { name: "STATE", is_number: false, text: |tag| state(tag).into() },
            ],
        ),
    }
}

/// A column of a table for people.
struct Column {
    name: &'static str,
    /// Numbers stand at the column's right.
    is_number: bool,
    text: fn(&SegmentTag) -> String,
}

fn show(
    tags: &[SegmentTag],
    as_json: bool,
    row_as_json: fn(&SegmentTag) -> Value,
    columns: &[Column],
) -> Result<(), Failure> {
    let mut output = BufWriter::new(output::stdout()?);
    if as_json {
        writeln!(output, "{}", Value::from_iter(tags.iter().map(row_as_json)))?;
        return Ok(output.flush()?);
    }
    let head = columns.iter().map(|column| column.name.to_owned()).collect();
    let rows = tags.iter().map(|tag| columns.iter().map(|column| (column.text)(tag)).collect());
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let width = |index: usize| rows.iter().map(|row| row[index].chars().count()).max();
    let widths: Vec<_> = (0..columns.len()).map(|i| width(i).unwrap_or_default()).collect();
    for row in &rows {
        let cells = row.iter().zip(columns).zip(&widths).map(|((text, column), &width)| {
            if column.is_number { format!("{text:>width$}") } else { format!("{text:<width$}") }
        });
        writeln!(output, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(output.flush()?)
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

/// How many ids are not reserved yet; the greatest that the column lets anybody reserve is 2^63 - 2.
fn left(tag: &SegmentTag) -> i64 {
    i64::MAX - tag.max_id.max(1)
}

/// Whether a load would get something.
fn state(tag: &SegmentTag) -> &'static str {
    match () {
        () if tag.step < 1 => "its step is not positive",
        () if tag.max_id < 1 => "its max_id is not positive",
        () if left(tag) < tag.step => "used up",
        () => "serves",
    }
}

/// Whole seconds, of a table that may have fractions.
fn updated(tag: &SegmentTag) -> String {
    visible(tag.update_time.split('.').next().unwrap_or_default())
}

fn description(tag: &SegmentTag) -> String {
    visible(tag.description.as_deref().unwrap_or_default())
}
