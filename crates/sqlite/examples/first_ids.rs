//! The README's program. It is safe to start again and again: the worker id comes from a file that never hands
//! out the same one twice.
//!
//! `cargo run --release -p uidring-sqlite --example first_ids`

use uidring::CachedUidGenerator;
use uidring_sqlite::SqliteStore;

fn main() -> Result<(), uidring::Error> {
    let workers = SqliteStore::in_data_directory()?.worker_nodes();
    let generator = CachedUidGenerator::builder().worker_from(workers).build()?;
    let uid = generator.next_uid()?; // from any thread, through & or Arc
    println!("{uid} {} {}", uid.base62(), generator.decode(uid)?.timestamp);
    Ok(())
}
