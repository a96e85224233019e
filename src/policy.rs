//! What to do if a take finds nothing, or a put finds no room.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Deadline, SharedLogThrottle, Stopwatch};
use crate::error::TakeError;
use crate::sync::{contained, log};

/// What a take does if nothing is ready ([`TakeError::Empty`]) or may be issued yet ([`TakeError::BorrowLimit`]).
///
/// Other errors are returned at once. So are all errors in a thread that would wait for itself: one that pads, loads
/// segments, renews a lease or asks for another worker id.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum TakePolicy {
    /// Wait for as long as padding is possible: spin a little, then yield, then sleep. Tasks are pending meanwhile. The
    /// default.
    #[default]
    Wait,
    /// Wait for at most this long, then fail with [`TakeError::DeadlineExceeded`], or with [`TakeError::BorrowLimit`]
    /// if that is the reason.
    WaitFor(Duration),
    /// Return the error at once, as Baidu's UidGenerator does.
    Reject,
    /// Ask a handler, made by [`TakePolicy::handler`].
    Handler(TakeHandler),
}

/// A take that found nothing, as passed to a handler.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RejectedTake {
    /// How often this take was tried, from 1.
    pub attempts: u32,
    /// The time since the first try failed.
    pub waited: Duration,
    /// Why the last try failed: [`TakeError::Empty`] or [`TakeError::BorrowLimit`].
    pub error: TakeError,
}

/// A handler's decision about a take that found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TakeDecision {
    /// Try again at once, after yielding to other threads.
    Retry,
    /// Return the error.
    GiveUp,
}

/// A function of yours that decides what a take does if nothing is ready.
#[derive(Clone)]
pub struct TakeHandler(Arc<Handler<dyn Fn(RejectedTake) -> TakeDecision + Send + Sync>>);

impl TakePolicy {
    /// Asks `handler` each time a take finds nothing, in the taker's thread. A handler that panics gives up; the panic
    /// is caught.
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

    /// Starts the policy for a take that has found nothing.
    pub(crate) fn rejections(&self) -> Rejections<'_> {
        let deadline = Deadline::after(match self {
            Self::WaitFor(timeout) => Some(*timeout),
            _ => None,
        });
        Rejections { policy: self, attempts: 0, since: None, deadline, clock_deadline: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    Yield,
    /// Sleep until something may be ready, or this time is over.
    Sleep(Option<Duration>),
    /// Sleep for this time, whatever becomes ready.
    Nap(Duration),
}

#[derive(Debug)]
pub(crate) struct Rejections<'a> {
    policy: &'a TakePolicy,
    attempts: u32,
    since: Option<Stopwatch>,
    deadline: Deadline,
    /// Until then, the take waits for a clock that is a little behind.
    pub(crate) clock_deadline: Option<Deadline>,
}

impl Rejections<'_> {
    /// Called with the error of each try. Returns an error if the take is over.
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

/// What a put does if the ring is full.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum PutPolicy {
    /// Give the run back to the caller, who may put it again later. The default, as in Baidu's UidGenerator, which
    /// loses the uid, however.
    #[default]
    Discard,
    /// Wait until takers have made room.
    Wait,
    /// Ask a handler, made by [`PutPolicy::handler`].
    Handler(PutHandler),
}

/// A put that found the ring full, as passed to a handler.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RejectedPut {
    /// How often this put was tried, from 1.
    pub attempts: u32,
    /// The time since the first try failed.
    pub waited: Duration,
}

/// A handler's decision about a put that found the ring full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PutDecision {
    /// Try again, after a sleep of at most a millisecond.
    Retry,
    /// Give the run back to the caller.
    Discard,
}

/// A function of yours that decides what a put does if the ring is full.
#[derive(Clone)]
pub struct PutHandler(Arc<Handler<dyn Fn(RejectedPut) -> PutDecision + Send + Sync>>);

impl PutPolicy {
    /// Asks `handler` each time a put finds the ring full, in the producer's thread. A handler that panics discards;
    /// the panic is caught, and padding continues.
    pub fn handler(handler: impl Fn(RejectedPut) -> PutDecision + Send + Sync + 'static) -> Self {
        Self::Handler(PutHandler(Handler::new(handler)))
    }

    /// Continues after the ring was found full, until `has_room` returns true. That is tried after each `park`, which
    /// sleeps until there is room or its timeout is over. Returns whether there is room.
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

    /// For a padder that has filled its ring, as at the end of each padding: returns when to try again, if a handler
    /// wants that.
    pub(crate) fn retry_when_full(&self) -> Option<Duration> {
        match self {
            Self::Handler(handler) => match handler.decide(1, Duration::ZERO) {
                PutDecision::Retry => Some(RETRY_AFTER),
                PutDecision::Discard => None,
            },
            // With `Wait`, every run that is taken wakes the padder.
            Self::Discard | Self::Wait => None,
        }
    }
}

const RETRY_AFTER: Duration = Duration::from_millis(1);

impl PutHandler {
    fn decide(&self, attempts: u32, waited: Duration) -> PutDecision {
        let rejected = RejectedPut { attempts, waited };
        self.0.ask("put", PutDecision::Discard, |decide| decide(rejected))
    }
}

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
    /// Returns the handler's decision, or `fallback` if it panics: a mistake in user code must neither end the padder
    /// nor poison a taker.
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
