//! `uidring parse`.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

use uidring::{ParseUidError, Uid};

use super::Failure;
use super::args::{InputFormat, ParseArgs, Preset};
use super::lines::Fields;
use super::output;

/// Longer lines are no uids, and are not kept in memory.
const MAX_LINE: usize = 256;

pub fn run(args: &ParseArgs) -> Result<(), Failure> {
    let layout = args.layout.layout()?;
    let mut parser = Parser {
        format: args.format,
        fields: Fields::new(&layout, args.layout.has_datacenters(Preset::Uid)),
        output: BufWriter::with_capacity(1 << 16, output::stdout()?),
        line: Vec::new(),
        wrong: false,
    };
    match args.ids.as_slice() {
        [] => parser.read(io::stdin().lock())?,
        [dash] if dash == "-" => parser.read(io::stdin().lock())?,
        ids => {
            for (index, id) in ids.iter().enumerate() {
                parser.parse("argument", index + 1, id.as_bytes())?;
            }
        }
    }
    parser.output.flush()?;
    if parser.wrong { Err(Failure::Reported) } else { Ok(()) }
}

struct Parser<'a, W: Write> {
    format: InputFormat,
    fields: Fields<'a>,
    output: BufWriter<W>,
    line: Vec<u8>,
    wrong: bool,
}

impl<W: Write> Parser<'_, W> {
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
            self.report("line", number, format_args!("longer than {MAX_LINE} bytes"))?;
        }
        Ok(())
    }

    /// Prints the fields of one uid, or reports what is wrong with it.
    fn parse(&mut self, what: &str, number: usize, text: &[u8]) -> Result<(), Failure> {
        let uid = match read_uid(self.format, &String::from_utf8_lossy(text)) {
            Ok(uid) => uid,
            Err(error) => return self.report(what, number, error),
        };
        self.line.clear();
        match self.fields.append(&mut self.line, uid) {
            Ok(()) => Ok(self.output.write_all(&self.line)?),
            Err(Failure::Failed(why)) => self.report(what, number, why),
            Err(other) => Err(other),
        }
    }

    fn report(
        &mut self,
        what: &str,
        number: usize,
        why: impl std::fmt::Display,
    ) -> Result<(), Failure> {
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
