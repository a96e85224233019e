//! How an instance comes to its name and its number.

use std::time::Duration;

use uidring::Timestamp;
use uidring::adapter::{log, read};

use super::{ATTEMPTS, Held, Mark, NONE, Past, Session, interference};
use crate::nodes::{Endpoint, Reserved, UPLOAD_GAP_MILLIS, VERSION, instance_and_number};
use crate::problem::{Problem, Refusal};
use crate::tree::{Ensemble, Failure, Kind, Stat, Tree, Write};
use crate::{Registry, peers};

/// How much longer than its session's timeout a node that lives with it may be there: the servers
/// look but now and then.
const GRACE: Duration = Duration::from_secs(2);

impl<E: Ensemble> Session<E> {
    /// Claims name and number in this session, and enters this holder.
    pub(super) async fn claim(&mut self, tree: &E::Tree) -> Result<Held, Problem> {
        let registry = &self.applicant.registry;
        let folders = async {
            for folder in registry.paths.folders() {
                tree.make_folder(&folder).await?;
            }
            Ok(())
        };
        self.answer(folders).await?;
        for attempt in 0..ATTEMPTS {
            let clock_ahead = self.take_name(tree).await?;
            // The name is taken, so that nobody else claims below it.
            if let Some((worker_id, held)) =
                self.answer(self.claim_number(tree, clock_ahead)).await?
            {
                self.past = Past::Claimed { worker_id };
                return Ok(held);
            }
            self.back_off(attempt).await;
        }
        Err(interference())
    }

    /// Makes the node that only one process can have. How far this host's clock is ahead of the
    /// servers', in milliseconds.
    async fn take_name(&self, tree: &E::Tree) -> Result<i64, Problem> {
        let mut seen = None;
        match (self.contend(tree, &mut seen).await, seen) {
            // Whatever went wrong then, a file must not help against it.
            (Err(Problem::Away(_)), Some(holder)) => Err(Refusal::InUse(holder).into()),
            (done, _) => done,
        }
    }

    /// The same; `seen` is who else was seen to have the name.
    async fn contend(&self, tree: &E::Tree, seen: &mut Option<String>) -> Result<i64, Problem> {
        let node = self.applicant.registry.temporary_node();
        let patience = tree.session_timeout() + GRACE;
        let mut deadline = None;
        let mut attempt = 0;
        loop {
            let data = self.endpoint(read(&self.applicant.clock).as_millis()).to_own_json();
            let create = Write::Create { path: &node, data: &data, kind: Kind::Temporary };
            let found = self.answer(async {
                match tree.write(&[create]).await {
                    Ok(_) | Err(Failure::Exists) => tree.read(&node).await,
                    Err(failure) => Err(failure.into()),
                }
            });
            let found = found.await?;
            let endpoint = found.as_ref().and_then(|(data, _)| Endpoint::from_json(data));
            match found {
                Some((_, stat)) if stat.owner == tree.session() => {
                    return Ok(endpoint.map_or(0, |own| own.timestamp.saturating_sub(stat.made_at)));
                }
                Some(_) if !self.answer(self.inherit_name(tree)).await? => {}
                // It has gone, or is taken over.
                _ => {
                    if attempt == ATTEMPTS {
                        return Err(interference());
                    }
                    self.back_off(attempt).await;
                    attempt += 1;
                    continue;
                }
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
            let now = self.ensemble.moment();
            let deadline = *deadline.get_or_insert_with(|| {
                log!(
                    warn,
                    "instance {} is in use: {holder}; waiting up to {patience:?}, in case that it \
                     has just died",
                    self.applicant.registry.instance
                );
                now.after(patience)
            });
            *seen = Some(holder);
            let left = deadline.map_or(Duration::ZERO, |deadline| deadline.since(now));
            if left.is_zero() || tree.is_over() {
                return Err(refusal.into());
            }
            self.ensemble.within(left, tree.changed(&node)).await.transpose()?;
        }
    }

    /// Takes the name over from the holder that this one follows, and that is known to be dead, or
    /// to be this one in an earlier session. True says to look again, false that somebody else has it.
    async fn inherit_name(&self, tree: &E::Tree) -> Result<bool, Problem> {
        let previous = match &self.past {
            Past::Start { previous } => previous.as_deref(),
            Past::WithoutRegistry { previous, .. } => Some(&**previous),
            Past::Claimed { .. } => None,
        };
        let Some((reserved, stat)) = self.read_reserved(tree).await? else { return Ok(false) };
        if reserved.holder != self.applicant.holder && Some(&*reserved.holder) != previous {
            return Ok(false);
        }
        // What a Java Leaf did after it would be forgotten.
        let Some((node, _)) = self.find_number(tree).await? else { return Ok(false) };
        if tree.read(&node).await?.is_none_or(|(_, other)| other.written > stat.written) {
            return Ok(false);
        }
        // All at once: a third one that has the name, and was about to enter itself as the holder,
        // either comes first, so that this fails, or finds that it comes too late.
        let registry = &self.applicant.registry;
        let (path, temporary) = (registry.reserved_node(), registry.temporary_node());
        let entry = Reserved { holder: self.applicant.holder.clone(), ..reserved }.to_json();
        let endpoint = self.endpoint(read(&self.applicant.clock).as_millis()).to_own_json();
        let inherit = [
            Write::Set { path: &path, data: &entry, version: stat.version },
            Write::Delete { path: &temporary },
            Write::Create { path: &temporary, data: &endpoint, kind: Kind::Temporary },
        ];
        match tree.write(&inherit).await {
            // Whoever came first may be the dead one's last message.
            Ok(_) | Err(Failure::Changed | Failure::Missing) => Ok(true),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Finds or makes the instance's number, checks what the registry says of it, and enters this
    /// holder. `None` if somebody wrote meanwhile.
    async fn claim_number(
        &self,
        tree: &E::Tree,
        clock_ahead: i64,
    ) -> Result<Option<(u64, Held)>, Problem> {
        let registry = &self.applicant.registry;
        let is_bounded = registry.outages.is_bounded();
        let is_start = matches!(self.past, Past::Start { .. });
        let mut number = self.find_number(tree).await?;
        let is_new = number.is_none() && is_start;
        if is_new && !self.make_number(tree, None).await? {
            return Ok(None);
        }
        if is_new {
            // By its name, not by its place among the others.
            number = self.find_number(tree).await?;
        }
        if let (Some((node, 0)), true, true) = (&number, is_start, is_bounded) {
            // A Java Leaf whose registry is not there yet when it looks works with 0, whatever
            // number its node gets then.
            if !self.make_number(tree, Some(node)).await? {
                return Ok(None);
            }
            number = self.find_number(tree).await?;
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
                    let _ = tree.write(&[Write::Delete { path: &node }]).await;
                }
                return Err(refusal.into());
            }
        };
        let Some((data, stat)) = tree.read(&node).await? else { return Ok(None) };
        let stored = Endpoint::from_json(&data).ok_or_else(|| Problem::unreadable(&node))?;
        let reserved = self.read_reserved(tree).await?;
        // Who inherits a name takes it from whoever is about to claim, and writes the reservation:
        // after this look it makes the transaction below fail, and before it the name is gone.
        let name = tree.read(&registry.temporary_node()).await?;
        if name.is_none_or(|(_, stat)| stat.owner != tree.session()) {
            return Ok(None);
        }
        if let Past::Claimed { .. } = self.past {
            self.check_holder(&node, &stat, reserved.as_ref())?;
        }
        let mut until = match &reserved {
            // Both are always written at once: a later timestamp is of somebody who reserves
            // nothing, and issues ids until the next one.
            Some((reserved, other)) if is_new || other.written >= stat.written => {
                if is_bounded && reserved.version != VERSION {
                    return Err(stranger(&registry.reserved_node()).into());
                }
                reserved.until
            }
            _ if is_bounded => return Err(stranger(&node).into()),
            _ if is_new => 0,
            reserved => {
                let at_least = stored.timestamp.saturating_add(UPLOAD_GAP_MILLIS);
                reserved.as_ref().map_or(0, |(reserved, _)| reserved.until).max(at_least)
            }
        };
        let now = read(&self.applicant.clock);
        match &self.past {
            Past::Start { .. } => {
                if !is_new && stored.timestamp > now.as_millis() {
                    let stored = Timestamp::from_millis(stored.timestamp);
                    return Err(Refusal::ClockBehind { place: node, stored, now }.into());
                }
                if let Some(limit) = self.applicant.max_clock_difference {
                    peers::compare(tree, registry, clock_ahead, limit).await?;
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
            Past::Claimed { .. } => {}
        }
        let held = Held {
            node,
            endpoint_version: stat.version,
            reserved_version: reserved.map_or(NONE, |(_, stat)| stat.version),
            mark: Mark { until, timestamp: stored.timestamp },
        };
        let mark = Mark { until, timestamp: now.as_millis() };
        match self.write(tree, held, mark, false).await {
            Ok(held) => Ok(Some((worker_id, held))),
            Err(Failure::Changed | Failure::Missing | Failure::Exists) => Ok(None),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Makes the instance's node in Leaf's folder, perhaps instead of one that it has. One that is
    /// bounded writes its reservation with it: a node that was written later than that is somebody
    /// else's. False if somebody wrote meanwhile.
    async fn make_number(&self, tree: &E::Tree, instead: Option<&str>) -> Result<bool, Problem> {
        let registry = &self.applicant.registry;
        let (prefix, path) = (registry.number_prefix(), registry.reserved_node());
        let data = self.endpoint(read(&self.applicant.clock).as_millis()).to_json();
        let mut writes = vec![Write::Create { path: &prefix, data: &data, kind: Kind::Numbered }];
        writes.extend(instead.map(|path| Write::Delete { path }));
        let reserved;
        if registry.outages.is_bounded() {
            let before = self.read_reserved(tree).await?;
            if before.as_ref().is_some_and(|(before, _)| before.version != VERSION) {
                return Err(stranger(&path).into());
            }
            let until = before.as_ref().map_or(0, |(before, _)| before.until);
            reserved = Reserved::new(until, &self.applicant.holder).to_json();
            writes.push(match &before {
                Some((_, stat)) => {
                    Write::Set { path: &path, data: &reserved, version: stat.version }
                }
                None => Write::Create { path: &path, data: &reserved, kind: Kind::Lasting },
            });
        }
        match tree.write(&writes).await {
            Ok(_) => Ok(true),
            Err(Failure::Exists | Failure::Changed | Failure::Missing) => Ok(false),
            Err(failure) => Err(failure.into()),
        }
    }

    /// The instance's node in Leaf's folder, and its number. Of several it is the least.
    async fn find_number(&self, tree: &E::Tree) -> Result<Option<(String, i64)>, Problem> {
        let registry = &self.applicant.registry;
        let (Registry { paths, .. }, own) = (registry, registry.node_name());
        let nodes = tree.children(&paths.forever()).await?;
        let numbers = nodes.iter().filter_map(|node| {
            let (name, number) = instance_and_number(node)?;
            (name == own).then_some((node, number))
        });
        let least = numbers.min_by_key(|(_, number)| *number);
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
        if stat.written > other.written {
            return Err(Refusal::InUse(format!(
                "somebody else writes to {node}, as a Java Leaf of the same name would"
            )));
        }
        Ok(())
    }
}

/// The node is not as an instance leaves it that issues only what it has reserved.
fn stranger(node: &str) -> Refusal {
    Refusal::Nodes(format!(
        "node {node} was written by another program than this, or by hand, which may have issued \
         ids that are not reserved; use another instance name"
    ))
}
