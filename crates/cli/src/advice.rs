//! Adds the database's flags to commands in messages. Without them, the commands would act on another database.

/// Placeholders for flags after a command, and what remains of each once the flags are there.
const UNKNOWN: [(&str, &str); 3] = [
    (" and the flags of this database and layout", " and the flags of this layout"),
    (" and the flags of this database", ""),
    (" and the flags of this registry show", " shows"),
];

/// Adds these flags to each command in the text that lacks them: `uidring worker list` becomes `uidring worker list -u
/// sqlite:a.db`.
pub fn with_flags(text: &str, flags: &str) -> String {
    let is_about_one = |part: &str| {
        ["uidring worker ", "uidring segment "].iter().any(|start| part.starts_with(start))
    };
    let mut whole = String::new();
    // The text after the last backtick is no command.
    for part in text.split_inclusive('`') {
        match part.strip_suffix('`') {
            Some(command)
                if is_about_one(command) && !flags.is_empty() && !command.contains(" -u ") =>
            {
                whole += &format!("{command} {flags}`");
            }
            _ => whole += part,
        }
    }
    UNKNOWN.iter().fold(whole, |text, (unknown, known)| text.replace(unknown, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_get_the_flags_and_nothing_else_does() {
        for (text, expected) in [
            ("by `uidring worker init`, or", "by `uidring worker init -u etcd://a:1`, or"),
            ("`uidring segment list -u sqlite:b`", "`uidring segment list -u sqlite:b`"),
            ("`uidring serve --help` and `uid`", "`uidring serve --help` and `uid`"),
            (
                "`uidring worker fence ID` and the flags of this database; x",
                "`uidring worker fence ID -u etcd://a:1`; x",
            ),
            ("see `uidring worker", "see `uidring worker"),
        ] {
            assert_eq!(with_flags(text, "-u etcd://a:1"), expected);
        }
        let layout = "`uidring worker reuse 1 3` and the flags of this database and layout";
        assert_eq!(
            with_flags(layout, ""),
            "`uidring worker reuse 1 3` and the flags of this layout"
        );
    }
}
