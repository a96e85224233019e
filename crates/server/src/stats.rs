//! Counters, which connections update once per read, and how long answers took.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::listener::Protocol;

/// Ids issued under a name, and errors, by protocol.
#[derive(Debug, Default)]
pub struct NameCounters {
    ids: [AtomicU64; Protocol::COUNT],
    errors: [AtomicU64; Protocol::COUNT],
}

// Relaxed throughout, because these only count.
impl NameCounters {
    pub fn issued(&self, protocol: Protocol, ids: u64) {
        self.ids[protocol as usize].fetch_add(ids, Ordering::Relaxed);
    }

    pub fn failed(&self, protocol: Protocol) {
        self.errors[protocol as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request for ids, as issued or failed.
    pub fn count<T, E>(&self, protocol: Protocol, ids: u64, done: &Result<T, E>) {
        match done {
            Ok(_) => self.issued(protocol, ids),
            Err(_) => self.failed(protocol),
        }
    }

    /// Returns the ids issued over a protocol, and the failed requests.
    pub fn get(&self, protocol: Protocol) -> (u64, u64) {
        let index = protocol as usize;
        (self.ids[index].load(Ordering::Relaxed), self.errors[index].load(Ordering::Relaxed))
    }
}

/// Quarters of each power of two, in nanoseconds.
const BUCKETS: usize = 4 * 40;

/// What the connections of one protocol have done.
#[derive(Debug, Default)]
pub struct ProtocolCounters {
    connections: AtomicU64,
    refused: AtomicU64,
    requests: AtomicU64,
    errors: AtomicU64,
    nanos: AtomicU64,
    times: Times,
}

/// How many requests took how long.
#[derive(Debug)]
struct Times([AtomicU64; BUCKETS]);

impl Default for Times {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; BUCKETS])
    }
}

impl ProtocolCounters {
    pub fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts requests that came together and were answered in this time, some with errors.
    pub fn answered(&self, requests: u64, errors: u64, time: Duration) {
        self.requests.fetch_add(requests, Ordering::Relaxed);
        if errors > 0 {
            self.errors.fetch_add(errors, Ordering::Relaxed);
        }
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(4);
        self.nanos.fetch_add(nanos.saturating_mul(requests), Ordering::Relaxed);
        let power = nanos.ilog2();
        let quarter = (nanos >> (power - 2)) & 3;
        let index = (power as usize - 2) * 4 + quarter as usize;
        self.times.0[index.min(BUCKETS - 1)].fetch_add(requests, Ordering::Relaxed);
    }

    /// Returns a snapshot of the counters.
    pub fn stats(&self) -> ProtocolStats {
        let times = self.times.0.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        ProtocolStats {
            connections: self.connections.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
            total_time: Duration::from_nanos(self.nanos.load(Ordering::Relaxed)),
            times,
        }
    }
}

/// A snapshot of what the connections of one protocol have done since the start.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProtocolStats {
    /// Connections accepted.
    pub connections: u64,
    /// Connections refused for lack of room.
    pub refused: u64,
    /// Requests answered.
    pub requests: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// The sum of all requests' times, each from reading the request to handing its answer to the system.
    pub total_time: Duration,
    times: Vec<u64>,
}

impl ProtocolStats {
    /// Returns the time within which this share of the requests, 0 to 1, was answered, measured as in
    /// [`total_time`](Self::total_time); `None` without requests. At most a quarter too high.
    pub fn time_of(&self, share: f64) -> Option<Duration> {
        let all: u64 = self.times.iter().sum();
        let wanted = ((all as f64 * share).ceil() as u64).max(1);
        let mut count = 0;
        let index = self.times.iter().position(|times| {
            count += times;
            count >= wanted
        })?;
        Some(end_of(index))
    }

    /// Returns what was done since an earlier snapshot.
    pub fn since(&self, earlier: &Self) -> Self {
        let times = self.times.iter().zip(&earlier.times);
        Self {
            connections: self.connections.saturating_sub(earlier.connections),
            refused: self.refused.saturating_sub(earlier.refused),
            requests: self.requests.saturating_sub(earlier.requests),
            errors: self.errors.saturating_sub(earlier.errors),
            total_time: self.total_time.saturating_sub(earlier.total_time),
            times: times.map(|(now, then)| now.saturating_sub(*then)).collect(),
        }
    }

    /// Returns how many requests were answered within each of several times from a microsecond to minutes, and finally
    /// in all.
    pub(crate) fn cumulative_times(&self) -> Vec<(Option<Duration>, u64)> {
        let (mut counts, mut count) = (Vec::new(), 0);
        for (index, times) in self.times.iter().enumerate() {
            count += times;
            // At the ends of every other power of two.
            if index % 8 == 7 && (31..=143).contains(&index) {
                counts.push((Some(end_of(index)), count));
            }
        }
        counts.push((None, count));
        counts
    }
}

/// Returns where a bucket of times ends.
fn end_of(index: usize) -> Duration {
    let (power, quarter) = (index / 4 + 2, index % 4);
    Duration::from_nanos((5 + quarter as u64) << (power - 2))
}
