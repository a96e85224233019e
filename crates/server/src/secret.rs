//! The password of clients.

use std::sync::{PoisonError, RwLock};

/// A password, which may change while the server runs.
pub struct Secret(RwLock<Vec<u8>>);

impl Secret {
    pub fn new(text: String) -> Self {
        Self(RwLock::new(text.into_bytes()))
    }

    /// Whether this is the password. The time depends only on their lengths.
    pub fn is(&self, given: &[u8]) -> bool {
        use subtle::ConstantTimeEq;
        given.ct_eq(&self.0.read().unwrap_or_else(PoisonError::into_inner)).into()
    }

    pub fn replace(&self, text: String) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = text.into_bytes();
    }
}
