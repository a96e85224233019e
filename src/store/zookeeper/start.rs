//! The start of an instance: what registry and file say, and what follows from it.

use std::path::PathBuf;
use std::time::Duration;

use super::cache::{CacheFile, Cached};
use super::keeper::{Keeper, Outage, RENEW_EVERY};
use super::problem::Problem;
use super::session::{Applicant, Mark, Past};
use super::thread::SessionThread;
use super::{CachePlace, LeafZooKeeper, Registry};
use crate::clock::{Seldom, Stopwatch};
use crate::error::Error;
use crate::layout::Layout;
use crate::timestamp::Timestamp;
use crate::uid::Uid;
use crate::worker::Lease;

pub fn acquire(options: &LeafZooKeeper, layout: &Layout) -> Result<Lease, Error> {
    let since = Stopwatch::start();
    let registry = &options.registry;
    check_options(options)?;
    // A layout that cannot express the present time must not cost a number.
    layout.tick_at(options.clock.now())?;
    let file = match cache_path(options)? {
        Some(path) => Some(CacheFile::lock(&path, &registry.name, &registry.instance)?),
        None => None,
    };
    let cached = file.as_ref().map(CacheFile::read).transpose()?.flatten();
    if let Some(cached) = &cached {
        layout.check_worker_id(cached.worker_id)?;
        check_clock(options, file.as_ref(), cached)?;
    }
    let address = match &options.address {
        Some(address) => address.clone(),
        None => registry.instance.address()?,
    };
    let holder = format!("{:016x}", fastrand::u64(..));
    let thread = SessionThread::start(Applicant {
        registry: registry.clone(),
        holder: holder.clone(),
        address: address.clone(),
        max_worker_id: layout.max_worker_id(),
        max_clock_difference: options.max_clock_difference,
        clock: options.clock.clone(),
    });
    let thread = thread.map_err(|problem| problem.explain(registry))?;
    let previous = cached.as_ref().map(|cached| cached.holder.clone());
    let (claimed, before) = match thread.claim(Past::Start { previous }) {
        Ok(claim) => {
            let known = cached.filter(|cached| cached.worker_id == claim.worker_id);
            let in_file = known.map_or(i64::MIN, |cached| cached.until);
            let before = Cached {
                worker_id: claim.worker_id,
                ip: address.0,
                port: address.1,
                timestamp: claim.mark.timestamp,
                until: claim.mark.until.max(in_file),
                holder: holder.clone(),
                word: options.clock.now().as_millis(),
            };
            (Some(claim.mark.until), before)
        }
        Err(Problem::Away(problem)) => {
            let before = without_registry(options, layout, &problem, file.as_ref(), cached)?;
            let (worker_id, floor) = (before.worker_id, before.until);
            let past = Past::WithoutRegistry { worker_id, floor, previous: before.holder.clone() };
            thread.recall(past).map_err(|problem| problem.explain(registry))?;
            (None, before)
        }
        Err(problem) => return Err(problem.explain(registry)),
    };
    let worker_id = before.worker_id;
    let mark = Mark { until: before.until, timestamp: before.timestamp };
    let outage = match claimed {
        Some(_) => Outage::since(since),
        None => Outage::before(since, Timestamp::from_millis(before.word), options.clock.now()),
    };
    let mut keeper = Keeper {
        registry: registry.clone(),
        layout: *layout,
        thread,
        file,
        cached: before,
        holder,
        base: mark.until,
        max_outage: options.max_outage,
        clock: options.clock.clone(),
        outage,
        file_fails: Seldom::default(),
        lost: None,
    };
    keeper.write(mark)?;
    // What was issued while the registry was away, in case that the next start is elsewhere.
    if claimed.is_some_and(|until| until < mark.until)
        && let Err(Problem::Refused(refusal)) = keeper.store(mark, true)
    {
        return Err(refusal.explain(registry));
    }
    Lease::new(*layout, worker_id, after(layout, worker_id, mark.until), options.terms(), keeper)
}

/// The start that the file alone allows for.
fn without_registry(
    options: &LeafZooKeeper,
    layout: &Layout,
    problem: &str,
    file: Option<&CacheFile>,
    cached: Option<Cached>,
) -> Result<Cached, Error> {
    let registry = &options.registry;
    let Some(cached) = cached else {
        let no_file = match file {
            Some(file) => format!("there is no cache file {}", file.path().display()),
            None => "there is no cache file".into(),
        };
        return Err(registry.error(format!(
            "{problem}; {no_file} to start from meanwhile, since this instance has not started \
             here before"
        )));
    };
    let now = options.clock.now();
    let silent_for = now.saturating_since(Timestamp::from_millis(cached.word));
    if let Some(limit) = options.max_outage
        && silent_for + RENEW_EVERY > limit
    {
        return Err(registry.error(format!(
            "{problem}; no word from it for {silent_for:?}, where an outage of {limit:?} is allowed, so \
             that the cache file is of no use"
        )));
    }
    tracing::warn!(
        "{}; worker id {} is taken from the cache file",
        registry.error(problem.into()),
        cached.worker_id
    );
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
    // A single answer that is late must not end it.
    let least = RENEW_EVERY + Duration::from_secs(1);
    match options.max_outage {
        Some(limit) if limit < least => Err(Error::OptionOutOfRange {
            option: "max_outage (ms)",
            value: limit.as_millis().try_into().unwrap_or(u64::MAX),
            min: least.as_millis().try_into().unwrap_or(u64::MAX),
            max: u64::MAX,
        }),
        _ => Ok(()),
    }
}

fn check_clock(
    options: &LeafZooKeeper,
    file: Option<&CacheFile>,
    cached: &Cached,
) -> Result<(), Error> {
    let (now, stored) = (options.clock.now(), Timestamp::from_millis(cached.timestamp));
    if now >= stored {
        return Ok(());
    }
    let place = file.map_or_else(String::new, |file| file.path().display().to_string());
    Err(Error::ClockBehindStored { place, stored, now })
}

fn cache_path(options: &LeafZooKeeper) -> Result<Option<PathBuf>, Error> {
    let Registry { name, instance, .. } = &options.registry;
    match &options.cache {
        CachePlace::Nowhere => Ok(None),
        CachePlace::At(path) => Ok(Some(path.clone())),
        CachePlace::DataDirectory => {
            let folder = dirs::data_dir().ok_or(Error::NoDataDirectory)?;
            let folder = folder.join("uidring").join("leaf").join(name);
            Ok(Some(folder.join(format!("{instance}.json"))))
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
    Some(layout.pack(tick, worker_id, layout.max_sequence()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_reserved_is_over_with_its_tick() {
        let layout = Layout::UID_GENERATOR;
        let epoch = layout.epoch().as_millis();
        assert_eq!(after(&layout, 3, epoch - 1), None);
        assert_eq!(after(&layout, 3, epoch), Some(layout.pack(0, 3, 8_191)));
        assert_eq!(after(&layout, 3, epoch + 999), Some(layout.pack(0, 3, 8_191)));
        assert_eq!(after(&layout, 3, epoch + 1_000), Some(layout.pack(1, 3, 8_191)));
        assert_eq!(after(&layout, 3, i64::MAX), Some(layout.pack(layout.max_tick(), 3, 8_191)));
        assert_eq!(after(&layout, 3, 0), None);
    }
}
