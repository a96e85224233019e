//! Keeps a worker id: has registry and file remember how far its holder may issue.

use std::sync::Arc;
use std::time::Duration;

use super::Registry;
use super::cache::{CacheFile, Cached};
use super::problem::{Problem, Refusal};
use super::session::Mark;
use super::thread::{Answer, SessionThread};
use crate::clock::{Clock, Seldom, Stopwatch};
use crate::error::Error;
use crate::layout::Layout;
use crate::timestamp::Timestamp;
use crate::uid::Uid;
use crate::worker::{LeaseKeeper, RenewError};

/// How often a lease is renewed, as Leaf uploads its timestamp.
pub const RENEW_EVERY: Duration = Duration::from_secs(3);

/// How long the registry is waited for where the file has it already.
const PATIENCE: Duration = Duration::from_secs(1);

/// The keeper of a lease.
#[derive(Debug)]
pub struct Keeper {
    pub registry: Registry,
    pub layout: Layout,
    pub thread: SessionThread,
    pub file: Option<CacheFile>,
    /// What the file says, or would say.
    pub cached: Cached,
    /// This start's own, which the registry knows when it has stored something.
    pub holder: String,
    /// What may have been issued before this start.
    pub base: i64,
    pub max_outage: Option<Duration>,
    pub clock: Arc<dyn Clock>,
    pub outage: Outage,
    pub file_fails: Seldom,
    /// Once lost, always lost.
    pub lost: Option<Refusal>,
}

/// How the registry was, the last times that it was asked.
#[derive(Debug)]
pub struct Outage {
    /// Since when there has been no word from it, and for how long not before that.
    last_word: Stopwatch,
    silent_before: Duration,
    /// What it has not answered yet.
    pending: Option<Answer>,
    is_away: bool,
    seldom: Seldom,
}

impl Outage {
    /// None: there was a word.
    pub fn since(last_word: Stopwatch) -> Self {
        let (silent_before, seldom) = (Duration::ZERO, Seldom::default());
        Self { last_word, silent_before, pending: None, is_away: false, seldom }
    }

    /// One that a start has met with, and told of.
    pub fn before(start: Stopwatch, word: Timestamp, now: Timestamp) -> Self {
        let mut seldom = Seldom::default();
        seldom.is_time();
        let silent_before = now.saturating_since(word);
        Self { last_word: start, silent_before, pending: None, is_away: true, seldom }
    }

    fn silent_for(&self) -> Duration {
        self.silent_before + self.last_word.elapsed()
    }
}

impl LeaseKeeper for Keeper {
    fn renew(&mut self, horizon: u64) -> Result<(), RenewError> {
        if let Some(lost) = &self.lost {
            return Err(RenewError::Lost(lost.clone().explain(&self.registry)));
        }
        let mark = Mark {
            until: self.end_of(horizon).max(self.cached.until),
            timestamp: self.clock.now().as_millis().max(self.cached.timestamp),
        };
        let in_file = self.write(mark);
        let stored = self.store(mark, matches!(in_file, Ok(true)));
        match (stored, in_file) {
            (Err(Problem::Refused(refusal)), _) => Err(self.lose(refusal)),
            (Ok(()), Ok(_)) => Ok(()),
            (Ok(()), Err(error)) => self.go_without_file(&error).map_err(RenewError::Failed),
            (Err(problem), Ok(true)) => self.go_without_registry(problem),
            (Err(problem), _) => Err(RenewError::Failed(problem.explain(&self.registry))),
        }
    }

    fn release(&mut self, last: Option<Uid>) -> Result<(), Error> {
        // Whoever waits for this may start again at once: the file is free when it returns.
        let released = self.give_back(last);
        self.file = None;
        released
    }
}

impl Keeper {
    fn give_back(&mut self, last: Option<Uid>) -> Result<(), Error> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone().explain(&self.registry));
        }
        let last = last.map(|uid| self.layout.decode(uid)).transpose()?;
        let mark = Mark {
            until: last.map_or(self.base, |fields| self.end_of(fields.tick).max(self.base)),
            timestamp: self.clock.now().as_millis().max(self.cached.timestamp),
        };
        let in_file = self.write(mark);
        let released = self.thread.release(mark).and_then(|answer| {
            let is_hopeless = self.outage.is_away && matches!(in_file, Ok(true));
            let limit = if is_hopeless { Duration::ZERO } else { PATIENCE * 3 / 2 };
            answer.wait(limit).unwrap_or_else(|| Err(no_answer(limit)))
        });
        released.map_err(|problem| problem.explain(&self.registry))?;
        in_file.map(drop)
    }

    /// The last millisecond of a tick.
    fn end_of(&self, tick: u64) -> i64 {
        self.layout.time_of(tick.saturating_add(1)).as_millis().saturating_sub(1)
    }

    /// Brings the file up to date; whether there is one.
    pub fn write(&mut self, mark: Mark) -> Result<bool, Error> {
        self.cached.until = mark.until;
        self.cached.timestamp = mark.timestamp;
        match &self.file {
            Some(file) => file.write(&self.cached).map(|()| true),
            None => Ok(false),
        }
    }

    /// Has the registry store the mark. What is in the file need not wait for it: while the registry
    /// is away, its answer is looked for the next time.
    pub fn store(&mut self, mark: Mark, in_file: bool) -> Result<(), Problem> {
        let outage = &mut self.outage;
        let was_away = outage.is_away;
        if let Some(pending) = outage.pending.take() {
            match pending.wait(Duration::ZERO) {
                None if in_file => {
                    outage.pending = Some(pending);
                    return Err(no_answer(Duration::ZERO));
                }
                Some(Ok(())) => outage.is_away = false,
                Some(Err(Problem::Refused(refusal))) => return Err(refusal.into()),
                None | Some(Err(_)) => {}
            }
        }
        let asked = Stopwatch::start();
        let patience = match (in_file, outage.is_away) {
            (true, true) => Duration::ZERO,
            (true, false) => PATIENCE,
            (false, _) => self.registry.servers.deadline() + PATIENCE,
        };
        let answer = self.thread.store(mark)?;
        let Some(stored) = answer.wait(patience) else {
            outage.pending = Some(answer);
            return Err(no_answer(patience));
        };
        stored?;
        if was_away {
            tracing::info!("registry {} is back", self.registry);
        }
        (outage.last_word, outage.silent_before, outage.is_away) = (asked, Duration::ZERO, false);
        self.cached.word = mark.timestamp;
        // From now on it is this start that the registry knows.
        self.cached.holder.clone_from(&self.holder);
        Ok(())
    }

    fn go_without_registry(&mut self, problem: Problem) -> Result<(), RenewError> {
        let outage = &mut self.outage;
        outage.is_away = true;
        let silent_for = outage.silent_for();
        if let Some(limit) = self.max_outage
            && silent_for + RENEW_EVERY > limit
        {
            let problem = format!(
                "no word from it for {silent_for:?}, where {limit:?} is allowed; start again when \
                 it can be reached"
            );
            return Err(self.lose(Refusal::Nodes(problem)));
        }
        if outage.seldom.is_time() {
            tracing::warn!(
                "{}; no word from it for {silent_for:?}; going on with the cache file",
                problem.explain(&self.registry)
            );
        }
        Ok(())
    }

    /// A file that is behind must not be there at the next start.
    fn go_without_file(&mut self, error: &Error) -> Result<(), Error> {
        if let Some(file) = &self.file {
            file.remove()?;
        }
        if self.file_fails.is_time() {
            tracing::warn!("{error}; going on with the registry alone, without a cache file");
        }
        Ok(())
    }

    fn lose(&mut self, refusal: Refusal) -> RenewError {
        let error = refusal.clone().explain(&self.registry);
        self.lost = Some(refusal);
        RenewError::Lost(error)
    }
}

fn no_answer(within: Duration) -> Problem {
    Problem::Away(if within.is_zero() {
        "no answer yet".into()
    } else {
        format!("no answer within {within:?}")
    })
}
