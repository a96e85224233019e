//! A program's own rusqlite beside that of uidring-sqlite.

use std::error::Error;

use rusqlite::Connection;
use uidring::CachedUidGenerator;
use uidring_sqlite::SqliteStore;

#[test]
fn both_use_one_sqlite() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let workers = SqliteStore::new(folder.path().join("workers.db")).create(true).worker_nodes();
    let generator = CachedUidGenerator::builder().worker_from(workers).build()?;
    let connection = Connection::open_in_memory()?;
    let uid = generator.next_uid()?;
    let found: i64 = connection.query_row("SELECT ?", [i64::from(uid)], |row| row.get(0))?;
    assert_eq!(found, i64::from(uid));
    Ok(())
}
