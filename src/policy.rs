//! What happens when a take finds nothing, or a put finds no room.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Deadline, SharedLogThrottle, Stopwatch};
use crate::error::TakeError;
use crate::sync::{contained, log};

/// What a take does when nothing is ready ([`TakeError::Empty`]), or may be issued yet
/// ([`TakeError::BorrowLimit`]).
///
/// Every other error is returned at once, whatever the policy. The error is also returned at once in a thread
/// that would wait for itself: one that pads, loads segments, renews a lease or asks for another worker id, and
/// calls code that takes.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum TakePolicy {
    /// Wait, for as long as padding is possible: spin a little, then yield, then sleep; in a task, be
    /// pending. The default.
    #[default]
    Wait,
    /// Wait so long at most, then [`TakeError::DeadlineExceeded`], or
    /// [`TakeError::BorrowLimit`] if that is what was waited for.
    WaitFor(Duration),
    /// Return the error at once, as Baidu's UidGenerator does.
    Reject,
    /// Ask a handler, made by [`TakePolicy::handler`].
    Handler(TakeHandler),
}

/// A take that found nothing, as a handler gets it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RejectedTake {
    /// How often this take has been tried, from 1.
    pub attempts: u32,
    /// How long it has been since the first try failed.
    pub waited: Duration,
    /// Why the last try failed: [`TakeError::Empty`] or [`TakeError::BorrowLimit`].
    pub error: TakeError,
}

/// What a handler decides about a take that found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TakeDecision {
    /// Try again: at once, but for giving other threads a chance to run.
    Retry,
    /// Return the error.
    GiveUp,
}

/// A user's function that decides what a take does when nothing is ready.
#[derive(Clone)]
pub struct TakeHandler(Arc<Handler<dyn Fn(RejectedTake) -> TakeDecision + Send + Sync>>);

impl TakePolicy {
    /// Asks `handler` each time a take finds nothing. It runs in the taker's thread. A handler
    /// that panics gives up, and the panic goes no further.
    ///
    /// ```
    /// use uidring::policy::{TakeDecision, TakePolicy};
    ///
    /// let thrice = TakePolicy::handler(|take| match take.attempts {
    ///     ..3 => TakeDecision::Retry,
    ///     _ => TakeDecision::GiveUp,
    /// });
    /// # drop(thrice);
    /// ```
    pub fn handler(handler: impl Fn(RejectedTake) -> TakeDecision + Send + Sync + 'static) -> Self {
        Self::Handler(TakeHandler(Handler::new(handler)))
    }

    /// For a take that has found nothing.
    pub(crate) fn rejections(&self) -> Rejections<'_> {
        let deadline = Deadline::after(match self {
            Self::WaitFor(timeout) => Some(*timeout),
            _ => None,
        });
        Rejections { policy: self, attempts: 0, since: None, deadline, clock_deadline: None }
    }
}

/// What to do before the next try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Give others a chance to run.
    Yield,
    /// Sleep until something may be ready, or for this time.
    Sleep(Option<Duration>),
    /// Sleep for this time, whatever is ready meanwhile.
    Nap(Duration),
}

/// A take that finds nothing, and what its policy says.
#[derive(Debug)]
pub(crate) struct Rejections<'a> {
    policy: &'a TakePolicy,
    attempts: u32,
    since: Option<Stopwatch>,
    deadline: Deadline,
    /// Until then the take waits for a clock that is a little behind, if it does.
    pub(crate) clock_deadline: Option<Deadline>,
}

impl Rejections<'_> {
    /// Called with the error of each try; returns an error where the take is over.
    pub(crate) fn next(&mut self, error: TakeError) -> Result<Pause, TakeError> {
        match self.policy {
            _ if !error.may_pass() => Err(error),
            TakePolicy::Reject => Err(error),
            TakePolicy::Handler(handler) => {
                self.attempts = self.attempts.saturating_add(1);
                let since = *self.since.get_or_insert_with(Stopwatch::start);
                let (attempts, waited) = (self.attempts, since.elapsed());
                match handler.decide(RejectedTake { attempts, waited, error }) {
                    TakeDecision::Retry => Ok(Pause::Yield),
                    TakeDecision::GiveUp => Err(error),
                }
            }
            TakePolicy::Wait | TakePolicy::WaitFor(_) => match self.deadline.remaining() {
                Some(Duration::ZERO) => Err(match error {
                    TakeError::Empty => TakeError::DeadlineExceeded,
                    // It says more.
                    limit => limit,
                }),
                left => Ok(Pause::Sleep(left)),
            },
        }
    }
}

impl TakeHandler {
    fn decide(&self, rejected: RejectedTake) -> TakeDecision {
        self.0.ask("take", TakeDecision::GiveUp, |decide| decide(rejected))
    }
}

/// What a put does when the ring is full.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum PutPolicy {
    /// Give the run back to the caller, who may put it again later. The default, as in Baidu's
    /// UidGenerator, which, however, loses the uid.
    #[default]
    Discard,
    /// Wait until takers have made room.
    Wait,
    /// Ask a handler, made by [`PutPolicy::handler`].
    Handler(PutHandler),
}

/// A put that found the ring full, as a handler gets it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RejectedPut {
    /// How often this put has been tried, from 1.
    pub attempts: u32,
    /// How long it has been since the first try failed.
    pub waited: Duration,
}

/// What a handler decides about a put that found the ring full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PutDecision {
    /// Try again, after a sleep of at most a millisecond.
    Retry,
    /// Give the run back to the caller.
    Discard,
}

/// A user's function that decides what a put does when the ring is full.
#[derive(Clone)]
pub struct PutHandler(Arc<Handler<dyn Fn(RejectedPut) -> PutDecision + Send + Sync>>);

impl PutPolicy {
    /// Asks `handler` each time a put finds the ring full. It runs in the producer's thread. A
    /// handler that panics discards, and the panic goes no further: padding goes on.
    pub fn handler(handler: impl Fn(RejectedPut) -> PutDecision + Send + Sync + 'static) -> Self {
        Self::Handler(PutHandler(Handler::new(handler)))
    }

    /// Goes on after the ring was found full, until `has_room` says true: that is tried once after
    /// each `park`, which sleeps until there is room or its timeout is over. Returns whether
    /// there is room.
    pub(crate) fn after_full(
        &self,
        mut has_room: impl FnMut() -> bool,
        mut park: impl FnMut(Option<Duration>),
    ) -> bool {
        let since = Stopwatch::start();
        let mut attempts = 1;
        loop {
            let nap = match self {
                Self::Discard => return false,
                Self::Wait => None,
                Self::Handler(handler) => match handler.decide(attempts, since.elapsed()) {
                    PutDecision::Discard => return false,
                    PutDecision::Retry => Some(RETRY_AFTER),
                },
            };
            park(nap);
            if has_room() {
                return true;
            }
            attempts = attempts.saturating_add(1);
        }
    }

    /// For a padder, which has found its ring full, as it does at the end of each padding: when to
    /// try again, if a handler wants that.
    pub(crate) fn retry_when_full(&self) -> Option<Duration> {
        match self {
            Self::Handler(handler) => match handler.decide(1, Duration::ZERO) {
                PutDecision::Retry => Some(RETRY_AFTER),
                PutDecision::Discard => None,
            },
            // A ring whose puts wait wakes its padder with every run that is taken.
            Self::Discard | Self::Wait => None,
        }
    }
}

/// The nap of a put that tries again.
const RETRY_AFTER: Duration = Duration::from_millis(1);

impl PutHandler {
    fn decide(&self, attempts: u32, waited: Duration) -> PutDecision {
        let rejected = RejectedPut { attempts, waited };
        self.0.ask("put", PutDecision::Discard, |decide| decide(rejected))
    }
}

/// A user's function.
struct Handler<F: ?Sized> {
    throttle: SharedLogThrottle,
    decide: F,
}

impl<F> Handler<F> {
    fn new(decide: F) -> Arc<Self> {
        Arc::new(Self { throttle: SharedLogThrottle::default(), decide })
    }
}

impl<F: ?Sized> Handler<F> {
    /// The handler's decision, or `fallback` where it panics: a user's mistake must not end the
    /// padder, nor poison a taker.
    fn ask<D>(&self, kind: &'static str, fallback: D, ask: impl FnOnce(&F) -> D) -> D {
        contained(|| ask(&self.decide)).unwrap_or_else(|| {
            if self.throttle.is_due() {
                log!(error, kind, "a policy's handler panicked; going on without its decision");
            }
            fallback
        })
    }
}

impl fmt::Debug for TakePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wait => f.write_str("Wait"),
            Self::WaitFor(timeout) => f.debug_tuple("WaitFor").field(timeout).finish(),
            Self::Reject => f.write_str("Reject"),
            Self::Handler(_) => f.write_str("Handler(..)"),
        }
    }
}

impl fmt::Debug for PutPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discard => "Discard",
            Self::Wait => "Wait",
            Self::Handler(_) => "Handler(..)",
        })
    }
}
