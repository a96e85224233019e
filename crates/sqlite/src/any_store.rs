//! [`AnyStore`] for SQLite files.

use std::path::PathBuf;

use uidring::segment::SegmentStore;
use uidring::worker::Ordinal;
use uidring::{Error, WorkerSource};
use uidring_store::{
    AnyStore, Findings, LeaseOptions, LeaseTable, SegmentTable, StoreUse, WorkerTable,
};

use crate::dedicated;
use crate::examine::examine;
use crate::file::{StoreFile, WORKERS};
use crate::volume::Keeps;
use crate::{KIND, SqliteLeases, SqliteStore};

impl AnyStore for SqliteStore {
    fn has(&self) -> &'static str {
        "worker ids, leases, ordinals and segments"
    }

    fn worker_table(&self) -> Result<Box<dyn WorkerTable + Send>, Error> {
        Ok(Box::new(self.worker_nodes()))
    }

    fn lease_table(&self, options: LeaseOptions) -> Result<Box<dyn LeaseTable + Send>, Error> {
        Ok(Box::new(self.leases().options(options)))
    }

    fn worker_of(
        &self,
        ordinal: Ordinal,
        options: LeaseOptions,
    ) -> Result<Box<dyn WorkerSource + Send>, Error> {
        // The default file may end with its pod, and the next pod's file would hand out the same ids.
        if self.file(&WORKERS).is_default {
            return Err(KIND.wrong(
                "an ordinal's worker id needs a file that a second pod of the ordinal finds: name a file on the pod's \
                 volume, or without one, use worker=lease and a server",
            ));
        }
        Ok(Box::new(self.ordinal(ordinal).options(options)))
    }

    fn segment_table(&self) -> Result<Box<dyn SegmentTable + Send + Sync>, Error> {
        Ok(Box::new(self.segments()))
    }

    fn segment_store(&self) -> Result<Box<dyn SegmentStore>, Error> {
        Ok(Box::new(self.segments()))
    }

    fn check(&self, wanted: StoreUse) -> Result<(), Error> {
        let file = self.file(&WORKERS);
        match wanted {
            StoreUse::Disposable => {
                file.check(|connection| dedicated::refuse(connection, "other worker ids"))
            }
            StoreUse::Lease(layout) => SqliteLeases::of(file).check(&layout, None),
            StoreUse::Ordinal(worker_id, layout) => {
                let file = StoreFile { keeps: Keeps::PodsOrdinal, ..file };
                SqliteLeases::of(file).check(&layout, Some(worker_id))
            }
            StoreUse::Segments => self.check_segments().map(drop),
        }
    }

    fn check_segments(&self) -> Result<Vec<String>, Error> {
        self.segments().check()
    }

    fn examine(&self, wanted: StoreUse) -> Findings {
        examine(self, wanted)
    }

    fn worker_file(&self) -> Option<PathBuf> {
        Some(self.file(&WORKERS).path)
    }
}
