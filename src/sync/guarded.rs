//! A lock that no forked child touches.

use std::ops::{Deref, DerefMut};

use super::ForkToken;
use super::imp::{Mutex, MutexGuard};
use super::outside::LockHeld;

/// This process is a forked child of the one that made the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forked;

/// A value under a lock. Only the process that made it can lock it.
///
/// At a fork, another thread may hold the lock, and in the child nobody would ever release it. So a child
/// never touches the mutex: it gets [`Forked`].
///
/// A panic under the lock does not poison it: the guarded values are consistent at any time.
#[derive(Debug)]
pub(crate) struct ForkGuarded<T> {
    fork_token: ForkToken,
    mutex: Mutex<T>,
}

impl<T> ForkGuarded<T> {
    pub(crate) fn new(fork_token: ForkToken, value: T) -> Self {
        Self { fork_token, mutex: Mutex::new(value) }
    }

    /// Waits for the lock. Fails in a forked child.
    #[track_caller]
    pub(crate) fn lock(&self) -> Result<Guard<'_, T>, Forked> {
        if self.fork_token.is_forked_child() {
            Err(Forked)
        } else {
            Ok(Guard::new(lock(&self.mutex)))
        }
    }

    /// Whether this process is a forked child of the one that made the lock.
    pub(crate) fn is_forked(&self) -> bool {
        self.fork_token.is_forked_child()
    }
}

/// Holds the lock.
#[derive(Debug)]
pub(crate) struct Guard<'a, T> {
    value: MutexGuard<'a, T>,
    _held: LockHeld,
}

impl<'a, T> Guard<'a, T> {
    #[track_caller]
    pub(super) fn new(value: MutexGuard<'a, T>) -> Self {
        Self { value, _held: LockHeld::new() }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// Locks the mutex, even if a holder has panicked.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // ThreadSanitizer does not see how std waits for a lock, because that code is not instrumented,
    // and would report races. It does see `try_lock`.
    #[cfg(uidring_tsan)]
    loop {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    #[cfg(not(uidring_tsan))]
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
