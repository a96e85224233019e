//! Texts that differ from a valid one in a single character are refused or read correctly. The expected value is
//! computed independently, in numbers that cannot overflow.

use uidring::{Bits, Layout, ParseTimeError, ParseUidError, Timestamp, Uid};

/// Besides all of ASCII, characters that may be mistaken for digits by their case or Unicode value.
const OTHERS: &str = "\u{80}äİıſK０１９Ａ٣߀\u{200b}\u{feff}𝟎💧";

fn letters() -> impl Iterator<Item = char> {
    (0..128_u8).map(char::from).chain(OTHERS.chars())
}

/// Returns all texts with one character left out, replaced or added.
fn near(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let joined = |before: &[char], letter: Option<char>, after: &[char]| -> String {
        before.iter().copied().chain(letter).chain(after.iter().copied()).collect()
    };
    let mut texts = Vec::new();
    for at in 0..=characters.len() {
        let (before, after) = characters.split_at(at);
        texts.extend(letters().map(|letter| joined(before, Some(letter), after)));
        if let [_, rest @ ..] = after {
            texts.push(joined(before, None, rest));
            texts.extend(letters().map(|letter| joined(before, Some(letter), rest)));
        }
    }
    texts
}

/// A form: its digits in the order of their values, aliases of digits, and its case rule.
struct Form {
    write: fn(Uid) -> String,
    read: fn(&str) -> Result<Uid, ParseUidError>,
    digits: &'static str,
    aliases: &'static [(char, u128)],
    ignores_case: bool,
}

const FORMS: [Form; 5] = [
    Form {
        write: |uid| uid.to_string(),
        read: str::parse,
        digits: "0123456789",
        aliases: &[],
        ignores_case: false,
    },
    Form {
        write: |uid| uid.hex().into(),
        read: Uid::from_hex,
        digits: "0123456789abcdef",
        aliases: &[],
        ignores_case: true,
    },
    Form {
        write: |uid| uid.hex()[2..].into(),
        read: Uid::from_hex,
        digits: "0123456789abcdef",
        aliases: &[],
        ignores_case: true,
    },
    Form {
        write: |uid| uid.base62().into(),
        read: Uid::from_base62,
        digits: "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
        aliases: &[],
        ignores_case: false,
    },
    Form {
        write: |uid| uid.base32().into(),
        read: Uid::from_base32,
        digits: "0123456789abcdefghjkmnpqrstvwxyz",
        aliases: &[('i', 1), ('l', 1), ('o', 0)],
        ignores_case: true,
    },
];

impl Form {
    /// Returns what a text means if it is a uid.
    fn meaning(&self, text: &str) -> Option<Uid> {
        let base = self.digits.len() as u128;
        let prefixed = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        // Decimal after `0x` is hex.
        if let (10, Some(_)) = (base, prefixed) {
            return FORMS[1].meaning(text);
        }
        let text = prefixed.filter(|_| base == 16).unwrap_or(text);
        let mut number = 0_u128;
        for letter in text.chars() {
            let letter = match self.ignores_case && letter.is_ascii() {
                true => letter.to_ascii_lowercase(),
                false => letter,
            };
            let alias = self.aliases.iter().find(|(alias, _)| *alias == letter);
            let value = match alias {
                Some((_, value)) => *value,
                None => self.digits.chars().position(|digit| digit == letter)? as u128,
            };
            number = number * base + value;
        }
        let number = u64::try_from(number).ok().filter(|_| !text.is_empty());
        number.and_then(Uid::new)
    }

    /// Checks that the named place has the named character, which is not a digit of the named base.
    fn check(&self, text: &str, error: ParseUidError) {
        let is_hex = text.starts_with("0x") || text.starts_with("0X");
        match error {
            ParseUidError::BadCharacter { character, place, base } => {
                assert_eq!(text.chars().nth(place - 1), Some(character), "{text:?}: {error}");
                let digits = self.digits.len() as u32;
                assert_eq!(base, if digits == 10 && is_hex { 16 } else { digits }, "{text:?}");
            }
            ParseUidError::Overflow { character, place } => {
                assert_eq!(text.chars().nth(place - 1), Some(character), "{text:?}: {error}");
            }
            _ => assert!(["", "0x", "0X"].contains(&text), "{text:?}: {error}"),
        }
    }
}

fn uids() -> impl Iterator<Item = Uid> {
    let round = [0, 1, 9, 10, 31, 32, 61, 62, 63, 1_023, 240_518_193_154, 3_125_927_076_831_231];
    let high = (0..40).map(|less| Uid::MAX.get() - less * less * less);
    let powers = (5..63).step_by(3).map(|power| 1_u64 << power);
    round.into_iter().chain(high).chain(powers).map(|number| Uid::new(number).expect("63 bits"))
}

#[test]
fn a_text_near_a_uids_is_refused_or_read_as_what_it_says() {
    let (mut read, mut refused) = (0_u64, 0_u64);
    for (form, uid) in FORMS.iter().flat_map(|form| uids().map(move |uid| (form, uid))) {
        let text = (form.write)(uid);
        assert_eq!((form.read)(&text), Ok(uid), "{text}");
        for text in near(&text) {
            let found = (form.read)(&text);
            assert_eq!(found.ok(), form.meaning(&text), "{text:?}: {found:?}");
            match found {
                Ok(uid) => {
                    read += 1;
                    assert_eq!((form.read)(&(form.write)(uid)), Ok(uid));
                }
                Err(error) => {
                    refused += 1;
                    form.check(&text, error);
                }
            }
        }
    }
    assert!(read > 50_000 && refused > 300_000, "{read} were read, {refused} refused");
}

/// All small and great numbers, in every form.
#[test]
fn texts_of_all_small_and_all_great_uids_read_back() {
    let small = 0..1 << 14;
    let great = Uid::MAX.get() - (1 << 14)..=Uid::MAX.get();
    for number in small.chain(great) {
        let uid = Uid::new(number).expect("63 bits");
        for form in &FORMS {
            let text = (form.write)(uid);
            assert_eq!((form.read)(&text), Ok(uid), "{text}");
        }
    }
}

/// Returns the widths that a text gives.
fn widths(text: &str) -> Option<Bits> {
    let field = |field: &str| {
        let is_number = !field.is_empty() && field.chars().all(|letter| letter.is_ascii_digit());
        is_number.then(|| field.parse::<u128>().ok())?.and_then(|width| u8::try_from(width).ok())
    };
    let [time, worker, sequence] = text.split('/').collect::<Vec<_>>()[..] else { return None };
    Some(Bits { time: field(time)?, worker: field(worker)?, sequence: field(sequence)? })
}

#[test]
fn a_text_near_widths_is_refused_or_read_as_what_it_says() {
    for text in ["28/22/13", "1/1/1", "41/10/12", "255/0/100", "0/0/0"] {
        assert!(text.parse::<Bits>().is_ok());
        for text in near(text) {
            assert_eq!(text.parse::<Bits>().ok(), widths(&text), "{text:?}");
        }
    }
}

#[test]
fn a_text_near_a_layouts_is_refused_or_read_as_what_it_says() {
    let texts = ["28/22/13 in s since 2026-01-01", "41/10/12 in ms since 2010-11-04T01:42:54.657Z"];
    for text in texts.iter().flat_map(|text| near(text)) {
        let Ok(layout) = text.parse::<Layout>() else { continue };
        let (bits, rest) = text.split_once(" in ").expect("it was read");
        let (tick, epoch) = rest.split_once(" since ").expect("it was read");
        assert_eq!(Some(layout.bits()), widths(bits), "{text:?}");
        assert_eq!(layout.tick().to_string(), tick, "{text:?}");
        assert_eq!(Ok(layout.epoch()), epoch.parse(), "{text:?}");
        assert_eq!(layout.to_string().parse::<Layout>().expect("its own text"), layout);
    }
}

/// A different digit anywhere is a different time: none is ignored.
#[test]
fn another_digit_of_a_time_is_another_time() {
    let texts = [
        "2026-01-12",
        "2016-02-29T10:11:12Z",
        "1969-12-31T23:09:08.123Z",
        "2026-01-12T03:04:05+08:30",
        "0000-01-01T00:00:00.001Z",
        "9999-12-31T23:59:59.999Z",
    ];
    for text in texts {
        let time: Timestamp = text.parse().expect("a time");
        for at in 0..text.len() {
            if !text.as_bytes()[at].is_ascii_digit() {
                continue;
            }
            for digit in '0'..='9' {
                let other = format!("{}{digit}{}", &text[..at], &text[at + 1..]);
                let read: Result<Timestamp, ParseTimeError> = other.parse();
                // A leap second is the last of its minute.
                let is_leap = other.contains(":60");
                let is_same = read == Ok(time);
                assert!(is_same == (other == text) || is_leap, "{other} and {text}");
            }
        }
    }
}

#[test]
fn a_text_near_a_time_is_refused_or_prints_as_a_time_that_reads_the_same() {
    let mut refused = 0;
    for text in ["2026-01-12", "2016-02-29T10:11:12.250Z", "2026-01-12T03:04:05+08:30"] {
        for text in near(text) {
            match text.parse::<Timestamp>() {
                Ok(time) => assert_eq!(time.to_string().parse(), Ok(time), "{text:?}"),
                Err(error) => {
                    refused += 1;
                    assert!(error.to_string().contains(&text), "{error}");
                }
            }
        }
    }
    assert!(refused > 10_000, "{refused}");
}
