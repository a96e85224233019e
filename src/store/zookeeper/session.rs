//! An instance's nodes in the registry, over whatever sessions there are.

mod claim;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zookeeper_client::{Client, CreateMode, Error as Failure, MultiWriteResult, Stat};

use super::Registry;
use super::nodes::{Endpoint, Reserved};
use super::problem::{Problem, Refusal};
use crate::clock::{Clock, Seldom};

/// How often a write is tried that others interfere with.
const ATTEMPTS: u32 = 8;

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
}

/// The nodes that are written, and their versions as this instance has left them.
#[derive(Clone, Debug)]
struct Held {
    node: String,
    endpoint_version: i32,
    reserved_version: i32,
    mark: Mark,
}

pub struct Session {
    applicant: Applicant,
    past: Past,
    client: Option<Client>,
    /// In the session of `client`.
    held: Option<Held>,
    /// Once refused, always refused.
    lost: Option<Refusal>,
    expired: Seldom,
}

impl Session {
    pub fn new(applicant: Applicant) -> Self {
        let past = Past::Start { previous: None };
        Self { applicant, past, client: None, held: None, lost: None, expired: Seldom::default() }
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
        Ok(Claim { worker_id, mark })
    }

    /// Has the registry remember the mark, in a new session if need be.
    pub async fn store(&mut self, mark: Mark) -> Result<(), Problem> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone().into());
        }
        let limit = self.applicant.registry.servers.deadline();
        let stored = match timeout(limit, self.try_store(mark, false)).await {
            Ok(stored) => stored,
            Err(_) => Err(Problem::Away(format!("no answer within {limit:?}"))),
        };
        if let Err(Problem::Refused(refusal)) = &stored {
            self.lost = Some(refusal.clone());
        }
        stored
    }

    /// Stores the last mark, and frees the instance's name.
    pub async fn release(&mut self, mark: Mark) -> Result<(), Problem> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone().into());
        }
        if self.client.as_ref().is_none_or(|client| client.state().is_terminated()) {
            return Err(Problem::Away("there is no session with it".into()));
        }
        let limit = self.applicant.registry.servers.deadline();
        timeout(limit, self.try_store(mark, true))
            .await
            .unwrap_or_else(|_| Err(Problem::Away(format!("no answer within {limit:?}"))))
    }

    /// Ends the session, if there is one. The servers are told if they can be.
    pub async fn leave(&mut self) {
        const GOODBYE: Duration = Duration::from_millis(500);
        self.held = None;
        let Some(client) = self.client.take() else { return };
        let mut state = client.state_watcher();
        drop(client);
        let closed = async { while !state.changed().await.is_terminated() {} };
        let _ = timeout(GOODBYE, closed).await;
    }

    async fn try_store(&mut self, mark: Mark, is_last: bool) -> Result<(), Problem> {
        if self.client.as_ref().is_some_and(|client| client.state().is_terminated()) {
            self.client = None;
            self.held = None;
            if self.expired.is_time() {
                let registry = &self.applicant.registry;
                tracing::warn!("registry {registry}: the session is lost; a new one is begun");
            }
        }
        for _ in 0..ATTEMPTS {
            let (held, client) = match (&self.held, &self.client) {
                (Some(held), Some(client)) => (held.clone(), client.clone()),
                _ => {
                    self.connect_and_claim().await?;
                    continue;
                }
            };
            // A transaction that is cut short may have been executed, or may yet be: until the
            // answer is there, the versions are not known.
            match self.write(&client, held, mark, is_last).await {
                Ok(held) => self.held = Some(held),
                Err(Failure::BadVersion | Failure::NoNode) => {
                    self.held = Some(self.look_again(&client).await?);
                    continue;
                }
                Err(failure) => return Err(failure.into()),
            }
            return Ok(());
        }
        Err(Problem::Away("others write to the same nodes all the time".into()))
    }

    /// Connects unless there is a session, and claims the worker id in it.
    async fn connect_and_claim(&mut self) -> Result<Held, Problem> {
        let client = match &self.client {
            Some(client) => client.clone(),
            None => {
                let client = self.applicant.registry.connect().await?;
                self.client.insert(client).clone()
            }
        };
        let held = self.claim(&client).await?;
        self.held = Some(held.clone());
        Ok(held)
    }

    /// Finds out about the versions, after a write whose end is not known.
    async fn look_again(&self, client: &Client) -> Result<Held, Problem> {
        let Some(held) = &self.held else {
            return Err(Problem::Denied("nothing was claimed".into()));
        };
        let gone = |node: &str| {
            Refusal::Nodes(format!(
                "node {node} is gone, and what it said may be given to another; start again"
            ))
        };
        let reserved = self.read_reserved(client).await?;
        let reserved = reserved.ok_or_else(|| gone(&self.applicant.registry.reserved_node()))?;
        let (data, stat) = read(client, &held.node).await?.ok_or_else(|| gone(&held.node))?;
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
        client: &Client,
        held: Held,
        mark: Mark,
        is_last: bool,
    ) -> Result<Held, Failure> {
        let registry = &self.applicant.registry;
        let mark = Mark { timestamp: mark.timestamp.max(held.mark.timestamp), ..mark };
        let reserved = Reserved { until: mark.until, holder: self.applicant.holder.clone() };
        let (node, reserved) = (registry.reserved_node(), reserved.to_json());
        let mut writer = client.new_multi_writer();
        let endpoint = self.endpoint(mark.timestamp).to_json();
        writer.add_set_data(&held.node, endpoint.as_bytes(), Some(held.endpoint_version))?;
        let options = CreateMode::Persistent.with_acls(registry.servers.acls());
        if held.reserved_version == NONE {
            writer.add_create(&node, reserved.as_bytes(), &options)?;
        } else {
            writer.add_set_data(&node, reserved.as_bytes(), Some(held.reserved_version))?;
        }
        if is_last {
            writer.add_delete(&registry.temporary_node(), None)?;
        }
        let mut versions = writer.commit().await?.into_iter().filter_map(|result| match result {
            MultiWriteResult::SetData { stat } => Some(stat.version),
            // Servers do not say more of a node that is new.
            MultiWriteResult::Create { .. } => Some(0),
            _ => None,
        });
        let mut version = || {
            let missing = || Failure::UnexpectedError("an answer without a version".into());
            versions.next().ok_or_else(missing)
        };
        Ok(Held { endpoint_version: version()?, reserved_version: version()?, mark, ..held })
    }

    async fn read_reserved(&self, client: &Client) -> Result<Option<(Reserved, Stat)>, Problem> {
        let node = self.applicant.registry.reserved_node();
        let Some((data, stat)) = read(client, &node).await? else { return Ok(None) };
        let reserved = Reserved::from_json(&data).ok_or_else(|| Problem::unreadable(&node))?;
        Ok(Some((reserved, stat)))
    }

    fn endpoint(&self, timestamp: i64) -> Endpoint {
        let (ip, port) = self.applicant.address.clone();
        Endpoint { ip, port, timestamp }
    }
}

/// The version of a node that is not there.
const NONE: i32 = -1;

/// A node's data; `None` if it is not there.
pub async fn read(client: &Client, node: &str) -> Result<Option<(Vec<u8>, Stat)>, Problem> {
    match client.get_data(node).await {
        Ok(read) => Ok(Some(read)),
        Err(Failure::NoNode) => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

impl Registry {
    pub async fn connect(&self) -> Result<Client, Problem> {
        let limit = self.servers.deadline();
        let connecting = self.servers.connector().connect(self.servers.hosts());
        match timeout(limit, connecting).await {
            Ok(client) => Ok(client?),
            Err(_) => Err(Problem::Away(format!(
                "no session within {limit:?}; are the servers running, and have they a quorum?"
            ))),
        }
    }

    /// Waits for an answer, as long as the deadline allows.
    pub async fn answer<T>(
        &self,
        work: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        let limit = self.servers.deadline();
        match timeout(limit, work).await {
            Ok(done) => done,
            Err(_) => Err(Problem::Away(format!("connected, but no answer within {limit:?}"))),
        }
    }
}
