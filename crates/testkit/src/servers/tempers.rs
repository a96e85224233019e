//! Servers and users with unusual defaults: under all of them, what is confirmed is committed.

use std::sync::Arc;
use std::time::Duration;

use uidring::Layout;
use uidring::segment::SegmentStore;
use uidring_store::{LeaseState, LeaseTable, TableError, WorkerTable};

use super::leases::{acquire, cached, rows};
use super::worker_nodes::ids;
use super::{TestedEngine, range, store, with_tags};
use crate::database::Databases;
use crate::server::Server;

pub fn servers_of_every_temper_commit_what_they_confirm<T: TestedEngine>() {
    for settings in T::TEMPERS {
        let server = T::Kind::start_with(settings);
        let database = with_tags::<T>(&server, &["t"]);
        let store = store::<T>(&database);
        let nodes = store.worker_nodes().create_table_if_missing(true);
        let [mut one, mut two] = [store.segments(), store.segments()];
        let mut assigned = Vec::new();
        for start in [1, 21, 41] {
            assigned.push(nodes.assign(&Layout::UID_GENERATOR).expect("assigned"));
            assert_eq!(range(&mut one, "t"), (start, start + 10), "{settings:?}");
            assert_eq!(
                one.tags().expect("listed")[0].max_id,
                Ok(start as i64 + 10),
                "{settings:?}"
            );
            assert_eq!(range(&mut two, "t"), (start + 10, start + 20), "{settings:?}");
            // A kept connection must not see old rows.
            assert_eq!(
                one.tags().expect("listed")[0].max_id,
                Ok(start as i64 + 20),
                "{settings:?}"
            );
            server.kill();
            server.start_again();
            assert_eq!(ids::<T>(&database), assigned, "{settings:?}");
        }
        let keys = T::KEYS_AFTER_A_CRASH;
        let follow = assigned.windows(2).all(|pair| keys.contains(&(pair[1] - pair[0])));
        assert!(assigned[0] == 1 && follow, "{settings:?}: {assigned:?}");
        let row = &nodes.list().expect("listed")[0];
        assert!(row.launch_date.starts_with("20") && row.created.starts_with("20"), "{row:?}");
        assert!(nodes.usage().expect("counted").now.to_string().starts_with("20"));
        assert_eq!(nodes.prune(Duration::ZERO).expect("pruned").removed, 2, "{settings:?}");
        assert_eq!(ids::<T>(&database), assigned[2..], "{settings:?}");
        keeps_leases::<T>(&server);
    }
}

fn keeps_leases<T: TestedEngine>(server: &Arc<Server<T::Kind>>) {
    let database = server.database();
    let leases = store::<T>(&database).leases();
    leases.create().expect("made");
    let generator = cached(acquire::<T>(&database));
    let last = generator.next_uid().expect("ready");
    assert_eq!(leases.fence(1).expect("fenced").token, 2);
    let next = acquire::<T>(&database);
    assert_eq!((next.worker_id(), rows::<T>(&database)[0].token), (1, 3));
    assert!(next.after() >= Some(last));
    let error = leases.release(1).expect_err("held");
    assert!(matches!(error.store(), Some(TableError::LeaseHeld { .. })), "{error}");
    drop(next);
    assert_eq!(rows::<T>(&database)[0].state, LeaseState::Free);
}
