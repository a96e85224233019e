//! Flags that several commands have.

pub mod database;
pub mod layout;
pub mod registry;

use std::time::Duration;

use crate::failure::Failure;

/// Reads a number of seconds.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().map(Duration::try_from_secs_f64);
    seconds.and_then(Result::ok).ok_or_else(|| "write seconds from 0, such as 2 or 0.5".into())
}

/// Sets an option of a builder if its flag is given.
pub fn set<B, T>(builder: B, value: Option<T>, setter: impl FnOnce(B, T) -> B) -> B {
    match value {
        Some(value) => setter(builder, value),
        None => builder,
    }
}

/// Refuses the first of these flags that is given: it would have no effect, so it is a mistake.
pub fn refuse(flags: &[(&str, bool)], why: &str) -> Result<(), Failure> {
    match flags.iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(Failure::Usage(format!("{flag} {why}"))),
        None => Ok(()),
    }
}
