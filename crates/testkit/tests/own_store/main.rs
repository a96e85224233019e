//! A third-party store under the suite: once with all rules kept, and once for each rule that it breaks.
#![cfg(target_os = "linux")]

mod faults;
mod store;
mod table;

use uidring_testkit::{attack, suite};

use store::OwnStore;

const WHOLE: OwnStore = OwnStore { without: None };

suite! {
    mod whole: WHOLE,
    prune: "a counter has nothing to be pruned",
    ranges: "its counter begins at 1",
    server: "a file has no server",
    network: "a file has no server",
}

attack!(mod attack_on_whole: WHOLE, [Workers, Leases, Segments]);
