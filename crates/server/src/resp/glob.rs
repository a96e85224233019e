//! Patterns of names, as of `KEYS`.

/// Whether a pattern of `*`, `?`, `[a-z]`, `[^a]` and `\` matches all of a text, in a time that grows with the
/// product of their lengths at most.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut here) = (0, 0);
    // Where the last star ends, and the first byte that it does not stand for.
    let mut star = None;
    while here < text.len() {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            star = Some((at, here));
            continue;
        }
        match (one(&pattern[at..], text[here]), star) {
            (Some(length), _) => (at, here) = (at + length, here + 1),
            (None, Some((after, first))) => {
                star = Some((after, first + 1));
                (at, here) = (after, first + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// How much of the pattern stands for this byte, if it does.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', set @ ..] => class(set, byte).map(|length| length + 1),
        [plain, ..] => (*plain == byte).then_some(1),
    }
}

/// The same of what comes after a bracket. A set that does not end goes to the pattern's end.
fn class(set: &[u8], byte: u8) -> Option<usize> {
    let is_negated = set.first() == Some(&b'^');
    let (mut at, mut is_in) = (usize::from(is_negated), false);
    while let Some(first) = set.get(at) {
        match (first, &set[at + 1..]) {
            (b']', _) => {
                at += 1;
                break;
            }
            (b'\\', [escaped, ..]) => {
                is_in |= *escaped == byte;
                at += 2;
            }
            (start, [b'-', end, ..]) => {
                is_in |= (*start.min(end)..=*start.max(end)).contains(&byte);
                at += 3;
            }
            (single, _) => {
                is_in |= *single == byte;
                at += 1;
            }
        }
    }
    (is_in != is_negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::matches;

    /// As Redis answers them.
    #[test]
    fn patterns() {
        for (pattern, text, is) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("orders", "orders", true),
            ("order?", "orders", true),
            ("order?", "order", false),
            ("*rd*s", "orders", true),
            ("*rd*x", "orders", false),
            ("a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
            ("[a-c]x", "bx", true),
            ("[c-a]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            ("[]", "a", false),
            ("[ab", "b", true),
            ("[\\]]", "]", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a\\", "a\\", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), is, "{pattern} {text}");
        }
    }
}
