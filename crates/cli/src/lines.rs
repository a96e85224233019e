//! Formats uids as lines of text, so fast that the pipe is the limit.

use std::io::Write;

use clap::ValueEnum;
use uidring::generator::SnowflakeNode;
use uidring::{Timestamp, Uid};

use crate::args::layout::ResolvedLayout;
use crate::failure::Failure;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Decimal digits; where ids are read, also hex digits after 0x
    Dec,
    /// 0x and 16 hex digits; where ids are read, any hex digits
    Hex,
    /// 11 characters, 0-9, A-Z and a-z, that sort like the numbers
    Base62,
    /// 13 characters (Crockford) that sort like the numbers; where ids are read, in either case
    Base32,
    /// A JSON object per line, with the fields. Where ids are read, objects and strings of JSON are recognised in every
    /// form of lines, and this one also reads a number
    Json,
    /// 8 bytes each, the lowest first, without line ends
    Binary,
}

/// How ids are written.
pub struct Lines {
    /// Replaces what a buffer has with each id's line, or its bytes. Only the part by which the buffer grows is zeroed first.
    pub replace: Replace,
    /// How many ids to take and write at a time.
    pub portion: usize,
    is_binary: bool,
    pub layout: Option<ResolvedLayout>,
}

type Replace = Box<dyn FnMut(&mut Vec<u8>, &[Uid]) -> Result<(), Failure>>;

/// Returns the lines for ids of this layout. Fails for JSON without a layout, because the ids have no fields.
pub fn lines(format: Format, layout: Option<ResolvedLayout>) -> Result<Lines, Failure> {
    let replace: Replace = match (format, layout) {
        (Format::Dec, _) => Box::new(decimal),
        (Format::Hex, _) => Box::new(each(|uid| *uid.hex().as_bytes())),
        (Format::Base62, _) => Box::new(each(|uid| *uid.base62().as_bytes())),
        (Format::Base32, _) => Box::new(each(|uid| *uid.base32().as_bytes())),
        (Format::Binary, _) => Box::new(binary),
        (Format::Json, Some(layout)) => {
            let mut fields = Fields::new(layout);
            Box::new(move |text, uids| {
                text.clear();
                uids.iter().try_for_each(|uid| fields.append(text, *uid))
            })
        }
        (Format::Json, None) => {
            return Err(Failure::Usage(
                "--format json shows the fields of uids; the ids of segments have none".into(),
            ));
        }
    };
    let is_binary = format == Format::Binary;
    let portion = if is_binary { MAX_PORTION } else { PORTION };
    Ok(Lines { replace, portion, is_binary, layout })
}

impl Lines {
    /// Returns how many whole ids a text starts with, and their length in bytes.
    pub fn whole(&self, text: &[u8]) -> (usize, usize) {
        if self.is_binary {
            return (text.len() / 8, text.len() / 8 * 8);
        }
        let lines = text.iter().filter(|byte| **byte == b'\n').count();
        (lines, text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1))
    }
}

/// Up to 32 kB of text. This stays in the first cache, and fills only half a pipe, so that its reader works meanwhile.
const PORTION: usize = 1_600;

/// Binary ids fill four whole pages of a pipe.
pub const MAX_PORTION: usize = 2_048;

/// 19 digits and a line feed.
const DECIMAL_LINE: usize = 20;

/// The digits of the numbers below 100.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number as usize] = [b'0' + number / 10, b'0' + number % 10];
        number += 1;
    }
    pairs
};

/// Writes decimal lines. Most uids differ from the one before only in their last two digits. These are written over a
/// copy of its line; written into the line itself, they would delay the next copy.
fn decimal(text: &mut Vec<u8>, uids: &[Uid]) -> Result<(), Failure> {
    let mut line = [0; DECIMAL_LINE];
    let mut length = 0;
    let mut hundreds = 0;
    let mut end = 0;
    text.resize(uids.len() * DECIMAL_LINE, 0);
    for uid in uids {
        let number = uid.get();
        if number / 100 != hundreds || number < 100 {
            let mut buffer = itoa::Buffer::new();
            let digits = buffer.format(number).as_bytes();
            length = digits.len();
            line[..length].copy_from_slice(digits);
            line[length] = b'\n';
            hundreds = number / 100;
        }
        // Copy arrays, whose lengths the compiler knows. The next line overwrites the excess.
        let place = text[end..].first_chunk_mut().expect("text has room for each line");
        *place = line;
        if length > 2 {
            [place[length - 2], place[length - 1]] = PAIRS[(number % 100) as usize];
        }
        end += length + 1;
    }
    text.truncate(end);
    Ok(())
}

// A function of its own: the compiler knows that its arguments do not overlap, and calls memcpy.
#[inline(never)]
fn binary(bytes: &mut Vec<u8>, uids: &[Uid]) -> Result<(), Failure> {
    bytes.resize(size_of_val(uids), 0);
    let (places, _) = bytes.as_chunks_mut();
    for (place, uid) in places.iter_mut().zip(uids) {
        *place = uid.get().to_le_bytes();
    }
    Ok(())
}

fn each<const N: usize>(
    form: impl Fn(Uid) -> [u8; N],
) -> impl Fn(&mut Vec<u8>, &[Uid]) -> Result<(), Failure> {
    move |text, uids| {
        text.resize(uids.len() * (N + 1), 0);
        for (line, uid) in text.chunks_exact_mut(N + 1).zip(uids) {
            *line.first_chunk_mut().expect("N bytes and one") = form(*uid);
            line[N] = b'\n';
        }
        Ok(())
    }
}

/// Shows uids with their fields, as JSON or as rows of a table.
pub struct Fields {
    layout: ResolvedLayout,
    /// The last time with its text, which many uids in a row share.
    time: (Timestamp, String),
}

impl Fields {
    pub fn new(layout: ResolvedLayout) -> Self {
        let time = Timestamp::default();
        Self { layout, time: (time, time.to_string()) }
    }

    /// Appends an object; fails if the uid is not of the layout.
    pub fn append(&mut self, text: &mut Vec<u8>, uid: Uid) -> Result<(), Failure> {
        let Parts { time, datacenter_id, worker_id, sequence } = self.parts(uid)?;
        write!(text, r#"{{"uid":"{uid}","timestamp":"{time}","#)?;
        if let Some(datacenter_id) = datacenter_id {
            write!(text, r#""datacenter_id":{datacenter_id},"#)?;
        }
        writeln!(text, r#""worker_id":{worker_id},"sequence":{sequence}}}"#)?;
        Ok(())
    }

    pub fn header(&self) -> String {
        let datacenter = if self.layout.has_datacenters { "  datacenter" } else { "" };
        format!("{:>19}  {:<24}{datacenter}  {:>7}  sequence\n", "uid", "timestamp", "worker")
    }

    /// Appends a row; fails if the uid is not of the layout.
    pub fn append_row(&mut self, text: &mut Vec<u8>, uid: Uid) -> Result<(), Failure> {
        let Parts { time, datacenter_id, worker_id, sequence } = self.parts(uid)?;
        write!(text, "{uid:>19}  {time:<24}")?;
        if let Some(datacenter_id) = datacenter_id {
            write!(text, "  {datacenter_id:>10}")?;
        }
        writeln!(text, "  {worker_id:>7}  {sequence:>8}")?;
        Ok(())
    }

    fn parts(&mut self, uid: Uid) -> Result<Parts<'_>, Failure> {
        let fields = self.layout.layout.decode(uid)?;
        if fields.timestamp != self.time.0 {
            self.time = (fields.timestamp, fields.timestamp.to_string());
        }
        let (datacenter_id, worker_id) = if self.layout.has_datacenters {
            let node = SnowflakeNode::from_worker_id(fields.worker_id)?;
            (Some(node.datacenter_id), node.worker_id)
        } else {
            (None, fields.worker_id)
        };
        Ok(Parts { time: &self.time.1, datacenter_id, worker_id, sequence: fields.sequence })
    }
}

struct Parts<'a> {
    time: &'a str,
    datacenter_id: Option<u64>,
    worker_id: u64,
    sequence: u64,
}

#[cfg(test)]
mod tests;
