//! The text forms of a uid.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use super::Uid;
use crate::chain::{Chain, error_traits};

/// Base62 digits in the order of their character codes, so that texts sort like numbers.
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Crockford's digits: no I, L, O, U.
const BASE32: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

const HEX: &[u8; 16] = b"0123456789abcdef";

/// A uid as a text of `N` characters, without heap allocation. It derefs to `str`, compares with texts, and converts
/// into a `String`.
///
/// ```
/// use uidring::Uid;
///
/// let uid = Uid::new(62).expect("a small number");
/// assert_eq!(uid.base62(), "00000000010");
/// let owned: String = uid.base62().into();
/// assert_eq!(owned, uid.base62());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UidText<const N: usize>([u8; N]);

impl<const N: usize> UidText<N> {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        // All bytes come from the tables above, which are ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Returns the bytes of the text, all ASCII.
    pub fn as_bytes(&self) -> &[u8; N] {
        &self.0
    }

    /// Writes `number` with leading zeros, from position `start` to the end.
    // A constant base divides by multiplication.
    #[inline]
    fn encode<const BASE: usize>(start: usize, mut number: u64, digits: &[u8; BASE]) -> Self {
        let mut text = [b'0'; N];
        let base = BASE as u64;
        for digit in text[start..].iter_mut().rev() {
            *digit = digits[(number % base) as usize];
            number /= base;
        }
        debug_assert_eq!(number, 0, "{N} digits hold every uid");
        Self(text)
    }
}

impl<const N: usize> Deref for UidText<N> {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl<const N: usize> AsRef<str> for UidText<N> {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl<const N: usize> AsRef<[u8]> for UidText<N> {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl<const N: usize> From<UidText<N>> for String {
    fn from(text: UidText<N>) -> Self {
        text.as_str().to_owned()
    }
}

impl<const N: usize> PartialEq<str> for UidText<N> {
    fn eq(&self, text: &str) -> bool {
        self.as_str() == text
    }
}

impl<const N: usize> PartialEq<&str> for UidText<N> {
    fn eq(&self, text: &&str) -> bool {
        self.as_str() == *text
    }
}

impl<const N: usize> PartialEq<UidText<N>> for String {
    fn eq(&self, text: &UidText<N>) -> bool {
        self == text.as_str()
    }
}

impl<const N: usize> fmt::Display for UidText<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl<const N: usize> fmt::Debug for UidText<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl Uid {
    /// Returns `0x` and 16 lower-case hex digits.
    #[inline]
    pub fn hex(self) -> UidText<18> {
        let mut text = UidText::encode(2, self.get(), HEX);
        text.0[1] = b'x';
        text
    }

    /// Returns base62: 11 characters of `0-9A-Za-z`, which sort like the numbers.
    #[inline]
    pub fn base62(self) -> UidText<11> {
        UidText::encode(0, self.get(), BASE62)
    }

    /// Returns Crockford's base32: 13 characters without I, L, O and U, which sort like the numbers.
    #[inline]
    pub fn base32(self) -> UidText<13> {
        UidText::encode(0, self.get(), BASE32)
    }

    /// Parses hex digits of either case, with or without a leading `0x`.
    ///
    /// # Errors
    ///
    /// For empty text, a wrong character (with its place), and numbers above [`Uid::MAX`].
    pub fn from_hex(text: &str) -> Result<Self, ParseUidError> {
        let prefix = if text.starts_with("0x") || text.starts_with("0X") { 2 } else { 0 };
        decode(text, prefix, 16, |c| c.to_digit(16))
    }

    /// Parses base62 of any length.
    ///
    /// # Errors
    ///
    /// For empty text, a character outside `0-9A-Za-z` (with its place), and numbers above [`Uid::MAX`].
    pub fn from_base62(text: &str) -> Result<Self, ParseUidError> {
        decode(text, 0, 62, |c| match c {
            '0'..='9' => Some(c as u32 - '0' as u32),
            'A'..='Z' => Some(c as u32 - 'A' as u32 + 10),
            'a'..='z' => Some(c as u32 - 'a' as u32 + 36),
            _ => None,
        })
    }

    /// Parses Crockford's base32 of any length and either case. By Crockford's rules, `i` and `l` stand for 1, and `o`
    /// for 0.
    ///
    /// # Errors
    ///
    /// For empty text, a character that is no digit (with its place), and numbers above [`Uid::MAX`].
    pub fn from_base32(text: &str) -> Result<Self, ParseUidError> {
        decode(text, 0, 32, |c| match c.to_ascii_uppercase() {
            'I' | 'L' => Some(1),
            'O' => Some(0),
            upper => (0..32).find(|&value| char::from(BASE32[value as usize]) == upper),
        })
    }
}

/// Parses decimal, or hex after `0x`. No sign, spaces or separators.
impl FromStr for Uid {
    type Err = ParseUidError;

    fn from_str(text: &str) -> Result<Self, ParseUidError> {
        if text.starts_with("0x") || text.starts_with("0X") {
            Self::from_hex(text)
        } else {
            decode(text, 0, 10, |c| c.to_digit(10))
        }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.get(), f)
    }
}

/// Formats the number. `{:#018x}` prints the same as [`hex`](Uid::hex).
impl fmt::LowerHex for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.get(), f)
    }
}

/// Formats the number.
impl fmt::UpperHex for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::UpperHex::fmt(&self.get(), f)
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uid({})", self.get())
    }
}

/// Why a text is no uid.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseUidError {
    /// There are no digits.
    #[error("a uid cannot be empty: give at least one digit")]
    Empty,
    /// A character is no digit of this form.
    #[error("{character:?} at character {place} is not a digit of base {base}")]
    BadCharacter {
        /// The character.
        character: char,
        /// Its place in the text, in characters from 1.
        place: usize,
        /// The base.
        base: u32,
    },
    /// The number is above [`Uid::MAX`].
    #[error(
        "the digit {character:?} at character {place} makes the number too great: \
         the greatest uid is 9223372036854775807"
    )]
    Overflow {
        /// The first digit that is too much.
        character: char,
        /// Its place in the text, in characters from 1.
        place: usize,
    },
}

error_traits!(ParseUidError);

fn decode(
    text: &str,
    prefix: usize,
    base: u32,
    digit: impl Fn(char) -> Option<u32>,
) -> Result<Uid, ParseUidError> {
    let mut number = None;
    for (index, character) in text.chars().enumerate().skip(prefix) {
        let place = index + 1;
        let Some(value) = digit(character) else {
            return Err(ParseUidError::BadCharacter { character, place, base });
        };
        let next = number
            .map_or(Some(0), |n: u64| n.checked_mul(base.into()))
            .and_then(|n| n.checked_add(value.into()))
            .filter(|&n| n <= Uid::MAX.get());
        if next.is_none() {
            return Err(ParseUidError::Overflow { character, place });
        }
        number = next;
    }
    number.and_then(Uid::new).ok_or(ParseUidError::Empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_is_written_as_a_numbers_is() {
        let uid = Uid::new(255).expect("63 bits");
        assert_eq!(format!("{uid:x} {uid:#018X}"), "ff 0x00000000000000FF");
    }

    #[test]
    fn a_text_is_used_as_one() {
        let text = Uid::MAX.base62();
        let takes = |text: &dyn AsRef<str>| text.as_ref().len();
        assert_eq!(takes(&text), 11);
        assert_eq!(AsRef::<[u8]>::as_ref(&text), b"AzL8n0Y58m7");
        assert!(text == "AzL8n0Y58m7" && text == *"AzL8n0Y58m7" && text != "AzL8n0Y58m8");
        let owned: String = text.into();
        assert!(owned == text);
    }
}
