//! The start of an instance: what registry and file say, and what follows from it.

use std::path::PathBuf;

use uidring::adapter::{Chain, LogThrottle, check_millis, log, read};
use uidring::worker::Lease;
use uidring::{Error, Fields, Layout, Timestamp, Uid, Worker, WorkerRequest, WorkerSource};
use uidring_store::files;

use super::cache::{CacheFile, Cached, LocalFile};
use super::claim::Before;
use super::entry::{Applicant, Mark};
use super::error::ZooKeeperError;
use super::leaf::{CacheLocation, LeafZooKeeper};
use super::lease::{Fallback, ZkLease, bounded_terms, unbounded_terms};
use super::registry::Outages;
use super::session::SessionHandle;
use super::thread::SessionThread;

impl WorkerSource for LeafZooKeeper {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        self.lease(&request.layout).map(Worker::from)
    }
}

impl LeafZooKeeper {
    /// Takes the instance's worker id. It belongs to the instance as long as the lease, or the
    /// generator that it is given to, exists.
    ///
    /// It blocks: for about 5 s while ZooKeeper is away
    /// ([`ZooKeeperServers::connect_deadline`](super::ZooKeeperServers::connect_deadline)), and after
    /// a process of the same name has died, for as long as the servers take to notice
    /// ([`ZooKeeperServers::session_timeout`](super::ZooKeeperServers::session_timeout)). A thread of
    /// its own does the work, so that it may be called within a runtime, whose thread it blocks.
    ///
    /// # Errors
    ///
    /// - [`ZooKeeperError::Registry`] if ZooKeeper is away, refuses, or holds what cannot be used;
    ///   [`ZooKeeperError::Tls`] if TLS fails; [`ZooKeeperError::Client`].
    /// - [`ZooKeeperError::NotAllowed`] if this user lacks a right on a node.
    /// - [`ZooKeeperError::SessionTooShort`] if its sessions are too short for
    ///   [`max_outage`](Self::max_outage).
    /// - [`ZooKeeperError::InstanceInUse`] if another process has the name.
    /// - [`ZooKeeperError::RegistryFull`] if the number is over the layout's greatest worker id.
    /// - [`ZooKeeperError::ClockBehindStored`], [`ZooKeeperError::PeerClocksDiffer`].
    /// - [`Error::ClockBeforeEpoch`] and [`Error::LayoutExhausted`] if the layout cannot express the
    ///   present time.
    /// - [`ZooKeeperError::CacheFile`], [`TableError::NoDataDirectory`](uidring_store::TableError::NoDataDirectory),
    ///   [`TableError::RelativeDataDirectory`](uidring_store::TableError::RelativeDataDirectory),
    ///   [`TableError::NodeIdentity`](uidring_store::TableError::NodeIdentity).
    /// - [`Error::OptionOutOfRange`].
    pub fn lease(&self, layout: &Layout) -> Result<Lease, Error> {
        if let Outages::Bounded(Some(limit)) = self.registry.outages {
            // A third of it is between two renewals.
            check_millis("max_outage (ms)", limit, 1_000..=u64::MAX)?;
        }
        // A layout that cannot express the present time must not cost a number.
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

/// Starts an instance whose session is made by `connect`.
///
/// A bounded instance goes by the registry alone; the file only says who was the last holder here,
/// which is dead, since the file is ours. Another one goes by the file if the registry is away.
pub fn begin<S: SessionHandle, F: LocalFile>(
    options: &LeafZooKeeper,
    layout: &Layout,
    file: Option<F>,
    connect: impl FnOnce(Applicant) -> Result<S, ZooKeeperError>,
) -> Result<Lease, Error> {
    let (registry, clock) = (&options.registry, &options.clock);
    let is_bounded = registry.is_bounded();
    let cached = file.as_ref().map(LocalFile::read).transpose()?.flatten();
    let previous = cached.as_ref().map(|cached| cached.holder.clone());
    // The file's worker id and times count for an instance that may go by it.
    let cached = cached.filter(|_| !is_bounded);
    if let (Some(file), Some(cached)) = (&file, &cached) {
        layout.check_worker_id(cached.worker_id)?;
        let (now, stored) = (read(clock), cached.mark.timestamp);
        if now < stored {
            let location = file.name();
            return Err(ZooKeeperError::ClockBehindStored { location, stored, now }.into());
        }
    }
    let address = match &options.address {
        Some(address) => address.clone(),
        None => registry.instance.address()?,
    };
    let holder = format!("{:016x}", fastrand::u64(..));
    let (ip, port) = address.clone();
    let mut session = connect(Applicant {
        registry: registry.clone(),
        holder: holder.clone(),
        address,
        max_worker_id: layout.max_worker_id(),
        max_clock_difference: options.max_clock_difference,
        clock: clock.clone(),
    })?;
    let (claim, cached) = match session.claim(previous) {
        Ok(claim) => {
            let known = cached.filter(|cached| cached.worker_id == claim.worker_id);
            let in_file = known.map_or(claim.mark.until, |cached| cached.mark.until);
            let mark = Mark { until: claim.mark.until.max(in_file), ..claim.mark };
            let (worker_id, last_answer) = (claim.worker_id, read(clock));
            (Some(claim), Cached { worker_id, ip, port, mark, holder: holder.clone(), last_answer })
        }
        Err(error) if error.is_unreachable() && !is_bounded => {
            let cached = start_by_file(options, layout, error, file.as_ref(), cached)?;
            session.recall(Before::StartByFile {
                worker_id: cached.worker_id,
                floor: cached.mark.until,
                previous: cached.holder.clone(),
            })?;
            (None, cached)
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(file) = &file {
        file.write(&cached)?;
    }
    let (worker_id, mark) = (cached.worker_id, cached.mark);
    let terms = if is_bounded {
        let max_outage = claim.as_ref().and_then(|claim| claim.max_outage).unwrap_or_default();
        bounded_terms(max_outage)
    } else {
        unbounded_terms()
    };
    let (is_away, mut outage_logged) = (claim.is_none(), LogThrottle::default());
    if is_away {
        // It was logged just now.
        outage_logged.is_due();
    }
    let file_fails = LogThrottle::default();
    let fallback = Fallback { cached, holder, is_away, outage_logged, file_fails };
    let mut lease = ZkLease {
        registry: registry.clone(),
        layout: *layout,
        clock: clock.clone(),
        session,
        file,
        base: mark.until,
        mark,
        patience: terms.renew_every,
        fallback: (!is_bounded).then_some(fallback),
        lost: None,
    };
    // What was issued while the registry was away, in case that the next start is elsewhere.
    if claim.is_some_and(|claim| claim.mark.until < mark.until)
        && let Err(error) = lease.store(true)
        && error.is_final()
    {
        return Err(error.into());
    }
    Lease::new(*layout, worker_id, after(layout, worker_id, mark.until), terms, lease)
}

/// The start that the file alone allows for.
fn start_by_file(
    options: &LeafZooKeeper,
    layout: &Layout,
    mut error: ZooKeeperError,
    file: Option<&impl LocalFile>,
    cached: Option<Cached>,
) -> Result<Cached, Error> {
    let Some(cached) = cached else {
        if let ZooKeeperError::Registry { problem, .. } | ZooKeeperError::Tls { problem, .. } =
            &mut error
        {
            let file = file.map_or_else(String::new, |file| format!(" {}", file.name()));
            *problem += &format!(
                "; there is no cache file{file} to start from meanwhile, since this instance has not \
                 started here before"
            );
        }
        return Err(error.into());
    };
    log!(
        warn,
        "{}; worker id {} is taken from the cache file, so that an instance of this name that starts \
         elsewhere may repeat uids",
        Chain(&error),
        cached.worker_id
    );
    let now = read(&options.clock);
    // Nothing below the present tick will be issued, so that whatever the registry turns out to
    // know of earlier times does not matter.
    let present = layout.time_of(layout.tick_at(now)?).as_millis();
    let until = cached.mark.until.max(Timestamp::from_millis(present.saturating_sub(1)));
    Ok(Cached { mark: Mark { until, timestamp: now }, ..cached })
}

/// Returns the greatest uid of a time.
fn after(layout: &Layout, worker_id: u64, until: Timestamp) -> Option<Uid> {
    let tick = match layout.tick_at(until) {
        Ok(tick) => tick,
        Err(Error::LayoutExhausted { .. }) => layout.max_tick(),
        Err(_) => return None,
    };
    // What does not fit the layout is refused by the lease.
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
