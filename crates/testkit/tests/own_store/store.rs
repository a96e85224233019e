//! The table as a store of the suite.

use std::path::PathBuf;

use tempfile::TempDir;
use uidring::segment::{SegmentStore, SegmentTag};
use uidring::worker::Lease;
use uidring::{Error, WorkerRequest, WorkerSource};
use uidring_testkit::suite::{Cause, Change, Place, Row, Rows, Site, Store, Tags, Terms};

use crate::table::{Rule, State, Table};

/// The store, without a rule if one is named.
pub struct OwnStore {
    pub without: Option<Rule>,
}

/// A store that was started for a test. Its address is the folder.
struct Folder(TempDir);

impl OwnStore {
    fn open(&self, address: &str) -> Table {
        Table { folder: PathBuf::from(address), without: self.without }
    }
}

impl Store for OwnStore {
    fn start(&self) -> Box<dyn Site> {
        Box::new(Folder(tempfile::tempdir().expect("a folder")))
    }

    fn worker_ids(&self, place: &Place) -> Result<Box<dyn WorkerSource>, Error> {
        Ok(Box::new(self.open(&place.address)))
    }

    fn lease(&self, place: &Place, request: &WorkerRequest, terms: &Terms) -> Result<Lease, Error> {
        self.open(&place.address).lease(request, terms.lasts, terms.wait_for)
    }

    fn segments(&self, place: &Place) -> Result<Box<dyn SegmentStore>, Error> {
        Ok(Box::new(self.open(&place.address)))
    }

    fn cause(&self, error: &str) -> Option<Cause> {
        let is_lost = ["lease of the worker id is lost", "somebody else has it"];
        if error.contains("all worker ids are held") {
            Some(Cause::NoneFree)
        } else if is_lost.iter().any(|text| error.contains(text)) {
            Some(Cause::Lost)
        } else {
            // Another thread's start was paused beyond its lease, which this one got.
            error.contains("is in use: a generator of this process").then_some(Cause::Away)
        }
    }
}

impl Folder {
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let table = Table { folder: self.0.path().to_owned(), without: None };
        table.change(work).expect("changed")
    }
}

impl Site for Folder {
    fn address(&self, _: usize) -> String {
        self.0.path().to_str().expect("UTF-8").into()
    }

    fn rows(&self) -> &dyn Rows {
        self
    }

    fn tags(&self) -> &dyn Tags {
        self
    }
}

impl Rows for Folder {
    fn row(&self, worker_id: u64) -> Option<Row> {
        let now = Table { folder: self.0.path().to_owned(), without: None }.now();
        let row = self.with(|state| state.leases.get(&worker_id).cloned())?;
        Some(Row {
            holder: format!("{} {}", row.token, row.owner),
            is_held: row.ends.is_some_and(|ends| !ends.is_over(&now)),
            horizon: row.horizon.map(|(tick, _)| tick),
        })
    }

    fn change(&self, worker_id: u64, change: Change) {
        let now = Table { folder: self.0.path().to_owned(), without: None }.now();
        self.with(|state| {
            if change == Change::Removed {
                state.leases.remove(&worker_id);
                return;
            }
            let row = state.leases.get_mut(&worker_id).expect("a row");
            match change {
                Change::Fenced => (row.token, row.ends) = (row.token + 1, Some(now)),
                Change::Taken => (row.token, row.owner) = (row.token + 1, "other".into()),
                Change::Twin => row.owner = "twin".into(),
                Change::SetBack => {
                    row.horizon = row.horizon.map(|(tick, sequence)| (tick - 1, sequence));
                }
                Change::Removed => {}
            }
        });
    }
}

impl Tags for Folder {
    fn put(&self, tag: &SegmentTag) {
        self.with(|state| {
            state.tags.insert(
                tag.tag.clone(),
                (tag.max_id.expect("a number"), tag.step.expect("a number")),
            )
        });
    }

    fn set_step(&self, tag: &str, step: i64) {
        self.with(|state| state.tags.get_mut(tag).expect("a tag").1 = step);
    }
}
