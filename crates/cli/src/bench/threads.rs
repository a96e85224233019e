//! Threads that start and end together.

use std::panic;
use std::sync::{PoisonError, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use core_affinity::CoreId;

use crate::failure::Failure;

/// The takers' threads: how many, and where they run.
pub struct Crew {
    pub threads: usize,
    /// Cores to pin the threads to in turn; empty for no pinning. Unpinned, two takers may share a core for a while,
    /// where they do not contend.
    pub cores: Vec<CoreId>,
}

impl Crew {
    /// Runs the work on all threads from a common start, and passes it the time when to end. Stopping them from outside
    /// would need a core, and a thousand busy threads keep those for seconds.
    pub fn work<R: Send>(
        &self,
        time: Duration,
        work: impl Fn(Instant) -> Result<R, Failure> + Sync,
    ) -> Result<Vec<R>, Failure> {
        // If a later thread cannot be started, the gate opens with this time, and those that wait end at once.
        let gate = RwLock::new(Instant::now());
        let (ready, all_ready) = mpsc::channel();
        thread::scope(|scope| {
            let mut closed = gate.write().unwrap_or_else(PoisonError::into_inner);
            let start = |number: usize| {
                let (ready, gate, work) = (ready.clone(), &gate, &work);
                let taker = move || {
                    if !self.cores.is_empty() {
                        core_affinity::set_for_current(self.cores[number % self.cores.len()]);
                    }
                    // Fails only if a later thread could not be started.
                    let _ = ready.send(());
                    let until = *gate.read().unwrap_or_else(PoisonError::into_inner);
                    work(until)
                };
                thread::Builder::new().name("taker".into()).spawn_scoped(scope, taker)
            };
            let takers = (0..self.threads).map(start).collect::<Result<Vec<_>, _>>();
            let takers = takers.map_err(|error| {
                Failure::Failed(format!("starting the threads: {error}; take fewer"))
            })?;
            for () in all_ready.iter().take(self.threads) {}
            *closed = Instant::now() + time;
            drop(closed);
            let results = takers.into_iter().map(|taker| taker.join());
            results.map(|done| done.unwrap_or_else(|p| panic::resume_unwind(p))).collect()
        })
    }
}
