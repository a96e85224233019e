//! Entry points to the parsers for fuzzing.
//!
//! Each asserts, besides not panicking, that a request is parsed the same whether its bytes come singly or at once, and
//! as soon as its last byte is there.

use std::fmt::Debug;

use crate::scratch::CHUNK;
use crate::thrift::message::{self, Front, Unreadable};
use crate::{batch, resp};

#[derive(Debug, PartialEq)]
enum Outcome<T> {
    Part,
    Request(T, usize),
    Malformed(String),
}

/// Redis's protocol.
pub fn resp(bytes: &[u8]) {
    use resp::parse::{Args, Parsed, request};
    each_request(bytes, |bytes| {
        let mut args = Args::default();
        match request(bytes, &mut args) {
            Ok(Parsed::Part) => Outcome::Part,
            Ok(Parsed::Request(length)) => {
                let words = (0..args.len()).map(|index| args.get(bytes, index).map(<[u8]>::to_vec));
                Outcome::Request(words.collect::<Vec<_>>(), length)
            }
            Err(error) => Outcome::Malformed(error.to_string()),
        }
    });
}

/// Thrift's framed messages.
pub fn thrift(bytes: &[u8]) {
    each_request(bytes, |bytes| match message::front(bytes, CHUNK - message::LENGTH) {
        Front::Part => Outcome::Part,
        Front::Frame { frame, length } => Outcome::Request(frame.to_vec(), length),
        Front::Bad(text) => Outcome::Malformed(text),
    });
    // The message reader only gets whole frames, so these bytes are one.
    match message::read(bytes) {
        Ok(call) => message::put_i64(&mut Vec::new(), &call.head, 1),
        Err(Unreadable::Call(head, error)) => message::put_error(&mut Vec::new(), &head, &error),
        Err(Unreadable::Head(_)) => {}
    }
}

/// The binary batch.
pub fn batch(bytes: &[u8]) {
    use batch::parse::{Parsed, request};
    each_request(bytes, |bytes| match request(bytes) {
        Ok(Parsed::Part) => Outcome::Part,
        Ok(Parsed::Ids { name, count, length }) => {
            Outcome::Request((name.to_vec(), Some(count)), length)
        }
        Ok(Parsed::Password { password, length }) => {
            Outcome::Request((password.to_vec(), None), length)
        }
        Err(error) => Outcome::Malformed(error.to_string()),
    });
}

fn each_request<T: Debug + PartialEq>(mut bytes: &[u8], parse: impl Fn(&[u8]) -> Outcome<T>) {
    while !bytes.is_empty() {
        let whole = parse(bytes);
        for end in 0..bytes.len() {
            let part = parse(&bytes[..end]);
            match (&part, &whole) {
                (Outcome::Part, Outcome::Request(_, length)) => {
                    assert!(end < *length, "late: {whole:?}")
                }
                (Outcome::Part, _) => {}
                _ => assert_eq!(part, whole, "after {end} of {} bytes", bytes.len()),
            }
        }
        let Outcome::Request(_, length) = whole else { return };
        assert!((1..=bytes.len()).contains(&length), "a request of {length} bytes");
        bytes = &bytes[length..];
    }
}
