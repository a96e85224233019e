//! What happens to processes and servers, as data.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::child::Child;
use crate::suite::Server;

/// One fault after another, each after some calm. Times are in milliseconds.
pub struct Plan<'a> {
    pub calm: Range<u64>,
    /// Each comes as often as its number says, of all.
    pub faults: &'a [(u32, Fault<'a>)],
}

/// What may happen to a process or a server.
pub enum Fault<'a> {
    Nothing,
    /// It is killed, and a server started again after so long.
    Kill(Range<u64>),
    /// It stands still for so long.
    Freeze(Range<u64>),
    /// It stands still for so long, and is killed without having gone on.
    FreezeAndKill(Range<u64>),
    /// A process is told to end.
    End,
    /// Something else, with a name.
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

    /// Returns whether it goes on after some calm.
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

    /// Does it to a process for as long as it lives, and this goes on. Returns whether the process was killed, or told
    /// to end.
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

    /// Does it to a server for as long as this goes on, and says from when to when the server was away.
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

/// How often what has happened.
#[derive(Debug, Default)]
pub struct Counts(Mutex<BTreeMap<String, u64>>);

impl Counts {
    pub fn add(&self, what: &str) {
        *self.0.lock().expect("whole").entry(what.to_owned()).or_default() += 1;
    }

    /// Adds it if it has happened, and returns whether it has.
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

/// A time in this range of milliseconds.
pub fn some(range: &Range<u64>) -> Duration {
    Duration::from_millis(fastrand::u64(range.clone()))
}
