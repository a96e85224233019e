//! An instance in the registry, across all its sessions.

use std::time::Duration;

use uidring::StoreErrorKind;
use uidring::adapter::{LogThrottle, log};

use super::claim::Before;
use super::entry::{ATTEMPTS, Applicant, Entry, InstanceNodes, Mark};
use super::error::ZooKeeperError;
use super::registry::Outages;
use super::tree::{Ensemble, Failure, Tree};

#[derive(Clone, Debug)]
pub struct Claim {
    pub worker_id: u64,
    pub mark: Mark,
    /// How long an outage may last, if it is bounded.
    pub max_outage: Option<Duration>,
}

/// A lease's access to its session: a thread or, in models of the protocol, the session itself.
pub trait SessionHandle: Send + 'static {
    fn claim(&mut self, previous: Option<String>) -> Result<Claim, ZooKeeperError>;

    /// Tells the session what was done without the registry. Call it before storing anything.
    fn recall(&mut self, before: Before) -> Result<(), ZooKeeperError>;

    /// Stores the mark in the registry. After `patience` it fails, but the work goes on. The next call fails at once if
    /// that work failed for good or, called with zero patience, if it is not done.
    fn store(&mut self, mark: Mark, patience: Duration) -> Result<(), ZooKeeperError>;

    /// Stores the last mark, then ends the session.
    fn release(&mut self, mark: Mark, patience: Duration) -> Result<(), ZooKeeperError>;
}

pub struct Session<E: Ensemble> {
    ensemble: E,
    applicant: Applicant,
    before: Before,
    tree: Option<E::Tree>,
    /// Claimed in the session of `tree`.
    entry: Option<Entry>,
    /// How long an outage the first session allows.
    max_outage: Option<Duration>,
    /// Once set, it stays.
    lost: Option<ZooKeeperError>,
    expired: LogThrottle,
}

impl<E: Ensemble> Session<E> {
    pub fn new(ensemble: E, applicant: Applicant) -> Self {
        Self {
            ensemble,
            applicant,
            before: Before::Start { previous: None },
            tree: None,
            entry: None,
            max_outage: None,
            lost: None,
            expired: LogThrottle::default(),
        }
    }

    /// Sets what a start without the registry has done.
    pub fn recall(&mut self, before: Before) {
        self.before = before;
    }

    /// Claims a worker id for a start. Each of its few steps has the deadline. It also waits for the session of a
    /// process that has just died.
    pub async fn start(&mut self, previous: Option<String>) -> Result<Claim, ZooKeeperError> {
        self.before = Before::Start { previous };
        let claimed = self.connect_and_claim().await;
        if claimed.is_err() {
            self.leave().await;
        }
        let (worker_id, mark) = claimed?;
        Ok(Claim { worker_id, mark, max_outage: self.max_outage })
    }

    /// Stores the mark in the registry, in a new session if necessary.
    pub async fn store(&mut self, mark: Mark) -> Result<(), ZooKeeperError> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        let stored = self.try_in_time(mark, false).await;
        self.lost = stored.as_ref().err().filter(|error| error.is_final()).cloned();
        stored
    }

    /// Stores the last mark and frees the instance's name. Fails without a session that has claimed the name, because
    /// it may be another's.
    pub async fn release(&mut self, mark: Mark) -> Result<(), ZooKeeperError> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        if self.entry.is_none() || self.tree.as_ref().is_none_or(Tree::is_over) {
            return Err(self.applicant.registry.unreachable("there is no session with it"));
        }
        self.try_in_time(mark, true).await
    }

    /// Ends the session, if any, and tells the servers if they can be reached.
    pub async fn leave(&mut self) {
        self.entry = None;
        if let Some(tree) = self.tree.take() {
            tree.close().await;
        }
    }

    async fn try_in_time(&mut self, mark: Mark, is_last: bool) -> Result<(), ZooKeeperError> {
        let limit = self.applicant.registry.servers.connect_deadline;
        let ensemble = self.ensemble.clone();
        let stored = ensemble.within(limit, self.try_store(mark, is_last)).await;
        stored.unwrap_or_else(|| Err(self.applicant.registry.no_answer(limit)))
    }

    async fn try_store(&mut self, mark: Mark, is_last: bool) -> Result<(), ZooKeeperError> {
        if self.tree.as_ref().is_some_and(Tree::is_over) {
            self.tree = None;
            self.entry = None;
            if self.expired.is_due() {
                let registry = &self.applicant.registry;
                log!(warn, "registry {registry}: the session is lost; starting a new one");
            }
        }
        for attempt in 0..ATTEMPTS {
            let (Some(entry), Some(tree)) = (&self.entry, &self.tree) else {
                self.connect_and_claim().await?;
                continue;
            };
            let nodes =
                InstanceNodes { ensemble: &self.ensemble, applicant: &self.applicant, tree };
            // A transaction without an answer may have been executed, or may still be. Until the answer comes, the
            // versions are unknown.
            match nodes.write(entry.clone(), mark, is_last).await {
                Ok(entry) => {
                    if let Before::Claimed { known, .. } = &mut self.before {
                        known.clone_from(&entry);
                    }
                    self.entry = Some(entry);
                    return Ok(());
                }
                Err(Failure::Changed | Failure::Missing) => {
                    self.entry = Some(nodes.reload(entry).await?);
                    nodes.back_off(attempt).await;
                }
                Err(failure) => return Err(nodes.failed(failure)),
            }
        }
        Err(self.applicant.registry.interference())
    }

    /// Connects if there is no session, and claims the worker id in it.
    async fn connect_and_claim(&mut self) -> Result<(u64, Mark), ZooKeeperError> {
        let tree = match &self.tree {
            Some(tree) => tree.clone(),
            None => {
                let tree = self.ensemble.connect().await?;
                self.tree.insert(tree).clone()
            }
        };
        self.check_session(tree.session_timeout())?;
        let (ensemble, applicant) = (&self.ensemble, &self.applicant);
        let nodes = InstanceNodes { ensemble, applicant, tree: &tree };
        let (worker_id, entry) = nodes.claim(&self.before).await?;
        let mark = entry.mark;
        self.before = Before::Claimed { worker_id, known: entry.clone() };
        self.entry = Some(entry);
        Ok((worker_id, mark))
    }

    /// Refuses a session that may end, and free the name, before this process has stopped. The servers end a session no
    /// earlier than its timeout after they last heard from it, and this host's clock may run slower than theirs by a
    /// tenth.
    fn check_session(&mut self, granted: Duration) -> Result<(), ZooKeeperError> {
        let registry = &self.applicant.registry;
        let Outages::Bounded(asked) = registry.outages else { return Ok(()) };
        let longest = granted * 9 / 10;
        let max_outage = self.max_outage.or(asked).unwrap_or(longest);
        if max_outage > longest {
            let problem = format!(
                "the servers grant sessions of {granted:?}, of which an outage may take nine tenths, less than \
                 {max_outage:?}; allow a shorter one, or ask for longer sessions within the servers' maxSessionTimeout"
            );
            return Err(registry.error(StoreErrorKind::Invalid, problem));
        }
        self.max_outage = Some(max_outage);
        Ok(())
    }
}
