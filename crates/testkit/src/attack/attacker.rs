//! An attacking process. It notes each id with a single `write` before it goes on, so a kill loses none.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use std::{env, thread};

use uidring::policy::TakePolicy;
use uidring::{
    CachedUidGenerator, ClockedUidGenerator, Error, Layout, SegmentGenerator, Uid, UidGenerator,
    WorkerSource,
};

use super::target::{Kind, TAGS, Target, layout, millis, place};
use crate::child::this_test;
use crate::record::Record;
use crate::suite::{Place, Store, Terms};
use crate::{chain, request};

const VARIABLE: &str = "UIDRING_ATTACKER";

/// What a process has to do.
#[derive(Clone)]
pub struct Orders {
    pub target: Target,
    pub kind: Kind,
    pub place: Place,
    pub records: PathBuf,
    /// Milliseconds since 1970.
    pub end: u64,
    pub threads: usize,
    /// Whether to stop after one round, not at `end`.
    pub once: bool,
}

impl Orders {
    /// Returns the command that runs this test binary with these orders.
    pub fn command(&self) -> Command {
        let Self { target, kind, place, records, end, threads, once } = self;
        let Place { address, slot, unique, .. } = place;
        let records = records.to_str().expect("UTF-8");
        let words = format!(
            "{}\n{address}\n{slot}\n{unique}\n{records}\n{end}\n{threads}\n{once}",
            kind.name()
        );
        let mut command = this_test(&target.test("attacker"));
        command.env(VARIABLE, words);
        command
    }
}

/// Short terms, so that a pause can outlast them.
const TERMS: Terms = Terms { lasts: Duration::from_secs(1), wait_for: Duration::from_secs(2) };

struct Attacker {
    store: &'static dyn Store,
    kind: Kind,
    place: Place,
    records: PathBuf,
    end: u64,
    once: bool,
    errors: File,
}

/// Attacks if the process has orders.
pub fn run(target: Target) {
    let Ok(words) = env::var(VARIABLE) else { return };
    let words: Vec<&str> = words.split('\n').collect();
    let [kind, address, slot, unique, records, end, threads, once] = words[..] else {
        panic!("{words:?}")
    };
    let place = place(address.into(), slot.parse().expect("a slot"), unique.into());
    let records = PathBuf::from(records);
    let errors = OpenOptions::new().create(true).append(true).open(records.join("errors"));
    let attacker = Attacker {
        store: target.store,
        kind: Kind::ALL.into_iter().find(|one| one.name() == kind).expect("a kind"),
        errors: errors.expect("a file"),
        place,
        records,
        end: end.parse().expect("a time"),
        once: once == "true",
    };
    let threads: usize = threads.parse().expect("a number");
    match attacker.kind {
        Kind::Workers => attacker.each(threads, |thread| attacker.assign(thread)),
        Kind::Leases => attacker.each(threads, |thread| attacker.hold(thread)),
        Kind::Segments => attacker.load(threads),
    }
}

impl Attacker {
    fn each(&self, threads: usize, work: impl Fn(usize) + Sync) {
        thread::scope(|scope| {
            for thread in 0..threads {
                let work = &work;
                scope.spawn(move || {
                    loop {
                        work(thread);
                        if self.is_over() {
                            return;
                        }
                    }
                });
            }
        });
    }

    fn is_over(&self) -> bool {
        self.once || millis(SystemTime::now()) >= self.end
    }

    fn assign(&self, thread: usize) {
        let place = self.place_of(thread);
        if let Some(id) = self.attempt(|| self.worker_id(&place)) {
            self.record(&place.address).note([id]);
        }
    }

    fn worker_id(&self, place: &Place) -> Result<u64, Error> {
        let source = self.store.worker_ids(place)?;
        Ok(source.acquire(&request(Layout::UID_GENERATOR))?.id())
    }

    /// Takes uids with a leased worker id for a while.
    fn hold(&self, thread: usize) {
        let place = self.place_of(thread);
        let layout = layout();
        let is_cached = fastrand::u8(..4) > 0;
        let generator = self.attempt(|| {
            let lease = self.store.lease(&place, &request(layout), &TERMS)?;
            let generator: Arc<dyn UidGenerator> = if is_cached {
                let builder = CachedUidGenerator::builder().layout(layout);
                Arc::new(builder.worker(lease).build()?)
            } else {
                Arc::new(ClockedUidGenerator::builder().layout(layout).worker(lease).build()?)
            };
            Ok::<_, Error>(generator)
        });
        let Some(generator) = generator else { return self.pause() };
        let mut record = self.record("");
        let mut left = if self.once { 4 } else { fastrand::u32(1..400) };
        let mut batch = [Uid::default(); 16];
        while left > 0 {
            left -= 1;
            let filled = self.attempt(|| match generator.fill(&mut batch) {
                Ok(()) => Ok(batch.len()),
                Err(error) if error.filled > 0 => Ok(error.filled),
                Err(error) => Err(error.error),
            });
            let Some(filled) = filled else { break };
            record.note(batch[..filled].iter().map(|uid| uid.get()));
            thread::sleep(Duration::from_millis(fastrand::u64(1..8)));
            if !self.once && self.is_over() {
                break;
            }
        }
    }

    fn load(&self, threads: usize) {
        let generator = loop {
            let built = self.attempt(|| {
                let store = self.store.segments(&self.place)?;
                SegmentGenerator::builder(store)
                    .max_step(20)
                    .take_policy(TakePolicy::WaitFor(Duration::from_secs(20)))
                    .build()
            });
            match built {
                Some(generator) => break generator,
                None if self.is_over() => return,
                None => self.pause(),
            }
        };
        let records = TAGS.map(|tag| Mutex::new(self.record(tag)));
        self.each(threads, |_| {
            let tag = fastrand::usize(..TAGS.len());
            let mut batch = [0; 10];
            let filled = self.attempt(|| match generator.fill(TAGS[tag], &mut batch) {
                Ok(()) => Ok(batch.len()),
                Err(error) if error.filled > 0 => Ok(error.filled),
                Err(error) => Err(error.error),
            });
            match filled {
                Some(filled) => {
                    let ids = batch[..filled].iter().copied();
                    records[tag].lock().expect("whole").note(ids);
                }
                None => self.pause(),
            }
            thread::sleep(Duration::from_millis(fastrand::u64(1..8)));
        });
    }

    fn place_of(&self, thread: usize) -> Place {
        let unique = format!("{}-{thread}-{}", self.place.unique, fastrand::u32(..));
        Place { unique, ..self.place.clone() }
    }

    /// Does the work, and notes an error with its times.
    fn attempt<T, E: std::error::Error + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Option<T> {
        let start = millis(SystemTime::now());
        match work() {
            Ok(done) => Some(done),
            Err(error) => {
                let text = chain(&error).replace('\n', " ");
                let end = millis(SystemTime::now());
                write(&self.errors, format!("{start} {end} {text}\n").as_bytes());
                None
            }
        }
    }

    fn pause(&self) {
        thread::sleep(Duration::from_millis(fastrand::u64(5..50)));
    }

    /// Creates a file of ids. No other file of the same kind and space may hold one of them.
    fn record(&self, space: &str) -> Record {
        let space = format!("{}-{space}", self.kind.name());
        Record::begin(&self.records.join("ids"), &space, false)
    }
}

/// Writes with a single call, because other threads write to the file too.
fn write(mut file: &File, bytes: &[u8]) {
    assert_eq!(file.write(bytes).expect("writes"), bytes.len());
}
