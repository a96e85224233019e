//! The shortest program that is safe to start again and again: the worker id comes from a file
//! that never hands out the same one twice.
//!
//! `cargo run --release -p uidring-sqlite --example first_ids`

use std::sync::Arc;
use std::thread;

use uidring::CachedUidGenerator;
use uidring_sqlite::SqliteStore;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workers = SqliteStore::in_data_directory()?.worker_nodes();
    let generator = Arc::new(CachedUidGenerator::builder().worker_from(workers).build()?);

    let threads: Vec<_> = (0..4)
        .map(|_| {
            let generator = Arc::clone(&generator);
            thread::spawn(move || generator.next_uid())
        })
        .collect();
    for thread in threads {
        let uid = thread.join().map_err(|_| "a thread panicked")??;
        let fields = generator.decode(uid)?;
        println!("{uid} (worker {} at {})", fields.worker_id, fields.timestamp);
    }
    Ok(())
}
