//! The start of an instance: what registry and file say, and what follows from it.

use std::path::PathBuf;

use uidring::adapter::{LogThrottle, Stopwatch, check_millis, log, read};
use uidring::worker::{Lease, LeaseTerms};
use uidring::{Error, Layout, StoreErrorKind, Timestamp, Uid};
use uidring_store::TableError;

use super::cache::{CacheFile, Cached, LocalFile};
use super::keeper::{self, Keeper};
use super::link::Link;
use super::original::{OriginalKeeper, Outage};
use super::problem::Problem;
use super::session::{Applicant, Claim, Mark, Past};
use super::thread::SessionThread;
use super::{CachePlace, LeafZooKeeper, Outages};
use crate::ZooKeeperError;

pub fn acquire(options: &LeafZooKeeper, layout: &Layout) -> Result<Lease, Error> {
    check_options(options)?;
    // A layout that cannot express the present time must not cost a number.
    layout.tick_at(read(&options.clock))?;
    let file = match cache_path(options)? {
        Some(path) => Some(CacheFile::lock(&path, &options.registry)?),
        None => None,
    };
    begin(options, layout, file, SessionThread::start)
}

/// The start, by whatever way to the registry.
pub fn begin<L: Link, F: LocalFile>(
    options: &LeafZooKeeper,
    layout: &Layout,
    file: Option<F>,
    link: impl FnOnce(Applicant) -> Result<L, Problem>,
) -> Result<Lease, Error> {
    let registry = &options.registry;
    let cached = file.as_ref().map(LocalFile::read).transpose()?.flatten();
    let address = match &options.address {
        Some(address) => address.clone(),
        None => registry.instance.address()?,
    };
    let applicant = Applicant {
        registry: registry.clone(),
        holder: format!("{:016x}", fastrand::u64(..)),
        address,
        max_worker_id: layout.max_worker_id(),
        max_clock_difference: options.max_clock_difference,
        clock: options.clock.clone(),
    };
    let start = Start { options, layout, file, cached, since: Stopwatch::start() };
    let (holder, address) = (applicant.holder.clone(), applicant.address.clone());
    let link = link(applicant).map_err(|problem| problem.explain(registry))?;
    match registry.outages {
        Outages::Bounded(_) => start.bounded(link, holder, address),
        Outages::Unbounded => start.original(link, holder, address),
    }
}

/// What a start begins with.
struct Start<'a, F> {
    options: &'a LeafZooKeeper,
    layout: &'a Layout,
    file: Option<F>,
    cached: Option<Cached>,
    since: Stopwatch,
}

impl<F: LocalFile> Start<'_, F> {
    /// By the registry alone. The file says who was the last holder here, which is dead, since the
    /// file is ours.
    fn bounded<L: Link>(
        self,
        mut link: L,
        holder: String,
        (ip, port): (String, String),
    ) -> Result<Lease, Error> {
        let Self { options, layout, file, cached, .. } = self;
        let registry = &options.registry;
        let previous = cached.map(|cached| cached.holder);
        let claim = link.claim(Past::Start { previous });
        let Claim { worker_id, mark, max_outage } =
            claim.map_err(|problem| problem.explain(registry))?;
        let max_outage = max_outage.unwrap_or_default();
        if let Some(file) = &file {
            let (Mark { until, timestamp }, word) = (mark, mark.timestamp);
            file.write(&Cached { worker_id, ip, port, timestamp, until, holder, word })?;
        }
        let terms = keeper::terms(layout, max_outage, options.max_start_wait);
        let keeper = Keeper {
            registry: registry.clone(),
            layout: *layout,
            link,
            file,
            base: mark.until,
            top: mark.until,
            // An attempt that outlasts it is looked after by the next one.
            patience: terms.renew_every,
            clock: options.clock.clone(),
            lost: None,
        };
        Lease::new(*layout, worker_id, after(layout, worker_id, mark.until), terms, keeper)
    }

    /// By the registry, or by the file if it is away.
    fn original<L: Link>(
        self,
        mut link: L,
        holder: String,
        (ip, port): (String, String),
    ) -> Result<Lease, Error> {
        let Self { options, layout, file, cached, since } = self;
        let registry = &options.registry;
        if let Some(cached) = &cached {
            layout.check_worker_id(cached.worker_id)?;
            check_clock(options, file.as_ref(), cached)?;
        }
        let previous = cached.as_ref().map(|cached| cached.holder.clone());
        let (claimed, before) = match link.claim(Past::Start { previous }) {
            Ok(Claim { worker_id, mark, .. }) => {
                let known = cached.filter(|cached| cached.worker_id == worker_id);
                let in_file = known.map_or(i64::MIN, |cached| cached.until);
                let before = Cached {
                    worker_id,
                    ip,
                    port,
                    timestamp: mark.timestamp,
                    until: mark.until.max(in_file),
                    holder: holder.clone(),
                    word: read(&options.clock).as_millis(),
                };
                (Some(mark.until), before)
            }
            Err(Problem::Away(problem)) => {
                let before = without_registry(options, layout, &problem, file.as_ref(), cached)?;
                let (worker_id, floor) = (before.worker_id, before.until);
                let previous = before.holder.clone();
                link.recall(Past::WithoutRegistry { worker_id, floor, previous })
                    .map_err(|problem| problem.explain(registry))?;
                (None, before)
            }
            Err(problem) => return Err(problem.explain(registry)),
        };
        let worker_id = before.worker_id;
        let mark = Mark { until: before.until, timestamp: before.timestamp };
        let outage = match claimed {
            Some(_) => Outage::since(since),
            None => {
                let word = Timestamp::from_millis(before.word);
                Outage::before(since, word, read(&options.clock))
            }
        };
        let mut keeper = OriginalKeeper {
            registry: registry.clone(),
            layout: *layout,
            link,
            file,
            cached: before,
            holder,
            base: mark.until,
            clock: options.clock.clone(),
            outage,
            file_fails: LogThrottle::default(),
            lost: None,
        };
        keeper.write(mark)?;
        // What was issued while the registry was away, in case that the next start is elsewhere.
        if claimed.is_some_and(|until| until < mark.until)
            && let Err(Problem::Refused(refusal)) = keeper.store(mark, true)
        {
            return Err(refusal.explain(registry));
        }
        let mut terms = LeaseTerms::default();
        terms.renew_every = keeper::RENEW_EVERY;
        if let Some(limit) = options.max_start_wait {
            terms.max_start_wait = limit;
        }
        Lease::new(*layout, worker_id, after(layout, worker_id, mark.until), terms, keeper)
    }
}

/// The start that the file alone allows for.
fn without_registry(
    options: &LeafZooKeeper,
    layout: &Layout,
    problem: &str,
    file: Option<&impl LocalFile>,
    cached: Option<Cached>,
) -> Result<Cached, Error> {
    let registry = &options.registry;
    let Some(cached) = cached else {
        let no_file = match file {
            Some(file) => format!("there is no cache file {}", file.place()),
            None => "there is no cache file".into(),
        };
        return Err(registry.error(
            StoreErrorKind::Unreachable,
            format!(
                "{problem}; {no_file} to start from meanwhile, since this instance has not started \
             here before"
            ),
        ));
    };
    log!(
        warn,
        "{}; worker id {} is taken from the cache file, so that an instance of this name that starts \
         elsewhere may repeat uids",
        registry.error(StoreErrorKind::Unreachable, problem.into()),
        cached.worker_id
    );
    let now = read(&options.clock);
    // Nothing below the present tick will be issued, so that whatever the registry turns out to
    // know of earlier times does not matter.
    let present = layout.time_of(layout.tick_at(now)?).as_millis();
    Ok(Cached {
        timestamp: now.as_millis(),
        until: cached.until.max(present.saturating_sub(1)),
        ..cached
    })
}

fn check_options(options: &LeafZooKeeper) -> Result<(), Error> {
    // A third of it is between two renewals.
    match options.registry.outages {
        Outages::Bounded(Some(limit)) => check_millis("max_outage (ms)", limit, 1_000..=u64::MAX),
        _ => Ok(()),
    }
}

fn check_clock(
    options: &LeafZooKeeper,
    file: Option<&impl LocalFile>,
    cached: &Cached,
) -> Result<(), Error> {
    let (now, stored) = (read(&options.clock), Timestamp::from_millis(cached.timestamp));
    if now >= stored {
        return Ok(());
    }
    let place = file.map_or_else(String::new, LocalFile::place);
    Err(Error::from(ZooKeeperError::ClockBehindStored { place, stored, now }))
}

fn cache_path(options: &LeafZooKeeper) -> Result<Option<PathBuf>, Error> {
    let registry = &options.registry;
    match &options.cache {
        CachePlace::Nowhere => Ok(None),
        CachePlace::At(path) => Ok(Some(path.clone())),
        CachePlace::DataDirectory => {
            let folder = dirs::data_dir().ok_or(Error::from(TableError::NoDataDirectory))?;
            let folder = folder.join("uidring").join("leaf").join(&registry.name);
            Ok(Some(folder.join(format!("{}.json", registry.node_name()))))
        }
    }
}

/// The greatest uid of a time.
fn after(layout: &Layout, worker_id: u64, until: i64) -> Option<Uid> {
    let tick = match layout.tick_at(Timestamp::from_millis(until)) {
        Ok(tick) => tick,
        Err(Error::LayoutExhausted { .. }) => layout.max_tick(),
        Err(_) => return None,
    };
    // What does not fit the layout is refused by the lease.
    layout.compose(tick, worker_id, layout.max_sequence()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_reserved_is_over_with_its_tick() {
        let layout = Layout::UID_GENERATOR;
        let epoch = layout.epoch().as_millis();
        assert_eq!(after(&layout, 3, epoch - 1), None);
        assert_eq!(after(&layout, 3, epoch), layout.compose(0, 3, 8_191).ok());
        assert_eq!(after(&layout, 3, epoch + 999), layout.compose(0, 3, 8_191).ok());
        assert_eq!(after(&layout, 3, epoch + 1_000), layout.compose(1, 3, 8_191).ok());
        assert_eq!(after(&layout, 3, i64::MAX), layout.compose(layout.max_tick(), 3, 8_191).ok());
        assert_eq!(after(&layout, 3, 0), None);
    }
}
