//! Text of others, shown to people.

/// Returns a name of any origin with the characters escaped that would steer the terminal.
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
