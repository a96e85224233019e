//! `uidring parse`.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

use clap::{Args, ValueEnum};
use uidring::adapter::Chain;
use uidring::{ParseUidError, Uid};

use crate::args::layout::{LayoutArgs, Preset};
use crate::failure::Failure;
use crate::lines::Fields;
use crate::stdio;

/// Read uids and print their fields, one JSON object per line
///
/// "uid" is null above 2^53, which JavaScript's numbers would round; "uid_str" always holds it.
/// Input that is not a uid is reported on stderr with its number; the rest is still printed, and the
/// status is 1.
#[derive(Args)]
#[command(after_help = "\
Examples:
  uidring parse 240518193154
  uidring generate -n 3 --format base62 | uidring parse --format base62
  uidring parse --preset snowflake --epoch 2020-07-31T16:00:00Z 3125927076831231")]
pub struct ParseArgs {
    #[command(flatten)]
    pub layout: LayoutArgs,

    /// The text form of the uids
    #[arg(long, value_enum, default_value = "dec")]
    pub format: InputFormat,

    /// The uids; without any, or for `-`, they are read from stdin, one per line
    #[arg(value_name = "ID", allow_negative_numbers = true)]
    pub ids: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum InputFormat {
    /// Decimal digits, or hex after 0x
    Dec,
    /// Hex digits, with or without 0x
    Hex,
    /// 0-9, A-Z, a-z
    Base62,
    /// Crockford's digits, in either case
    Base32,
}

/// Longer lines are not uids, and are not kept in memory.
const MAX_LINE: usize = 256;

pub fn run(args: &ParseArgs) -> Result<(), Failure> {
    let mut parser = Parser {
        format: args.format,
        fields: Fields::new(args.layout.resolve(Preset::Uid)?),
        output: BufWriter::with_capacity(1 << 16, stdio::stdout()?),
        line: Vec::new(),
        wrong: false,
    };
    if args.ids.is_empty() || args.ids == ["-"] {
        parser.read(io::stdin().lock())?;
    } else {
        for (id, number) in args.ids.iter().zip(1..) {
            parser.parse("argument", number, id.as_bytes())?;
        }
    }
    parser.output.flush()?;
    if parser.wrong { Err(Failure::Reported) } else { Ok(()) }
}

struct Parser<W: Write> {
    format: InputFormat,
    fields: Fields,
    output: BufWriter<W>,
    line: Vec<u8>,
    wrong: bool,
}

impl<W: Write> Parser<W> {
    fn read(&mut self, input: impl Read) -> Result<(), Failure> {
        let mut input = BufReader::with_capacity(1 << 16, input);
        let mut line = Vec::new();
        let reading = |error: io::Error| Failure::Failed(format!("reading stdin: {error}"));
        for number in 1.. {
            if input.buffer().is_empty() {
                // What is known is shown before waiting for more.
                self.output.flush()?;
            }
            line.clear();
            // Room for the line's end, which is no part of the text.
            let limit = MAX_LINE as u64 + 2;
            if input.by_ref().take(limit).read_until(b'\n', &mut line).map_err(reading)? == 0 {
                break;
            }
            let ended = line.pop_if(|byte| *byte == b'\n').is_some();
            if ended {
                line.pop_if(|byte| *byte == b'\r');
            }
            if line.len() <= MAX_LINE {
                self.parse("line", number, &line)?;
                continue;
            }
            if !ended {
                input.skip_until(b'\n').map_err(reading)?;
            }
            self.report("line", number, &format!("longer than {MAX_LINE} bytes"))?;
        }
        Ok(())
    }

    /// Prints the fields of one uid, or reports what is wrong with it.
    fn parse(&mut self, what: &str, number: usize, text: &[u8]) -> Result<(), Failure> {
        self.line.clear();
        let done = match read_uid(self.format, &String::from_utf8_lossy(text)) {
            Ok(uid) => self.fields.append(&mut self.line, uid),
            Err(error) => Err(Failure::Failed(Chain(&error).to_string())),
        };
        match done {
            Ok(()) => Ok(self.output.write_all(&self.line)?),
            Err(Failure::Failed(why)) => self.report(what, number, &why),
            Err(other) => Err(other),
        }
    }

    fn report(&mut self, what: &str, number: usize, why: &str) -> Result<(), Failure> {
        // What came before it is shown before it.
        self.output.flush()?;
        eprintln!("error: {what} {number}: {why}");
        self.wrong = true;
        Ok(())
    }
}

fn read_uid(format: InputFormat, text: &str) -> Result<Uid, ParseUidError> {
    match format {
        InputFormat::Dec => text.parse(),
        InputFormat::Hex => Uid::from_hex(text),
        InputFormat::Base62 => Uid::from_base62(text),
        InputFormat::Base32 => Uid::from_base32(text),
    }
}
