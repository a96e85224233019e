//! Errors as a `main` that returns them prints them.

use std::error::Error;

use uidring::CachedUidGenerator;
use uidring_sqlite::SqliteStore;

#[test]
fn a_main_prints_what_is_wrong_with_the_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = folder.path().join("nowhere.db");
    let workers = SqliteStore::new(&wrong).worker_nodes();
    let error: Box<dyn Error> = CachedUidGenerator::builder()
        .worker_from(workers)
        .build()
        .expect_err("no such file")
        .into();
    // What the runtime prints of an error that `main` returns.
    let printed = format!("Error: {error:?}");
    assert!(printed.contains(&format!(" {} ", wrong.display())), "{printed}");
    assert!(!printed.contains("StoreError") && !printed.contains('{'), "{printed}");
}
