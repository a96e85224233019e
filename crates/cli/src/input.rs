//! Reads ids in every form that `uidring generate` prints.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use clap::ValueEnum;
use serde::Deserialize;
use serde_json::Value;
use uidring::adapter::{Chain, may_have_url};
use uidring::{Layout, Uid};

use crate::lines::Format;
use crate::plausible::may_be_made;
use crate::text::visible;

/// Longer lines are not ids, and are not kept in memory. JSON of other programs may have more fields.
const MAX_LINE: usize = 256;
const MAX_JSON_LINE: usize = 4_096;

/// A line, or an id of 8 bytes.
pub struct Item {
    /// Starts at 1.
    pub number: u64,
    /// The id, or what is wrong with the text.
    pub id: Result<Uid, String>,
}

pub struct Ids<R> {
    input: BufReader<R>,
    format: Format,
    layout: Layout,
    number: u64,
    line: Vec<u8>,
}

impl<R: Read> Ids<R> {
    /// The layout serves hints at other forms.
    pub fn new(input: R, format: Format, layout: Layout) -> Self {
        let input = BufReader::with_capacity(1 << 16, input);
        Self { input, format, layout, number: 0, line: Vec::new() }
    }

    /// What [`Item::number`] counts.
    pub fn unit(&self) -> &'static str {
        if self.format == Format::Binary { "id" } else { "line" }
    }

    /// Whether reading the next id may block.
    pub fn may_wait(&self) -> bool {
        self.input.buffer().is_empty()
    }

    /// Returns the next id, skipping blank lines; `None` at the end.
    pub fn next(&mut self) -> io::Result<Option<Item>> {
        loop {
            self.line.clear();
            let id = match self.format {
                Format::Binary => self.next_bytes()?,
                _ => self.next_line()?,
            };
            self.number += 1;
            if self.format == Format::Binary || id.is_none() || !self.line.is_empty() {
                return Ok(id.map(|id| Item { number: self.number, id }));
            }
        }
    }

    fn next_bytes(&mut self) -> io::Result<Option<Result<Uid, String>>> {
        let mut bytes = [0; 8];
        let mut length = 0;
        while length < bytes.len() {
            match self.input.read(&mut bytes[length..]) {
                Ok(0) => break,
                Ok(more) => length += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(match length {
            0 => None,
            8 => {
                let number = u64::from_le_bytes(bytes);
                let id = Uid::new(number);
                Some(id.ok_or_else(|| format!("`{number}`: a uid is at most {}", i64::MAX)))
            }
            _ => Some(Err(format!("the input ends {length} of 8 bytes into an id"))),
        })
    }

    fn next_line(&mut self) -> io::Result<Option<Result<Uid, String>>> {
        // Room for the line ending, which is not part of the text.
        let limit = MAX_JSON_LINE as u64 + 2;
        if self.input.by_ref().take(limit).read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        let ended = self.line.pop_if(|byte| *byte == b'\n').is_some();
        if ended {
            self.line.pop_if(|byte| *byte == b'\r');
        }
        // Some editors begin a text with a byte order mark.
        if self.number == 0 && self.line.starts_with("\u{feff}".as_bytes()) {
            self.line.drain(.."\u{feff}".len());
        }
        let text = String::from_utf8_lossy(&self.line);
        let max =
            if form_of(self.format, &text) == Format::Json { MAX_JSON_LINE } else { MAX_LINE };
        if self.line.len() <= max {
            return Ok(Some(read_uid(self.format, &text, &self.layout)));
        }
        if !ended {
            self.input.skip_until(b'\n')?;
        }
        Ok(Some(Err(format!("longer than {max} bytes"))))
    }
}

/// Reads an id. The error quotes the start of the text, and names other formats in which it is plausible.
pub fn read_uid(format: Format, text: &str, layout: &Layout) -> Result<Uid, String> {
    let format = form_of(format, text);
    read(format, text).map_err(|why| {
        let other = |other: &&Format| {
            **other != format && read(**other, text).is_ok_and(|uid| may_be_made(uid, layout))
        };
        let names =
            Format::value_variants().iter().filter(other).filter_map(Format::to_possible_value);
        let names: Vec<_> = names.map(|name| name.get_name().to_owned()).collect();
        let hint = match names.split_last() {
            None => String::new(),
            Some((last, [])) => format!("; --format {last} could read it"),
            Some((last, others)) => {
                format!("; --format {} or {last} could read it", others.join(", "))
            }
        };
        format!("{}: {why}{hint}", excerpt(text))
    })
}

/// Returns the form of a text. JSON objects and strings need no flag, because no other form starts like them.
fn form_of(format: Format, text: &str) -> Format {
    if text.trim_start().starts_with(['{', '"']) { Format::Json } else { format }
}

fn read(format: Format, text: &str) -> Result<Uid, String> {
    let uid = match format {
        Format::Dec => text.parse(),
        Format::Hex => Uid::from_hex(text),
        Format::Base62 => Uid::from_base62(text),
        Format::Base32 => Uid::from_base32(text),
        Format::Json => return read_json(text),
        Format::Binary => return Err("--format binary is for files and stdin".into()),
    };
    uid.map_err(|error| Chain(&error).to_string())
}

/// An object with the id in our field, or in those of others, which write a number beside a string. A repeated field is
/// an error.
#[derive(Deserialize)]
struct Object {
    uid: Option<Value>,
    uid_str: Option<Value>,
    id: Option<Value>,
    id_str: Option<Value>,
}

fn read_json(text: &str) -> Result<Uid, String> {
    let problem = |error: serde_json::Error| match error.is_data() {
        true => "a field with the id comes twice".into(),
        false => String::from("it is not JSON"),
    };
    if !text.trim_start().starts_with('{') {
        return read_value(&serde_json::from_str(text).map_err(problem)?);
    }
    let Object { uid, uid_str, id, id_str } = serde_json::from_str(text).map_err(problem)?;
    let mut found = None;
    for (name, value) in [("uid", uid), ("uid_str", uid_str), ("id", id), ("id_str", id_str)] {
        let Some(value) = value else { continue };
        let uid = read_value(&value).map_err(|why| format!("\"{name}\": {why}"))?;
        let (first, before) = *found.get_or_insert((name, uid));
        if before != uid {
            return Err(format!("\"{first}\" is {before}, but \"{name}\" is {uid}"));
        }
    }
    let (_, uid) = found.ok_or(r#"the object has no "uid", "uid_str", "id" or "id_str""#)?;
    Ok(uid)
}

fn read_value(value: &Value) -> Result<Uid, String> {
    match value {
        Value::String(digits) => read(Format::Dec, digits),
        Value::Number(number) if number.is_u64() || number.is_i64() => {
            read(Format::Dec, &number.to_string())
        }
        _ => Err("the id is not a whole number or a string of digits".into()),
    }
}

/// Returns the start of a refused text. A URL may hold a password.
fn excerpt(text: &str) -> String {
    const LENGTH: usize = 40;
    if may_have_url(text) {
        return "a URL".into();
    }
    let end = text.char_indices().nth(LENGTH).map_or(text.len(), |(end, _)| end);
    let dots = if end < text.len() { "…" } else { "" };
    format!("`{}{dots}`", visible(&text[..end]))
}
