//! Text forms of layouts, widths and ticks.

use std::fmt;
use std::str::FromStr;

use super::{Bits, Layout, Tick};
use crate::error::Error;

/// `s` or `ms`.
impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Second => "s",
            Self::Millisecond => "ms",
        })
    }
}

/// Reads `s` or `ms`.
impl FromStr for Tick {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "s" => Ok(Self::Second),
            "ms" => Ok(Self::Millisecond),
            _ => Err(Error::InvalidLayout {
                text: text.into(),
                what: "tick",
                form: "s for seconds or ms for milliseconds",
            }),
        }
    }
}

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.time, self.worker, self.sequence)
    }
}

impl FromStr for Bits {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        // `parse` alone would accept a plus sign.
        let digits = |field: &str| {
            field.bytes().all(|byte| byte.is_ascii_digit()).then(|| field.parse().ok()).flatten()
        };
        let mut fields = text.split('/').map(digits);
        match (fields.next(), fields.next(), fields.next(), fields.next()) {
            (Some(Some(time)), Some(Some(worker)), Some(Some(sequence)), None) => {
                Ok(Self { time, worker, sequence })
            }
            _ => Err(Error::InvalidLayout {
                text: text.into(),
                what: "layout",
                form: "TIME/WORKER/SEQUENCE in bits, as in 28/22/13, with 1 bit or more for each field and at \
                       most 63 in all",
            }),
        }
    }
}

/// As in `28/22/13 in s since 2026-01-01T00:00:00Z`.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {} since {}", self.bits, self.tick, self.epoch)
    }
}

/// Parses what it prints. The epoch may also be a date, as in `41/10/12 in ms since 2026-01-01`.
///
/// ```
/// use uidring::Layout;
///
/// let layout: Layout = "28/22/13 in s since 2026-01-01".parse()?;
/// assert_eq!(layout, Layout::UID_GENERATOR);
/// assert!("28/22/13".parse::<Layout>().is_err(), "tick and epoch are missing");
/// # Ok::<(), uidring::Error>(())
/// ```
impl FromStr for Layout {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parts = text.split_once(" in ").and_then(|(bits, rest)| {
            let (tick, epoch) = rest.split_once(" since ")?;
            Some((bits, tick, epoch))
        });
        let (bits, tick, epoch) = parts.ok_or_else(|| Error::InvalidLayout {
            text: text.into(),
            what: "layout",
            form: "widths, tick and epoch, as in 28/22/13 in s since 2026-01-01",
        })?;
        Self::new(bits.parse()?, tick.parse()?, epoch.parse()?)
    }
}

#[cfg(feature = "serde")]
mod serde_forms {
    use super::{Bits, Layout, Tick};
    use crate::serde_forms::as_text;

    as_text!(Layout, "a layout, such as `28/22/13 in s since 2026-01-01`");
    as_text!(Bits, "widths in bits, such as `28/22/13`");
    as_text!(Tick, "a tick, `s` or `ms`");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_layout_is_refused_with_what_is_wrong() {
        let refused = |text: &str| text.parse::<Layout>().expect_err(text).to_string();
        for (text, word) in [
            ("", "is not a layout"),
            ("28/22/13", "is not a layout"),
            ("28/22/13 in s", "is not a layout"),
            ("28/22 in s since 2026-01-01", "`28/22` is not a layout"),
            ("28/22/14 in s since 2026-01-01", "at most 63"),
            ("28/22/13 in m since 2026-01-01", "`m` is not a tick"),
            ("28/22/13 in s since yesterday", "yesterday"),
            ("28/22/13 in s since 2026-01-01 ", "2026-01-01 "),
        ] {
            let error = refused(text);
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_layout_stands_in_a_configuration_as_its_text() {
        for layout in [
            Layout::UID_GENERATOR,
            Layout::UID_GENERATOR_LONG,
            Layout::SNOWFLAKE,
            Layout::JAVASCRIPT_SAFE,
        ] {
            let json = serde_json::to_string(&layout).expect("serializes");
            assert_eq!(json, format!("\"{layout}\""));
            assert_eq!(serde_json::from_str::<Layout>(&json).expect("reads"), layout);
        }
        assert!(serde_json::from_str::<Layout>("\"28/22/13\"").is_err());
        assert!(serde_json::from_str::<Layout>("5").is_err());
    }
}
