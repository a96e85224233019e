//! Ids as text, or in binary, piece by piece.

use hyper::body::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use uidring::Uid;

use super::kind;

/// Bytes that are written at once.
pub const PIECE: usize = 32 * 1024;

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
    ids: Vec<u64>,
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
        ids: Vec<u64>,
        room: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let digits = || ids.iter().map(|id| u64::from(id.checked_ilog10().unwrap_or(0)) + 1);
        let (count, mut head) = (ids.len() as u64, Vec::new());
        let left = match format {
            Format::Text => digits().sum::<u64>() + count,
            Format::Ndjson => digits().sum::<u64>() + 3 * count,
            Format::Binary => 8 * count,
            Format::Hex => 19 * count,
            Format::Base62 => 12 * count,
            Format::Base32 => 14 * count,
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
        // The longest id has 20 digits, and three more bytes around it.
        let end = self.ids.len().min(self.done + PIECE / 23);
        piece.reserve(PIECE.min(usize::try_from(self.left).unwrap_or(PIECE)));
        let mut digits = itoa::Buffer::new();
        for (index, id) in self.ids.iter().enumerate().take(end).skip(self.done) {
            let quote: &[u8] = match self.format {
                Format::Binary => {
                    piece.extend_from_slice(&id.to_le_bytes());
                    continue;
                }
                Format::Hex => {
                    line(&mut piece, &uid(*id).hex());
                    continue;
                }
                Format::Base62 => {
                    line(&mut piece, &uid(*id).base62());
                    continue;
                }
                Format::Base32 => {
                    line(&mut piece, &uid(*id).base32());
                    continue;
                }
                Format::Text => b"",
                Format::Json | Format::Ndjson => b"\"",
            };
            if self.format == Format::Json && index > 0 {
                piece.push(b',');
            }
            piece.extend_from_slice(quote);
            piece.extend_from_slice(digits.format(*id).as_bytes());
            piece.extend_from_slice(quote);
            if self.format != Format::Json {
                piece.push(b'\n');
            }
        }
        self.done = end;
        if self.format == Format::Json && end == self.ids.len() {
            piece.extend_from_slice(b"]}\n");
        }
        self.left = self.left.saturating_sub(piece.len() as u64);
        Some(piece.into())
    }
}

/// All ids have 63 bits.
fn uid(id: u64) -> Uid {
    Uid::new(id).unwrap_or(Uid::MAX)
}

fn line(piece: &mut Vec<u8>, text: &str) {
    piece.extend_from_slice(text.as_bytes());
    piece.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_is_known_before_the_text() {
        let ids = [0, 1, 9, 10, 99, 100, 12_345_678_901, u64::MAX >> 1];
        for format in [
            Format::Text,
            Format::Hex,
            Format::Base62,
            Format::Base32,
            Format::Json,
            Format::Ndjson,
            Format::Binary,
        ] {
            for count in [1, 2, 8, PIECE / 23, PIECE / 23 + 1, 10_000] {
                let ids: Vec<u64> = ids.iter().cycle().copied().take(count).collect();
                let mut text = IdsText::new("a \"name\"\n", format, ids.clone(), None);
                let (length, mut all) = (text.left(), Vec::new());
                while let Some(piece) = text.next() {
                    assert!(piece.len() <= PIECE + 64, "{}", piece.len());
                    all.extend_from_slice(&piece);
                }
                assert_eq!((all.len() as u64, text.left()), (length, 0), "{format:?} {count}");
                let read: Vec<u64> = match format {
                    Format::Binary => {
                        let id = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes);
                        all.chunks(8).map(|bytes| id(bytes).expect("eight")).collect()
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
                        text.lines().map(|line| read(line).expect("an id").get()).collect()
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
