//! A pool of threads whose jobs take ids: one handle is shared by reference, and each thread counts through
//! uids of its own.
//!
//! `cargo run --example thread_pool`

use std::collections::HashSet;
use std::error::Error;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use uidring::{CachedUidGenerator, PerThreadGenerator, TakeError, Uid};

const THREADS: usize = 4;
const JOBS: usize = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    // A worker id of your choice is for examples: see `worker_from`.
    let generator = CachedUidGenerator::builder().worker_id(7).build()?;
    let ids = generator.per_thread();
    let (sender, jobs) = mpsc::channel();
    let jobs = Mutex::new(jobs);
    let done = thread::scope(|scope| {
        let pool: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| work(&jobs, &ids))).collect();
        for job in 0..JOBS {
            sender.send(job)?;
        }
        // Without a sender, the threads end after the last job.
        drop(sender);
        let mut done = Vec::new();
        for thread in pool {
            done.extend(thread.join().map_err(|_| "a thread panicked")??);
        }
        Ok::<_, Box<dyn Error>>(done)
    })?;

    let unique: HashSet<Uid> = done.iter().map(|(_, uid)| *uid).collect();
    assert_eq!((done.len(), unique.len()), (JOBS, JOBS));
    println!("{JOBS} jobs on {THREADS} threads have an id each, the first {}", done[0].1);
    Ok(())
}

/// Gives each job an id. Within a thread, later ids are greater.
fn work(
    jobs: &Mutex<mpsc::Receiver<usize>>,
    ids: &PerThreadGenerator<&CachedUidGenerator>,
) -> Result<Vec<(usize, Uid)>, TakeError> {
    let next_job = || jobs.lock().unwrap_or_else(PoisonError::into_inner).recv().ok();
    let mut done = Vec::new();
    while let Some(job) = next_job() {
        done.push((job, ids.next_uid()?));
    }
    assert!(done.is_sorted_by(|(_, earlier), (_, later)| earlier < later));
    Ok(done)
}
