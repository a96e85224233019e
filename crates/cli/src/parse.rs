//! `uidring parse`.

use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};

use crate::args::layout::LayoutArgs;
use crate::failure::Failure;
use crate::input::{Ids, Item, read_uid};
use crate::lines::{Fields, Format};
use crate::plausible::Plausible;
use crate::text::thousands;
use crate::{report, stdio};

/// Read uids and print their fields, one JSON object per line
///
/// "uid" is a string: many readers of JSON round numbers above 2^53. All forms that `uidring generate` prints are
/// read. JSON needs no flag: an object with the id in "uid", "uid_str", "id" or "id_str", or a string.
/// Input that is not a uid is reported on stderr with its number; the rest is still printed, and the
/// status is 1. A uid that is more than a day ahead of the clock is printed, with a note on stderr that names the
/// layouts it may have.
#[derive(Args)]
#[command(after_help = "\
Examples:
  uidring parse 240518193154
  uidring parse --format text 240518193154
  uidring generate -n 3 --format base62 | uidring parse --format base62
  uidring generate -n 3 --format json | uidring parse
  uidring parse --layout 41/10/12/ms/2020-07-31T16:00:00Z 3125927076831231")]
pub struct ParseArgs {
    #[command(flatten)]
    pub layout: LayoutArgs,

    /// The form of the uids
    #[arg(long, default_value = "dec", value_parser = PossibleValuesParser::new(forms()))]
    pub format: String,

    /// The uids; without any, or for `-`, they are read from stdin, one per line; blank lines are skipped
    #[arg(value_name = "ID", allow_negative_numbers = true)]
    pub ids: Vec<String>,
}

/// The values of `--format`: the forms of ids, and a table.
fn forms() -> impl Iterator<Item = PossibleValue> {
    let table = PossibleValue::new(TABLE).help(
        "As dec, and print a table for people. For other forms, pipe what this command prints \
         into `uidring parse --format text`",
    );
    Format::value_variants().iter().filter_map(Format::to_possible_value).chain([table])
}

const TABLE: &str = "text";

pub fn run(args: &ParseArgs) -> Result<(), Failure> {
    let is_table = args.format == TABLE;
    let format = match is_table {
        true => Format::Dec,
        false => Format::from_str(&args.format, false).map_err(Failure::Usage)?,
    };
    let layout = args.layout.resolve()?;
    let mut parser = Parser {
        fields: Fields::new(layout),
        is_table,
        plausible: Plausible::new(layout.layout),
        implausible: 0,
        output: BufWriter::with_capacity(1 << 16, stdio::stdout()?),
        line: Vec::new(),
        wrong: false,
    };
    if is_table {
        parser.output.write_all(parser.fields.header().as_bytes())?;
    }
    if args.ids.is_empty() || args.ids == ["-"] {
        parser.read(Ids::new(io::stdin().lock(), format, layout.layout))?;
    } else {
        if format == Format::Binary {
            return Err(Failure::Usage("--format binary is for ids on stdin".into()));
        }
        for (text, number) in args.ids.iter().zip(1..) {
            let id = read_uid(format, text, &layout.layout).map_err(|why| {
                let is_file = Path::new(text).is_file();
                why + if is_file { "; a file is read from stdin: uidring parse < FILE" } else { "" }
            });
            parser.print("argument", Item { number, id })?;
        }
    }
    parser.output.flush()?;
    if parser.implausible > 1 {
        report::note(format_args!("{} uids are as far ahead", thousands(parser.implausible)));
    }
    if parser.wrong { Err(Failure::Reported) } else { Ok(()) }
}

struct Parser<W: Write> {
    fields: Fields,
    is_table: bool,
    plausible: Plausible,
    /// Uids that are implausible. Only the first is reported when it comes.
    implausible: u64,
    output: BufWriter<W>,
    line: Vec<u8>,
    wrong: bool,
}

impl<W: Write> Parser<W> {
    fn read(&mut self, mut ids: Ids<impl Read>) -> Result<(), Failure> {
        loop {
            if ids.may_wait() {
                // Show what is known before waiting for more.
                self.output.flush()?;
            }
            match ids.next() {
                Ok(Some(item)) => self.print(ids.unit(), item)?,
                Ok(None) => return Ok(()),
                Err(error) => return Err(Failure::Failed(format!("reading stdin: {error}"))),
            }
        }
    }

    /// Prints the fields of an id, or reports what is wrong with it.
    fn print(&mut self, what: &str, item: Item) -> Result<(), Failure> {
        self.line.clear();
        let shown = item.id.map_err(Failure::Failed).and_then(|uid| {
            match self.is_table {
                true => self.fields.append_row(&mut self.line, uid)?,
                false => self.fields.append(&mut self.line, uid)?,
            }
            Ok(uid)
        });
        match shown {
            Ok(uid) => {
                self.output.write_all(&self.line)?;
                if let Some(problem) = self.plausible.problem(uid) {
                    self.implausible += 1;
                    if self.implausible == 1 {
                        self.output.flush()?;
                        report::note(format_args!("{what} {}: {problem}", item.number));
                    }
                }
                Ok(())
            }
            Err(Failure::Failed(why)) => {
                // Show earlier uids before the error.
                self.output.flush()?;
                report::error(format_args!("{what} {}: {why}", item.number));
                self.wrong = true;
                Ok(())
            }
            Err(other) => Err(other),
        }
    }
}
