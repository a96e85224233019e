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

/// A flag, whether it is given in spite of a rule, and the rule: the rest of a sentence.
pub type Rule<'a> = (&'a str, bool, &'a str);

/// Refuses the first flag that breaks its rule. It would have no effect, so it is a mistake.
pub fn check(rules: &[Rule<'_>]) -> Result<(), Failure> {
    match rules.iter().find(|(_, is_broken, _)| *is_broken) {
        Some((flag, _, rule)) => Err(Failure::Usage(format!("{flag} {rule}"))),
        None => Ok(()),
    }
}
