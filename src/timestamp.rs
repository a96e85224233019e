//! Points in time.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::fmt::temporal::Pieces;

use crate::chain::{Chain, error_traits};

/// A point in time: milliseconds since 1970-01-01T00:00:00Z, without leap seconds.
///
/// It prints as RFC 3339 in UTC, with as many digits of a second as needed, or with a precision such as `{:.3}`. It
/// parses RFC 3339 with `Z` or an offset. A date, or a date and time without offset, is UTC, whatever the local time
/// zone.
///
/// ```
/// use uidring::Timestamp;
///
/// let epoch: Timestamp = "2026-01-01".parse()?;
/// assert_eq!(epoch, "2026-01-01T08:00:00+08:00".parse()?);
/// assert_eq!(epoch.to_string(), "2026-01-01T00:00:00Z");
/// # Ok::<(), uidring::ParseTimeError>(())
/// ```
///
/// It converts from and to [`SystemTime`] and, with the feature `jiff-0_2`, jiff's `Timestamp`. Fractions of a
/// millisecond are cut off. A time that does not fit in the other type is an error. A year before 0 or after 9999, in
/// UTC, prints and parses with a sign and at least six digits, as in `+010000-01-01T00:00:00Z`.
///
/// ```
/// use std::time::SystemTime;
/// use uidring::Timestamp;
///
/// let epoch: Timestamp = "2026-01-01".parse()?;
/// assert_eq!(Timestamp::from(SystemTime::try_from(epoch)?), epoch);
/// # Ok::<(), uidring::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// 0000-01-01T00:00:00Z and 9999-12-31T23:59:59.999Z, the limits of RFC 3339.
const FIRST_MILLI: i64 = -62_167_219_200_000;
const LAST_MILLI: i64 = 253_402_300_799_999;

const UNIX_CIVIL: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// The Gregorian calendar repeats after 400 years, of which 97 are leap years.
const CYCLE_MILLIS: i64 = (400 * 365 + 97) * 86_400_000;

impl Timestamp {
    /// Creates a time from milliseconds since 1970-01-01T00:00:00Z, negative before that.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Returns the milliseconds since 1970-01-01T00:00:00Z, negative before that.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Adds `duration`, cut to whole milliseconds. Stays at the end of the range rather than wrap.
    pub fn saturating_add(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(millis))
    }

    /// Returns the time from `earlier` to `self`, or zero if `earlier` is later.
    pub fn saturating_since(self, earlier: Self) -> Duration {
        let millis = i128::from(self.0) - i128::from(earlier.0);
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }

    /// Returns the date in UTC, as `2026-01-31`.
    pub fn date(self) -> impl fmt::Display {
        let text = self.to_string();
        let end = text.find('T').unwrap_or(text.len());
        text[..end].to_owned()
    }
}

/// Rounds down to the millisecond, and saturates at both ends of the range.
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let millis = |d: Duration| i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(millis(after)),
            Err(before) => Self(-millis(before.duration() + Duration::from_nanos(999_999))),
        }
    }
}

impl TryFrom<Timestamp> for SystemTime {
    type Error = TimeRangeError;

    fn try_from(time: Timestamp) -> Result<Self, TimeRangeError> {
        let distance = Duration::from_millis(time.0.unsigned_abs());
        let converted = if time.0 < 0 {
            UNIX_EPOCH.checked_sub(distance)
        } else {
            UNIX_EPOCH.checked_add(distance)
        };
        converted.ok_or(TimeRangeError { time, target: "the system's times" })
    }
}

/// Rounds down to the millisecond.
#[cfg(feature = "jiff-0_2")]
impl From<jiff::Timestamp> for Timestamp {
    fn from(time: jiff::Timestamp) -> Self {
        let nanos = time.as_nanosecond().div_euclid(1_000_000);
        // Its years have four digits.
        Self(i64::try_from(nanos).unwrap_or_default())
    }
}

#[cfg(feature = "jiff-0_2")]
impl TryFrom<Timestamp> for jiff::Timestamp {
    type Error = TimeRangeError;

    fn try_from(time: Timestamp) -> Result<Self, TimeRangeError> {
        Self::from_millisecond(time.0)
            .map_err(|_| TimeRangeError { time, target: "jiff's timestamps" })
    }
}

/// A time is out of the range of the target type.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{time} is out of the range of {target}")]
pub struct TimeRangeError {
    time: Timestamp,
    target: &'static str,
}

error_traits!(TimeRangeError);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The calendar library ends with the year 9999, but a layout may not. Print such a time by the same day of a
        // cycle that the library knows.
        let cycles = match self.0 {
            FIRST_MILLI..=LAST_MILLI => 0,
            after if after > 0 => (after - LAST_MILLI - 1) / CYCLE_MILLIS + 1,
            before => (before - FIRST_MILLI + 1) / CYCLE_MILLIS - 1,
        };
        let millis = self.0 - cycles * CYCLE_MILLIS;
        let civil =
            UNIX_CIVIL.checked_add(SignedDuration::from_millis(millis)).map_err(|_| fmt::Error)?;
        if cycles == 0 {
            return match f.precision() {
                Some(digits) => write!(f, "{civil:.digits$}Z"),
                None => write!(f, "{civil}Z"),
            };
        }
        let year = i64::from(civil.year()) + cycles * 400;
        write!(f, "{year:+07}-{}Z", civil.strftime("%m-%dT%H:%M:%S%.f"))
    }
}

#[cfg(feature = "serde")]
crate::serde_forms::as_text!(Timestamp, "a time, such as `2026-01-31T12:00:00Z`");

/// The text is no point in time.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a time: write a date (2026-01-31) or RFC 3339 \
     (2026-01-31T12:00:00Z, 2026-01-31T20:00:00+08:00); without an offset it is UTC"
)]
pub struct ParseTimeError {
    text: String,
}

error_traits!(ParseTimeError);

impl FromStr for Timestamp {
    type Err = ParseTimeError;

    fn from_str(text: &str) -> Result<Self, ParseTimeError> {
        read(text).ok_or_else(|| ParseTimeError { text: text.into() })
    }
}

/// Reads a signed year as the year at the same point of a cycle that the calendar library knows.
fn read(text: &str) -> Option<Timestamp> {
    let is_signed = text.starts_with(['+', '-']);
    let (year, rest) = match text.get(1..).filter(|_| is_signed) {
        Some(unsigned) => unsigned.split_once('-')?,
        None => return read_civil(text),
    };
    let is_year = year.len() >= 6 && year.bytes().all(|byte| byte.is_ascii_digit());
    let year = text[..=year.len()].parse::<i64>().ok().filter(|_| is_year)?;
    // Year 0 has no negative sign.
    if year == 0 && text.starts_with('-') {
        return None;
    }
    let civil = read_civil(&format!("{}-{rest}", 2_000 + year.rem_euclid(400)))?;
    let millis =
        i128::from(civil.0) + i128::from(year.div_euclid(400) - 5) * i128::from(CYCLE_MILLIS);
    i64::try_from(millis).ok().map(Timestamp)
}

fn read_civil(text: &str) -> Option<Timestamp> {
    let pieces = Pieces::parse(text).ok()?;
    // A zone's name would need a time zone database, and a rule for contradictions.
    if pieces.time_zone_annotation().is_some() {
        return None;
    }
    let civil = DateTime::from_parts(pieces.date(), pieces.time().unwrap_or_default());
    let offset = pieces.to_numeric_offset().map_or(0, |offset| i64::from(offset.seconds()));
    let since_1970 = civil.duration_since(UNIX_CIVIL) - SignedDuration::from_secs(offset);
    // Down to the millisecond, also before 1970.
    i64::try_from(since_1970.as_nanos().div_euclid(1_000_000)).ok().map(Timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_offsets_dates_and_civil_times_as_utc() {
        let utc = |text: &str| text.parse::<Timestamp>().map(Timestamp::as_millis).ok();
        assert_eq!(utc("2016-05-20T00:00:00+08:00"), Some(1_463_673_600_000));
        assert_eq!(utc("2016-05-19T16:00:00Z"), Some(1_463_673_600_000));
        assert_eq!(utc("2016-05-19T16:00:00"), Some(1_463_673_600_000));
        assert_eq!(utc("2016-05-19 16:00:00"), Some(1_463_673_600_000));
        assert_eq!(utc("1970-01-02"), Some(86_400_000));
        assert_eq!(utc("1969-12-31T23:59:59.9999Z"), Some(-1));
        assert_eq!(utc("9999-12-31T23:59:59.999Z"), Some(LAST_MILLI));
        assert_eq!(utc("0000-01-01"), Some(FIRST_MILLI));
        assert_eq!(utc("9999-12-31T23:59:59.999-00:00"), Some(LAST_MILLI));
        assert_eq!(utc("9999-12-31T23:59:59.999-00:01"), Some(LAST_MILLI + 60_000));
        assert_eq!(utc("0000-01-01T00:00:00+00:01"), Some(FIRST_MILLI - 60_000));
        assert_eq!(utc("-000001-12-31"), Some(FIRST_MILLI - 86_400_000));
        assert_eq!(utc("+010000-01-01"), Some(LAST_MILLI + 1));
        assert_eq!(utc("+010000-01-01T01:00:00+01:00"), Some(LAST_MILLI + 1));
        assert_eq!(utc("+001970-01-02"), Some(86_400_000));
        assert_eq!(utc("+292278994-08-17T07:12:55.807Z"), Some(i64::MAX));
        assert_eq!(utc("-292275055-05-16T16:47:04.192Z"), Some(i64::MIN));
        for wrong in ["", "tomorrow", "2016-13-01", "2016-05-20[Asia/Shanghai]", "12"] {
            assert_eq!(utc(wrong), None, "{wrong}");
        }
        // Wrong signs, and times that do not fit in 64 bits of milliseconds.
        for wrong in [
            "+",
            "-",
            "+2026-01-01",
            "+02026-01-01",
            "-000000-01-01",
            "+-02026-01-01",
            "+010000",
            "+010001-02-29",
            "+ 010000-01-01",
            "é010000-01-01",
            "+292278994-08-17T07:12:55.808Z",
            "-292275055-05-16T16:47:04.191Z",
            "+99999999999999999999-01-01",
            "+9223372036854775807-01-01",
        ] {
            assert_eq!(utc(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn prints_years_beyond_the_calendar_library() {
        let show = |millis| Timestamp::from_millis(millis).to_string();
        assert_eq!(show(0), "1970-01-01T00:00:00Z");
        assert_eq!(show(1), "1970-01-01T00:00:00.001Z");
        assert_eq!(show(LAST_MILLI), "9999-12-31T23:59:59.999Z");
        assert_eq!(show(LAST_MILLI + 1), "+010000-01-01T00:00:00Z");
        assert_eq!(show(FIRST_MILLI), "0000-01-01T00:00:00Z");
        assert_eq!(show(FIRST_MILLI - 1), "-000001-12-31T23:59:59.999Z");
        // 10,000 years are 25 cycles: the same day, month and hour.
        assert_eq!(show(25 * CYCLE_MILLIS), "+011970-01-01T00:00:00Z");
        assert_eq!(show(-25 * CYCLE_MILLIS), "-008030-01-01T00:00:00Z");
        assert!(show(i64::MAX).starts_with("+292278994-08-17T07:12:55"));
        assert!(show(i64::MIN).starts_with("-292275055-05-16T16:47:04"));
    }

    #[test]
    fn converts_from_system_time_on_both_sides_of_the_epoch() {
        let day = Duration::from_secs(86_400);
        assert_eq!(Timestamp::from(UNIX_EPOCH + day).as_millis(), 86_400_000);
        assert_eq!(Timestamp::from(UNIX_EPOCH - day).as_millis(), -86_400_000);
    }

    #[test]
    fn converts_to_system_times_and_back() {
        for millis in [0, 1, -1, FIRST_MILLI, 253_402_207_200_000] {
            let time = Timestamp::from_millis(millis);
            let system = SystemTime::try_from(time).expect("in range");
            assert_eq!(Timestamp::from(system), time);
        }
        assert_eq!(Timestamp::from(UNIX_EPOCH - Duration::from_nanos(1)).as_millis(), -1);
    }

    #[cfg(feature = "jiff-0_2")]
    #[test]
    fn converts_to_jiffs_and_back_or_says_what_does_not_fit() {
        for millis in [0, 1, -1, FIRST_MILLI, 253_402_207_200_000] {
            let time = Timestamp::from_millis(millis);
            let jiff = jiff::Timestamp::try_from(time).expect("in range");
            assert_eq!((jiff.as_millisecond(), Timestamp::from(jiff)), (millis, time));
        }
        let nano = jiff::SignedDuration::from_nanos(-1);
        assert_eq!(Timestamp::from(jiff::Timestamp::UNIX_EPOCH + nano).as_millis(), -1);
        for millis in [i64::MIN, i64::MAX] {
            let error = jiff::Timestamp::try_from(Timestamp::from_millis(millis));
            let text = error.expect_err("beyond the year 9999").to_string();
            assert!(text.ends_with("is out of the range of jiff's timestamps"), "{text}");
        }
    }
}
