//! The start of an instance, from what the registry and the file say.

use std::path::PathBuf;

use uidring::adapter::{Chain, check_millis, log, read};
use uidring::worker::Lease;
use uidring::{Error, Fields, Layout, Timestamp, Uid, Worker, WorkerRequest, WorkerSource};
use uidring_store::files;

use super::cache::{CacheFile, Cached, LocalFile};
use super::claim::Before;
use super::entry::{Applicant, Mark};
use super::error::{ZooKeeperError, check_clock};
use super::leaf::{CacheLocation, LeafZooKeeper};
use super::lease::{Fallback, ZkLease, terms};
use super::registry::Outages;
use super::session::SessionHandle;
use super::thread::SessionThread;

impl WorkerSource for LeafZooKeeper {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        self.lease(&request.layout).map(Worker::from)
    }
}

impl LeafZooKeeper {
    /// Takes the instance's worker id. The instance has it while the lease, or the generator with the lease, exists.
    ///
    /// Blocks: for about 5 s if ZooKeeper is away
    /// ([`ZooKeeperServers::connect_deadline`](super::ZooKeeperServers::connect_deadline)) and, if a process of the
    /// same name has died, until the servers notice
    /// ([`ZooKeeperServers::session_timeout`](super::ZooKeeperServers::session_timeout)). It may be called within an
    /// async runtime, and blocks that thread; another thread does the work.
    ///
    /// # Errors
    ///
    /// - [`ZooKeeperError::Registry`] if ZooKeeper is away, refuses, or holds unusable data; if its sessions are too
    ///   short for [`max_outage`](Self::max_outage); if the number is over the layout's greatest worker id.
    /// - [`ZooKeeperError::NotAllowed`] if this user lacks a right on a node.
    /// - [`ZooKeeperError::InstanceInUse`] if another process has the name.
    /// - [`ZooKeeperError::ClockBehindStored`], [`ZooKeeperError::PeerClocksDiffer`].
    /// - [`Error::ClockBeforeEpoch`] and [`Error::LayoutExhausted`] if the layout cannot express the present time.
    /// - [`ZooKeeperError::CacheFile`], [`TableError::DataDirectory`](uidring_store::TableError::DataDirectory),
    ///   [`TableError::Invalid`](uidring_store::TableError::Invalid).
    /// - [`Error::OptionOutOfRange`].
    pub fn lease(&self, layout: &Layout) -> Result<Lease, Error> {
        if let Outages::Bounded(Some(limit)) = self.registry.outages {
            // Renewals come after a third of it.
            check_millis("max_outage (ms)", limit, 1_000..=u64::MAX)?;
        }
        // Check the layout first: a failed start must not use up a number.
        layout.tick_at(read(&self.clock))?;
        let path = self.cache_path()?;
        let file = path.map(|path| CacheFile::lock(&path, &self.registry)).transpose()?;
        begin(self, layout, file, SessionThread::start)
    }

    fn cache_path(&self) -> Result<Option<PathBuf>, Error> {
        Ok(match &self.cache {
            CacheLocation::None => None,
            CacheLocation::At(path) => Some(path.clone()),
            CacheLocation::DataDirectory => {
                let folder = files::data_folder()?.join("leaf").join(&self.registry.name);
                Some(folder.join(format!("{}.json", self.registry.node_name())))
            }
        })
    }
}

/// Starts an instance, with a session from `connect`:
///
/// | outages | the registry | the local file | the start |
/// |---|---|---|---|
/// | bounded | answers | any | uses the registry; the holder named by the file is dead, because we have its lock |
/// | bounded | is away | any | fails |
/// | any | refuses | any | fails |
/// | at risk | answers | has the same number | begins above both |
/// | at risk | answers | another, or none | uses the registry |
/// | at risk | is away | is there | uses the file, above the present tick; the session stores that later |
/// | at risk | is away | none | fails |
pub fn begin<S: SessionHandle, F: LocalFile>(
    options: &LeafZooKeeper,
    layout: &Layout,
    file: Option<F>,
    connect: impl FnOnce(Applicant) -> Result<S, ZooKeeperError>,
) -> Result<Lease, Error> {
    let (registry, clock) = (&options.registry, &options.clock);
    let is_bounded = registry.is_bounded();
    let in_file = file.as_ref().map(LocalFile::read).transpose()?.flatten();
    let previous = in_file.as_ref().map(|cached| cached.holder.clone());
    let in_file = in_file.filter(|_| !is_bounded);
    if let (Some(file), Some(cached)) = (&file, &in_file) {
        layout.check_worker_id(cached.worker_id)?;
        check_clock(&file.name(), cached.mark.timestamp, read(clock))?;
    }
    let address = options.address.clone().map_or_else(|| registry.instance.address(), Ok)?;
    let holder = format!("{:016x}", fastrand::u64(..));
    let mut session = connect(Applicant {
        registry: registry.clone(),
        holder: holder.clone(),
        address,
        max_worker_id: layout.max_worker_id(),
        max_clock_difference: options.max_clock_difference,
        clock: clock.clone(),
    })?;
    let (claim, cached) = match (session.claim(previous), in_file) {
        (Ok(claim), in_file) => {
            let same = in_file.filter(|cached| cached.worker_id == claim.worker_id);
            let until = claim.mark.until.max(same.map_or(claim.mark.until, |same| same.mark.until));
            let (worker_id, mark) = (claim.worker_id, Mark { until, ..claim.mark });
            (Some(claim), Cached { worker_id, mark, holder: holder.clone() })
        }
        (Err(error), Some(cached)) if error.is_unreachable() => {
            let cached = by_file(options, layout, &error, cached)?;
            session.recall(Before::StartByFile {
                worker_id: cached.worker_id,
                floor: cached.mark.until,
                previous: cached.holder.clone(),
            })?;
            (None, cached)
        }
        (Err(error), None) if error.is_unreachable() && !is_bounded => {
            return Err(without_file(error, file.as_ref()).into());
        }
        (Err(error), _) => return Err(error.into()),
    };
    if let Some(file) = &file {
        file.write(&cached)?;
    }
    let (worker_id, mark) = (cached.worker_id, cached.mark);
    let max_outage = claim.as_ref().and_then(|claim| claim.max_outage).unwrap_or_default();
    let terms = terms(is_bounded.then_some(max_outage));
    let fallback = (!is_bounded).then(|| Fallback::new(cached, holder, claim.is_none()));
    let mut lease = ZkLease {
        registry: registry.clone(),
        layout: *layout,
        clock: clock.clone(),
        session,
        file,
        base: mark.until,
        mark,
        patience: terms.renew_every,
        fallback,
        lost: None,
    };
    // Store what was issued while the registry was away, in case the next start is elsewhere.
    if claim.is_some_and(|claim| claim.mark.until < mark.until)
        && let Err(error) = lease.store(true)
        && error.is_final()
    {
        return Err(error.into());
    }
    Lease::new(*layout, worker_id, after(layout, worker_id, mark.until), terms, lease)
}

/// What a start uses if the registry did not answer.
fn by_file(
    options: &LeafZooKeeper,
    layout: &Layout,
    error: &ZooKeeperError,
    cached: Cached,
) -> Result<Cached, Error> {
    log!(
        warn,
        "{}; worker id {} is taken from the cache file, so that an instance of this name that starts \
         elsewhere may repeat uids",
        Chain(error),
        cached.worker_id
    );
    let now = read(&options.clock);
    // Nothing below the present tick is issued, so it does not matter what the registry knows of earlier times.
    let present = layout.time_of(layout.tick_at(now)?).as_millis();
    let until = cached.mark.until.max(Timestamp::from_millis(present.saturating_sub(1)));
    Ok(Cached { mark: Mark { until, timestamp: now }, ..cached })
}

/// Adds to the error that there was no file.
fn without_file(mut error: ZooKeeperError, file: Option<&impl LocalFile>) -> ZooKeeperError {
    if let ZooKeeperError::Registry { problem, .. } = &mut error {
        let file = file.map_or_else(String::new, |file| format!(" {}", file.name()));
        *problem += &format!(
            "; there is no cache file{file} to start from meanwhile, since this instance has not started \
             here before"
        );
    }
    error
}

/// Returns the greatest uid up to a time.
fn after(layout: &Layout, worker_id: u64, until: Timestamp) -> Option<Uid> {
    let tick = match layout.tick_at(until) {
        Ok(tick) => tick,
        Err(Error::LayoutExhausted { .. }) => layout.max_tick(),
        Err(_) => return None,
    };
    // The lease refuses a time that does not fit the layout.
    layout.compose(Fields { tick, worker_id, sequence: layout.max_sequence() }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_reserved_is_over_with_its_tick() {
        let layout = Layout::UID_GENERATOR;
        let epoch = layout.epoch().as_millis();
        let after = |millis| after(&layout, 3, Timestamp::from_millis(millis));
        assert_eq!(after(epoch - 1), None);
        assert_eq!(
            after(epoch),
            layout.compose(Fields { tick: 0, worker_id: 3, sequence: 8_191 }).ok()
        );
        assert_eq!(
            after(epoch + 999),
            layout.compose(Fields { tick: 0, worker_id: 3, sequence: 8_191 }).ok()
        );
        assert_eq!(
            after(epoch + 1_000),
            layout.compose(Fields { tick: 1, worker_id: 3, sequence: 8_191 }).ok()
        );
        assert_eq!(
            after(i64::MAX),
            layout.compose(Fields { tick: layout.max_tick(), worker_id: 3, sequence: 8_191 }).ok()
        );
        assert_eq!(after(0), None);
    }
}
