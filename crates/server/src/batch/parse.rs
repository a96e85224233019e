//! Requests of the binary batch.

use std::fmt;

/// The first byte of a request for ids.
const VERSION: u8 = 1;

/// The first byte of a password.
const PASSWORD: u8 = 0x80 | VERSION;

/// The length of what precedes the name.
const HEAD: usize = 8;

#[derive(Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A request for `count` ids of a name; an empty name means the default.
    Ids { name: &'a [u8], count: u32, length: usize },
    /// A password.
    Password { password: &'a [u8], length: usize },
    /// Part of a request.
    Part,
}

/// Why the bytes are not a request and cannot become one.
#[derive(Debug, PartialEq, Eq)]
pub enum Malformed {
    Version(u8),
    Reserved(u16),
    PasswordCount(u32),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(
                f,
                "a request begins with the byte {VERSION}, or {PASSWORD} for a password, and not with \
                 {version}"
            ),
            Self::Reserved(reserved) => {
                write!(f, "bytes 2 and 3 of a request are 0, and not {reserved}")
            }
            Self::PasswordCount(count) => {
                write!(f, "bytes 4 to 7 are 0 with a password, and not {count}")
            }
        }
    }
}

/// Finds the request at the front. Does not judge a byte before all bytes in front of it have come.
pub fn request(bytes: &[u8]) -> Result<Parsed<'_>, Malformed> {
    let Some(version) = bytes.first() else { return Ok(Parsed::Part) };
    if !matches!(*version, VERSION | PASSWORD) {
        return Err(Malformed::Version(*version));
    }
    let Some(&[_, name, low, high, ref count @ ..]) = bytes.first_chunk::<HEAD>() else {
        return Ok(Parsed::Part);
    };
    let reserved = u16::from_le_bytes([low, high]);
    if reserved != 0 {
        return Err(Malformed::Reserved(reserved));
    }
    let count = u32::from_le_bytes(*count);
    if *version == PASSWORD && count != 0 {
        return Err(Malformed::PasswordCount(count));
    }
    let length = HEAD + usize::from(name);
    let Some(text) = bytes.get(HEAD..length) else { return Ok(Parsed::Part) };
    Ok(match *version {
        VERSION => Parsed::Ids { name: text, count, length },
        _ => Parsed::Password { password: text, length },
    })
}
