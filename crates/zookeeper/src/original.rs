//! Keeps a worker id as Leaf does: while the registry is away, the local file alone remembers how far
//! its holder may issue. Somebody who starts elsewhere meanwhile does not know what is in it.

use std::sync::Arc;
use std::time::Duration;

use uidring::adapter::{LogThrottle, Stopwatch, log, read};
use uidring::clock::Clock;
use uidring::worker::{LeaseBackend, RenewError};
use uidring::{Error, Layout, Timestamp, Uid};

use super::Registry;
use super::cache::{Cached, LocalFile};
use super::keeper::{LAST_PATIENCE, end_of};
use super::link::Link;
use super::problem::{Problem, Refusal};
use super::session::Mark;

/// How long the registry is waited for where the file has it already.
const PATIENCE: Duration = Duration::from_secs(1);

/// The keeper of a lease that goes on without the registry.
pub struct OriginalKeeper<L, F> {
    pub registry: Registry,
    pub layout: Layout,
    pub link: L,
    pub file: Option<F>,
    /// What the file says, or would say.
    pub cached: Cached,
    /// This start's own, which the registry knows when it has stored something.
    pub holder: String,
    /// What may have been issued before this start.
    pub base: i64,
    pub clock: Arc<dyn Clock>,
    pub outage: Outage,
    pub file_fails: LogThrottle,
    /// Once lost, always lost.
    pub lost: Option<Refusal>,
}

/// How the registry was, the last times that it was asked.
#[derive(Debug)]
pub struct Outage {
    /// Since when there has been no word from it, and for how long not before that.
    last_word: Stopwatch,
    silent_before: Duration,
    is_away: bool,
    seldom: LogThrottle,
}

impl Outage {
    /// None: there was a word.
    pub fn since(last_word: Stopwatch) -> Self {
        let (silent_before, seldom) = (Duration::ZERO, LogThrottle::default());
        Self { last_word, silent_before, is_away: false, seldom }
    }

    /// One that a start has met with, and told of.
    pub fn before(start: Stopwatch, word: Timestamp, now: Timestamp) -> Self {
        let mut seldom = LogThrottle::default();
        seldom.is_due();
        let silent_before = now.saturating_since(word);
        Self { last_word: start, silent_before, is_away: true, seldom }
    }

    fn silent_for(&self) -> Duration {
        self.silent_before + self.last_word.elapsed()
    }
}

impl<L: Link, F: LocalFile> LeaseBackend for OriginalKeeper<L, F> {
    fn renew(&mut self, horizon: u64) -> Result<(), RenewError> {
        if let Some(lost) = &self.lost {
            return Err(RenewError::Lost(lost.clone().explain(&self.registry)));
        }
        let mark = Mark {
            until: end_of(&self.layout, horizon).max(self.cached.until),
            timestamp: read(&self.clock).as_millis().max(self.cached.timestamp),
        };
        let in_file = self.write(mark);
        let stored = self.store(mark, matches!(in_file, Ok(true)));
        match (stored, in_file) {
            (Err(Problem::Refused(refusal)), _) => Err(self.lose(refusal)),
            (Ok(()), Ok(_)) => Ok(()),
            (Ok(()), Err(error)) => self.go_without_file(&error).map_err(RenewError::Failed),
            (Err(problem), Ok(true)) => {
                self.go_without_registry(problem);
                Ok(())
            }
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

impl<L: Link, F: LocalFile> OriginalKeeper<L, F> {
    fn give_back(&mut self, last: Option<Uid>) -> Result<(), Error> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone().explain(&self.registry));
        }
        let last = last.map(|uid| self.layout.decode(uid)).transpose()?;
        let mark = Mark {
            until: last.map_or(self.base, |last| end_of(&self.layout, last.tick).max(self.base)),
            timestamp: read(&self.clock).as_millis().max(self.cached.timestamp),
        };
        let in_file = self.write(mark);
        let is_hopeless = self.outage.is_away && matches!(in_file, Ok(true));
        let patience = if is_hopeless { Duration::ZERO } else { LAST_PATIENCE };
        let released = self.link.release(mark, patience);
        released.map_err(|problem| problem.explain(&self.registry))?;
        in_file.map(drop)
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
        let asked = Stopwatch::start();
        let patience = match (in_file, outage.is_away) {
            (true, true) => Duration::ZERO,
            (true, false) => PATIENCE,
            (false, _) => self.registry.servers.deadline() + PATIENCE,
        };
        self.link.store(mark, patience)?;
        if outage.is_away {
            log!(info, "registry {} is back", self.registry);
        }
        (outage.last_word, outage.silent_before, outage.is_away) = (asked, Duration::ZERO, false);
        self.cached.word = mark.timestamp;
        // From now on it is this start that the registry knows.
        self.cached.holder.clone_from(&self.holder);
        Ok(())
    }

    fn go_without_registry(&mut self, problem: Problem) {
        let outage = &mut self.outage;
        outage.is_away = true;
        if outage.seldom.is_due() {
            log!(
                warn,
                "{}; no word from it for {:?}; going on with the cache file, so that an instance of \
                 this name that starts elsewhere may repeat uids",
                problem.explain(&self.registry),
                outage.silent_for()
            );
        }
    }

    /// A file that is behind must not be there at the next start.
    fn go_without_file(&mut self, error: &Error) -> Result<(), Error> {
        if let Some(file) = &self.file {
            file.remove()?;
        }
        if self.file_fails.is_due() {
            log!(warn, "{error}; going on with the registry alone, without a cache file");
        }
        Ok(())
    }

    fn lose(&mut self, refusal: Refusal) -> RenewError {
        let error = refusal.clone().explain(&self.registry);
        self.lost = Some(refusal);
        RenewError::Lost(error)
    }
}
