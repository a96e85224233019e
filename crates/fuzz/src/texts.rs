//! Texts of the core and the program: uids, layouts, times, ordinals, and numbers of flags.

use std::time::Duration;

use uidring::worker::Ordinal;
use uidring::{Bits, Layout, ParseUidError, Tick, Timestamp, Uid};

use uidring_store::values::{CENTURY, days, number, shown, time as time_flag};

/// A text in each form of a uid: it is refused at the character that the error names, or read correctly.
pub fn uid(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    match hex {
        Some(hex) => is_number(text.parse(), text, hex, 16, |letter| letter.to_digit(16)),
        None => is_number(text.parse(), text, text, 10, |letter| letter.to_digit(10)),
    }
    is_number(Uid::from_hex(text), text, hex.unwrap_or(text), 16, |letter| letter.to_digit(16));
    is_number(Uid::from_base62(text), text, text, 62, |letter| digits.find(letter).map(value));
    is_number(Uid::from_base32(text), text, text, 32, |letter| match letter.to_ascii_lowercase() {
        'o' => Some(0),
        'i' | 'l' => Some(1),
        letter => "0123456789abcdefghjkmnpqrstvwxyz".find(letter).map(value),
    });
}

fn value(place: usize) -> u32 {
    u32::try_from(place).expect("62 digits")
}

/// Checks a reading. `digits` is `text` without its prefix.
fn is_number(
    read: Result<Uid, ParseUidError>,
    text: &str,
    digits: &str,
    base: u128,
    digit: impl Fn(char) -> Option<u32>,
) {
    // Stays above the greatest uid, however many digits follow.
    let add =
        |number: u128, letter| Some((number * base + u128::from(digit(letter)?)).min(1 << 70));
    let number = digits.chars().try_fold(0, add).filter(|_| !digits.is_empty());
    let uid = number.and_then(|number| u64::try_from(number).ok()).and_then(Uid::new);
    assert_eq!(read.ok(), uid, "{text:?} to base {base}: {read:?}");
    match read {
        Ok(uid) => {
            assert_eq!(uid.to_string().parse(), Ok(uid));
            assert_eq!(Uid::from_hex(&uid.hex()), Ok(uid));
            assert_eq!(Uid::from_base62(&uid.base62()), Ok(uid));
            assert_eq!(Uid::from_base32(&uid.base32()), Ok(uid));
        }
        Err(
            ParseUidError::BadCharacter { character, place, .. }
            | ParseUidError::Overflow { character, place },
        ) => assert_eq!(text.chars().nth(place - 1), Some(character), "{text:?}"),
        Err(_) => assert!(digits.is_empty(), "{text:?}"),
    }
}

/// A layout, its widths or its tick. What is read is valid, and its display reads the same.
pub fn layout(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Ok(tick) = text.parse::<Tick>() {
        assert_eq!(tick.to_string(), text);
    }
    if let Ok(bits) = text.parse::<Bits>() {
        assert_eq!(bits.to_string().parse::<Bits>().expect("its own text"), bits);
        let is_field = |field: &str| !field.is_empty() && field.bytes().all(|b| b.is_ascii_digit());
        assert!(text.split('/').all(is_field) && text.split('/').count() == 3, "{text:?}");
    }
    match text.parse::<Layout>() {
        Ok(layout) => {
            let Bits { time, worker, sequence } = layout.bits();
            let widths = [time, worker, sequence].map(u32::from);
            assert!(widths.iter().all(|width| *width > 0) && widths.iter().sum::<u32>() <= 63);
            assert_eq!(layout.to_string().parse::<Layout>().expect("its own text"), layout);
            assert!(text.starts_with(text.split(" in ").next().unwrap_or_default()));
            // It can compute with times at its ends.
            let _ = layout.tick_at(layout.last_instant()).expect("the last instant is within");
            assert_eq!(layout.decode(layout.max_uid()).expect("its own").tick, layout.max_tick());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A time. What is read displays as a text that reads the same.
pub fn time(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let Ok(time) = text.parse::<Timestamp>() else { return };
    let shown = time.to_string();
    assert_eq!(shown.parse(), Ok(time), "{text:?} prints as {shown}");
    assert!(shown.starts_with(&time.date().to_string()));
}

/// A host name, which ends with the ordinal.
pub fn ordinal(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    match Ordinal::of_host(text) {
        Ok(ordinal) => {
            let first = text.split('.').next().unwrap_or_default();
            assert!(first.ends_with(&format!("-{}", ordinal.number())), "{text:?}: {ordinal:?}");
            let found = ordinal.worker_id(&Layout::SNOWFLAKE);
            assert_eq!(found.ok(), Some(ordinal.number()).filter(|number| *number < 1_024));
        }
        Err(error) => {
            let error = error.to_string();
            assert!(!text.contains("://") || !error.contains(text), "{error}");
            assert!(error.chars().all(|letter| !letter.is_control()), "{error:?}");
        }
    }
}

/// Numbers and times of flags. They are in range, and a displayed time reads the same.
pub fn numbers(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Ok(number) = number::<u64>(5..=1_000_000)(text) {
        assert!((5..=1_000_000).contains(&number), "{text:?}");
    }
    let whole = number::<u64>(0..=u64::MAX);
    if let Ok(found) = whole(text) {
        assert_eq!(whole(&found.to_string()), Ok(found), "{text:?}");
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            assert_eq!(text.parse(), Ok(found));
        }
    }
    let any = time_flag(Duration::ZERO..=CENTURY);
    for found in [any(text), days(text)].into_iter().flatten() {
        assert!(found <= CENTURY, "{text:?}");
        let millis = Duration::from_millis(u64::try_from(found.as_millis()).expect("a century"));
        assert_eq!(any(&shown(millis)), Ok(millis), "{text:?}");
    }
    let bounded = time_flag(Duration::from_secs(1)..=Duration::from_secs(60));
    if let Ok(found) = bounded(text) {
        assert!((1..=60).contains(&found.as_secs()) && any(text) == Ok(found), "{text:?}");
    }
}
