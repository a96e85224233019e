//! A backup that is restored under live holders.

use uidring::segment::SegmentStore;
use uidring_store::{LeaseTable, NewSegmentTag, SegmentTable, WorkerTable};
use uidring_testkit::postgres::{Database, Postgres};
use uidring_testkit::restores::{self, Restorable};

use crate::support::store;

struct Restored(Database);

impl Restorable for Restored {
    fn worker_ids(&self) -> Box<dyn WorkerTable> {
        Box::new(store(&self.0).worker_nodes())
    }

    fn leases(&self) -> Box<dyn LeaseTable> {
        Box::new(store(&self.0).leases())
    }

    fn segments(&self) -> Box<dyn SegmentStore> {
        Box::new(store(&self.0).segments())
    }

    fn back_up(&self) {
        self.0.back_up();
    }

    fn restore(&self) {
        self.0.restore();
    }

    fn execute(&self, sql: &str) {
        self.0.execute(sql);
    }

    fn set_counter(&self, next: u64) {
        self.0.execute(&format!("ALTER TABLE worker_node ALTER COLUMN id RESTART WITH {next}"));
    }
}

#[test]
fn a_dump_that_is_restored_ends_live_holders() {
    let database = Postgres::shared().database();
    store(&database).leases().create().expect("made");
    let segments = store(&database).segments().create_table_if_missing(true);
    segments.create_tag(&NewSegmentTag::new("t", 10).expect("allowed")).expect("created");
    restores::live_holders_notice(&Restored(database));
}
