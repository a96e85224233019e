//! How a take continues after it found nothing: by the take policy, in a thread or a task, for all generators.

use std::error::Error;
use std::ptr;
use std::time::Duration;

use crossbeam_utils::Backoff;

use crate::error::FillError;
use crate::future::{self, Filling};
use crate::policy::{Pause, Rejections, TakePolicy};
use crate::sync::{EventCount, Forked, NoBlockScope};

/// Where takers wait: a generator or a tag.
pub(crate) trait Waiting {
    type Error: Error + From<Forked> + 'static;

    fn take_policy(&self) -> &TakePolicy;

    /// Returns what to do before the next try, or the take's final error.
    fn pause(
        &self,
        rejections: &mut Rejections<'_>,
        error: Self::Error,
    ) -> Result<Pause, Self::Error>;

    /// Sleeps until something may be ready, for at most `timeout`.
    fn park(&self, timeout: Option<Duration>);

    /// Sleeps for this time. By default, it may return early if something becomes ready.
    fn nap(&self, time: Duration) {
        self.park(Some(time));
    }

    /// Where tasks wait. The event changes when a generator continues with a new ring.
    fn event(&self) -> &EventCount;

    /// Arranges for a task to be woken, or shortens the time until it tries again if nobody would wake it.
    fn next_try(&self, left: Option<Duration>) -> Option<Duration> {
        left
    }

    /// Passes a wake-up on: called by a taker that may have been woken, after its take.
    fn wake_next(&self) {}

    /// Returns whether takers wait for the work of this very thread, which must therefore not wait itself.
    fn would_wait_for_itself(&self) -> bool {
        NoBlockScope::is_here()
    }

    fn is_forked(&self) -> bool;

    /// Counts a take or fill that found nothing at first, and how it ended.
    fn count(&self, waited: bool, error: Option<&Self::Error>);
}

/// Continues after a failed first try, for as long as the policy allows. Spins a little, then yields, then sleeps.
#[cold]
pub(crate) fn follow_policy<W: Waiting + ?Sized, T>(
    place: &W,
    first: W::Error,
    mut again: impl FnMut() -> Result<T, W::Error>,
) -> Result<T, W::Error> {
    if place.would_wait_for_itself() {
        return Err(first);
    }
    let mut rejections = place.take_policy().rejections();
    let backoff = Backoff::new();
    let mut waited = false;
    let mut done = Err(first);
    while let Err(error) = done {
        match place.pause(&mut rejections, error) {
            Err(last) => {
                done = Err(last);
                break;
            }
            Ok(Pause::Sleep(left)) if backoff.is_completed() => {
                waited = true;
                place.park(left);
            }
            Ok(Pause::Nap(time)) => {
                waited = true;
                place.nap(time);
            }
            Ok(_) => backoff.snooze(),
        }
        done = again();
    }
    if waited && done.is_ok() {
        place.wake_next();
    }
    counted(place, waited, done)
}

/// Async [`follow_policy`].
#[cold]
pub(crate) async fn follow_policy_async<W: Waiting + ?Sized, T>(
    place: &W,
    first: W::Error,
    mut again: impl FnMut() -> Result<T, W::Error>,
) -> Result<T, W::Error> {
    if place.would_wait_for_itself() {
        return Err(first);
    }
    let mut rejections = place.take_policy().rejections();
    let mut waited = false;
    let mut error = first;
    let done = loop {
        let event = place.event();
        let next = |error| place.pause(&mut rejections, error);
        // If the place has another event by now, stop waiting at this one: the error, inside `Ok`, begins a wait at the
        // new one.
        let try_here = || match again() {
            Err(found) if !ptr::eq(event, place.event()) => Ok(Err(found)),
            done => done.map(Ok),
        };
        let sleep = |pause| {
            waited = true;
            match pause {
                Pause::Sleep(left) => Pause::Sleep(place.next_try(left)),
                pause => pause,
            }
        };
        match future::retry(event, error, next, try_here, sleep).await {
            Ok(Ok(taken)) => break Ok(taken),
            Ok(Err(found)) => error = found,
            Err(error) => break Err(error),
        }
    };
    // Even if it never slept, a notification may have been meant for it.
    if done.is_ok() {
        place.wake_next();
    }
    counted(place, waited, done)
}

fn counted<W: Waiting + ?Sized, T>(
    place: &W,
    waited: bool,
    done: Result<T, W::Error>,
) -> Result<T, W::Error> {
    // A handler may have forked.
    if place.is_forked() {
        return Err(Forked.into());
    }
    place.count(waited, done.as_ref().err());
    done
}

/// Fills all of `out` by `try_fill`. Whenever nothing is ready, the policy applies anew.
pub(crate) fn fill<W: Waiting + ?Sized, U>(
    place: &W,
    out: &mut [U],
    mut try_fill: impl FnMut(&mut [U]) -> Result<usize, W::Error>,
) -> Result<(), FillError<W::Error>> {
    let mut filled = 0;
    while filled < out.len() {
        let rest = &mut out[filled..];
        let given = match try_fill(rest) {
            Err(error) => follow_policy(place, error, || try_fill(rest)),
            given => given,
        };
        filled += given.map_err(|error| {
            // After a fork during the call, what was filled in before is the parent's.
            FillError { filled: if place.is_forked() { 0 } else { filled }, error }
        })?;
    }
    Ok(())
}

/// Async [`fill`] that appends `count` ids to `out`.
pub(crate) async fn fill_async<W: Waiting + ?Sized, U: Copy + Default>(
    place: &W,
    out: &mut Vec<U>,
    count: usize,
    mut try_fill: impl FnMut(&mut [U]) -> Result<usize, W::Error>,
) -> Result<(), W::Error> {
    let mut filling = Filling::new(out, count);
    while filling.is_short() {
        let mut try_block = || filling.extend(&mut try_fill);
        let done = match try_block() {
            Err(error) => follow_policy_async(place, error, try_block).await,
            done => done,
        };
        if let Err(error) = done {
            if place.is_forked() {
                filling.undo();
            }
            return Err(error);
        }
        filling.give_way().await;
    }
    Ok(())
}
