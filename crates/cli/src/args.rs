//! Flags that several commands have.

pub mod database;
pub mod etcd;
pub mod layout;
pub mod registry;
pub mod ring;
pub mod worker;

use crate::failure::Failure;

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
