//! What the driver does to processes and servers.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::attacker::Orders;
use super::target::{Kind, Target, millis, place};
use crate::suite::{Server, Site};

/// So much longer than it is told may a process live: for the deadlines of what it waits for, on a
/// machine that has other things to do.
const LIMIT: Duration = Duration::from_secs(120);

/// A row of processes, of which one lives at a time.
pub struct Slot {
    number: usize,
    kind: Kind,
    form: Form,
}

/// How its processes live.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// They do one thing in each thread, and end; some are killed.
    Short,
    /// They do it again and again. Nobody disturbs them, so that there are times at which no other
    /// process has anything open: that is when files are tidied up.
    Calm,
    /// The same, but they are killed, stopped and continued.
    Tormented,
}

/// What was done.
#[derive(Debug, Default)]
pub struct Tally {
    pub starts: AtomicUsize,
    kills: AtomicU64,
    /// In milliseconds since 1970.
    pub pauses: Mutex<Vec<(u64, u64)>>,
    pub outages: Mutex<Vec<(u64, u64)>>,
    /// When the machine did next to nothing for its processes.
    pub stalls: Mutex<Vec<(u64, u64)>>,
    /// What no attacker can tell.
    pub failures: Mutex<Vec<String>>,
}

impl Slot {
    pub fn all(kinds: &[Kind]) -> Vec<Self> {
        let forms = [Form::Calm, Form::Calm, Form::Tormented, Form::Short];
        let all = kinds.iter().flat_map(|kind| forms.map(|form| (*kind, form)));
        all.enumerate().map(|(number, (kind, form))| Self { number, kind, form }).collect()
    }

    /// One process after another.
    pub fn live(
        &self,
        target: Target,
        site: &dyn Site,
        records: &Path,
        end: SystemTime,
        tally: &Tally,
    ) {
        while SystemTime::now() < end {
            let round = tally.starts.fetch_add(1, Ordering::Relaxed);
            let unique = format!("{}-{round}", self.number);
            let life = if fastrand::bool() { u64::MAX } else { fastrand::u64(200..4_000) };
            let orders = Orders {
                target,
                kind: self.kind,
                place: place(site.address(round), self.number, unique.clone()),
                records: records.to_owned(),
                end: millis(end).min(millis(SystemTime::now()).saturating_add(life)),
                threads: if self.form == Form::Short { 4 } else { 2 },
                once: self.form == Form::Short,
            };
            let log = records.join(format!("log.{unique}"));
            let child = orders
                .command()
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(File::create(&log).expect("a file"))
                .spawn()
                .expect("starts");
            let mut process = Attacking { child, tally, stopped: None };
            let was_killed = match self.form {
                Form::Short => process.let_live(),
                Form::Calm => false,
                Form::Tormented => process.torment(end),
            };
            let status = process.wait(end + LIMIT);
            if !was_killed && status != Some(0) {
                let text = std::fs::read_to_string(&log).unwrap_or_default();
                let failure = format!("{} process {unique}: {status:?}: {text}", self.kind.name());
                tally.failures.lock().expect("whole").push(failure);
            }
            let _ = std::fs::remove_file(log);
        }
    }
}

/// A process, which is killed if the driver panics.
struct Attacking<'a> {
    child: Child,
    tally: &'a Tally,
    /// When it was stopped, unless it goes on.
    stopped: Option<u64>,
}

impl Attacking<'_> {
    /// Kills one of four.
    fn let_live(&mut self) -> bool {
        if fastrand::u8(..4) == 0 {
            thread::sleep(some(5..120));
            return self.kill();
        }
        false
    }

    /// Until the process has ended, or is about to.
    fn torment(&mut self, end: SystemTime) -> bool {
        loop {
            thread::sleep(some(20..400));
            if self.has_ended() || SystemTime::now() >= end {
                return false;
            }
            match fastrand::u8(..10) {
                0..2 => return self.kill(),
                2..5 => {
                    self.stop();
                    // A lease lasts for a second.
                    thread::sleep(some(1..1_500));
                    if fastrand::u8(..4) == 0 {
                        return self.kill();
                    }
                    self.go_on();
                }
                _ => {}
            }
        }
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("ours").is_some()
    }

    /// Whether it was still there.
    fn kill(&mut self) -> bool {
        if self.has_ended() {
            return false;
        }
        let killed = self.child.kill().is_ok();
        self.note_pause();
        self.tally.kills.fetch_add(1, Ordering::Relaxed);
        killed
    }

    fn stop(&mut self) {
        if !self.has_ended() {
            self.stopped = Some(millis(SystemTime::now()));
            self.signal("STOP");
        }
    }

    fn go_on(&mut self) {
        self.signal("CONT");
        self.note_pause();
    }

    fn note_pause(&mut self) {
        if let Some(since) = self.stopped.take() {
            let pause = (since, millis(SystemTime::now()));
            self.tally.pauses.lock().expect("whole").push(pause);
        }
    }

    /// Nobody has waited for the child yet, so that the number is its own.
    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent =
            Command::new("kill").args([&format!("-{name}"), &pid]).stderr(Stdio::null()).status();
        assert!(sent.is_ok(), "kill -{name}");
    }

    fn wait(&mut self, limit: SystemTime) -> Option<i32> {
        loop {
            if let Some(status) = self.child.try_wait().expect("ours") {
                return status.code();
            }
            if SystemTime::now() > limit {
                self.kill();
                let failure = format!("process {} hangs", self.child.id());
                self.tally.failures.lock().expect("whole").push(failure);
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Attacking<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Does to a server what happens to servers.
pub fn trouble(server: &dyn Server, end: SystemTime, tally: &Tally) {
    while SystemTime::now() < end {
        let begin = Instant::now();
        let calm = some(300..2_500);
        while begin.elapsed() < calm && SystemTime::now() < end {
            thread::sleep(Duration::from_millis(10));
        }
        let since = millis(SystemTime::now());
        if fastrand::bool() {
            server.freeze();
            thread::sleep(some(50..1_500));
            server.thaw();
        } else {
            server.kill();
            thread::sleep(some(0..1_000));
            server.start_again();
        }
        tally.outages.lock().expect("whole").push((since, millis(SystemTime::now())));
    }
}

/// Notes the times in which a small write to disk, or a short sleep, takes far too long: the machine is
/// busy with something else.
pub fn watch_for_stalls(end: SystemTime, tally: &Tally) {
    const LIMIT: u64 = 150;
    let mut file = tempfile::tempfile().expect("a file");
    while SystemTime::now() < end {
        let since = millis(SystemTime::now());
        file.write_all(b".").and_then(|()| file.sync_data()).expect("written");
        thread::sleep(Duration::from_millis(20));
        let until = millis(SystemTime::now());
        if until.saturating_sub(since) >= LIMIT {
            tally.stalls.lock().expect("whole").push((since, until));
        }
    }
}

fn some(range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(fastrand::u64(range))
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} processes, {} killed, {} pauses, {} outages, {} stalls",
            self.starts.load(Ordering::Relaxed),
            self.kills.load(Ordering::Relaxed),
            self.pauses.lock().expect("whole").len(),
            self.outages.lock().expect("whole").len(),
            self.stalls.lock().expect("whole").len()
        )
    }
}
