//! Uids as lines of text, fast enough that the pipe is what limits them.

use std::io::Write;

use serde_json::json;
use uidring::generator::SnowflakeNode;
use uidring::{Layout, Timestamp, Uid};

use super::Failure;
use super::args::OutputFormat;

/// JavaScript's numbers hold every whole number up to here.
const JAVASCRIPT_MAX: u64 = 1 << 53;

/// The form that uids take as lines.
pub enum Lines<'a> {
    Decimal,
    Hex,
    Base62,
    Base32,
    Json(Fields<'a>),
}

impl<'a> Lines<'a> {
    /// A form of plain numbers; `None` for one that shows fields.
    pub fn plain(format: OutputFormat) -> Option<Self> {
        match format {
            OutputFormat::Dec => Some(Self::Decimal),
            OutputFormat::Hex => Some(Self::Hex),
            OutputFormat::Base62 => Some(Self::Base62),
            OutputFormat::Base32 => Some(Self::Base32),
            OutputFormat::Json => None,
        }
    }

    /// A form of uids with these fields.
    pub fn of(format: OutputFormat, layout: &'a Layout, datacenters: bool) -> Self {
        Self::plain(format).unwrap_or_else(|| Self::Json(Fields::new(layout, datacenters)))
    }

    /// Appends the uids to `text`, a line each.
    pub fn append(&mut self, text: &mut Vec<u8>, uids: &[Uid]) -> Result<(), Failure> {
        match self {
            Self::Decimal => decimal(text, uids),
            Self::Hex => each(text, uids, |uid| *uid.hex().as_bytes()),
            Self::Base62 => each(text, uids, |uid| *uid.base62().as_bytes()),
            Self::Base32 => each(text, uids, |uid| *uid.base32().as_bytes()),
            Self::Json(fields) => {
                for uid in uids {
                    fields.append(text, *uid)?;
                }
            }
        }
        Ok(())
    }
}

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

/// Most uids differ from the one before in their last two digits alone. These are put over a copy of its
/// line, not into the line itself: a processor would wait for them before it copies that again.
fn decimal(text: &mut Vec<u8>, uids: &[Uid]) {
    let mut line = [0; DECIMAL_LINE];
    let mut length = 0;
    let mut hundreds = 0;
    let mut end = text.len();
    text.resize(end + uids.len() * DECIMAL_LINE, 0);
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
        // The whole array, whose length the compiler knows; the next line overwrites the rest.
        let place = &mut text[end..end + DECIMAL_LINE];
        place.copy_from_slice(&line);
        if length > 2 {
            place[length - 2..length].copy_from_slice(&PAIRS[(number % 100) as usize]);
        }
        end += length + 1;
    }
    text.truncate(end);
}

fn each<const N: usize>(text: &mut Vec<u8>, uids: &[Uid], form: impl Fn(Uid) -> [u8; N]) {
    for uid in uids {
        text.extend_from_slice(&form(*uid));
        text.push(b'\n');
    }
}

/// Prints uids with their fields as JSON. Many uids in a row have one time: its text is kept.
pub struct Fields<'a> {
    layout: &'a Layout,
    /// Whether the worker field is shown as Twitter's datacenter and worker.
    datacenters: bool,
    time: (Timestamp, String),
}

impl<'a> Fields<'a> {
    pub fn new(layout: &'a Layout, datacenters: bool) -> Self {
        let time = Timestamp::default();
        Self { layout, datacenters, time: (time, time.to_string()) }
    }

    /// Appends a line; fails where the uid is not of the layout.
    pub fn append(&mut self, text: &mut Vec<u8>, uid: Uid) -> Result<(), Failure> {
        let fields = self.layout.decode(uid)?;
        if fields.timestamp != self.time.0 {
            self.time = (fields.timestamp, fields.timestamp.to_string());
        }
        let number = json!((uid.get() <= JAVASCRIPT_MAX).then_some(uid.get()));
        write!(text, r#"{{"uid":{number},"uid_str":"{uid}","timestamp":"{}","#, self.time.1)?;
        let mut worker_id = fields.worker_id;
        if self.datacenters {
            let node = SnowflakeNode::from_worker_id(worker_id)?;
            write!(text, r#""datacenter_id":{},"#, node.datacenter_id)?;
            worker_id = node.worker_id;
        }
        writeln!(text, r#""worker_id":{worker_id},"sequence":{}}}"#, fields.sequence)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_numbers() {
        let starts = [0, 9, 98, 999_999, 1 << 53, 999_999_999_999_999_990, i64::MAX as u64 - 60];
        let uids: Vec<Uid> = starts
            .iter()
            .flat_map(|&start| (start..start + 50).chain([start + 60]))
            .map(|number| Uid::new(number).expect("63 bits"))
            .collect();
        let mut text = b"before\n".to_vec();
        decimal(&mut text, &uids);
        let expected: String = uids.iter().map(|uid| format!("{uid}\n")).collect();
        assert_eq!(String::from_utf8(text).expect("ASCII"), format!("before\n{expected}"));
    }
}
