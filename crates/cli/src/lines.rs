//! Uids as lines of text, fast enough that the pipe is what limits them.

use std::io::Write;

use clap::ValueEnum;
use serde_json::json;
use uidring::generator::SnowflakeNode;
use uidring::{Timestamp, Uid};

use crate::args::layout::ResolvedLayout;
use crate::failure::Failure;

/// JavaScript's numbers hold every whole number up to here.
const JAVASCRIPT_MAX: u64 = 1 << 53;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Decimal digits
    Dec,
    /// 0x and 16 hex digits
    Hex,
    /// 11 characters that sort like the numbers
    Base62,
    /// 13 characters (Crockford) that sort like the numbers
    Base32,
    /// What `uidring parse` prints
    Json,
}

/// Appends a line for each uid to a text.
pub type Lines = Box<dyn FnMut(&mut Vec<u8>, &[Uid]) -> Result<(), Failure>>;

/// Lines of uids with this layout. Ids without a layout have no fields for JSON.
pub fn lines(format: OutputFormat, layout: Option<ResolvedLayout>) -> Result<Lines, Failure> {
    Ok(match (format, layout) {
        (OutputFormat::Dec, _) => Box::new(decimal),
        (OutputFormat::Hex, _) => Box::new(each(|uid| *uid.hex().as_bytes())),
        (OutputFormat::Base62, _) => Box::new(each(|uid| *uid.base62().as_bytes())),
        (OutputFormat::Base32, _) => Box::new(each(|uid| *uid.base32().as_bytes())),
        (OutputFormat::Json, Some(layout)) => {
            let mut fields = Fields::new(layout);
            Box::new(move |text, uids| uids.iter().try_for_each(|uid| fields.append(text, *uid)))
        }
        (OutputFormat::Json, None) => {
            return Err(Failure::Usage(
                "--format json shows the fields of uids; the ids of segments have none".into(),
            ));
        }
    })
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

/// Most uids differ from the one before in their last two digits only. These are written over a copy of
/// its line, not into the line itself: a processor would wait for them before it copies that again.
fn decimal(text: &mut Vec<u8>, uids: &[Uid]) -> Result<(), Failure> {
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
    Ok(())
}

fn each<const N: usize>(
    form: impl Fn(Uid) -> [u8; N],
) -> impl Fn(&mut Vec<u8>, &[Uid]) -> Result<(), Failure> {
    move |text, uids| {
        for uid in uids {
            text.extend_from_slice(&form(*uid));
            text.push(b'\n');
        }
        Ok(())
    }
}

/// Shows uids with their fields as JSON.
pub struct Fields {
    layout: ResolvedLayout,
    /// The last time with its text: many uids in a row have the same.
    time: (Timestamp, String),
}

impl Fields {
    pub fn new(layout: ResolvedLayout) -> Self {
        let time = Timestamp::default();
        Self { layout, time: (time, time.to_string()) }
    }

    /// Appends a line; fails if the uid is not of the layout.
    pub fn append(&mut self, text: &mut Vec<u8>, uid: Uid) -> Result<(), Failure> {
        let fields = self.layout.layout.decode(uid)?;
        if fields.timestamp != self.time.0 {
            self.time = (fields.timestamp, fields.timestamp.to_string());
        }
        let number = json!((uid.get() <= JAVASCRIPT_MAX).then_some(uid.get()));
        write!(text, r#"{{"uid":{number},"uid_str":"{uid}","timestamp":"{}","#, self.time.1)?;
        let mut worker_id = fields.worker_id;
        if self.layout.has_datacenters {
            let node = SnowflakeNode::from_worker_id(worker_id)?;
            write!(text, r#""datacenter_id":{},"#, node.datacenter_id)?;
            worker_id = node.worker_id;
        }
        writeln!(text, r#""worker_id":{worker_id},"sequence":{}}}"#, fields.sequence)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
