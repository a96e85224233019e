//! An instance's nodes in the registry, over whatever sessions there are.

mod claim;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use uidring::adapter::{LogThrottle, log};
use uidring::clock::Clock;

use super::Registry;
use super::nodes::{Endpoint, Reserved, VERSION};
use super::problem::{Problem, Refusal};
use super::tree::{Ensemble, Failure, Kind, Stat, Tree, Write, Written};

/// How often a write is tried that others interfere with.
const ATTEMPTS: u32 = 8;

/// The longest pause before the second try, which doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// Who an instance is, and how it is to be let in.
#[derive(Debug)]
pub struct Applicant {
    pub registry: Registry,
    /// Of this start alone.
    pub holder: String,
    /// For the JSON.
    pub address: (String, String),
    pub max_worker_id: u64,
    pub max_clock_difference: Option<Duration>,
    pub clock: Arc<dyn Clock>,
}

/// What came before, as far as it is known here.
#[derive(Clone, Debug)]
pub enum Past {
    /// This is a start. The local file names the holder before it, which is dead.
    Start { previous: Option<String> },
    /// The start went by the local file: nothing up to this millisecond is issued again.
    WithoutRegistry { worker_id: u64, floor: i64, previous: String },
    /// The worker id was claimed in the registry.
    Claimed { worker_id: u64 },
}

/// How far ids may have been issued, and the time when that was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub until: i64,
    pub timestamp: i64,
}

/// What a start gets.
#[derive(Clone, Debug)]
pub struct Claim {
    pub worker_id: u64,
    pub mark: Mark,
    /// How long an outage may last at most, if it is bounded.
    pub max_outage: Option<Duration>,
}

/// The nodes that are written, and their versions as this instance has left them.
#[derive(Clone, Debug)]
struct Held {
    node: String,
    endpoint_version: i32,
    reserved_version: i32,
    mark: Mark,
}

pub struct Session<E: Ensemble> {
    ensemble: E,
    applicant: Applicant,
    past: Past,
    tree: Option<E::Tree>,
    /// In the session of `tree`.
    held: Option<Held>,
    /// What the servers have granted room for, once they have.
    max_outage: Option<Duration>,
    /// Once refused, always refused.
    lost: Option<Refusal>,
    expired: LogThrottle,
}

impl<E: Ensemble> Session<E> {
    pub fn new(ensemble: E, applicant: Applicant) -> Self {
        let past = Past::Start { previous: None };
        Self {
            ensemble,
            applicant,
            past,
            tree: None,
            held: None,
            max_outage: None,
            lost: None,
            expired: LogThrottle::default(),
        }
    }

    /// What the present start is to know of the one before it.
    pub fn set_past(&mut self, past: Past) {
        self.past = past;
    }

    /// Claims a worker id for a start. Each of its few steps has the deadline, and the session of a
    /// process that has just died is waited for.
    pub async fn start(&mut self) -> Result<Claim, Problem> {
        let claimed = self.connect_and_claim().await;
        if claimed.is_err() {
            self.leave().await;
        }
        let Held { mark, .. } = claimed?;
        let Past::Claimed { worker_id } = self.past else {
            return Err(Problem::Denied("nothing was claimed".into()));
        };
        Ok(Claim { worker_id, mark, max_outage: self.max_outage })
    }

    /// Has the registry remember the mark, in a new session if need be.
    pub async fn store(&mut self, mark: Mark) -> Result<(), Problem> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone().into());
        }
        let stored = self.try_in_time(mark, false).await;
        if let Err(Problem::Refused(refusal)) = &stored {
            self.lost = Some(refusal.clone());
        }
        stored
    }

    /// Stores the last mark, and frees the instance's name, if this session has it: otherwise the name
    /// may be another's.
    pub async fn release(&mut self, mark: Mark) -> Result<(), Problem> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone().into());
        }
        if self.held.is_none() || self.tree.as_ref().is_none_or(Tree::is_over) {
            return Err(Problem::Away("there is no session with it".into()));
        }
        self.try_in_time(mark, true).await
    }

    /// Ends the session, if there is one. The servers are told if they can be.
    pub async fn leave(&mut self) {
        self.held = None;
        if let Some(tree) = self.tree.take() {
            tree.close().await;
        }
    }

    async fn try_in_time(&mut self, mark: Mark, is_last: bool) -> Result<(), Problem> {
        let limit = self.applicant.registry.servers.deadline();
        let ensemble = self.ensemble.clone();
        let stored = ensemble.within(limit, self.try_store(mark, is_last)).await;
        stored.unwrap_or_else(|| Err(Problem::Away(format!("no answer within {limit:?}"))))
    }

    async fn try_store(&mut self, mark: Mark, is_last: bool) -> Result<(), Problem> {
        if self.tree.as_ref().is_some_and(Tree::is_over) {
            self.tree = None;
            self.held = None;
            if self.expired.is_due() {
                let registry = &self.applicant.registry;
                log!(warn, "registry {registry}: the session is lost; a new one is begun");
            }
        }
        for attempt in 0..ATTEMPTS {
            let (held, tree) = match (&self.held, &self.tree) {
                (Some(held), Some(tree)) => (held.clone(), tree.clone()),
                _ => {
                    self.connect_and_claim().await?;
                    continue;
                }
            };
            // A transaction that is cut short may have been executed, or may yet be: until the
            // answer is there, the versions are not known.
            match self.write(&tree, held, mark, is_last).await {
                Ok(held) => self.held = Some(held),
                Err(Failure::Changed | Failure::Missing) => {
                    self.held = Some(self.look_again(&tree).await?);
                    self.back_off(attempt).await;
                    continue;
                }
                Err(failure) => return Err(failure.into()),
            }
            return Ok(());
        }
        Err(interference())
    }

    /// Those who interfere with each other should not come back together.
    async fn back_off(&self, attempt: u32) {
        let most = FIRST_PAUSE * (1 << attempt.min(5));
        self.ensemble.pause(most.mul_f64(fastrand::f64())).await;
    }

    /// Connects unless there is a session, and claims the worker id in it.
    async fn connect_and_claim(&mut self) -> Result<Held, Problem> {
        let tree = match &self.tree {
            Some(tree) => tree.clone(),
            None => {
                let tree = self.ensemble.connect().await?;
                self.tree.insert(tree).clone()
            }
        };
        self.check_session(tree.session_timeout())?;
        let held = self.claim(&tree).await?;
        self.held = Some(held.clone());
        Ok(held)
    }

    /// Refuses a session that another process could outlive: its servers would give the name away
    /// before this one has stopped.
    fn check_session(&mut self, granted: Duration) -> Result<(), Refusal> {
        let registry = &self.applicant.registry;
        let limit = registry.outages.longest(granted);
        if let (Some(max_outage), Some(limit)) =
            (self.max_outage.or(registry.outages.asked()), limit)
            && max_outage > limit
        {
            return Err(Refusal::SessionTooShort { granted, max_outage });
        }
        self.max_outage = self.max_outage.or(registry.outages.asked()).or(limit);
        Ok(())
    }

    /// Finds out about the versions, after a write whose end is not known.
    async fn look_again(&self, tree: &E::Tree) -> Result<Held, Problem> {
        let Some(held) = &self.held else {
            return Err(Problem::Denied("nothing was claimed".into()));
        };
        let gone = |node: &str| {
            Refusal::Nodes(format!(
                "node {node} is gone, and what it said may be given to another; start again"
            ))
        };
        let reserved = self.read_reserved(tree).await?;
        let reserved = reserved.ok_or_else(|| gone(&self.applicant.registry.reserved_node()))?;
        let (data, stat) = tree.read(&held.node).await?.ok_or_else(|| gone(&held.node))?;
        let stored = Endpoint::from_json(&data).ok_or_else(|| Problem::unreadable(&held.node))?;
        self.check_holder(&held.node, &stat, Some(&reserved))?;
        Ok(Held {
            node: held.node.clone(),
            endpoint_version: stat.version,
            reserved_version: reserved.1.version,
            mark: Mark { until: reserved.0.until, timestamp: stored.timestamp },
        })
    }

    /// Writes both nodes, or none, if nobody else has written to them; the last time it also frees
    /// the name. The timestamp never goes backwards.
    async fn write(
        &self,
        tree: &E::Tree,
        held: Held,
        mark: Mark,
        is_last: bool,
    ) -> Result<Held, Failure> {
        let registry = &self.applicant.registry;
        let mark = Mark { timestamp: mark.timestamp.max(held.mark.timestamp), ..mark };
        let data = Reserved::new(mark.until, &self.applicant.holder).to_json();
        let (path, temporary) = (registry.reserved_node(), registry.temporary_node());
        let (path, data) = (&*path, &*data);
        let endpoint = self.endpoint(mark.timestamp).to_json();
        let reserve = match held.reserved_version {
            NONE => Write::Create { path, data, kind: Kind::Lasting },
            version => Write::Set { path, data, version },
        };
        let mut writes = vec![
            Write::Set { path: &held.node, data: &endpoint, version: held.endpoint_version },
            reserve,
        ];
        if is_last {
            writes.push(Write::Delete { path: &temporary });
        }
        let written = tree.write(&writes).await?;
        let mut versions = written.into_iter().filter_map(|written| match written {
            Written::Set(version) => Some(version),
            // Servers do not say more of a node that is new.
            Written::Created => Some(0),
            Written::Deleted => None,
        });
        let mut version = || {
            let missing = || Problem::Away("an answer without a version".into());
            versions.next().ok_or_else(|| Failure::Other(missing()))
        };
        Ok(Held { endpoint_version: version()?, reserved_version: version()?, mark, ..held })
    }

    async fn read_reserved(&self, tree: &E::Tree) -> Result<Option<(Reserved, Stat)>, Problem> {
        let node = self.applicant.registry.reserved_node();
        let Some((data, stat)) = tree.read(&node).await? else { return Ok(None) };
        let reserved = Reserved::from_json(&data).ok_or_else(|| Problem::unreadable(&node))?;
        if reserved.version > VERSION {
            return Err(Refusal::Nodes(format!(
                "node {node} is of version {}, and this program knows {VERSION}: start a newer one, \
                 or use another instance name",
                reserved.version
            ))
            .into());
        }
        Ok(Some((reserved, stat)))
    }

    /// Waits for an answer, as long as the deadline allows.
    async fn answer<T>(
        &self,
        work: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        let limit = self.applicant.registry.servers.deadline();
        let answer = self.ensemble.within(limit, work).await;
        answer.unwrap_or_else(|| Err(Problem::no_answer(limit)))
    }

    fn endpoint(&self, timestamp: i64) -> Endpoint {
        let (ip, port) = self.applicant.address.clone();
        Endpoint { ip, port, timestamp }
    }
}

/// The version of a node that is not there.
const NONE: i32 = -1;

fn interference() -> Problem {
    Problem::Away("others write to the same nodes all the time".into())
}
