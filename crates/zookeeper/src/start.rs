//! The start of an instance: what registry and file say, and what follows from it.

use std::path::PathBuf;

use uidring::adapter::{Chain, check_millis, log, read};
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
    /// - [`ZooKeeperError::Registry`] if ZooKeeper is away, refuses, or holds what cannot be used.
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

/// Starts an instance whose session is made by `connect`. What it goes by:
///
/// | outages | the registry | the local file | the start |
/// |---|---|---|---|
/// | bounded | answers | any | goes by the registry; the file names the holder before it, which is dead, since the file is ours |
/// | bounded | is away | any | is refused |
/// | any | refuses | any | is refused |
/// | at risk | answers | has the same number | goes above what both hold |
/// | at risk | answers | another, or none | goes by the registry |
/// | at risk | is away | is there | goes by the file, above the present tick; the session enters that later |
/// | at risk | is away | none | is refused |
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
    let (claim, cached) = match (session.claim(previous), in_file) {
        (Ok(claim), in_file) => {
            let same = in_file.filter(|cached| cached.worker_id == claim.worker_id);
            let until = claim.mark.until.max(same.map_or(claim.mark.until, |same| same.mark.until));
            let (worker_id, mark) = (claim.worker_id, Mark { until, ..claim.mark });
            let (holder, last_answer) = (holder.clone(), read(clock));
            (Some(claim), Cached { worker_id, ip, port, mark, holder, last_answer })
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
    let (terms, fallback) = if is_bounded {
        let max_outage = claim.as_ref().and_then(|claim| claim.max_outage).unwrap_or_default();
        (bounded_terms(max_outage), None)
    } else {
        (unbounded_terms(), Some(Fallback::new(cached, holder, claim.is_none())))
    };
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
    // What was issued while the registry was away, in case that the next start is elsewhere.
    if claim.is_some_and(|claim| claim.mark.until < mark.until)
        && let Err(error) = lease.store(true)
        && error.is_final()
    {
        return Err(error.into());
    }
    Lease::new(*layout, worker_id, after(layout, worker_id, mark.until), terms, lease)
}

/// What a start goes by that the registry did not answer.
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
    // Nothing below the present tick will be issued, so that whatever the registry turns out to know of
    // earlier times does not matter.
    let present = layout.time_of(layout.tick_at(now)?).as_millis();
    let until = cached.mark.until.max(Timestamp::from_millis(present.saturating_sub(1)));
    Ok(Cached { mark: Mark { until, timestamp: now }, ..cached })
}

/// Says that there was no file to go by.
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
