//! An instance's nodes in the registry, over whatever sessions there are.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zookeeper_client::{Client, CreateMode, Error as Failure, MultiWriteResult, Stat};

use super::nodes::{Endpoint, Reserved, UPLOAD_GAP_MILLIS, instance_and_number};
use super::problem::{Problem, Refusal};
use super::{Registry, peers};
use crate::clock::{Clock, Deadline, Seldom};
use crate::timestamp::Timestamp;

/// How much longer than its session's timeout a node that lives with it may be there: the servers
/// look but now and then.
const GRACE: Duration = Duration::from_secs(2);

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

    async fn claim(&mut self, client: &Client) -> Result<Held, Problem> {
        let registry = &self.applicant.registry;
        let folders = async {
            let options = CreateMode::Persistent.with_acls(registry.servers.acls());
            for folder in registry.paths.folders() {
                client.mkdir(&folder, &options).await?;
            }
            Ok(())
        };
        registry.answer(folders).await?;
        for _ in 0..ATTEMPTS {
            let clock_ahead = self.take_name(client).await?;
            // The name is taken, so that nobody else claims below it.
            match registry.answer(self.claim_number(client, clock_ahead)).await {
                Ok(Some((worker_id, held))) => {
                    self.past = Past::Claimed { worker_id };
                    return Ok(held);
                }
                Ok(None) => {}
                Err(problem) => return Err(problem),
            }
        }
        Err(Problem::Away("others write to the same nodes all the time".into()))
    }

    /// Makes the node that only one process can have. How far this host's clock is ahead of the
    /// servers', in milliseconds.
    async fn take_name(&self, client: &Client) -> Result<i64, Problem> {
        let mut seen = None;
        match (self.contend(client, &mut seen).await, seen) {
            // Whatever went wrong then, a file must not help against it.
            (Err(Problem::Away(_)), Some(holder)) => Err(Refusal::InUse(holder).into()),
            (done, _) => done,
        }
    }

    /// The same; `seen` is who else was seen to have the name.
    async fn contend(&self, client: &Client, seen: &mut Option<String>) -> Result<i64, Problem> {
        let registry = &self.applicant.registry;
        let node = registry.temporary_node();
        let options = CreateMode::Ephemeral.with_acls(registry.servers.acls());
        let patience = client.session_timeout() + GRACE;
        let mut deadline = None;
        loop {
            let data = self.endpoint(self.applicant.clock.now().as_millis()).to_json();
            let found = registry.answer(async {
                match client.create(&node, data.as_bytes(), &options).await {
                    Ok(_) | Err(Failure::NodeExists) => read(client, &node).await,
                    Err(failure) => Err(failure.into()),
                }
            });
            let Some((data, stat)) = found.await? else { continue };
            let endpoint = Endpoint::from_json(&data);
            if stat.ephemeral_owner == client.session_id().0 {
                return Ok(endpoint.map_or(0, |own| own.timestamp.saturating_sub(stat.ctime)));
            }
            if registry.answer(self.inherit_name(client)).await? {
                continue;
            }
            let holder = match endpoint {
                Some(Endpoint { ip, port, timestamp }) => {
                    let since = Timestamp::from_millis(timestamp);
                    format!("{ip}:{port} has it, since {since} by its clock")
                }
                None => format!("somebody has {node}"),
            };
            let refusal = Refusal::InUse(holder.clone());
            if !matches!(self.past, Past::Start { .. }) {
                return Err(refusal.into());
            }
            // The one before may have died just now.
            let deadline = *deadline.get_or_insert_with(|| {
                tracing::warn!(
                    "instance {} is in use: {holder}; waiting up to {patience:?}, in case that it \
                     has just died",
                    registry.instance
                );
                Deadline::after(Some(patience))
            });
            *seen = Some(holder);
            let left = deadline.remaining().unwrap_or_default();
            if left.is_zero() || client.state().is_terminated() {
                return Err(refusal.into());
            }
            let gone = async {
                if let (Some(_), watcher) = client.check_and_watch_stat(&node).await? {
                    watcher.changed().await;
                }
                Ok::<_, Failure>(())
            };
            if let Ok(Err(failure)) = timeout(left, gone).await {
                return Err(failure.into());
            }
        }
    }

    /// Takes the name over from the holder that this one follows, and that is known to be dead, or
    /// to be this one in an earlier session. False where somebody else has it.
    async fn inherit_name(&self, client: &Client) -> Result<bool, Problem> {
        let registry = &self.applicant.registry;
        let previous = match &self.past {
            Past::Start { previous } => previous.as_deref(),
            Past::WithoutRegistry { previous, .. } => Some(&**previous),
            Past::Claimed { .. } => None,
        };
        let Some((reserved, stat)) = self.read_reserved(client).await? else { return Ok(false) };
        if reserved.holder != self.applicant.holder && Some(&*reserved.holder) != previous {
            return Ok(false);
        }
        // What a Java Leaf did after it would be forgotten.
        let Some((node, _)) = self.find_number(client).await? else { return Ok(false) };
        if read(client, &node).await?.is_none_or(|(_, other)| other.mzxid > stat.mzxid) {
            return Ok(false);
        }
        // All at once: a third one that has the name, and was about to enter itself as the holder,
        // either comes first, so that this fails, or finds that it comes too late.
        let temporary = registry.temporary_node();
        let entry = Reserved { holder: self.applicant.holder.clone(), ..reserved }.to_json();
        let endpoint = self.endpoint(self.applicant.clock.now().as_millis()).to_json();
        let options = CreateMode::Ephemeral.with_acls(registry.servers.acls());
        let mut writer = client.new_multi_writer();
        writer.add_set_data(&registry.reserved_node(), entry.as_bytes(), Some(stat.version))?;
        writer.add_delete(&temporary, None)?;
        writer.add_create(&temporary, endpoint.as_bytes(), &options)?;
        match writer.commit().await.map_err(Failure::from) {
            Ok(_) => Ok(true),
            Err(Failure::BadVersion | Failure::NoNode) => Ok(false),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Finds or makes the instance's number, checks what the registry says of it, and enters this
    /// holder. `None` if somebody wrote meanwhile.
    async fn claim_number(
        &self,
        client: &Client,
        clock_ahead: i64,
    ) -> Result<Option<(u64, Held)>, Problem> {
        let registry = &self.applicant.registry;
        let mut number = self.find_number(client).await?;
        let is_start = matches!(self.past, Past::Start { .. });
        let is_new = number.is_none() && is_start;
        if is_new {
            let prefix = format!("{}/{}-", registry.paths.forever(), registry.instance);
            let options = CreateMode::PersistentSequential.with_acls(registry.servers.acls());
            let data = self.endpoint(self.applicant.clock.now().as_millis()).to_json();
            client.create(&prefix, data.as_bytes(), &options).await?;
            // By its name, not by its place among the others.
            number = self.find_number(client).await?;
        }
        let Some((node, number)) = number else {
            return Err(Refusal::Nodes(format!(
                "the node of instance {} is gone from {}: its number may be given to another; \
                 start again, without the cache file",
                registry.instance,
                registry.paths.forever()
            ))
            .into());
        };
        let worker_id = match self.check_number(number) {
            Ok(worker_id) => worker_id,
            Err(refusal) => {
                if is_new {
                    let _ = client.delete(&node, None).await;
                }
                return Err(refusal.into());
            }
        };
        let Some((data, stat)) = read(client, &node).await? else { return Ok(None) };
        let stored = Endpoint::from_json(&data).ok_or_else(|| Problem::unreadable(&node))?;
        let reserved = self.read_reserved(client).await?;
        let mut until = match &reserved {
            // Both are always written at once: a later timestamp is of somebody who reserves
            // nothing, and issues ids until the next one.
            Some((reserved, other)) if other.mzxid >= stat.mzxid => reserved.until,
            _ if is_new => 0,
            reserved => {
                let at_least = stored.timestamp.saturating_add(UPLOAD_GAP_MILLIS);
                reserved.as_ref().map_or(0, |(reserved, _)| reserved.until).max(at_least)
            }
        };
        let now = self.applicant.clock.now();
        match &self.past {
            Past::Start { .. } => {
                if !is_new && stored.timestamp > now.as_millis() {
                    let stored = Timestamp::from_millis(stored.timestamp);
                    return Err(Refusal::ClockBehind { place: node, stored, now }.into());
                }
                if let Some(limit) = self.applicant.max_clock_difference {
                    peers::compare(client, registry, clock_ahead, limit).await?;
                }
            }
            Past::WithoutRegistry { floor, .. } => {
                if until > *floor {
                    return Err(Refusal::InUse(format!(
                        "while the registry was out of reach for this start, somebody had reserved \
                         ids up to {} in it",
                        Timestamp::from_millis(until)
                    ))
                    .into());
                }
                until = *floor;
            }
            Past::Claimed { .. } => self.check_holder(&node, &stat, reserved.as_ref())?,
        }
        let held = Held {
            node,
            endpoint_version: stat.version,
            reserved_version: reserved.map_or(NONE, |(_, stat)| stat.version),
            mark: Mark { until, timestamp: stored.timestamp },
        };
        let mark = Mark { until, timestamp: now.as_millis() };
        match self.write(client, held, mark, false).await {
            Ok(held) => Ok(Some((worker_id, held))),
            Err(Failure::BadVersion | Failure::NoNode | Failure::NodeExists) => Ok(None),
            Err(failure) => Err(failure.into()),
        }
    }

    /// The instance's node in Leaf's folder, and its number. Of several it is the least.
    async fn find_number(&self, client: &Client) -> Result<Option<(String, i64)>, Problem> {
        let Registry { paths, instance, .. } = &self.applicant.registry;
        let nodes = client.list_children(&paths.forever()).await?;
        let own = nodes.iter().filter_map(|node| {
            let (name, number) = instance_and_number(node)?;
            (name == instance.name()).then_some((node, number))
        });
        let least = own.min_by_key(|(_, number)| *number);
        Ok(least.map(|(node, number)| (format!("{}/{node}", paths.forever()), number)))
    }

    fn check_number(&self, number: i64) -> Result<u64, Refusal> {
        let max = self.applicant.max_worker_id;
        let number = u64::try_from(number).map_err(|_| {
            let what = format!("number {number} is negative: its counter has overflowed");
            Refusal::Nodes(format!("{what}; use a new name with an earlier epoch"))
        })?;
        if number > max {
            return Err(Refusal::Full { number, max });
        }
        match self.past {
            Past::WithoutRegistry { worker_id, .. } | Past::Claimed { worker_id }
                if worker_id != number =>
            {
                Err(Refusal::Nodes(format!(
                    "instance {} has the number {number} now, and works with {worker_id}, which may \
                     be given to another; start again, without the cache file",
                    self.applicant.registry.instance
                )))
            }
            _ => Ok(number),
        }
    }

    /// Whether nobody else has been let in since this one wrote.
    fn check_holder(
        &self,
        node: &str,
        stat: &Stat,
        reserved: Option<&(Reserved, Stat)>,
    ) -> Result<(), Refusal> {
        let Some((reserved, other)) = reserved else { return Ok(()) };
        if reserved.holder != self.applicant.holder {
            return Err(Refusal::InUse("another process has taken its place meanwhile".into()));
        }
        if stat.mzxid > other.mzxid {
            return Err(Refusal::InUse(format!(
                "somebody else writes to {node}, as a Java Leaf of the same name would"
            )));
        }
        Ok(())
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
