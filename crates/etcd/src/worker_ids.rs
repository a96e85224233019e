//! Disposable worker ids: each start takes the next number of a counter.

use std::time::Duration;

use uidring::clock::{Clock, SystemClock};
use uidring::{Error, Layout, Timestamp, Worker, WorkerRequest, WorkerSource};
use uidring_store::{
    IsLeased, NodeIdentity, Pruned, WorkerNode, WorkerRange, WorkerTable, WorkerUsage,
    age_in_seconds, announce_end,
};

use crate::EtcdStore;
use crate::client::Client;
use crate::counter::{Counter, record, spend};
use crate::key_value::{delete, get_changed};
use crate::node::{start, write};

/// How many keys one transaction deletes. etcd allows 128 requests.
const PRUNE_KEYS: usize = 100;

type Start = (WorkerNode, Timestamp);

/// The counter of an etcd cluster. Each assignment increments it, for a worker id that only one start ever uses.
///
/// ```no_run
/// use uidring::CachedUidGenerator;
/// use uidring_etcd::EtcdStore;
///
/// let store = EtcdStore::new("etcd1:2379,etcd2:2379,etcd3:2379")?;
/// let generator = CachedUidGenerator::builder().worker_from(store.worker_ids()).build()?;
/// # Ok::<(), uidring::Error>(())
/// ```
///
/// Assigning blocks. In an async runtime, build generators in `tokio::task::spawn_blocking`.
#[derive(Clone, Debug)]
pub struct EtcdWorkerIds {
    store: EtcdStore,
}

impl EtcdStore {
    /// Returns a source with a fresh worker id for each start.
    pub fn worker_ids(&self) -> EtcdWorkerIds {
        EtcdWorkerIds { store: self.clone() }
    }
}

impl EtcdWorkerIds {
    fn starts(&self) -> Result<(Vec<Start>, Counter), Error> {
        Client::new(&self.store).run(|client| {
            let counter = Counter::look(client)?;
            let all = get_changed(&client.store.key("nodes/"), 0);
            let found = client.transact(&[], &[all], &[])?.reads.into_iter().flatten();
            let starts: Result<Vec<_>, _> = found.map(|found| start(&found)).collect();
            Ok((starts?, counter))
        })
    }
}

impl WorkerSource for EtcdWorkerIds {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        self.assign(&request.layout).map(Worker::from)
    }
}

impl WorkerTable for EtcdWorkerIds {
    /// Retries passing failures until the [deadline](EtcdStore::deadline). If an answer is lost, that attempt's worker
    /// id is spent but never used.
    fn assign(&self, layout: &Layout) -> Result<u64, Error> {
        let node = NodeIdentity::from_env()?;
        let (worker_id, range) = Client::new(&self.store).run(|client| {
            // Both keys must be new, which also detects a counter that went back.
            let rows = |store: &EtcdStore, worker_id: u64| {
                let start = write(&node, SystemClock.now());
                vec![(store.node(worker_id), Some(start)), (store.lease(worker_id), None)]
            };
            let spent = spend(client, layout, None, rows)?;
            Ok((spent.worker_id, spent.range))
        })?;
        let place = self.store.to_string();
        announce_end(&place, layout, range, worker_id, IsLeased::No, || self.usage());
        Ok(worker_id)
    }

    fn create(&self) -> Result<(), Error> {
        Client::new(&self.store).run(|client| Counter::open(client).map(drop))
    }

    fn range(&self) -> Result<Option<WorkerRange>, Error> {
        Client::new(&self.store).run(|client| Ok(Counter::look(client)?.range))
    }

    fn record_range(&self, range: WorkerRange) -> Result<(), Error> {
        Client::new(&self.store).run(|client| record(client, range))
    }

    fn list(&self) -> Result<Vec<WorkerNode>, Error> {
        Ok(self.starts()?.0.into_iter().map(|(node, _)| node).collect())
    }

    /// etcd has no clock to ask, so this uses the host's.
    fn usage(&self) -> Result<WorkerUsage, Error> {
        let (starts, counter) = self.starts()?;
        let range = counter.range;
        let newest = counter.newest().filter(|id| range.is_none_or(|range| range.contains(*id)));
        let now = SystemClock.now();
        let window = Duration::from_secs(u64::from(WorkerUsage::WINDOW_DAYS) * 86_400);
        let is_before = |time: &Timestamp| now.saturating_since(*time) > window;
        let before =
            starts.iter().filter(|(_, time)| is_before(time)).map(|(node, _)| node.id).max();
        let first = starts.iter().find(|(_, time)| !is_before(time));
        let first = first.map(|(node, time)| (node.id, *time));
        let (rows, last_key, per_day) = (starts.len() as u64, None, None);
        let usage = WorkerUsage { rows, newest, last_key, per_day, range, now };
        Ok(usage.with_rate(before, first))
    }

    /// Removes the keys of starts that are older than this by the host's clock.
    fn prune(&self, older_than: Duration) -> Result<Pruned, Error> {
        let age = Duration::from_secs(age_in_seconds(older_than));
        let (starts, _) = self.starts()?;
        let now = SystemClock.now();
        let newest = starts.last().map(|(node, _)| node.id);
        let old: Vec<_> = starts
            .iter()
            .filter(|(node, time)| Some(node.id) != newest && now.saturating_since(*time) > age)
            .map(|(node, _)| delete(&self.store.node(node.id)))
            .collect();
        let mut client = Client::new(&self.store);
        for part in old.chunks(PRUNE_KEYS) {
            client.run(|client| client.transact(&[], part, &[]).map(drop))?;
        }
        Ok(Pruned { removed: old.len() as u64, newest })
    }
}
