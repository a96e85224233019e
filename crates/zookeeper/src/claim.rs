//! Claiming the name and the number of an instance.

use std::time::Duration;

use uidring::adapter::log;
use uidring::{StoreErrorKind, Timestamp};

use super::entry::{ATTEMPTS, Entry, InstanceNodes, Mark, millis_ahead};
use super::error::{ZooKeeperError, check_clock};
use super::nodes::{Endpoint, UPLOAD_GAP, session_from_json};
use super::tree::{CreateMode, Ensemble, Failure, Tree, Write};

/// The longest session of a dead process to wait for.
const LONGEST_SESSION: Duration = Duration::from_secs(120);

/// How much longer than its session an ephemeral node may exist. The servers check for expired sessions periodically.
const GRACE: Duration = Duration::from_secs(2);

/// What happened before a claim.
#[derive(Clone, Debug)]
pub enum Before {
    /// A start. The holder before it, named by the local file, is dead.
    Start { previous: Option<String> },
    /// A start from the local file. Nothing up to `floor` is issued again.
    StartByFile { worker_id: u64, floor: Timestamp, previous: String },
    /// The worker id was claimed. Its nodes were last seen like this.
    Claimed { worker_id: u64, known: Entry },
}

impl<E: Ensemble> InstanceNodes<'_, E> {
    /// Claims name and number in this session, and becomes the holder.
    pub async fn claim(&self, before: &Before) -> Result<(u64, Entry), ZooKeeperError> {
        self.answer(async {
            for folder in self.registry().folders() {
                self.tree.make_folder(&folder).await?;
            }
            Ok(())
        })
        .await?;
        for attempt in 0..ATTEMPTS {
            let mut seen = None;
            let clock_ahead = match (self.take_name(before, &mut seen).await, seen) {
                // Somebody held the name, so a start from the local file is not allowed, whatever failed later.
                (Err(error), Some(holder)) if error.is_unreachable() => {
                    return Err(self.registry().in_use(holder));
                }
                (taken, _) => taken?,
            };
            // With the name taken, nobody else claims below it.
            if let Some(claimed) = self.answer(self.claim_number(before, clock_ahead)).await? {
                return Ok(claimed);
            }
            self.back_off(attempt).await;
        }
        Err(self.registry().interference())
    }

    /// Creates the node that only one process can have. Returns by how many milliseconds this host's clock is ahead of
    /// the servers'. `seen` is set to the other holder, if there was one.
    async fn take_name(
        &self,
        before: &Before,
        seen: &mut Option<String>,
    ) -> Result<i64, ZooKeeperError> {
        let registry = self.registry();
        let node = registry.temporary_node();
        let mut deadline = None;
        let mut attempt = 0;
        loop {
            let found = self.answer(async {
                match self.tree.write(vec![self.create_name()]).await {
                    Ok(_) | Err(Failure::Exists) => self.tree.read(&node).await,
                    Err(failure) => Err(self.failed(failure)),
                }
            });
            let found = found.await?;
            let endpoint = found.as_ref().and_then(|(data, _)| Endpoint::from_json(data));
            let theirs = found.as_ref().and_then(|(data, _)| session_from_json(data));
            let session = self.tree.session_timeout();
            let patience =
                theirs.map_or(session, |theirs| theirs.max(session).min(LONGEST_SESSION)) + GRACE;
            match found {
                Some((_, stat)) if stat.ephemeral_owner == self.tree.session() => {
                    let ahead = |own: Endpoint| millis_ahead(own.timestamp, stat.ctime);
                    return Ok(endpoint.map_or(0, ahead));
                }
                Some(_) if !self.answer(self.inherit_name(before)).await? => {}
                // The node is gone or was taken over.
                _ => {
                    if attempt == ATTEMPTS {
                        return Err(self.registry().interference());
                    }
                    self.back_off(attempt).await;
                    attempt += 1;
                    continue;
                }
            }
            let holder = match endpoint {
                Some(Endpoint { ip, port, timestamp }) => {
                    format!("{ip}:{port} has it, since {timestamp} by its clock")
                }
                None => format!("somebody has {node}"),
            };
            if !matches!(before, Before::Start { .. }) {
                return Err(registry.in_use(holder));
            }
            // The previous process may just have died.
            let now = self.ensemble.moment();
            let deadline = *deadline.get_or_insert_with(|| {
                log!(
                    warn,
                    "instance {} is in use: {holder}; waiting up to {patience:?}, in case that \
                     process has just died",
                    registry.instance
                );
                now.after(patience)
            });
            *seen = Some(holder.clone());
            let left = deadline.map_or(Duration::ZERO, |deadline| deadline.since(now));
            if left.is_zero() || self.tree.is_over() {
                return Err(registry.in_use(holder));
            }
            self.ensemble.within(left, self.tree.changed(&node)).await.transpose()?;
        }
    }

    fn create_name(&self) -> Write {
        let path = self.registry().temporary_node();
        let data = self.endpoint(self.now()).to_own_json(self.tree.session_timeout());
        Write::Create { path, data, mode: CreateMode::Ephemeral }
    }

    /// Takes over the name from a holder known to be dead, or from this one in an earlier session. Returns true if the
    /// caller should look again, false if somebody else holds the name.
    async fn inherit_name(&self, before: &Before) -> Result<bool, ZooKeeperError> {
        let previous = match before {
            Before::Start { previous } => previous.as_ref(),
            Before::StartByFile { previous, .. } => Some(previous),
            Before::Claimed { .. } => None,
        };
        let Some((reserved, stat)) = self.read_reserved().await? else { return Ok(false) };
        if reserved.holder != self.applicant.holder && Some(&reserved.holder) != previous {
            return Ok(false);
        }
        // A Java Leaf may have written since. Do not lose that.
        let Some((node, number)) = self.find_number().await? else { return Ok(false) };
        let Some((stored, other)) = self.read_endpoint(&node).await? else { return Ok(false) };
        if other.mzxid > stat.mzxid {
            return Ok(false);
        }
        // If this start will be refused, leave the name to others.
        self.check_number(before, number)?;
        if matches!(before, Before::Start { .. }) {
            check_clock(&node, stored.timestamp, self.now())?;
        }
        // One transaction: a third process about to become the holder either comes first, and this fails, or is too
        // late. It also fails if a Java Leaf wrote since the read above.
        let inherit = vec![
            Write::Check { path: node, version: other.version },
            self.reserve(reserved.until, Some(stat.version)),
            Write::Delete { path: self.registry().temporary_node() },
            self.create_name(),
        ];
        match self.tree.write(inherit).await {
            // The change may be the dead process's last message.
            Ok(_) | Err(Failure::Changed | Failure::Missing) => Ok(true),
            Err(failure) => Err(self.failed(failure)),
        }
    }

    /// Finds or creates the instance's number, checks it against the registry, and becomes the holder. `None` if
    /// somebody else wrote in between.
    async fn claim_number(
        &self,
        before: &Before,
        clock_ahead: i64,
    ) -> Result<Option<(u64, Entry)>, ZooKeeperError> {
        let registry = self.registry();
        let is_bounded = registry.is_bounded();
        let is_start = matches!(before, Before::Start { .. });
        let mut number = self.find_number().await?;
        let is_new = number.is_none() && is_start;
        // A Java Leaf that finds no registry works with 0, whatever number its node gets. So avoid 0.
        while is_start && number.as_ref().is_none_or(|(_, number)| is_bounded && *number == 0) {
            if !self.make_number(number.map(|(node, _)| node)).await? {
                return Ok(None);
            }
            // Find it by name, not by its position among the others.
            number = self.find_number().await?;
        }
        let Some((node, number)) = number else {
            return Err(registry.corrupt(format!(
                "the node of instance {} is gone from {}: its number may be given to another; \
                 start again, without the cache file",
                registry.instance,
                registry.forever()
            )));
        };
        let checked = self.check_number(before, number);
        if is_new && checked.is_err() {
            self.remove_new(&node).await;
        }
        let (worker_id, max) = (checked?, self.applicant.max_worker_id);
        let left = max - worker_id;
        if is_new && left.saturating_mul(10) < max {
            log!(
                warn,
                "registry {registry}: of the layout's {max} worker ids {left} are left for new instances; start with \
                 names of instances that are gone, or plan a layout with more worker bits"
            );
        }
        let Some((stored, stat)) = self.read_endpoint(&node).await? else { return Ok(None) };
        let reserved = self.read_reserved().await?;
        // A process that inherits the name takes it from this one and writes the reservation. If it does so later, the
        // transaction below fails; if earlier, the name is gone now.
        let name = self.tree.read(&registry.temporary_node()).await?;
        if name.is_none_or(|(_, stat)| stat.ephemeral_owner != self.tree.session()) {
            return Ok(None);
        }
        if let Before::Claimed { known, .. } = before {
            self.check_holder(known, stat, reserved.as_ref())?;
        }
        let mut until = match &reserved {
            // The two nodes are always written together. A later timestamp means that somebody without reservations
            // wrote it, and may issue ids until the next one.
            Some((reserved, other)) if is_new || other.mzxid >= stat.mzxid => reserved.until,
            // A bounded instance never leaves this state.
            _ if is_bounded => {
                return Err(registry.corrupt(format!(
                    "node {node} was written by another program, or by hand, which may have issued ids that are not \
                     reserved; use another instance name"
                )));
            }
            _ if is_new => Timestamp::default(),
            reserved => {
                let reserved = reserved.as_ref().map(|(reserved, _)| reserved.until);
                let uploaded = stored.timestamp.saturating_add(UPLOAD_GAP);
                reserved.unwrap_or_default().max(uploaded)
            }
        };
        let now = self.now();
        match before {
            Before::Start { .. } => {
                if !is_new {
                    check_clock(&node, stored.timestamp, self.now())?;
                }
                if let Some(limit) = self.applicant.max_clock_difference {
                    self.compare_clocks(clock_ahead, limit).await?;
                }
            }
            Before::StartByFile { floor, .. } => {
                if until > *floor {
                    return Err(registry.in_use(format!(
                        "while the registry was out of reach for this start, somebody had reserved \
                         ids up to {until} in it"
                    )));
                }
                until = *floor;
            }
            Before::Claimed { .. } => {}
        }
        let entry = Entry {
            node,
            endpoint_version: stat.version,
            reserved_version: reserved.map(|(_, stat)| stat.version),
            mark: Mark { until, timestamp: stored.timestamp },
        };
        match self.write(entry, Mark { until, timestamp: now }, false).await {
            Ok(entry) => Ok(Some((worker_id, entry))),
            Err(Failure::Other(error)) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Creates the instance's node in Leaf's folder, or replaces one. A bounded instance writes its reservation in the
    /// same transaction, so that later writes to the node are known to be others'. Returns false if somebody wrote in
    /// between.
    async fn make_number(&self, instead: Option<String>) -> Result<bool, ZooKeeperError> {
        let registry = self.registry();
        let path = format!("{}/{}-", registry.forever(), registry.node_name());
        let data = self.endpoint(self.now()).to_json();
        let mut writes = vec![Write::Create { path, data, mode: CreateMode::PersistentSequential }];
        writes.extend(instead.map(|path| Write::Delete { path }));
        if registry.is_bounded() {
            writes.push(match self.read_reserved().await? {
                Some((before, stat)) => self.reserve(before.until, Some(stat.version)),
                None => self.reserve(Timestamp::default(), None),
            });
        }
        match self.tree.write(writes).await {
            Ok(_) => Ok(true),
            Err(Failure::Other(error)) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Removes what this start created, as far as possible.
    async fn remove_new(&self, node: &str) {
        let mut writes = vec![Write::Delete { path: node.into() }];
        if self.registry().is_bounded()
            && let Ok(Some((reserved, _))) = self.read_reserved().await
            && reserved.holder == self.applicant.holder
            && reserved.until == Timestamp::default()
        {
            writes.push(Write::Delete { path: self.registry().reserved_node() });
        }
        let _ = self.tree.write(writes).await;
    }

    fn check_number(&self, before: &Before, number: i64) -> Result<u64, ZooKeeperError> {
        let registry = self.registry();
        let number = u64::try_from(number).map_err(|_| {
            registry.corrupt(format!(
                "number {number} is negative: its counter has overflowed; use a new name with an \
                 earlier epoch"
            ))
        })?;
        let max = self.applicant.max_worker_id;
        if number > max {
            let problem = format!(
                "number {number} is over the layout's greatest worker id, {max}: each instance that ever started keeps \
                 its number; start with the name of one that is gone, which `uidring worker list` and the flags of \
                 this registry show, or use a layout with more worker bits, or a new name with an earlier epoch"
            );
            return Err(registry.error(StoreErrorKind::Exhausted, problem));
        }
        match before {
            Before::StartByFile { worker_id, .. } | Before::Claimed { worker_id, .. }
                if *worker_id != number =>
            {
                Err(registry.corrupt(format!(
                    "instance {} has the number {number} now, and works with {worker_id}, which may \
                     be given to another; start again, without the cache file",
                    registry.instance
                )))
            }
            _ => Ok(number),
        }
    }
}
