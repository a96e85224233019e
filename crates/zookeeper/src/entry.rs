//! The nodes of an instance in the registry: reading, checking and writing them in one session.

use std::sync::Arc;
use std::time::Duration;

use uidring::clock::Clock;
use uidring::{StoreErrorKind, Timestamp, adapter};

use super::error::ZooKeeperError;
use super::nodes::{Endpoint, Reserved, VERSION, instance_and_number, version_from_json};
use super::registry::{MISSING_NODE, Registry};
use super::tree::{CreateMode, Ensemble, Failure, Stat, Tree, Write};

/// How often a write is tried if others interfere.
pub const ATTEMPTS: u32 = 8;

/// The longest pause before the second attempt. It doubles with each attempt, up to 32 times as long.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// An instance that claims a worker id.
#[derive(Debug)]
pub struct Applicant {
    pub registry: Registry,
    /// Unique to this start.
    pub holder: String,
    /// Address and port for the JSON.
    pub address: (String, String),
    pub max_worker_id: u64,
    pub max_clock_difference: Option<Duration>,
    pub clock: Arc<dyn Clock>,
}

/// How far ids may have been issued, and when that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub until: Timestamp,
    pub timestamp: Timestamp,
}

/// The nodes of an instance as it last wrote or read them.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The node with the number.
    pub node: String,
    pub endpoint_version: i32,
    /// `None` if the node does not exist yet.
    pub reserved_version: Option<i32>,
    pub mark: Mark,
}

pub struct InstanceNodes<'a, E: Ensemble> {
    pub ensemble: &'a E,
    pub applicant: &'a Applicant,
    pub tree: &'a E::Tree,
}

impl<E: Ensemble> InstanceNodes<'_, E> {
    pub fn registry(&self) -> &Registry {
        &self.applicant.registry
    }

    /// Writes both nodes in one transaction, which fails if anybody else has written to them. The last write also frees
    /// the name. The timestamp never goes backwards.
    pub async fn write(
        &self,
        entry: Entry,
        mark: Mark,
        frees_name: bool,
    ) -> Result<Entry, Failure> {
        let registry = self.registry();
        let mark = Mark { timestamp: mark.timestamp.max(entry.mark.timestamp), ..mark };
        let (path, data) = (entry.node.clone(), self.endpoint(mark.timestamp).to_json());
        let mut writes = vec![
            Write::Set { path, data, version: entry.endpoint_version },
            self.reserve(mark.until, entry.reserved_version),
            // Version 0 means that nobody replaced the name's node, which is written only once.
            Write::Check { path: registry.temporary_node(), version: 0 },
        ];
        if frees_name {
            writes.push(Write::Delete { path: registry.temporary_node() });
        }
        let versions = self.tree.write(writes).await?;
        let [endpoint_version, reserved_version] = versions[..] else {
            return Err(Failure::Other(registry.unreachable("an answer without versions")));
        };
        Ok(Entry { endpoint_version, reserved_version: Some(reserved_version), mark, ..entry })
    }

    /// Returns the write that reserves ids up to this time if the node has this version.
    pub fn reserve(&self, until: Timestamp, version: Option<i32>) -> Write {
        let path = self.registry().reserved_node();
        let data = Reserved { until, holder: self.applicant.holder.clone() }.to_json();
        match version {
            Some(version) => Write::Set { path, data, version },
            None => Write::Create { path, data, mode: CreateMode::Persistent },
        }
    }

    /// Reads the versions after a write with an unknown outcome.
    pub async fn reload(&self, entry: &Entry) -> Result<Entry, ZooKeeperError> {
        let registry = self.registry();
        let gone = |node: &str| {
            registry.corrupt(format!(
                "node {node} is gone, and others may be given what it held; start again"
            ))
        };
        let name = self.tree.read(&registry.temporary_node()).await?;
        if name.is_none_or(|(_, stat)| stat.ephemeral_owner != self.tree.session()) {
            return Err(gone(&registry.temporary_node()));
        }
        let reserved = self.read_reserved().await?;
        let reserved = reserved.ok_or_else(|| gone(&registry.reserved_node()))?;
        let stored = self.read_endpoint(&entry.node).await?;
        let (stored, stat) = stored.ok_or_else(|| gone(&entry.node))?;
        self.check_holder(entry, stat, Some(&reserved))?;
        // Since the claim, every write changes both nodes.
        if reserved.1.mzxid != stat.mzxid {
            let node = registry.reserved_node();
            return Err(registry.in_use(format!("somebody else writes to {node}")));
        }
        Ok(Entry {
            node: entry.node.clone(),
            endpoint_version: stat.version,
            reserved_version: Some(reserved.1.version),
            mark: Mark { until: reserved.0.until, timestamp: stored.timestamp },
        })
    }

    pub async fn read_endpoint(
        &self,
        node: &str,
    ) -> Result<Option<(Endpoint, Stat)>, ZooKeeperError> {
        let Some((data, stat)) = self.tree.read(node).await? else { return Ok(None) };
        let endpoint =
            Endpoint::from_json(&data).ok_or_else(|| self.registry().unreadable(node))?;
        Ok(Some((endpoint, stat)))
    }

    pub async fn read_reserved(&self) -> Result<Option<(Reserved, Stat)>, ZooKeeperError> {
        let registry = self.registry();
        let node = registry.reserved_node();
        let Some((data, stat)) = self.tree.read(&node).await? else { return Ok(None) };
        if let Some(version) = version_from_json(&data).filter(|version| *version != VERSION) {
            return Err(registry.corrupt(format!(
                "node {node} has version {version}, and this uidring uses version {VERSION}: use the \
                 uidring that wrote it, or another instance name"
            )));
        }
        let reserved = Reserved::from_json(&data).ok_or_else(|| registry.unreadable(&node))?;
        Ok(Some((reserved, stat)))
    }

    /// Returns the instance's node in Leaf's folder and its number, the lowest if there are several.
    pub async fn find_number(&self) -> Result<Option<(String, i64)>, ZooKeeperError> {
        let (folder, own) = (self.registry().forever(), self.registry().node_name());
        let nodes = self.tree.children(&folder).await?;
        let numbers = nodes.iter().filter_map(|node| {
            let (name, number) = instance_and_number(node)?;
            (name == own).then(|| (format!("{folder}/{node}"), number))
        });
        Ok(numbers.min_by_key(|(_, number)| *number))
    }

    /// Checks that nobody else became the holder since this instance wrote, and that the nodes are not older than it
    /// has seen them. Servers restored from a copy have older ones, and what was reserved since may go to others.
    pub fn check_holder(
        &self,
        known: &Entry,
        stat: Stat,
        reserved: Option<&(Reserved, Stat)>,
    ) -> Result<(), ZooKeeperError> {
        let registry = self.registry();
        if let Some((reserved, other)) = reserved {
            if reserved.holder != self.applicant.holder {
                return Err(registry.in_use("another process has taken it over meanwhile"));
            }
            if stat.mzxid > other.mzxid {
                let node = &known.node;
                return Err(registry.in_use(format!(
                    "somebody else writes to {node}, as a Java Leaf of the same name would"
                )));
            }
        }
        let until = reserved.map_or(Timestamp::default(), |(reserved, _)| reserved.until);
        if stat.version >= known.endpoint_version
            && reserved.map(|(_, stat)| stat.version) >= known.reserved_version
            && until >= known.mark.until
        {
            return Ok(());
        }
        Err(registry.corrupt(format!(
            "node {} reserves ids up to {until}, and this instance has stored {}: the servers were \
             restored from an older copy, and others may be given what was reserved since; start \
             again once no instance issues by the newer state",
            registry.reserved_node(),
            known.mark.until,
        )))
    }

    /// Fails if this host's clock is further than the limit from the median of the live instances' clocks.
    ///
    /// Their timestamps are as old as their last uploads. So each, like this host's own, is compared with the time at
    /// which the servers stored it.
    pub async fn compare_clocks(
        &self,
        clock_ahead: i64,
        limit: Duration,
    ) -> Result<(), ZooKeeperError> {
        let (own, forever) = (self.registry().node_name(), self.registry().forever());
        let live = self.tree.children(&self.registry().temporary()).await?;
        let nodes = self.tree.children(&forever).await?.into_iter().filter(|node| {
            let instance = instance_and_number(node).map(|(instance, _)| instance);
            instance.is_some_and(|instance| instance != own && live.iter().any(|l| l == instance))
        });
        let peers: Vec<String> = nodes.map(|node| format!("{forever}/{node}")).collect();
        let read = self.tree.read_all(&peers).await.into_iter();
        let ahead = read.filter_map(|(data, stat)| {
            Some(millis_ahead(Endpoint::from_json(&data)?.timestamp, stat.mtime))
        });
        let mut ahead: Vec<i64> = ahead.collect();
        let Some(median) = median(&mut ahead) else { return Ok(()) };
        let by_millis = clock_ahead.saturating_sub(median);
        if Duration::from_millis(by_millis.unsigned_abs()) <= limit {
            return Ok(());
        }
        Err(ZooKeeperError::PeerClocksDiffer { peers: ahead.len(), by_millis, limit })
    }

    pub fn endpoint(&self, timestamp: Timestamp) -> Endpoint {
        let (ip, port) = self.applicant.address.clone();
        Endpoint { ip, port, timestamp }
    }

    pub fn now(&self) -> Timestamp {
        adapter::read(&self.applicant.clock)
    }

    /// Runs `work` until the deadline.
    pub async fn answer<T>(
        &self,
        work: impl Future<Output = Result<T, ZooKeeperError>>,
    ) -> Result<T, ZooKeeperError> {
        let limit = self.registry().servers.connect_deadline;
        let answer = self.ensemble.within(limit, work).await;
        answer.unwrap_or_else(|| Err(self.registry().no_answer(limit)))
    }

    /// Pauses for a random time, so that competing processes do not retry together.
    pub async fn back_off(&self, attempt: u32) {
        let most = FIRST_PAUSE * (1 << attempt.min(5));
        self.ensemble.pause(most.mul_f64(fastrand::f64())).await;
    }

    /// The error if a failed transaction is not retried.
    pub fn failed(&self, failure: Failure) -> ZooKeeperError {
        let problem = match failure {
            Failure::Missing => MISSING_NODE,
            Failure::Exists => "a node exists already",
            Failure::Changed => "a node was changed meanwhile",
            Failure::Other(error) => return error,
        };
        self.registry().error(StoreErrorKind::Denied, problem)
    }
}

/// Returns how far a clock was ahead of the servers' when both timed the same write.
pub fn millis_ahead(by_clock: Timestamp, by_servers: i64) -> i64 {
    by_clock.as_millis().saturating_sub(by_servers)
}

/// Returns the median, the lower middle one of an even number of values.
fn median(values: &mut [i64]) -> Option<i64> {
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_wrong_clock_does_not_move_the_median() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [5]), Some(5));
        assert_eq!(median(&mut [9, 1]), Some(1));
        assert_eq!(median(&mut [3, 900_000, 1]), Some(3));
    }
}
