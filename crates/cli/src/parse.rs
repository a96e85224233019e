//! `uidring parse`.

use std::io::{self, BufWriter, Read, Write};

use clap::Args;

use crate::args::layout::{LayoutArgs, Preset};
use crate::failure::Failure;
use crate::input::{Ids, Item, read_uid};
use crate::lines::{Fields, Format, JsonUid};
use crate::{report, stdio};

/// Read uids and print their fields, one JSON object per line
///
/// "uid" is null above 2^53 (see --json-uid); "uid_str" always holds it. All forms that `uidring
/// generate` prints are read.
/// Input that is not a uid is reported on stderr with its number; the rest is still printed, and the
/// status is 1.
#[derive(Args)]
#[command(after_help = "\
Examples:
  uidring parse 240518193154
  uidring generate -n 3 --format base62 | uidring parse --format base62
  uidring generate -n 3 --format json | uidring parse --format json --json-uid string
  uidring parse --preset snowflake --epoch 2020-07-31T16:00:00Z 3125927076831231")]
pub struct ParseArgs {
    #[command(flatten)]
    pub layout: LayoutArgs,

    /// The form of the uids
    #[arg(long, value_enum, default_value = "dec")]
    pub format: Format,

    /// How "uid" is printed; without it, safe
    #[arg(long, value_enum, value_name = "AS")]
    pub json_uid: Option<JsonUid>,

    /// The uids; without any, or for `-`, they are read from stdin, one per line
    #[arg(value_name = "ID", allow_negative_numbers = true)]
    pub ids: Vec<String>,
}

pub fn run(args: &ParseArgs) -> Result<(), Failure> {
    let json_uid = args.json_uid.unwrap_or(JsonUid::Safe);
    let mut parser = Parser {
        fields: Fields::new(args.layout.resolve(Preset::Uid)?, json_uid),
        output: BufWriter::with_capacity(1 << 16, stdio::stdout()?),
        line: Vec::new(),
        wrong: false,
    };
    if args.ids.is_empty() || args.ids == ["-"] {
        parser.read(Ids::new(io::stdin().lock(), args.format))?;
    } else {
        if args.format == Format::Binary {
            return Err(Failure::Usage("--format binary is for ids on stdin".into()));
        }
        for (text, number) in args.ids.iter().zip(1..) {
            parser.print("argument", Item { number, id: read_uid(args.format, text) })?;
        }
    }
    parser.output.flush()?;
    if parser.wrong { Err(Failure::Reported) } else { Ok(()) }
}

struct Parser<W: Write> {
    fields: Fields,
    output: BufWriter<W>,
    line: Vec<u8>,
    wrong: bool,
}

impl<W: Write> Parser<W> {
    fn read(&mut self, mut ids: Ids<impl Read>) -> Result<(), Failure> {
        loop {
            if ids.may_wait() {
                // What is known is shown before waiting for more.
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
        let done = match item.id {
            Ok(uid) => self.fields.append(&mut self.line, uid),
            Err(why) => Err(Failure::Failed(why)),
        };
        match done {
            Ok(()) => Ok(self.output.write_all(&self.line)?),
            Err(Failure::Failed(why)) => {
                // What came before it is shown before it.
                self.output.flush()?;
                report::error(format_args!("{what} {}: {why}", item.number));
                self.wrong = true;
                Ok(())
            }
            Err(other) => Err(other),
        }
    }
}
