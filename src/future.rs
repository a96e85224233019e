//! Waiting as a task, for the futures of generators, leases and builders.
//!
//! They run on any runtime. A poll that has to wait registers its waker at an event, and sets an alarm if there is a
//! time limit. It then checks again before it returns, so that no wake-up is lost (`sync::EventCount`). Only the poll
//! that returns an id takes one.

use std::future::poll_fn;
use std::mem;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use crate::clock::{Alarm, Deadline};
use crate::error::Error;
use crate::policy::Pause;
use crate::sync::{EventCount, ForkGuarded, ForkToken, Forked, assert_no_lock_held, contained};

/// Calls `look` at once, after each notification of the event, and after each pause that it asks for, until it has a
/// result. During a nap, notifications go to other tasks.
async fn look<T>(
    event: &EventCount,
    mut look: impl FnMut() -> ControlFlow<T, Pause>,
) -> Result<T, Forked> {
    let mut listener = event.listener();
    let mut alarm = Alarm::default();
    poll_fn(move |context| {
        let waker = context.waker();
        if let Err(forked) = listener.register(waker) {
            return Poll::Ready(Err(forked));
        }
        match look() {
            ControlFlow::Break(result) => return Poll::Ready(Ok(result)),
            ControlFlow::Continue(Pause::Sleep(None)) => {}
            ControlFlow::Continue(Pause::Sleep(Some(time))) => alarm.set(time, waker),
            ControlFlow::Continue(Pause::Nap(time)) => {
                listener.leave();
                alarm.set(time, waker);
            }
            ControlFlow::Continue(Pause::Yield) => {
                assert_no_lock_held();
                waker.wake_by_ref();
            }
        }
        Poll::Pending
    })
    .await
}

/// Tries again for as long as `next` allows. `sleep` may shorten a pause, if nothing else would end it.
pub(crate) async fn retry<T, E: From<Forked>>(
    event: &EventCount,
    first: E,
    mut next: impl FnMut(E) -> Result<Pause, E>,
    mut try_take: impl FnMut() -> Result<T, E>,
    mut sleep: impl FnMut(Pause) -> Pause,
) -> Result<T, E> {
    next(first)?;
    let try_again = || {
        let error = match try_take() {
            Ok(taken) => return ControlFlow::Break(Ok(taken)),
            Err(error) => error,
        };
        match next(error) {
            Ok(Pause::Yield) => ControlFlow::Continue(Pause::Yield),
            Ok(pause) => ControlFlow::Continue(sleep(pause)),
            Err(error) => ControlFlow::Break(Err(error)),
        }
    };
    look(event, try_again).await?
}

/// Waits until `ready` returns true, or for `timeout`. Returns at once in a forked child.
pub(crate) async fn wait(event: &EventCount, timeout: Duration, mut ready: impl FnMut() -> bool) {
    let deadline = Deadline::after(Some(timeout));
    let look_again = || match deadline.remaining() {
        Some(left) if !left.is_zero() && !ready() => {
            ControlFlow::Continue(Pause::Sleep(Some(left)))
        }
        _ => ControlFlow::Break(()),
    };
    let _ = look(event, look_again).await;
}

pub(crate) async fn until<T>(
    event: &EventCount,
    mut result: impl FnMut() -> Option<T>,
) -> Result<T, Forked> {
    let look_again = || match result() {
        Some(result) => ControlFlow::Break(result),
        None => ControlFlow::Continue(Pause::Sleep(None)),
    };
    look(event, look_again).await
}

/// Runs a blocking call in a thread of its own. If the future is dropped early, the call continues. Its result is
/// dropped in a thread other than the caller's, if one can be started, because that may block.
///
/// # Errors
///
/// The call's own; [`Error::CallPanicked`] if it panics, [`Error::Thread`] if no thread can be started, and
/// [`Error::Forked`] in a forked child.
pub async fn in_own_thread<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let call = Caller(Call::start(call)?);
    match until(&call.0.done, || call.0.take()).await {
        Ok(result) => result,
        Err(Forked) => Err(Error::Forked { what: "asynchronous call" }),
    }
}

/// A call, shared by its caller and its thread.
struct Call<T> {
    outcome: ForkGuarded<Outcome<T>>,
    done: EventCount,
}

struct Outcome<T> {
    result: Option<Result<T, Error>>,
    /// The caller is gone.
    is_unwanted: bool,
}

impl<T: Send + 'static> Call<T> {
    fn start(call: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<Arc<Self>, Error> {
        let fork_token = ForkToken::current();
        let outcome = Outcome { result: None, is_unwanted: false };
        let outcome = ForkGuarded::new(fork_token, outcome);
        let this = Arc::new(Self { outcome, done: EventCount::new(fork_token) });
        let theirs = Arc::clone(&this);
        let run = move || {
            let result = contained(call).unwrap_or(Err(Error::CallPanicked));
            theirs.finish(result);
        };
        thread::Builder::new()
            .name("uidring-call".into())
            .spawn(run)
            .map_err(|error| Error::thread("thread of an asynchronous call", error))?;
        Ok(this)
    }

    fn finish(&self, result: Result<T, Error>) {
        let Ok(mut outcome) = self.outcome.lock() else {
            // The call forked, and its result is the parent's.
            return mem::forget(result);
        };
        if outcome.is_unwanted {
            drop(outcome);
            contained(|| drop(result));
            return;
        }
        outcome.result = Some(result);
        drop(outcome);
        self.done.notify();
    }

    fn take(&self) -> Option<Result<T, Error>> {
        self.outcome.lock().ok()?.result.take()
    }
}

/// The caller, which may go away before the call is done.
struct Caller<T: Send + 'static>(Arc<Call<T>>);

impl<T: Send + 'static> Drop for Caller<T> {
    fn drop(&mut self) {
        let Ok(mut outcome) = self.0.outcome.lock() else {
            // A forked child does not have the call's thread. Leak the call: a result in it is the parent's.
            return mem::forget(Arc::clone(&self.0));
        };
        outcome.is_unwanted = true;
        let result = outcome.result.take();
        drop(outcome);
        if let Some(result) = result {
            // Dropping a lease gives it back, which may block.
            let give_back = move || {
                contained(|| drop(result));
            };
            let _ = thread::Builder::new().name("uidring-call".into()).spawn(give_back);
        }
    }
}

/// An async fill in progress: appends up to `count` ids to `out`, block by block. Nothing is reserved in advance.
pub(crate) struct Filling<'a, T> {
    out: &'a mut Vec<T>,
    start: usize,
    count: usize,
    blocks: u32,
}

impl<'a, T: Copy + Default> Filling<'a, T> {
    pub(crate) fn new(out: &'a mut Vec<T>, count: usize) -> Self {
        Self { start: out.len(), out, count, blocks: 0 }
    }

    pub(crate) fn is_short(&self) -> bool {
        self.left() > 0
    }

    fn left(&self) -> usize {
        self.count - (self.out.len() - self.start)
    }

    /// Appends what `try_fill` writes to the front of a block. `try_fill` returns how many.
    pub(crate) fn extend<E>(
        &mut self,
        try_fill: impl FnOnce(&mut [T]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let mut block = [T::default(); 1_024];
        let wanted = self.left().min(block.len());
        let given = try_fill(&mut block[..wanted])?;
        self.out.extend_from_slice(&block[..given]);
        Ok(())
    }

    /// Removes what was appended: after a fork, it is the parent's.
    pub(crate) fn undo(&mut self) {
        self.out.truncate(self.start);
    }

    /// Yields to other tasks after every 64th block.
    pub(crate) async fn give_way(&mut self) {
        self.blocks = self.blocks.wrapping_add(1);
        let mut has_given_way = !self.blocks.is_multiple_of(64) || !self.is_short();
        poll_fn(|context| {
            if has_given_way {
                return Poll::Ready(());
            }
            has_given_way = true;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

#[cfg(all(test, uidring_loom))]
pub(crate) mod models;

#[cfg(all(test, not(uidring_loom)))]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;
    use crate::error::TakeError;

    #[test]
    fn a_task_that_naps_is_not_called() {
        // No timer is needed for that.
        let time = Duration::MAX;
        for (pause, is_called) in [(Pause::Nap(time), false), (Pause::Sleep(Some(time)), true)] {
            let event = EventCount::new(ForkToken::current());
            let fails = || Err::<u64, _>(TakeError::Empty);
            let mut task =
                pin!(retry(&event, TakeError::Empty, |_| Ok(pause), fails, |pause| pause));
            assert!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert_eq!(event.has_waiters(), is_called);
        }
    }
}
