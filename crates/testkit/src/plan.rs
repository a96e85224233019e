//! Plans of what happens to processes and servers.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::child::Child;
use crate::suite::Server;

/// A series of faults, each after a calm. Times are in milliseconds.
pub struct Plan<'a> {
    pub calm: Range<u64>,
    /// Faults with their weights.
    pub faults: &'a [(u32, Fault<'a>)],
}

pub enum Fault<'a> {
    Nothing,
    /// Kills it. A server restarts after this time.
    Kill(Range<u64>),
    /// Stops it for this time.
    Freeze(Range<u64>),
    /// Stops it for this time, and kills it without continuing it.
    FreezeAndKill(Range<u64>),
    /// Tells a process to end.
    End,
    /// Does something else, with a name.
    Do(&'static str, &'a dyn Fn()),
}

impl Plan<'_> {
    fn choose(&self) -> &Fault<'_> {
        let mut number = fastrand::u32(..self.faults.iter().map(|(count, _)| *count).sum::<u32>());
        let is_chosen = |(count, _): &&(u32, Fault<'_>)| {
            let is_it = number < *count;
            number = number.saturating_sub(*count);
            is_it
        };
        &self.faults.iter().find(is_chosen).expect("below the sum").1
    }

    /// Waits for a calm. Returns false if `goes_on` ends before.
    fn is_calm(&self, goes_on: &mut impl FnMut() -> bool) -> bool {
        let (begin, calm) = (Instant::now(), some(&self.calm));
        while goes_on() {
            if begin.elapsed() >= calm {
                return true;
            }
            thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// Applies faults to a process while it lives and `goes_on`. Returns whether the process was killed or told to end.
    pub fn torment(
        &self,
        process: &mut Child,
        counts: &Counts,
        mut goes_on: impl FnMut() -> bool,
    ) -> bool {
        while self.is_calm(&mut || goes_on() && !process.has_ended()) {
            match self.choose() {
                Fault::Nothing => {}
                Fault::Kill(_) => return counts.add_if(process.kill(), "killed"),
                Fault::Freeze(range) => {
                    counts.add("paused");
                    process.freeze();
                    thread::sleep(some(range));
                    process.thaw();
                }
                Fault::FreezeAndKill(range) => {
                    counts.add("paused");
                    process.freeze();
                    thread::sleep(some(range));
                    return counts.add_if(process.kill(), "killed");
                }
                Fault::End => {
                    process.signal("TERM");
                    return counts.add_if(true, "told to end");
                }
                Fault::Do(what, act) => {
                    counts.add(what);
                    act();
                }
            }
        }
        false
    }

    /// Applies faults to a server while `goes_on`. Reports each time without the server to `was_away`.
    pub fn trouble(
        &self,
        server: &dyn Server,
        counts: &Counts,
        mut goes_on: impl FnMut() -> bool,
        mut was_away: impl FnMut(SystemTime, SystemTime),
    ) {
        while self.is_calm(&mut goes_on) {
            let since = SystemTime::now();
            match self.choose() {
                Fault::Nothing => continue,
                Fault::Kill(range) => {
                    counts.add("servers killed");
                    server.kill();
                    thread::sleep(some(range));
                    server.start_again();
                }
                Fault::Freeze(range) => {
                    counts.add("servers frozen");
                    server.freeze();
                    thread::sleep(some(range));
                    server.thaw();
                }
                Fault::Do(what, act) => {
                    counts.add(what);
                    act();
                }
                Fault::FreezeAndKill(_) | Fault::End => panic!("for processes alone"),
            }
            was_away(since, SystemTime::now());
        }
    }
}

/// How often each thing happened.
#[derive(Debug, Default)]
pub struct Counts(Mutex<BTreeMap<String, u64>>);

impl Counts {
    pub fn add(&self, what: &str) {
        *self.0.lock().expect("whole").entry(what.to_owned()).or_default() += 1;
    }

    /// Counts it if it happened, and returns whether it did.
    pub fn add_if(&self, happened: bool, what: &str) -> bool {
        if happened {
            self.add(what);
        }
        happened
    }

    pub fn get(&self, what: &str) -> u64 {
        self.0.lock().expect("whole").get(what).copied().unwrap_or_default()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.0.lock().expect("whole");
        let texts: Vec<_> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
        f.write_str(&texts.join(", "))
    }
}

/// Returns a random time in this range of milliseconds.
pub fn some(range: &Range<u64>) -> Duration {
    Duration::from_millis(fastrand::u64(range.clone()))
}
