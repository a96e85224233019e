//! Thrift's framed binary messages.
//!
//! Apache's library reads and writes them. It only gets whole frames. Strings are limited to the frame's size and
//! nesting to 64 fields, so memory and time are proportional to the frame.

use thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TFieldIdentifier, TInputProtocol,
    TMessageIdentifier, TMessageType, TOutputProtocol, TType,
};
use thrift::{ApplicationError, ApplicationErrorKind as Kind, TConfiguration};

use crate::wire::Parsed;

/// The length of a frame's length.
pub const LENGTH: usize = 4;

/// The head of a message.
pub struct Head {
    pub id: TMessageIdentifier,
    /// Whether it begins with a version. Old clients send none.
    has_version: bool,
}

impl Head {
    /// The head of answers to messages without one.
    pub fn unknown() -> Self {
        Self { id: TMessageIdentifier::new("", TMessageType::Call, 0), has_version: true }
    }
}

/// Finds the frame at the front.
pub fn front(bytes: &[u8], limit: usize) -> Parsed<&[u8]> {
    let Some(length) = bytes.first_chunk::<LENGTH>() else { return Ok(None) };
    let length = match i32::from_be_bytes(*length) {
        // A version, so a message without a frame.
        length if length as u32 >> 16 == 0x8001 => {
            return Err(
                "this server speaks Thrift's framed transport; have the client use that".into()
            );
        }
        length if length < 0 || length as usize > limit => {
            return Err(format!("a frame has 0 to {limit} bytes, and not {length}"));
        }
        length => length as usize,
    };
    let frame = bytes.get(LENGTH..LENGTH + length);
    Ok(frame.map(|frame| (frame, LENGTH + length)))
}

/// Reads the call in a frame: its head, and the string with field id 1, which only `get_id` has. Fails if the head
/// cannot be read.
pub fn read(frame: &[u8]) -> Result<(Head, Result<Option<String>, ApplicationError>), String> {
    let limits = TConfiguration::builder()
        .max_string_size(Some(frame.len()))
        .max_container_size(Some(frame.len()))
        .build()
        .map_err(|error| error.to_string())?;
    let mut rest = frame;
    // Also accept heads without a version.
    let mut input = TBinaryInputProtocol::with_config(&mut rest, false, limits);
    let id = input.read_message_begin().map_err(|error| text_of(&error))?;
    let has_version = frame.first().is_some_and(|first| first & 0x80 != 0);
    let fail = |kind, message| Err(ApplicationError { kind, message });
    let useragent = match id.message_type {
        TMessageType::Reply | TMessageType::Exception => {
            fail(Kind::InvalidMessageType, "a client sends calls, and no answers".to_owned())
        }
        TMessageType::Call | TMessageType::OneWay => match read_arguments(&mut input) {
            Ok(_) if !rest.is_empty() => {
                let text = format!("{} bytes follow the call in its frame", rest.len());
                fail(Kind::ProtocolError, text)
            }
            Ok(useragent) => Ok(useragent),
            Err(error) => fail(Kind::ProtocolError, text_of(&error)),
        },
    };
    Ok((Head { id, has_version }, useragent))
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
    let id = TMessageIdentifier::new(&head.id.name, message_type, head.id.sequence_number);
    // Use the client's form: an old client would not understand versions.
    let mut output = TBinaryOutputProtocol::new(&mut *out, head.has_version);
    // Writing to a vector cannot fail.
    let _ = output.write_message_begin(&id).and_then(|()| body(&mut output));
    // The name and the text are limited, so the length fits.
    let length = (out.len() - start - LENGTH) as u32;
    out[start..start + LENGTH].copy_from_slice(&length.to_be_bytes());
}
