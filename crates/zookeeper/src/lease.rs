//! The lease on an instance's worker id.

use std::sync::Arc;
use std::time::Duration;

use uidring::adapter::{Chain, LogThrottle, log, read};
use uidring::clock::Clock;
use uidring::worker::{LeaseBackend, LeaseTerms, RenewError};
use uidring::{Error, Layout, Timestamp, Uid};

use super::cache::{Cached, LocalFile};
use super::entry::Mark;
use super::error::ZooKeeperError;
use super::registry::Registry;
use super::session::SessionHandle;

/// How often a lease is renewed, unless a short budget needs more. Leaf uploads its timestamp as often.
const RENEW_EVERY: Duration = Duration::from_secs(3);

/// How long a release waits for the registry.
const RELEASE_PATIENCE: Duration = Duration::from_millis(1_500);

/// How long a renewal with a fallback waits for the registry if the file holds the mark. Otherwise it waits this much
/// longer than a request may take.
const PATIENCE_WITH_FILE: Duration = Duration::from_secs(1);

/// A lease on an instance's worker id.
///
/// It ends when the registry is away for longer than the budget. Each horizon includes what is issued meanwhile
/// ([`LeaseTerms::reserve`]), so this grants nothing by itself. With a [`Fallback`], it goes on instead.
pub struct ZkLease<S, F> {
    pub registry: Registry,
    pub layout: Layout,
    pub clock: Arc<dyn Clock>,
    pub session: S,
    /// Holds this host's lock.
    pub file: Option<F>,
    /// The last millisecond with ids that may have been issued before this start.
    pub base: Timestamp,
    /// The furthest mark that the registry was asked to store. It may have stored it whatever it answered, so no
    /// renewal asks for less.
    pub mark: Mark,
    /// How long a renewal without a fallback waits for the registry. A longer one goes on in the background.
    pub patience: Duration,
    pub fallback: Option<Fallback>,
    /// Once set, it stays.
    pub lost: Option<ZooKeeperError>,
}

/// What an instance needs to go on without the registry, as Leaf does. Only the local file then remembers how far it
/// may issue, and a start elsewhere does not see it.
pub struct Fallback {
    /// The file's contents, or what they should be.
    pub cached: Cached,
    /// This start's own holder. The registry knows it once it has stored something.
    pub holder: String,
    /// Whether the registry failed to answer the last time.
    pub is_away: bool,
    /// When the registry last answered, or when this start began.
    pub last_answer: Timestamp,
    pub outage_logged: LogThrottle,
    pub file_fails: LogThrottle,
}

impl Fallback {
    /// Returns the fallback of a start.
    pub fn new(cached: Cached, holder: String, is_away: bool) -> Self {
        let (mut outage_logged, file_fails) = Default::default();
        if is_away {
            // The start has just logged it.
            LogThrottle::is_due(&mut outage_logged);
        }
        let last_answer = cached.mark.timestamp;
        Self { cached, holder, is_away, last_answer, outage_logged, file_fails }
    }
}

/// Returns the terms of a lease that survives an outage this long, or any outage.
pub fn terms(max_outage: Option<Duration>) -> LeaseTerms {
    let mut terms = LeaseTerms::default();
    // No margin is needed: the budget is shorter than the session.
    terms.lasts = max_outage;
    terms.renew_every = max_outage.map_or(RENEW_EVERY, |longest| RENEW_EVERY.min(longest / 3));
    terms.reserve = max_outage.unwrap_or_default();
    terms
}

/// Returns the last millisecond of a tick.
pub fn end_of(layout: &Layout, tick: u64) -> Timestamp {
    let next = layout.time_of(tick.saturating_add(1));
    Timestamp::from_millis(next.as_millis().saturating_sub(1))
}

impl<S: SessionHandle, F: LocalFile> LeaseBackend for ZkLease<S, F> {
    fn renew(&mut self, horizon: u64) -> Result<(), RenewError> {
        if let Some(lost) = &self.lost {
            return Err(RenewError::Lost(lost.clone().into()));
        }
        let until = end_of(&self.layout, horizon).max(self.mark.until);
        let in_file = self.advance(until);
        match (self.store(matches!(in_file, Ok(true))), in_file) {
            (Err(error), _) if error.is_final() => {
                self.lost = Some(error.clone());
                Err(RenewError::Lost(error.into()))
            }
            (Ok(()), Ok(_)) => Ok(()),
            (Ok(()), Err(error)) => self.go_without_file(&error).map_err(RenewError::Failed),
            (Err(error), Ok(true)) => {
                self.go_without_registry(&error);
                Ok(())
            }
            (Err(error), _) => Err(RenewError::Failed(error.into())),
        }
    }

    fn release(&mut self, last: Option<Uid>) -> Result<(), Error> {
        let released = self.give_back(last);
        // Free the file before returning: the caller may start again at once.
        self.file = None;
        released
    }
}

impl<S: SessionHandle, F: LocalFile> ZkLease<S, F> {
    fn give_back(&mut self, last: Option<Uid>) -> Result<(), Error> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone().into());
        }
        let last = last.map(|uid| self.layout.decode(uid)).transpose()?;
        let until = last.map_or(self.base, |last| end_of(&self.layout, last.tick).max(self.base));
        let in_file = self.advance(until);
        let is_away = self.fallback.as_ref().is_some_and(|fallback| fallback.is_away);
        let is_hopeless = is_away && matches!(in_file, Ok(true));
        let patience = if is_hopeless { Duration::ZERO } else { RELEASE_PATIENCE };
        self.session.release(self.mark, patience)?;
        in_file.map(drop)
    }

    /// Moves the mark, and updates the file if the lease depends on it. Returns whether the file holds the mark.
    fn advance(&mut self, until: Timestamp) -> Result<bool, Error> {
        let timestamp = read(&self.clock).max(self.mark.timestamp);
        self.mark = Mark { until, timestamp };
        let (Some(fallback), Some(file)) = (&mut self.fallback, &self.file) else {
            return Ok(false);
        };
        fallback.cached.mark = self.mark;
        file.write(&fallback.cached).map(|()| true)
    }

    /// Stores the mark in the registry. If the file holds it, this need not wait: while the registry is away, the next
    /// call looks for its answer.
    pub fn store(&mut self, in_file: bool) -> Result<(), ZooKeeperError> {
        let Some(Fallback { cached, holder, is_away, last_answer, .. }) = &mut self.fallback else {
            return self.session.store(self.mark, self.patience);
        };
        let patience = match (in_file, *is_away) {
            (true, true) => Duration::ZERO,
            (true, false) => PATIENCE_WITH_FILE,
            (false, _) => self.registry.servers.connect_deadline + PATIENCE_WITH_FILE,
        };
        self.session.store(self.mark, patience)?;
        if *is_away {
            log!(info, "registry {} is back", self.registry);
        }
        *is_away = false;
        *last_answer = self.mark.timestamp;
        // The registry now knows this start.
        cached.holder.clone_from(holder);
        Ok(())
    }

    fn go_without_registry(&mut self, error: &ZooKeeperError) {
        let Some(fallback) = &mut self.fallback else { return };
        fallback.is_away = true;
        if fallback.outage_logged.is_due() {
            let silent_for = self.mark.timestamp.saturating_since(fallback.last_answer);
            log!(
                warn,
                "{}; no answer from it for {silent_for:?}; going on with the cache file, so that an \
                 instance of this name that starts elsewhere may repeat uids",
                Chain(error)
            );
        }
    }

    /// Removes an outdated file, which the next start must not find.
    fn go_without_file(&mut self, error: &Error) -> Result<(), Error> {
        if let Some(file) = &self.file {
            file.remove()?;
        }
        if self.fallback.as_mut().is_some_and(|fallback| fallback.file_fails.is_due()) {
            let error = Chain(error);
            log!(warn, "{error}; going on with the registry alone, without a cache file");
        }
        Ok(())
    }
}
