//! Ids as text, or in binary, piece by piece.

use hyper::body::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use uidring::Uid;

use super::kind;

/// Bytes that are written at once.
pub const PIECE: usize = 32 * 1024;

/// Ids in a piece. The longest has 19 digits, two quotes and a comma.
const IDS: usize = PIECE / 22;

/// How ids are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    Hex,
    Base62,
    Base32,
    Json,
    Ndjson,
    Binary,
}

impl Format {
    pub fn kind(self) -> &'static str {
        match self {
            Self::Text | Self::Hex | Self::Base62 | Self::Base32 => kind::TEXT,
            Self::Json => kind::JSON,
            Self::Ndjson => kind::NDJSON,
            Self::Binary => kind::BINARY,
        }
    }
}

/// Ids, which become text piece by piece as the client reads.
pub struct IdsText {
    ids: Vec<Uid>,
    done: usize,
    format: Format,
    /// What is before the ids; nothing, once it is written.
    head: Vec<u8>,
    /// Bytes that are not written.
    left: u64,
    _room: Option<OwnedSemaphorePermit>,
}

impl IdsText {
    /// `room` is given back when all bytes are.
    pub fn new(
        name: &str,
        format: Format,
        ids: Vec<Uid>,
        room: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let digits = || ids.iter().map(|id| u64::from(id.get().checked_ilog10().unwrap_or(0)) + 1);
        let lines_of = |text: &str| (text.len() as u64 + 1) * ids.len() as u64;
        let (count, mut head) = (ids.len() as u64, Vec::new());
        let left = match format {
            Format::Text => digits().sum::<u64>() + count,
            Format::Ndjson => digits().sum::<u64>() + 3 * count,
            Format::Binary => 8 * count,
            Format::Hex => lines_of(&Uid::MAX.hex()),
            Format::Base62 => lines_of(&Uid::MAX.base62()),
            Format::Base32 => lines_of(&Uid::MAX.base32()),
            Format::Json => {
                let name = serde_json::Value::from(name);
                head = format!("{{\"name\":{name},\"ids\":[").into_bytes();
                // Commas between them, and what ends the object.
                head.len() as u64 + digits().sum::<u64>() + 3 * count - 1 + 3
            }
        };
        Self { ids, done: 0, format, head, left, _room: room }
    }

    /// Bytes to come.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next piece.
    pub fn next(&mut self) -> Option<Bytes> {
        if self.left == 0 {
            return None;
        }
        let mut piece = std::mem::take(&mut self.head);
        let end = self.ids.len().min(self.done + IDS);
        piece.reserve(PIECE.min(usize::try_from(self.left).unwrap_or(PIECE)));
        let mut digits = itoa::Buffer::new();
        for (index, id) in self.ids.iter().enumerate().take(end).skip(self.done) {
            let (before, after): (&[u8], &[u8]) = match self.format {
                Format::Json if index == 0 => (b"\"", b"\""),
                Format::Json => (b",\"", b"\""),
                Format::Ndjson => (b"\"", b"\"\n"),
                Format::Binary => (b"", b""),
                Format::Text | Format::Hex | Format::Base62 | Format::Base32 => (b"", b"\n"),
            };
            piece.extend_from_slice(before);
            match self.format {
                Format::Binary => piece.extend_from_slice(&id.get().to_le_bytes()),
                Format::Hex => piece.extend_from_slice(id.hex().as_bytes()),
                Format::Base62 => piece.extend_from_slice(id.base62().as_bytes()),
                Format::Base32 => piece.extend_from_slice(id.base32().as_bytes()),
                Format::Text | Format::Json | Format::Ndjson => {
                    piece.extend_from_slice(digits.format(id.get()).as_bytes());
                }
            }
            piece.extend_from_slice(after);
        }
        self.done = end;
        if self.format == Format::Json && end == self.ids.len() {
            piece.extend_from_slice(b"]}\n");
        }
        self.left = self.left.saturating_sub(piece.len() as u64);
        Some(piece.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_is_known_before_the_text() {
        let ids = [0, 1, 9, 10, 99, 100, 12_345_678_901, u64::MAX >> 1];
        let ids = ids.map(|id| Uid::new(id).expect("63 bits"));
        for format in [
            Format::Text,
            Format::Hex,
            Format::Base62,
            Format::Base32,
            Format::Json,
            Format::Ndjson,
            Format::Binary,
        ] {
            for count in [1, 2, 8, IDS, IDS + 1, 10_000] {
                let ids: Vec<Uid> = ids.iter().cycle().copied().take(count).collect();
                let mut text = IdsText::new("a \"name\"\n", format, ids.clone(), None);
                let (length, mut all) = (text.left(), Vec::new());
                while let Some(piece) = text.next() {
                    assert!(piece.len() <= PIECE + 64, "{}", piece.len());
                    all.extend_from_slice(&piece);
                }
                assert_eq!((all.len() as u64, text.left()), (length, 0), "{format:?} {count}");
                let read: Vec<Uid> = match format {
                    Format::Binary => {
                        let id = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes);
                        let id = |bytes| Uid::new(id(bytes).expect("eight")).expect("63 bits");
                        all.chunks(8).map(id).collect()
                    }
                    Format::Json => {
                        let value: serde_json::Value = serde_json::from_slice(&all).expect("JSON");
                        assert_eq!(value["name"], "a \"name\"\n");
                        let ids = value["ids"].as_array().expect("a list").iter();
                        ids.map(|id| id.as_str().expect("a string").parse().expect("id")).collect()
                    }
                    Format::Hex | Format::Base62 | Format::Base32 => {
                        let read = match format {
                            Format::Hex => Uid::from_hex,
                            Format::Base62 => Uid::from_base62,
                            _ => Uid::from_base32,
                        };
                        let text = String::from_utf8(all).expect("text");
                        text.lines().map(|line| read(line).expect("an id")).collect()
                    }
                    Format::Text | Format::Ndjson => {
                        let text = String::from_utf8(all).expect("text");
                        text.lines().map(|id| id.trim_matches('"').parse().expect("id")).collect()
                    }
                };
                assert_eq!(read, ids);
            }
        }
    }
}
