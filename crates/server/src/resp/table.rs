//! The table of commands.

/// Each command, its arity as Redis counts it (negative numbers are minimums), and the position of its last name: 0 for
/// none, -1 for the last word.
pub const COMMANDS: &[(&str, i64, i64)] = &[
    ("auth", -2, 0),
    ("client", -2, 0),
    ("command", -1, 0),
    ("config", -2, 0),
    ("dbsize", 1, 0),
    ("discard", 1, 0),
    ("echo", 2, 0),
    ("exec", 1, 0),
    ("exists", -2, -1),
    ("get", 2, 1),
    ("hello", -1, 0),
    ("incr", 2, 1),
    ("incrby", 3, 1),
    ("info", -1, 0),
    ("keys", 2, 0),
    ("mget", -2, -1),
    ("multi", 1, 0),
    ("ping", -1, 0),
    ("pttl", 2, 1),
    ("quit", -1, 0),
    ("reset", 1, 0),
    ("scan", -2, 0),
    ("select", 2, 0),
    ("time", 1, 0),
    ("ttl", 2, 1),
    ("type", 2, 1),
    ("uid.next", -1, 0),
    ("uid.parse", -2, 0),
    ("unwatch", 1, 0),
    ("watch", -2, -1),
];

/// No command is longer.
pub const MAX_COMMAND: usize = 16;

/// Returns a command in capitals, or nothing if it is too long.
#[inline]
pub fn upper<'a>(command: &[u8], buffer: &'a mut [u8; MAX_COMMAND]) -> &'a [u8] {
    let Some(name) = buffer.get_mut(..command.len()) else { return b"" };
    for (upper, byte) in name.iter_mut().zip(command) {
        *upper = byte.to_ascii_uppercase();
    }
    name
}

/// Whether this command exists and allows this many words.
pub fn is_command(command: &[u8], words: usize) -> bool {
    let words = words as i64;
    find(command).is_some_and(|(_, arity, _)| words == *arity || *arity < 0 && words >= -arity)
}

pub fn problem(command: &[u8]) -> String {
    match find(command) {
        Some((name, ..)) => format!("wrong number of arguments for '{name}' command"),
        None => {
            let text = String::from_utf8_lossy(&command[..command.len().min(64)]);
            format!("unknown command '{text}': this is uidring, which issues ids")
        }
    }
}

fn find(command: &[u8]) -> Option<&'static (&'static str, i64, i64)> {
    COMMANDS.iter().find(|(name, ..)| command.eq_ignore_ascii_case(name.as_bytes()))
}
