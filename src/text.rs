//! Makes text of any origin safe to show to people.

/// Returns a text in which nothing is invisible. No two results look alike because of direction marks, control
/// characters or unusual spaces, nor because one spells out what is escaped in the other.
pub fn visible(text: &str) -> String {
    on_one_line(&text.replace('\\', r"\\"))
}

/// Escapes invisible characters, so that the text neither ends its line nor controls a terminal. What is already
/// [`visible`] stays as it is.
pub fn on_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            ' '..='~' => line.push(letter),
            // Escape it after another letter: alone, a combining character would be escaped, too.
            _ => line.extend(String::from_iter(['_', letter]).escape_debug().skip(1)),
        }
    }
    line
}

/// Returns whether a text may contain a URL, and so a password: `SCHEME://…`, or `SCHEME:…@…`.
pub fn may_have_url(text: &str) -> bool {
    let is_url = |word: &str| {
        word.split_once(':').is_some_and(|(scheme, rest)| {
            !scheme.is_empty()
                && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-".contains(&byte))
                && rest.contains('@')
        })
    };
    let ends_word = |letter: char| letter.is_whitespace() || "'\"`=".contains(letter);
    text.contains("://") || text.split(ends_word).any(is_url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_found_in_a_text_also_without_slashes() {
        for text in ["a://b", "mysql:u:pw@h", "--x='mysql:u:pw@h'", "no `etcd+x:u:pw@h` here"] {
            assert!(may_have_url(text), "{text}");
        }
        for text in ["", "sqlite:a.db", "/a:b@c", "at 12:30 @ home", "C:\\a", "a@b:1"] {
            assert!(!may_have_url(text), "{text}");
        }
    }

    #[test]
    fn what_can_be_seen_stays_and_what_cannot_is_escaped() {
        for seen in ["", "it's \"a\"", "cafe\u{301}", "ä", "ภาษาไทย กำ", "हिन्दी", "日本語", "🦀"]
        {
            assert_eq!(visible(seen), seen);
            assert_eq!(on_one_line(seen), seen);
        }
        for (unseen, escaped) in [
            ("a\nb\t\r\0", r"a\nb\t\r\0"),
            ("\u{1b}[31m", r"\u{1b}[31m"),
            ("a\u{202e}b", r"a\u{202e}b"),
            ("a\u{200b}\u{2028}\u{a0}\u{ad}b", r"a\u{200b}\u{2028}\u{a0}\u{ad}b"),
        ] {
            assert_eq!(visible(unseen), escaped);
            assert_eq!(on_one_line(unseen), escaped);
            assert_eq!(on_one_line(escaped), escaped, "once is enough");
            assert_ne!(visible(escaped), escaped, "it would look like the other one");
        }
        assert_eq!(visible(r"a\u{202e}b\"), r"a\\u{202e}b\\");
    }
}
