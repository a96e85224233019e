//! Ids as text, or in binary.

use uidring::Uid;

use super::answer;

/// The length of the longest id: 19 digits, two quotes and a comma.
const LONGEST: usize = 22;

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
            Self::Text | Self::Hex | Self::Base62 | Self::Base32 => answer::TEXT,
            Self::Json => answer::JSON,
            Self::Ndjson => "application/x-ndjson",
            Self::Binary => "application/octet-stream",
        }
    }
}

/// Writes all ids. The server's budget of ids bounds the memory.
pub fn text(name: &str, format: Format, ids: &[u64]) -> Vec<u8> {
    let (before, between, after) = match format {
        Format::Json => ("\"", "\",\"", "\"]}\n"),
        Format::Ndjson => ("\"", "\"\n\"", "\"\n"),
        Format::Binary => ("", "", ""),
        Format::Text | Format::Hex | Format::Base62 | Format::Base32 => ("", "\n", "\n"),
    };
    let mut text = Vec::with_capacity(LONGEST * ids.len() + name.len() + 32);
    if format == Format::Json {
        let name = serde_json::Value::from(name);
        text.extend_from_slice(format!("{{\"name\":{name},\"ids\":[").as_bytes());
    }
    let mut digits = itoa::Buffer::new();
    for (index, id) in ids.iter().enumerate() {
        text.extend_from_slice(if index == 0 { before } else { between }.as_bytes());
        // Segments' ids have 63 bits, too: they are below the table's `max_id`, an `i64`.
        let uid = || Uid::new(*id).expect("an id has 63 bits");
        match format {
            Format::Binary => text.extend_from_slice(&id.to_le_bytes()),
            Format::Hex => text.extend_from_slice(uid().hex().as_bytes()),
            Format::Base62 => text.extend_from_slice(uid().base62().as_bytes()),
            Format::Base32 => text.extend_from_slice(uid().base32().as_bytes()),
            Format::Text | Format::Json | Format::Ndjson => {
                text.extend_from_slice(digits.format(*id).as_bytes());
            }
        }
    }
    text.extend_from_slice(after.as_bytes());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_every_format() {
        let max = u64::MAX >> 1;
        for (format, wanted) in [
            (Format::Text, "0\n9223372036854775807\n"),
            (Format::Hex, "0x0000000000000000\n0x7fffffffffffffff\n"),
            (Format::Base62, "00000000000\nAzL8n0Y58m7\n"),
            (Format::Base32, "0000000000000\n7ZZZZZZZZZZZZ\n"),
            (Format::Json, "{\"name\":\"a \\\"b\\\"\",\"ids\":[\"0\",\"9223372036854775807\"]}\n"),
            (Format::Ndjson, "\"0\"\n\"9223372036854775807\"\n"),
        ] {
            let text = text("a \"b\"", format, &[0, max]);
            assert_eq!(String::from_utf8(text).as_deref(), Ok(wanted), "{format:?}");
        }
        assert_eq!(
            text("a", Format::Binary, &[1, max]),
            [1_u64, max].map(u64::to_le_bytes).concat()
        );
    }
}
