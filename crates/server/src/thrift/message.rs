//! Thrift's framed binary messages.
//!
//! Apache's library reads and writes them. It only gets whole frames. Strings are limited to the frame's size and
//! nesting to 64 fields, so memory and time are proportional to the frame.

use thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TFieldIdentifier, TInputProtocol,
    TMessageIdentifier, TMessageType, TOutputProtocol, TType,
};
use thrift::{ApplicationError, ApplicationErrorKind as Kind, TConfiguration};

/// The length of a frame's length.
pub const LENGTH: usize = 4;

/// The front of the bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Front<'a> {
    /// A frame. `length` includes the frame's length field.
    Frame { frame: &'a [u8], length: usize },
    /// Part of a frame.
    Part,
    /// Not a frame, or a frame that is too long.
    Bad(String),
}

/// Whether an answer is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Call,
    OneWay,
}

/// The head of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub name: String,
    pub style: Style,
    pub sequence_id: i32,
    /// Whether it begins with a version. Old clients send none.
    pub has_version: bool,
}

impl Head {
    /// The head of answers to messages without one.
    pub fn unknown() -> Self {
        Self { name: String::new(), style: Style::Call, sequence_id: 0, has_version: true }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Call {
    pub head: Head,
    /// The string with field id 1, which only `get_id` has.
    pub useragent: Option<String>,
}

/// Why a frame is not a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It has no readable head.
    Head(String),
    /// It has a head, but is otherwise wrong.
    Call(Head, ApplicationError),
}

pub fn front(bytes: &[u8], limit: usize) -> Front<'_> {
    let Some(length) = bytes.first_chunk::<LENGTH>() else { return Front::Part };
    let length = match i32::from_be_bytes(*length) {
        // A version, so a message without a frame.
        length if length as u32 >> 16 == 0x8001 => {
            let text = "this server speaks Thrift's framed transport; have the client use that";
            return Front::Bad(text.to_owned());
        }
        length if length < 0 || length as usize > limit => {
            return Front::Bad(format!("a frame has 0 to {limit} bytes, and not {length}"));
        }
        length => length as usize,
    };
    match bytes.get(LENGTH..LENGTH + length) {
        Some(frame) => Front::Frame { frame, length: LENGTH + length },
        None => Front::Part,
    }
}

/// Reads the call in a frame.
pub fn read(frame: &[u8]) -> Result<Call, Unreadable> {
    let limits = TConfiguration::builder()
        .max_string_size(Some(frame.len()))
        .max_container_size(Some(frame.len()))
        .build()
        .map_err(|error| Unreadable::Head(error.to_string()))?;
    let mut rest = frame;
    // Also accept heads without a version.
    let mut input = TBinaryInputProtocol::with_config(&mut rest, false, limits);
    let head = input.read_message_begin().map_err(|error| Unreadable::Head(text_of(&error)))?;
    let style = match head.message_type {
        TMessageType::Call => Some(Style::Call),
        TMessageType::OneWay => Some(Style::OneWay),
        TMessageType::Reply | TMessageType::Exception => None,
    };
    let has_version = frame.first().is_some_and(|first| first & 0x80 != 0);
    let fail =
        |head, kind, message| Err(Unreadable::Call(head, ApplicationError { kind, message }));
    let head = Head {
        name: head.name,
        style: style.unwrap_or(Style::Call),
        sequence_id: head.sequence_number,
        has_version,
    };
    if style.is_none() {
        let text = "a client sends calls, and no answers".to_owned();
        return fail(head, Kind::InvalidMessageType, text);
    }
    match read_arguments(&mut input) {
        Ok(_) if !rest.is_empty() => {
            let text = format!("{} bytes follow the call in its frame", rest.len());
            fail(head, Kind::ProtocolError, text)
        }
        Ok(useragent) => Ok(Call { head, useragent }),
        Err(error) => fail(head, Kind::ProtocolError, text_of(&error)),
    }
}

/// The display of the library's errors only names their kind.
fn text_of(error: &thrift::Error) -> String {
    match error {
        thrift::Error::Protocol(error) => error.message.clone(),
        thrift::Error::Transport(_) => "the frame ends amid the call".to_owned(),
        error => error.to_string(),
    }
}

/// Reads the string with field id 1, and skips the rest.
fn read_arguments(input: &mut impl TInputProtocol) -> thrift::Result<Option<String>> {
    let mut useragent = None;
    input.read_struct_begin()?;
    loop {
        let field = input.read_field_begin()?;
        match (field.field_type, field.id) {
            (TType::Stop, _) => break,
            (TType::String, Some(1)) => useragent = Some(input.read_string()?),
            (other, _) => input.skip(other)?,
        }
        input.read_field_end()?;
    }
    input.read_struct_end()?;
    input.read_message_end()?;
    Ok(useragent)
}

/// Writes the answer of a method that returns a number.
pub fn put_i64(out: &mut Vec<u8>, head: &Head, number: i64) {
    put(out, head, TMessageType::Reply, |output| {
        output.write_field_begin(&TFieldIdentifier::new("success", TType::I64, 0))?;
        output.write_i64(number)?;
        output.write_field_end()?;
        output.write_field_stop()
    });
}

pub fn put_error(out: &mut Vec<u8>, head: &Head, error: &ApplicationError) {
    put(out, head, TMessageType::Exception, |output| {
        thrift::Error::write_application_error_to_out_protocol(error, output)
    });
}

/// Writes a message in a frame.
fn put(
    out: &mut Vec<u8>,
    head: &Head,
    message_type: TMessageType,
    body: impl FnOnce(&mut dyn TOutputProtocol) -> thrift::Result<()>,
) {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH]);
    let identifier = TMessageIdentifier::new(&head.name, message_type, head.sequence_id);
    // Use the client's form: an old client would not understand versions.
    let mut output = TBinaryOutputProtocol::new(&mut *out, head.has_version);
    // Writing to a vector cannot fail.
    let _ = output.write_message_begin(&identifier).and_then(|()| body(&mut output));
    // The name and the text are limited, so the length fits.
    let length = (out.len() - start - LENGTH) as u32;
    out[start..start + LENGTH].copy_from_slice(&length.to_be_bytes());
}
