//! A SQLite file, of a host and of an ordinal, under the suite of all stores; see `uidring_testkit::suite`.
#![cfg(unix)]

mod store;
#[path = "store/ordinal.rs"]
mod volume;

use uidring_testkit::suite;

use store::Sqlite;
use volume::OrdinalFile;

suite! {
    mod file: Sqlite,
    server: "a file has no server",
    network: "a file has no server",
    own_clock: "the clock of a file is that of its host",
}

suite! {
    mod ordinal: OrdinalFile,
    worker_ids: "an ordinal has one worker id",
    prune: "an ordinal has one worker id",
    ranges: "an ordinal has one worker id",
    segments: "it is for a worker id alone",
    server: "a file has no server",
    network: "a file has no server",
    herd: "a start waits for the end of the lease",
    own_clock: "the clock of a file is that of its host",
}
