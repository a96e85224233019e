//! Twelve processes share three worker ids on a real MySQL-compatible server. They are paused beyond their leases,
//! killed and interrupted, and their clocks are set, while the server restarts and freezes. No uid may repeat, and uids
//! must go on.
//!
//! Runs for 15 s, or as many seconds as UIDRING_TORTURE says.

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::io::Read;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use uidring::{Bits, Layout, Tick, Uid};
use uidring_testkit::child::Child;
use uidring_testkit::mariadb::{Database, MariaDb};
use uidring_testkit::plan::{Counts, Fault, Plan};

use crate::support::elsewhen::Elsewhen;
use crate::support::program::command;
use crate::support::{Home, Run};

const PROCESSES: usize = 12;

const LAYOUT: &str = "--layout 41/2/10/ms/2026-01-01";

/// Bytes to read at a time, with a pause in between. So a process lives long without issuing more than memory holds.
const PORTION: usize = 1 << 15;

/// The longest time without uids while the server is up. A lease lasts a second; the rest is for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn layout() -> Layout {
    let bits = Bits { time: 41, worker: 2, sequence: 10 };
    Layout::new(bits, Tick::Millisecond, "2026-01-01".parse().expect("a time")).expect("possible")
}

/// When the last uid came, or the server came back.
struct Progress(Mutex<Instant>);

impl Progress {
    fn mark(&self) -> MutexGuard<'_, Instant> {
        self.0.lock().expect("whole")
    }

    fn go_on(&self) {
        *self.mark() = Instant::now();
    }
}

/// Reads what a process prints until it ends, with pauses.
fn read(mut output: impl Read, progress: &Progress) -> Vec<u64> {
    let (mut uids, mut rest) = (Vec::new(), Vec::new());
    let mut buffer = vec![0; PORTION];
    loop {
        let count = output.read(&mut buffer).expect("reads");
        if count == 0 {
            break;
        }
        progress.go_on();
        rest.extend_from_slice(&buffer[..count]);
        // The last line may be incomplete.
        let end = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let text = std::str::from_utf8(&rest[..end]).expect("digits");
        uids.extend(text.lines().map(|line| line.parse::<u64>().expect("a uid")));
        rest.drain(..end);
        thread::sleep(Duration::from_millis(20));
    }
    uids
}

/// Errors that the faults explain.
const CAUSES: [(&str, &str); 5] = [
    ("lease of the worker id is lost", "lost a lease"),
    (" ahead of the clock, which says", "found uids ahead of the clock"),
    ("database", "were not served"),
    ("is free", "were not served"),
    // From clock-driven generators.
    ("the clock moved backwards", "found the clock behind"),
];

/// Runs one process after another until the time is up. Returns their uids, and unexplained errors.
fn live(
    slot: usize,
    database: &Database,
    end: Instant,
    counts: &Counts,
    progress: &Progress,
) -> (Vec<u64>, Vec<String>) {
    let elsewhen = Elsewhen::new(0);
    let set_clock = || {
        let far = if fastrand::u8(..4) == 0 { 90 } else { 3 };
        elsewhen.set(fastrand::i64(-far..=far));
    };
    let plan = Plan {
        calm: 50..1_200,
        faults: &[
            (1, Fault::Kill(0..1)),
            (1, Fault::End),
            // Up to three leases long, so that others get the worker id.
            (3, Fault::Freeze(100..3_000)),
            (2, Fault::Do("steps of a clock", &set_clock)),
            (3, Fault::Nothing),
        ],
    };
    let (mut all, mut unexplained) = (Vec::new(), Vec::new());
    // Two are clock-driven, and never borrow.
    let generator = if slot < 2 { "clock" } else { "cached" };
    while Instant::now() < end {
        let count = if fastrand::u8(..4) == 0 { fastrand::u64(1..20_000) } else { 1 << 40 };
        let words = format!("generate {LAYOUT} --generator {generator} --worker lease -n {count}");
        let errors = elsewhen.home.folder.path().join("errors");
        let mut command = elsewhen.command(&words);
        let options = "?lease=1s&lease-wait=30s&deadline=30s";
        command.env("UIDRING_URL", format!("{}{options}", database.url()));
        command.stderr(File::create(&errors).expect("a file")).stdout(Stdio::piped());
        let mut process = Child::spawn(&mut command);
        counts.add("starts");
        let output = process.stdout().expect("piped");
        thread::scope(|scope| {
            let reader = scope.spawn(|| read(output, progress));
            if !plan.torment(&mut process, counts, || Instant::now() < end) {
                process.signal("TERM");
            }
            assert!(process.wait(PATIENCE).is_some(), "a process does not end");
            all.extend(reader.join().expect("no panic"));
        });
        let text = fs::read_to_string(&errors).expect("text");
        let error = text.lines().find(|line| line.starts_with("error:"));
        let cause = |error: &str| CAUSES.iter().find(|(text, _)| error.contains(text));
        match error.map(|error| cause(error).ok_or(error)) {
            None => {}
            Some(Ok((_, what))) => counts.add(what),
            Some(Err(error)) => unexplained.push(error.to_owned()),
        }
    }
    (all, unexplained)
}

/// Kills, stops and freezes the server. Returns the longest time without a uid while it was up.
fn trouble(server: &MariaDb, end: Instant, counts: &Counts, progress: &Progress) -> Duration {
    let mut longest = Duration::ZERO;
    let restart = || {
        server.stop();
        thread::sleep(Duration::from_millis(fastrand::u64(0..2_000)));
        server.start_again();
    };
    let plan = Plan {
        calm: 1_500..5_000,
        faults: &[
            (1, Fault::Kill(0..2_000)),
            (1, Fault::Do("servers stopped", &restart)),
            (2, Fault::Freeze(100..2_500)),
            (2, Fault::Nothing),
        ],
    };
    let goes_on = || {
        let gap = progress.mark().elapsed();
        longest = gap.max(longest);
        assert!(gap < PATIENCE, "nothing was issued for {gap:?}, and the server is up");
        Instant::now() < end
    };
    // Do not count an outage as a gap.
    plan.trouble(server, counts, goes_on, |_, _| progress.go_on());
    longest
}

#[test]
fn twelve_processes_share_three_worker_ids_through_thick_and_thin() {
    let seconds = env::var("UIDRING_TORTURE").map_or(15, |text| text.parse().expect("seconds"));
    let server = MariaDb::start();
    let database = server.database();
    let home = Home::new();
    let made = Run::of(&mut command(&home, "worker init --leases", &database.url()));
    assert_eq!(made.status, Some(0), "{made:?}");
    let counts = Counts::default();
    let progress = Progress(Mutex::new(Instant::now()));
    let end = Instant::now() + Duration::from_secs(seconds);
    let (lived, longest) = thread::scope(|scope| {
        let (database, counts, progress) = (&database, &counts, &progress);
        let slots: Vec<_> = (0..PROCESSES)
            .map(|slot| scope.spawn(move || live(slot, database, end, counts, progress)))
            .collect();
        let longest = trouble(&server, end, counts, progress);
        let lived: Vec<_> = slots.into_iter().map(|slot| slot.join().expect("no panic")).collect();
        (lived, longest)
    });
    let (lists, unexplained): (Vec<_>, Vec<_>) = lived.into_iter().unzip();
    let (mut all, unexplained) = (lists.concat(), unexplained.concat());
    let total = all.len();
    let workers: BTreeSet<u64> = all
        .iter()
        .map(|uid| layout().decode(Uid::new(*uid).expect("63 bits")).expect("ours").worker_id)
        .collect();
    let rows: Vec<(u64, u64)> = database
        .query("SELECT WORKER_ID, TOKEN FROM UIDRING_LEASE WHERE WORKER_ID >= 0 ORDER BY 1");
    eprintln!(
        "{seconds} s: {total} uids of workers {workers:?}, rows and tokens {rows:?}; {counts}; longest \
         gap {longest:?}"
    );
    assert!(unexplained.is_empty(), "{unexplained:#?}");
    assert_eq!(workers, BTreeSet::from([1, 2, 3]));
    assert_eq!(rows.len(), 3);
    assert!(total > 10_000, "{total}");
    all.sort_unstable();
    let twice = all.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert_eq!(twice, 0, "uids that came twice, of {total}");
}
