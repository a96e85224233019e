//! Patterns of names, as in `KEYS`.

/// A parsed pattern of `*`, `?`, `[a-z]`, `[^a]` and `\`. Matching takes at most the square of the text's length, plus
/// the pattern's stars.
pub struct Pattern(Vec<Part>);

enum Part {
    /// Any number of bytes.
    Star,
    Any,
    One(u8),
    Class(Box<[bool; 256]>),
}

impl Pattern {
    pub fn new(pattern: &[u8]) -> Self {
        let (mut rest, mut parts) = (pattern, Vec::new());
        while let [first, tail @ ..] = rest {
            let (part, length) = match (first, tail) {
                (b'*', _) => (Part::Star, 1),
                (b'?', _) => (Part::Any, 1),
                (b'\\', [escaped, ..]) => (Part::One(*escaped), 2),
                (b'[', set) => {
                    let (class, length) = class(set);
                    (Part::Class(class), length + 1)
                }
                (plain, _) => (Part::One(*plain), 1),
            };
            parts.push(part);
            rest = &rest[length..];
        }
        Self(parts)
    }

    /// Whether the pattern matches the whole text.
    pub fn matches(&self, text: &[u8]) -> bool {
        let parts = &self.0;
        let (mut at, mut here) = (0, 0);
        // The end of the last star, and the first byte that it does not match.
        let mut star = None;
        while here < text.len() {
            let byte = text[here];
            let is_one = match parts.get(at) {
                Some(Part::Star) => {
                    at += 1;
                    star = Some((at, here));
                    continue;
                }
                Some(Part::Any) => true,
                Some(Part::One(one)) => *one == byte,
                Some(Part::Class(class)) => class[usize::from(byte)],
                None => false,
            };
            match star {
                _ if is_one => (at, here) = (at + 1, here + 1),
                Some((after, first)) => {
                    star = Some((after, first + 1));
                    (at, here) = (after, first + 1);
                }
                None => return false,
            }
        }
        parts[at..].iter().all(|part| matches!(part, Part::Star))
    }
}

/// Returns the bytes of a set, and its length after the bracket. Without a closing bracket, it extends to the pattern's
/// end.
fn class(set: &[u8]) -> (Box<[bool; 256]>, usize) {
    let is_negated = set.first() == Some(&b'^');
    let (mut at, mut class) = (usize::from(is_negated), Box::new([is_negated; 256]));
    while let Some(first) = set.get(at) {
        let (from, to, length) = match (first, &set[at + 1..]) {
            (b']', _) => return (class, at + 1),
            (b'\\', [escaped, ..]) => (*escaped, *escaped, 2),
            (start, [b'-', end, ..]) => (*start.min(end), *start.max(end), 3),
            (single, _) => (*single, *single, 1),
        };
        class[usize::from(from)..=usize::from(to)].fill(!is_negated);
        at += length;
    }
    (class, at)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Pattern;

    /// The answers are those of Redis.
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
            let matches = Pattern::new(pattern.as_bytes()).matches(text.as_bytes());
            assert_eq!(matches, is, "{pattern} {text}");
        }
    }

    /// As long as a request may be, for as many names as a server may have.
    #[test]
    fn long_patterns_are_read_once() {
        let begin = Instant::now();
        let texts = vec!["a".repeat(128); 1_000];
        for pattern in [format!("*[{}]", "b".repeat(65_000)), "*[b]".repeat(16_000)] {
            let pattern = Pattern::new(pattern.as_bytes());
            assert!(!texts.iter().any(|text| pattern.matches(text.as_bytes())));
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    }
}
