//! Text of others, shown to people.

/// A name that came from anywhere, with what would steer the terminal escaped.
pub fn visible(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '\'' | '"' | '\\' => text.push(letter),
            _ => text.extend(letter.escape_debug()),
        }
    }
    text
}
