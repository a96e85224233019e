//! Values of flags, as people write them: `1e6`, `1_000_000`, `1M`; `250ms`, `30s`, `5m`.

use std::ops::RangeInclusive;
use std::time::Duration;

use jiff::{Span, SpanRelativeTo};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

/// Longer than anybody waits, and small enough for every database and clock.
pub const CENTURY: Duration = Duration::from_secs(36_500 * 86_400);

/// Reads a whole number in a range.
pub fn number<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = whole(text).filter(|number| range.contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
            let (min, max) = range.clone().into_inner();
            let forms = if max < 1_000_000 { "" } else { ", such as 10, 1_000, 1e6, 1M or 2G" };
            format!("write a whole number from {min} to {max}{forms}")
        })
    }
}

/// Reads a time in a range. A plain number is in seconds.
pub fn time(range: RangeInclusive<Duration>) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text| {
        parse_time(text, SECOND).filter(|time| range.contains(time)).ok_or_else(|| {
            let [min, max] = [range.start(), range.end()].map(|time| shown(*time));
            format!(
                "write a time from {min} to {max}, such as 30s or 5m; a plain number is in seconds"
            )
        })
    }
}

/// Reads a time of up to a century. A plain number is in days.
pub fn days(text: &str) -> Result<Duration, String> {
    parse_time(text, DAY).filter(|time| *time <= CENTURY).ok_or_else(|| {
        format!(
            "write a time from 0s to {}, such as 30d or 12h; a plain number is in days",
            shown(CENTURY)
        )
    })
}

/// Writes a time as these flags read it, in the largest unit that divides it.
pub fn shown(time: Duration) -> String {
    let millis = time.as_millis();
    for (unit, length) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
        if millis >= length && millis.is_multiple_of(length) {
            return format!("{}{unit}", millis / length);
        }
    }
    if millis == 0 { "0s".into() } else { format!("{millis}ms") }
}

/// Returns `None` if the text is not a whole number, or too large.
fn whole(text: &str) -> Option<u64> {
    let text = plain(text)?;
    let suffixes = [('k', 3), ('K', 3), ('M', 6), ('G', 9), ('T', 12)];
    let with_suffix = |(suffix, power)| Some((text.strip_suffix(suffix)?, power));
    let (text, power) = match text.split_once(['e', 'E']) {
        Some((number, power)) => (number, power.parse::<u32>().ok()?),
        None => suffixes.into_iter().find_map(with_suffix).unwrap_or((&*text, 0)),
    };
    let (digits, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if digits.is_empty() || !is_number(digits) || !is_number(fraction) {
        return None;
    }
    // The decimals must become whole at this power.
    let power = power.checked_sub(u32::try_from(fraction.len()).ok()?)?;
    let number: u64 = format!("{digits}{fraction}").parse().ok()?;
    number.checked_mul(10_u64.checked_pow(power)?)
}

/// Returns `None` if the text is not a time, or negative.
fn parse_time(text: &str, unit: Duration) -> Option<Duration> {
    let text = plain(text)?;
    // std also reads `inf` and `+5`, which are no times.
    if text.starts_with(|first: char| !first.is_ascii_digit() && first != '.') {
        return None;
    }
    if let Ok(number) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(number * unit.as_secs_f64()).ok();
    }
    let span: Span = text.parse().ok()?;
    span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?.try_into().ok()
}

/// Removes each `_` between digits; `None` if one is elsewhere.
fn plain(text: &str) -> Option<String> {
    let is_digit = |letter: char| letter.is_ascii_digit();
    let parts: Vec<_> = text.split('_').collect();
    let is_plain = parts
        .windows(2)
        .all(|parts| parts[0].ends_with(is_digit) && parts[1].starts_with(is_digit));
    is_plain.then(|| parts.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_write_them() {
        let read = number::<u64>(0..=u64::MAX);
        for (text, expected) in [
            ("0", 0),
            ("007", 7),
            ("1_000_000", 1_000_000),
            ("1e6", 1_000_000),
            ("1E3", 1_000),
            ("2.5e3", 2_500),
            ("1.50M", 1_500_000),
            ("3k", 3_000),
            ("3K", 3_000),
            ("2G", 2_000_000_000),
            ("1T", 1_000_000_000_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(read(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "-1",
            "+1",
            "1.5",
            "1e-3",
            "1e20",
            "1e99999999999",
            "18446744073709551616",
            "20000000T",
            "_1",
            "1_",
            "1__0",
            "1_M",
            ".5k",
            "M",
            "e6",
            "1 000",
            "0x10",
            "nan",
            "1MM",
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains("from 0 to 18446744073709551615"), "{error}");
        }
        assert_eq!(number::<u16>(1..=1_024)("1k"), Ok(1_000));
        assert!(number::<u16>(1..=1_024)("1025").is_err());
    }

    #[test]
    fn times_as_people_write_them() {
        let read = time(Duration::ZERO..=CENTURY);
        for (text, millis) in [
            ("0", 0),
            ("2", 2_000),
            ("0.5", 500),
            (".5", 500),
            ("1e3", 1_000_000),
            ("1_000", 1_000_000),
            ("250ms", 250),
            ("30s", 30_000),
            ("0.5s", 500),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("2 hours", 7_200_000),
            ("1d", 86_400_000),
            ("36500d", 3_153_600_000_000),
        ] {
            assert_eq!(read(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "-1", "-5s", "+5", "inf", "nan", "1e300", "36501d", "5 apples", "s", "1mo"]
        {
            let error = read(text).expect_err(text);
            assert!(error.contains("from 0s to 36500d"), "{error}");
        }
        assert_eq!(days("30"), Ok(30 * DAY));
        assert_eq!(days("12h"), Ok(DAY / 2));
        assert!(days("36501").is_err());
    }

    #[test]
    fn times_are_shown_as_they_are_read() {
        for text in ["0s", "1ms", "1500ms", "1s", "90s", "5m", "1h", "36500d"] {
            let read = time(Duration::ZERO..=CENTURY)(text).expect(text);
            assert_eq!(shown(read), text);
        }
    }
}
