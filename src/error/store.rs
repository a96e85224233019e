//! Errors of stores, which the core does not know.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::chain::{Chain, error_traits};

/// Why a store of worker ids or segments did not do what it was asked for.
///
/// What it says is the store's own; [`kind`](Self::kind) and [`may_pass`](Self::may_pass) say what a
/// caller can do about it, and [`downcast_ref`](Self::downcast_ref) gives the error of the store's
/// crate. Clones share the cause.
///
/// ```
/// use uidring::{StoreError, StoreErrorKind};
///
/// let error = StoreError::new(StoreErrorKind::Unreachable, "the database is away");
/// assert!(error.may_pass());
/// assert_eq!(error.to_string(), "the database is away");
/// ```
#[derive(Clone)]
pub struct StoreError {
    kind: StoreErrorKind,
    /// In a box as well, which the last owner can take out by value.
    cause: Arc<Box<dyn StdError + Send + Sync>>,
}

error_traits!(StoreError);

/// What kind of thing went wrong in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// What the store was set up with is wrong: an address, a path, a name, an option.
    Invalid,
    /// The store cannot be reached, or the connection broke.
    Unreachable,
    /// The store did not answer in time, or somebody else kept it busy or locked.
    TimedOut,
    /// The account or process may not do it.
    Denied,
    /// What was asked for is not there, such as a table.
    NotFound,
    /// Others hold all there is to have, for a while.
    Held,
    /// The layout has no worker ids left, or the tag no numbers.
    Exhausted,
    /// It is there already, or was used up by somebody else.
    Conflict,
    /// A clock is wrong: this host's, or the store's.
    Clock,
    /// The store has what must not be used: damage, another layout, an unknown version.
    Corrupt,
    /// Anything else.
    Other,
}

impl StoreErrorKind {
    /// Whether another attempt may succeed without anybody doing anything.
    pub fn may_pass(self) -> bool {
        matches!(self, Self::Unreachable | Self::TimedOut | Self::Held)
    }
}

impl StoreError {
    /// An error of this kind. What it says is what `cause` says.
    pub fn new(kind: StoreErrorKind, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { kind, cause: Arc::new(cause.into()) }
    }

    /// The kind.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Whether another attempt may succeed without anybody doing anything.
    pub fn may_pass(&self) -> bool {
        self.kind.may_pass()
    }

    /// The error of the store's crate, if it is of this type.
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.cause.downcast_ref()
    }

    /// The error of the store's crate by value.
    ///
    /// # Errors
    ///
    /// Itself, if it is not of this type, or shares its cause with a clone.
    pub fn downcast<E: StdError + 'static>(self) -> Result<E, Self> {
        let Self { kind, cause } = self;
        let cause = Arc::try_unwrap(cause).map_err(|cause| Self { kind, cause })?;
        match cause.downcast::<E>() {
            Ok(error) => Ok(*error),
            Err(cause) => Err(Self { kind, cause: Arc::new(cause) }),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

/// It stands for its cause, whose own source is next.
impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.source()
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::error::Error;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] io::Error);

    #[test]
    fn a_chain_of_causes_says_everything_once() {
        let error =
            Error::from(StoreError::new(StoreErrorKind::Denied, Outer(io::Error::other("inner"))));
        let mut texts = vec![error.to_string()];
        let mut next = StdError::source(&error);
        while let Some(cause) = next {
            texts.push(cause.to_string());
            next = cause.source();
        }
        assert_eq!(texts, ["outer", "inner"]);
        let Error::Store(error) = error else { panic!("a store's") };
        assert!(!error.may_pass() && error.kind() == StoreErrorKind::Denied);
        assert!(
            error.downcast_ref::<Outer>().is_some() && error.downcast_ref::<fmt::Error>().is_none()
        );
        let error = error.downcast::<fmt::Error>().expect_err("it is not");
        let clone = error.clone();
        let error = error.downcast::<Outer>().expect_err("its cause is shared");
        assert!(clone.kind() == error.kind() && clone.downcast_ref::<Outer>().is_some());
        drop(clone);
        assert_eq!(error.downcast::<Outer>().expect("it is").to_string(), "outer");
    }
}
