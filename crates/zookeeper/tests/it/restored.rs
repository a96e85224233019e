//! Servers that were restored from an older copy, under instances that have gone on since.

use std::time::Duration;

use uidring_testkit::zookeeper::ZooKeeper;

use crate::faults::take_until_lost;
use crate::leaf::{Site, generator, now, wait_until};

/// Enough transactions to pass the last one that a session has seen.
const WRITES: u32 = 2_000;

#[test]
fn instances_of_servers_that_went_back_stop() {
    let site = Site::with_session(ZooKeeper::start(), Duration::from_secs(60));
    let bounded = generator(&site.registry("a:1"));
    let original = generator(&site.original("b:1"));
    site.server.kill();
    let copy = tempfile::tempdir().expect("a folder");
    site.server.copy_to(copy.path());
    site.server.start_again();
    let copied = now();
    // An instance knows of its first write when it makes the second one.
    let mut after = copied;
    for _ in 0..2 {
        for name in ["a:1@bounded", "b:1"] {
            wait_until("something newer than the copy", || site.timestamp(name) > after);
        }
        after = now();
    }

    site.server.kill();
    site.server.restore(copy.path());
    site.server.start_again();
    // A session does not move to a server whose last transaction is older.
    site.server.put_many("/other", WRITES);
    take_until_lost(&bounded);
    take_until_lost(&original);
    for name in ["a:1@bounded", "b:1"] {
        assert!(site.timestamp(name) <= copied, "{name} has written to the older state");
    }
}
