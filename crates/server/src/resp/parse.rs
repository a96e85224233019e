//! Requests: arrays of bulk strings, or lines of words.

use std::ops::Range;

/// The greatest number of words, more than any command has.
const MAX_WORDS: usize = 1024;

/// The positions of a request's words.
#[derive(Debug, Default)]
pub struct Args(Vec<Range<u32>>);

impl Args {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn get<'a>(&self, request: &'a [u8], index: usize) -> Option<&'a [u8]> {
        let Range { start, end } = self.0.get(index)?;
        Some(&request[*start as usize..*end as usize])
    }

    fn push(&mut self, range: Range<usize>) {
        // Requests are shorter than a chunk.
        self.0.push(range.start as u32..range.end as u32);
    }
}

/// Finds the request at the front, and its words. Returns its length, or `None` if it is incomplete. An empty request
/// has no words.
pub fn request(bytes: &[u8], args: &mut Args) -> Result<Option<usize>, &'static str> {
    args.0.clear();
    if bytes.first() != Some(&b'*') {
        return line_of_words(bytes, args);
    }
    let Some((count, mut at)) = number(bytes, 1, "invalid multibulk length")? else {
        return Ok(None);
    };
    if count > MAX_WORDS {
        return Err("invalid multibulk length");
    }
    for _ in 0..count {
        match bytes.get(at) {
            None => return Ok(None),
            Some(b'$') => {}
            Some(_) => return Err("expected '$' before a word's length"),
        }
        let Some((length, start)) = number(bytes, at + 1, "invalid bulk length")? else {
            return Ok(None);
        };
        let end = start + length;
        match bytes.get(end..end + 2) {
            None => return Ok(None),
            Some(b"\r\n") => {}
            Some(_) => return Err("a word is longer than its length says"),
        }
        args.push(start..end);
        at = end + 2;
    }
    Ok(Some(at))
}

/// Reads a decimal number up to the end of its line, and returns it with the start of the next line; `None` if that has
/// not come.
fn number(
    bytes: &[u8],
    start: usize,
    error: &'static str,
) -> Result<Option<(usize, usize)>, &'static str> {
    let mut number = 0;
    let mut at = start;
    loop {
        match bytes.get(at) {
            Some(digit @ b'0'..=b'9') => number = number * 10 + usize::from(digit - b'0'),
            Some(b'\r') if at > start => break,
            Some(_) => return Err(error),
            None => return Ok(None),
        }
        // Nine digits exceed all limits.
        if at - start >= 8 {
            return Err(error);
        }
        at += 1;
    }
    match bytes.get(at + 1) {
        Some(b'\n') => Ok(Some((number, at + 2))),
        Some(_) => Err(error),
        None => Ok(None),
    }
}

/// Reads words between spaces, as typed into a terminal.
fn line_of_words(bytes: &[u8], args: &mut Args) -> Result<Option<usize>, &'static str> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    if line.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
        return Err("a line of words has no control characters");
    }
    let mut start = 0;
    for word in line.split(|byte| matches!(byte, b' ' | b'\t')) {
        if !word.is_empty() {
            if args.len() == MAX_WORDS {
                return Err("too many words");
            }
            args.push(start..start + word.len());
        }
        start += word.len() + 1;
    }
    Ok(Some(end + 1))
}
