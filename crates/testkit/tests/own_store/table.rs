//! A third-party store: worker ids, leases and segments in a JSON file. The processes of one host change it in turn,
//! under a lock.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{process, thread};

use serde::{Deserialize, Serialize};
use uidring::segment::{
    LoadError, Loaded, LoadedSegment, SegmentRequest, SegmentStore, SegmentTag,
};
use uidring::worker::{Lease, LeaseBackend, LeaseTerms, RenewError};
use uidring::{
    Error, Fields, Layout, StoreError, StoreErrorKind, Uid, Worker, WorkerRequest, WorkerSource,
};

/// A rule for stores. Each test breaks one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The counter of worker ids is read and written in one transaction.
    CountsAtOnce,
    /// A holder starts above what earlier ones may have issued.
    StartsAboveTheHorizon,
    /// A renewal stores how far the holder may issue.
    StoresTheHorizon,
    /// A lease that is renewed is not taken.
    SparesTheLiving,
    /// One clock decides when a lease ends, not the clock of each host.
    HasItsOwnClock,
    /// A renewal changes only the row with its own token.
    RenewsByToken,
    /// A release changes only the row with its own token.
    ReleasesByToken,
    /// A renewal notices that the row is behind what was confirmed.
    NoticesLostCommits,
    /// All leases have the same layout.
    HasOneLayout,
    /// An unused lease is given back.
    GivesBackTheUnused,
    /// The error says by its kind that all worker ids are held.
    SaysThatAllAreHeld,
    /// A range is read and reserved in one transaction.
    LoadsAtOnce,
    /// A row that cannot be served stays unchanged.
    SparesInvalidRows,
}

/// The folder of the file.
#[derive(Clone, Debug)]
pub struct Table {
    pub folder: PathBuf,
    pub without: Option<Rule>,
}

#[derive(Default, Serialize, Deserialize)]
pub struct State {
    pub worker_ids: u64,
    pub leases: BTreeMap<u64, Row>,
    /// The layout of all leases, once there was one.
    pub layout: Option<String>,
    /// `max_id` and step by name.
    pub tags: BTreeMap<String, (i64, i64)>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Row {
    pub token: u64,
    pub owner: String,
    /// When the lease ends; `None` if the worker id is free.
    pub ends: Option<Moment>,
    /// The last tick and sequence number that may have been issued.
    pub horizon: Option<(u64, u64)>,
}

/// A time of the store's clock, since the host's start.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    start: String,
    millis: u64,
}

impl Table {
    fn keeps(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    /// Changes the whole file. It is on disk when this returns.
    pub fn change<T>(&self, work: impl FnOnce(&mut State) -> T) -> Result<T, Error> {
        let changed = || -> io::Result<T> {
            let lock = File::create(self.folder.join("lock"))?;
            lock.lock()?;
            let mut state = match fs::read(self.folder.join("state")) {
                Ok(bytes) => serde_json::from_slice(&bytes)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => State::default(),
                Err(error) => return Err(error),
            };
            let done = work(&mut state);
            let mut new = File::create(self.folder.join("new"))?;
            new.write_all(&serde_json::to_vec(&state)?)?;
            new.sync_all()?;
            fs::rename(self.folder.join("new"), self.folder.join("state"))?;
            File::open(&self.folder)?.sync_all()?;
            Ok(done)
        };
        changed().map_err(|error| StoreError::new(StoreErrorKind::Other, error).into())
    }

    /// A clock that all processes share and nobody sets.
    pub fn now(&self) -> Moment {
        let seconds = if self.keeps(Rule::HasItsOwnClock) {
            let uptime = fs::read_to_string("/proc/uptime").expect("of Linux");
            uptime.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or_default()
        } else {
            std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs_f64()
        };
        let start = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("of Linux");
        Moment { start, millis: (seconds * 1_000.0) as u64 }
    }

    /// Leases a worker id, or waits for a free one.
    pub fn lease(
        &self,
        request: &WorkerRequest,
        lasts: Duration,
        wait_for: Duration,
    ) -> Result<Lease, Error> {
        let begin = Instant::now();
        let owner = format!("{}-{}", process::id(), fastrand::u64(..));
        loop {
            let taken = self.change(|state| self.take(state, &request.layout, &owner, lasts))??;
            if let Some((worker_id, row)) = taken {
                return self.held(request.layout, worker_id, row, lasts);
            }
            if begin.elapsed() >= wait_for {
                let kind = match self.keeps(Rule::SaysThatAllAreHeld) {
                    true => StoreErrorKind::Held,
                    false => StoreErrorKind::Other,
                };
                return Err(StoreError::new(kind, "all worker ids are held").into());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn take(
        &self,
        state: &mut State,
        layout: &Layout,
        owner: &str,
        lasts: Duration,
    ) -> Result<Option<(u64, Row)>, Error> {
        let ours = layout.to_string();
        let all = state.layout.get_or_insert_with(|| ours.clone());
        if *all != ours && self.keeps(Rule::HasOneLayout) {
            let text = format!("the leases are for layout {all}");
            return Err(StoreError::new(StoreErrorKind::Corrupt, text).into());
        }
        let now = self.now();
        let is_free = |id: &u64| {
            let ends = state.leases.get(id).and_then(|row| row.ends.as_ref());
            ends.is_none_or(|ends| ends.is_over(&now) || !self.keeps(Rule::SparesTheLiving))
        };
        let Some(id) = (1..=layout.max_worker_id()).find(is_free) else { return Ok(None) };
        let row = state.leases.entry(id).or_default();
        row.token += 1;
        row.owner = owner.to_owned();
        row.ends = Some(now.after(lasts));
        Ok(Some((id, row.clone())))
    }

    fn held(
        &self,
        layout: Layout,
        worker_id: u64,
        row: Row,
        lasts: Duration,
    ) -> Result<Lease, Error> {
        let mut terms = LeaseTerms::default();
        terms.lasts = Some(lasts);
        terms.margin = lasts / 10;
        terms.renew_every = lasts / 3;
        let before = row.horizon.filter(|_| self.keeps(Rule::StartsAboveTheHorizon));
        let uid = |(tick, sequence)| layout.compose(Fields { tick, worker_id, sequence });
        let after = before.map(uid).transpose()?;
        let (token, owner) = (row.token, row.owner);
        let held = Held {
            table: self.clone(),
            layout,
            worker_id,
            token,
            owner,
            lasts,
            before: row.horizon,
            confirmed: None,
            is_over: false,
        };
        Lease::new(layout, worker_id, after, terms, held)
    }
}

impl Moment {
    fn after(&self, time: Duration) -> Self {
        let millis = self.millis + u64::try_from(time.as_millis()).expect("short");
        Self { millis, ..self.clone() }
    }

    /// A host that was restarted holds nothing.
    pub fn is_over(&self, now: &Self) -> bool {
        self.start != now.start || self.millis <= now.millis
    }
}

/// Disposable worker ids are a counter.
impl WorkerSource for Table {
    fn acquire(&self, request: &WorkerRequest) -> Result<Worker, Error> {
        let count = |state: &mut State| {
            let next = state.worker_ids + 1;
            request.layout.check_worker_id(next)?;
            state.worker_ids = next;
            Ok(Worker::Plain(next))
        };
        if self.keeps(Rule::CountsAtOnce) {
            return self.change(count)?;
        }
        let mut read =
            self.change(|state| State { worker_ids: state.worker_ids, ..State::default() })?;
        thread::sleep(Duration::from_millis(1));
        let worker = count(&mut read);
        self.change(|state| state.worker_ids = read.worker_ids)?;
        worker
    }
}

struct Held {
    table: Table,
    layout: Layout,
    worker_id: u64,
    token: u64,
    owner: String,
    lasts: Duration,
    /// What earlier holders may have issued.
    before: Option<(u64, u64)>,
    /// The last stored horizon.
    confirmed: Option<(u64, u64)>,
    is_over: bool,
}

impl Held {
    /// Changes the row if it is still this holder's.
    fn change(&self, by: Rule, work: impl FnOnce(&mut Row)) -> Result<Result<(), Error>, Error> {
        self.table.change(|state| {
            let row = state.leases.get_mut(&self.worker_id);
            let is_ours = |row: &Row| {
                (row.token, &row.owner) == (self.token, &self.owner) || !self.table.keeps(by)
            };
            let Some(row) = row.filter(|row| is_ours(row)) else {
                return Err(self.lost("somebody else has it"));
            };
            let notices = self.table.keeps(Rule::NoticesLostCommits)
                && self.table.keeps(Rule::StoresTheHorizon);
            let is_lower = notices && row.horizon < self.confirmed;
            if by == Rule::RenewsByToken && is_lower {
                return Err(self.lost("the file has less than it confirmed"));
            }
            work(row);
            Ok(())
        })
    }

    fn lost(&self, why: &str) -> Error {
        let place = self.table.folder.display().to_string();
        Error::LeaseLost { worker_id: self.worker_id, place, why: why.into() }
    }
}

impl LeaseBackend for Held {
    fn renew(&mut self, horizon: u64) -> Result<(), RenewError> {
        let last = (horizon.min(self.layout.max_tick()), self.layout.max_sequence());
        let ends = self.table.now().after(self.lasts);
        let stores = self.table.keeps(Rule::StoresTheHorizon);
        let done = self.change(Rule::RenewsByToken, |row| {
            row.ends = Some(ends);
            if stores {
                row.horizon = row.horizon.max(Some(last));
            }
        });
        done.map_err(RenewError::Failed)?.map_err(RenewError::Lost)?;
        self.confirmed = Some(last);
        Ok(())
    }

    fn release(&mut self, last: Option<Uid>) -> Result<(), Error> {
        self.is_over = true;
        // Never below what earlier holders may have issued.
        let last = last.map(|uid| self.layout.decode(uid)).transpose()?;
        let last = last.map(|uid| (uid.tick, uid.sequence)).max(self.before);
        let stores = self.table.keeps(Rule::StoresTheHorizon);
        self.change(Rule::ReleasesByToken, |row| {
            row.token += 1;
            row.ends = None;
            if stores {
                row.horizon = last;
            }
        })?
    }
}

/// Gives back an unused lease.
impl Drop for Held {
    fn drop(&mut self) {
        let is_unused = self.confirmed.is_none() && !self.is_over;
        if is_unused && self.table.keeps(Rule::GivesBackTheUnused) {
            // On failure, the lease runs out by itself.
            let _ = self.release(None);
        }
    }
}

impl SegmentStore for Table {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        self.change(|state| {
            let tag = |(tag, &(max_id, step)): (&String, &(i64, i64))| {
                SegmentTag::new(tag).max_id(max_id).step(step)
            };
            state.tags.iter().map(tag).collect()
        })
    }

    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        for (index, request) in wanted.iter().enumerate() {
            loaded(index, self.load_one(request));
        }
    }
}

impl Table {
    fn load_one(&self, request: &SegmentRequest) -> Result<LoadedSegment, LoadError> {
        let range = |state: &mut State| {
            let tag = request.tag.clone();
            let row = state.tags.get_mut(&tag).ok_or(LoadError::NoSuchTag { tag })?;
            if !self.keeps(Rule::SparesInvalidRows) {
                row.1 = row.1.max(1);
            }
            let range = request.range(Ok(row.0), Ok(row.1))?;
            row.0 = range.end.cast_signed();
            Ok(range)
        };
        if self.keeps(Rule::LoadsAtOnce) {
            return self.change(range)?;
        }
        let mut read =
            self.change(|state| State { tags: state.tags.clone(), ..State::default() })?;
        thread::sleep(Duration::from_millis(1));
        let loaded = range(&mut read)?;
        self.change(|state| state.tags = read.tags)?;
        Ok(loaded)
    }
}
