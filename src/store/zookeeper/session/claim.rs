//! How an instance comes to its name and its number.

use std::time::Duration;

use tokio::time::timeout;
use zookeeper_client::{Client, CreateMode, Error as Failure, Stat};

use super::{ATTEMPTS, Held, Mark, NONE, Past, Session, read};
use crate::clock::Deadline;
use crate::store::zookeeper::nodes::{Endpoint, Reserved, UPLOAD_GAP_MILLIS, instance_and_number};
use crate::store::zookeeper::problem::{Problem, Refusal};
use crate::store::zookeeper::{Registry, peers};
use crate::timestamp::Timestamp;

/// How much longer than its session's timeout a node that lives with it may be there: the servers
/// look but now and then.
const GRACE: Duration = Duration::from_secs(2);

impl Session {
    /// Claims name and number in this session, and enters this holder.
    pub(super) async fn claim(&mut self, client: &Client) -> Result<Held, Problem> {
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
    pub(super) fn check_holder(
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
}
