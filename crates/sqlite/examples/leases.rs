//! Leased worker ids: generators that run at once have different ones, and a restart gets the id that was given
//! back, and goes on above its uids.
//!
//! `cargo run -p uidring-sqlite --example leases`

use std::time::Duration;

use uidring::CachedUidGenerator;
use uidring_sqlite::{LeaseOptions, LeaseState, LeaseTable, SqliteStore};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    // How long a worker id stays taken if its process is killed.
    let options = LeaseOptions::default().lasts(Duration::from_secs(10));
    let leases =
        SqliteStore::new(folder.path().join("uidring.db")).create(true).leases().options(options);
    // As each of your processes does at its start.
    let start = || CachedUidGenerator::builder().worker_from(leases.clone()).build();

    let (orders, payments) = (start()?, start()?);
    assert_ne!(orders.worker_id(), payments.worker_id());
    let last = orders.next_uid()?;

    let freed = orders.worker_id();
    // Dropping gives it back, as `close` does.
    drop(orders);
    let restarted = start()?;
    assert_eq!(restarted.worker_id(), freed);
    assert!(restarted.next_uid()? > last);

    let rows = leases.list()?;
    assert!(rows.len() == 2 && rows.iter().all(|row| matches!(row.state, LeaseState::Held(_))));
    for row in rows {
        println!("worker id {} is held by {}", row.worker_id, row.owner);
    }
    Ok(())
}
