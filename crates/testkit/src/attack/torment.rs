//! What the driver does to processes and servers.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use super::attacker::Orders;
use super::target::{Kind, Target, millis, place};
use crate::child::Child;
use crate::plan::{Counts, Fault, Plan, some};
use crate::suite::Site;

/// How much longer than its orders a process may live: room for deadlines on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// What happens to a process. A lease lasts a second.
const PROCESSES: Plan<'_> = Plan {
    calm: 20..400,
    faults: &[
        (8, Fault::Kill(0..1)),
        (9, Fault::Freeze(1..1_500)),
        (3, Fault::FreezeAndKill(1..1_500)),
        (20, Fault::Nothing),
    ],
};

pub const SERVER: Plan<'_> =
    Plan { calm: 300..2_500, faults: &[(1, Fault::Freeze(50..1_500)), (1, Fault::Kill(0..1_000))] };

/// A series of processes, one at a time.
pub struct Slot {
    number: usize,
    kind: Kind,
    form: Form,
}

/// How the processes of a slot live.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Each thread does one thing and ends; some processes are killed.
    Short,
    /// Threads repeat their work, and nothing disturbs them. So at times no other process has a file open, which is
    /// when files are tidied up.
    Calm,
    /// Like `Calm`, but killed, stopped and continued.
    Tormented,
}

/// What was done. Times are in milliseconds since 1970.
#[derive(Debug, Default)]
pub struct Tally {
    pub starts: AtomicUsize,
    pub counts: Counts,
    pub pauses: Mutex<Vec<(u64, u64)>>,
    pub outages: Mutex<Vec<(u64, u64)>>,
    /// When the machine hardly ran its processes.
    pub stalls: Mutex<Vec<(u64, u64)>>,
    /// Failures that no attacker can report itself.
    pub failures: Mutex<Vec<String>>,
}

impl Slot {
    pub fn all(kinds: &[Kind]) -> Vec<Self> {
        let forms = [Form::Calm, Form::Calm, Form::Tormented, Form::Short];
        let all = kinds.iter().flat_map(|kind| forms.map(|form| (*kind, form)));
        all.enumerate().map(|(number, (kind, form))| Self { number, kind, form }).collect()
    }

    /// Runs one process after another until `end`.
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
            let mut command = orders.command();
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command.stderr(File::create(&log).expect("a file"));
            let mut process = Child::spawn(&mut command);
            let was_killed = match self.form {
                Form::Short if fastrand::u8(..4) == 0 => {
                    thread::sleep(some(&(5..120)));
                    tally.counts.add_if(process.kill(), "killed")
                }
                Form::Short | Form::Calm => false,
                Form::Tormented => {
                    PROCESSES.torment(&mut process, &tally.counts, || SystemTime::now() < end)
                }
            };
            let limit = (end + LIMIT).duration_since(SystemTime::now()).unwrap_or_default();
            let status = process.wait(limit);
            if !was_killed && !status.is_some_and(|status| status.success()) {
                // If it has not ended, it hangs.
                let text = fs::read_to_string(&log).unwrap_or_default();
                let failure = format!("{} process {unique}: {status:?}: {text}", self.kind.name());
                tally.failures.lock().expect("whole").push(failure);
            }
            let pauses =
                process.pauses().iter().map(|(since, until)| (millis(*since), millis(*until)));
            tally.pauses.lock().expect("whole").extend(pauses);
            let _ = fs::remove_file(log);
        }
    }
}

/// Notes when a small write to disk or a short sleep takes far too long, because the machine is busy.
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
