//! The program on a database of a real server.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;

use uidring::{Layout, Uid};
use uidring_testkit::mariadb::{Database, MariaDb};

use crate::support::{Home, Run};

pub fn database(server: &Arc<MariaDb>) -> Database {
    let database = server.database();
    let run = Run::of(Home::new().command("worker init").env("UIDRING_URL", database.url()));
    assert_eq!(run.status, Some(0), "{run:?}");
    database
}

/// Returns `uidring` with these arguments, on the database at this URL.
pub fn command(home: &Home, words: &str, url: &str) -> Command {
    let mut command = home.command(words);
    command.env("UIDRING_URL", url);
    command
}

/// Adds options to the URL's query.
pub fn with(url: &str, options: &str) -> String {
    let sign = if url.contains('?') { '&' } else { '?' };
    format!("{url}{sign}{options}")
}

pub fn ids(database: &Database) -> BTreeSet<u64> {
    database.query("SELECT ID FROM WORKER_NODE").into_iter().collect()
}

pub fn worker_of(uid: Uid) -> u64 {
    Layout::UID_GENERATOR.decode(uid).expect("of this layout").worker_id
}

/// Expects a run to fail with status 1, print no uid, and show nothing of the password.
pub fn failure(command: &mut Command) -> String {
    refused(command, 1)
}

/// As [`failure`], with status 2.
pub fn wrong_usage(command: &mut Command) -> String {
    refused(command, 2)
}

fn refused(command: &mut Command, status: i32) -> String {
    let run = Run::of(command);
    assert_eq!((run.status, &*run.stdout), (Some(status), ""), "{run:?}");
    for secret in ["p@ss", "%40", "w:rd", "mysql://u", "s3cret"] {
        assert!(!run.stderr.contains(secret), "{secret}: {}", run.stderr);
    }
    run.stderr
}
