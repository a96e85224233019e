//! Requests of the binary batch.

use crate::wire::Parsed;

/// The first byte of a request for ids.
const VERSION: u8 = 1;

/// The first byte of a password.
const PASSWORD: u8 = 0x80 | VERSION;

/// The length of what precedes the name.
const HEAD: usize = 8;

pub enum Request<'a> {
    /// A request for `count` ids of a name; an empty name means the default.
    Ids { name: &'a [u8], count: u32 },
    /// A password.
    Password(&'a [u8]),
}

/// Finds the request at the front. Does not judge a byte before all bytes in front of it have come.
pub fn request(bytes: &[u8]) -> Parsed<Request<'_>> {
    let Some(version) = bytes.first() else { return Ok(None) };
    if !matches!(*version, VERSION | PASSWORD) {
        return Err(format!(
            "a request begins with the byte {VERSION}, or {PASSWORD} for a password, and not with {version}"
        ));
    }
    let Some(&[_, name, low, high, ref count @ ..]) = bytes.first_chunk::<HEAD>() else {
        return Ok(None);
    };
    let reserved = u16::from_le_bytes([low, high]);
    if reserved != 0 {
        return Err(format!("bytes 2 and 3 of a request are 0, and not {reserved}"));
    }
    let count = u32::from_le_bytes(*count);
    if *version == PASSWORD && count != 0 {
        return Err(format!("bytes 4 to 7 are 0 with a password, and not {count}"));
    }
    let length = HEAD + usize::from(name);
    let Some(text) = bytes.get(HEAD..length) else { return Ok(None) };
    let request = match *version {
        VERSION => Request::Ids { name: text, count },
        _ => Request::Password(text),
    };
    Ok(Some((request, length)))
}
