//! Formats text for people.

use std::time::Duration;

use indicatif::HumanCount;
use uidring::Timestamp;
pub use uidring::adapter::visible;

pub fn thousands(number: u64) -> String {
    HumanCount(number).to_string()
}

/// Returns a number in short, as in `45.1 M`.
pub fn short(number: f64) -> String {
    let units = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    match units.into_iter().find(|(unit, _)| number >= *unit) {
        Some((unit, name)) => format!("{:.1}{name}", number / unit),
        None => format!("{number:.0}"),
    }
}

/// Returns how long a time is, roughly.
pub fn span(time: Duration) -> String {
    const DAY: f64 = 86_400.0;
    let seconds = time.as_secs_f64();
    match seconds {
        ..120.0 => format!("{seconds:.0} s"),
        ..7_200.0 => format!("{:.0} min", seconds / 60.0),
        ..172_800.0 => format!("{:.1} h", seconds / 3_600.0),
        ..63_072_000.0 => format!("{:.0} days", seconds / DAY),
        _ => format!("{:.1} years", seconds / (DAY * 365.25)),
    }
}

/// Formats a time; `-` if unknown.
pub fn instant(time: Option<Timestamp>) -> String {
    time.map_or_else(|| "-".into(), |time| time.to_string())
}

/// Formats a table's time, which is in UTC, as all other times. Drops fractions of a second.
pub fn rfc3339(time: &str) -> String {
    let seconds = time.split('.').next().unwrap_or_default();
    let parsed = format!("{}Z", seconds.replace(' ', "T")).parse::<Timestamp>();
    parsed.map_or_else(|_| visible(time), |time| time.to_string())
}
