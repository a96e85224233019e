//! Errors of stores, which the core does not know.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::chain::{Chain, error_traits};

/// Why a store of worker ids or segments failed.
///
/// The text is the store's own. [`kind`](Self::kind) and [`may_pass`](Self::may_pass) say what you can do about it, and
/// [`downcast_ref`](Self::downcast_ref) returns the error of the store's crate. Clones share the cause.
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
    /// Also boxed, so that the last owner can move it out.
    cause: Arc<Box<dyn StdError + Send + Sync>>,
}

error_traits!(StoreError);

/// The kind of a store's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store is set up wrongly: an address, a path, a name, an option.
    Invalid,
    /// The store cannot be reached, or the connection broke.
    Unreachable,
    /// The store did not answer in time, or was kept busy or locked.
    TimedOut,
    /// The account or process lacks the right.
    Denied,
    /// Something does not exist, such as a table.
    NotFound,
    /// Others currently hold everything there is.
    Held,
    /// The layout has no worker ids left, or the tag no numbers.
    Exhausted,
    /// It exists already, or somebody else used it up.
    Conflict,
    /// A clock is wrong: this host's, or the store's.
    Clock,
    /// The store's content must not be used: damage, another layout, an unknown version.
    Corrupt,
    /// Anything else.
    Other,
}

impl StoreErrorKind {
    /// Returns whether another attempt may succeed without anybody's intervention.
    pub fn may_pass(self) -> bool {
        matches!(self, Self::Unreachable | Self::TimedOut | Self::Held)
    }
}

impl StoreError {
    /// Creates an error of this kind, with the text of `cause`.
    pub fn new(kind: StoreErrorKind, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { kind, cause: Arc::new(cause.into()) }
    }

    /// Returns the kind.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Returns whether another attempt may succeed without anybody's intervention.
    pub fn may_pass(&self) -> bool {
        self.kind.may_pass()
    }

    /// Returns the error of the store's crate, if it is of this type.
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.cause.downcast_ref()
    }

    /// Returns the error of the store's crate by value.
    ///
    /// # Errors
    ///
    /// Itself, if the error is of another type or shared with a clone.
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

/// Stands for its cause, so its source is the cause's source.
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
