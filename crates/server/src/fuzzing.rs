//! Entry points to the parsers for fuzzing.
//!
//! Each asserts, besides not panicking, that a request is parsed the same whether its bytes come singly or at once, and
//! as soon as its last byte is there.

use std::fmt::Debug;

use crate::batch::parse::Request;
use crate::resp::parse::Args;
use crate::scratch::CHUNK;
use crate::thrift::message;
use crate::wire::Parsed;
use crate::{batch, resp};

/// Redis's protocol.
pub fn resp(bytes: &[u8]) {
    each_request(bytes, |bytes| {
        let mut args = Args::default();
        let length = resp::parse::request(bytes, &mut args).map_err(str::to_owned)?;
        let words = (0..args.len()).map(|index| args.get(bytes, index).map(<[u8]>::to_vec));
        Ok(length.map(|length| (words.collect::<Vec<_>>(), length)))
    });
}

/// Thrift's framed messages.
pub fn thrift(bytes: &[u8]) {
    each_request(bytes, |bytes| {
        let frame = message::front(bytes, CHUNK - message::LENGTH)?;
        Ok(frame.map(|(frame, length)| (frame.to_vec(), length)))
    });
    // The message reader only gets whole frames, so these bytes are one.
    match message::read(bytes) {
        Ok((head, Ok(_))) => message::put_i64(&mut Vec::new(), &head, 1),
        Ok((head, Err(error))) => message::put_error(&mut Vec::new(), &head, &error),
        Err(_) => {}
    }
}

/// The binary batch.
pub fn batch(bytes: &[u8]) {
    each_request(bytes, |bytes| {
        Ok(batch::parse::request(bytes)?.map(|(request, length)| match request {
            Request::Ids { name, count } => ((name.to_vec(), Some(count)), length),
            Request::Password(password) => ((password.to_vec(), None), length),
        }))
    });
}

fn each_request<T: Debug + PartialEq>(mut bytes: &[u8], parse: impl Fn(&[u8]) -> Parsed<T>) {
    while !bytes.is_empty() {
        let whole = parse(bytes);
        for end in 0..bytes.len() {
            let part = parse(&bytes[..end]);
            match (&part, &whole) {
                (Ok(None), Ok(Some((_, length)))) => assert!(end < *length, "late: {whole:?}"),
                (Ok(None), _) => {}
                _ => assert_eq!(part, whole, "after {end} of {} bytes", bytes.len()),
            }
        }
        let Ok(Some((_, length))) = whole else { return };
        assert!((1..=bytes.len()).contains(&length), "a request of {length} bytes");
        bytes = &bytes[length..];
    }
}
