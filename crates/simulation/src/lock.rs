//! A lock for simulations, each of which runs in one thread.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, even after a panic elsewhere, which has been reported already.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
