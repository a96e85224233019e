//! Layouts in URLs.

use uidring::{Bits, Layout, Tick};

/// How to write a layout.
pub const FORM: &str = "`uid`, `uid-long`, `snowflake`, `leaf` or `javascript-safe`; the widths of time, worker and sequence in \
                        bits, as in `31/10/22`; or widths, tick and epoch, as in `41/10/12/ms/2020-01-01`";

/// The most time bits of a layout without a tick. As seconds, they last 2,177 years.
const MOST_SECONDS: u8 = 36;

/// Reads a layout. Widths alone count seconds since 2026. No error repeats the text.
pub fn read(text: &str) -> Result<Layout, String> {
    match text {
        "uid" => return Ok(Layout::UID_GENERATOR),
        "uid-long" => return Ok(Layout::UID_GENERATOR_LONG),
        "snowflake" | "leaf" => return Ok(Layout::SNOWFLAKE),
        "javascript-safe" => return Ok(Layout::JAVASCRIPT_SAFE),
        _ => {}
    }
    let wrong = || format!("write {FORM}");
    let (bits, rest) = match text.match_indices('/').nth(2) {
        Some((end, _)) => (&text[..end], Some(&text[end + 1..])),
        None => (text, None),
    };
    let bits: Bits = bits.parse().map_err(|_| wrong())?;
    let (tick, epoch) = match rest {
        Some(rest) => {
            let (tick, epoch) = rest.split_once('/').ok_or_else(wrong)?;
            (tick.parse().map_err(|_| wrong())?, epoch.parse().map_err(|_| wrong())?)
        }
        None if bits.time > MOST_SECONDS => {
            Layout::new(bits, Tick::Millisecond, Layout::UID_GENERATOR.epoch())
                .map_err(|error| error.to_string())?;
            return Err(format!(
                "with {} bits of time, say what they count: write {bits}/ms/2026-01-01 for milliseconds since 2026",
                bits.time
            ));
        }
        None => (Tick::Second, Layout::UID_GENERATOR.epoch()),
    };
    Layout::new(bits, tick, epoch).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_have_names_widths_or_all_of_it() {
        for (text, shown) in [
            ("uid", "28/22/13 in s since 2026-01-01T00:00:00Z"),
            ("snowflake", "41/10/12 in ms since 2010-11-04T01:42:54.657Z"),
            ("leaf", "41/10/12 in ms since 2010-11-04T01:42:54.657Z"),
            ("31/10/22", "31/10/22 in s since 2026-01-01T00:00:00Z"),
            ("41/10/12/ms/2020-01-01", "41/10/12 in ms since 2020-01-01T00:00:00Z"),
            ("30/10/12/s/2020-01-01T02:00:00+02:00", "30/10/12 in s since 2020-01-01T00:00:00Z"),
        ] {
            assert_eq!(read(text).expect(text).to_string(), shown);
        }
        for (text, problem) in [
            ("", "write `uid`"),
            ("s3cret", "write `uid`"),
            ("31/10", "write `uid`"),
            ("31/10/22/ms", "write `uid`"),
            ("31/10/22/s3cret/2020-01-01", "write `uid`"),
            ("31/10/22/s/s3cret", "write `uid`"),
            ("31/10/22/s/2020-01-01/7", "write `uid`"),
            ("31/10/23", "at most 63"),
            ("255/255/255", "at most 63"),
            ("62/1/0", "each field needs 1 bit"),
            ("41/10/12", "write 41/10/12/ms/2026-01-01"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(problem) && !error.contains("s3cret"), "{text}: {error}");
        }
    }
}
