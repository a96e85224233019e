//! Twelve processes that want three worker ids, on a real MySQL-compatible server, while they are
//! paused beyond their leases, killed, interrupted, and set their clocks, and the server restarts and
//! freezes: no uid comes twice, and uids go on.
//!
//! It takes 15 s, or as many seconds as UIDRING_TORTURE says.

use std::collections::BTreeSet;
use std::env;
use std::fs::File;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use uidring::{Bits, Layout, Tick, Uid};
use uidring_testkit::mariadb::{Database, MariaDb};

use crate::support::elsewhen::Elsewhen;
use crate::support::program::command;
use crate::support::{Home, Run};

const PROCESSES: usize = 12;

/// Three worker ids: 1, 2 and 3.
const LAYOUT: &str = "--layout 41/2/10 --tick ms --epoch 2026-01-01";

/// Uids of a process are read so many bytes at a time, with a pause in between: it shall live long
/// without issuing more than memory holds.
const PORTION: usize = 1 << 15;

/// How long it may take, while the server is up, until somebody has a lease and issues something. A
/// lease lasts for a second; the rest is for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn layout() -> Layout {
    let bits = Bits { time: 41, worker: 2, sequence: 10 };
    Layout::new(bits, Tick::Millisecond, "2026-01-01".parse().expect("a time")).expect("possible")
}

/// What happened.
#[derive(Default)]
struct Tally {
    starts: AtomicU64,
    kills: AtomicU64,
    ends: AtomicU64,
    pauses: AtomicU64,
    steps: AtomicU64,
    done: AtomicU64,
    lost: AtomicU64,
    ahead: AtomicU64,
    unserved: AtomicU64,
    other: Mutex<Vec<String>>,
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// When uids came last, or the server came back.
struct Progress(Mutex<Instant>);

impl Progress {
    fn mark(&self) -> MutexGuard<'_, Instant> {
        self.0.lock().expect("whole")
    }

    fn go_on(&self) {
        *self.mark() = Instant::now();
    }
}

fn signal(child: &Child, name: &str) {
    // Nobody has waited for the child yet, so its process id is still its own.
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
}

fn some(range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(fastrand::u64(range))
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

/// Runs one process after another until the time is up.
fn live(
    slot: usize,
    database: &Database,
    end: Instant,
    tally: &Tally,
    progress: &Progress,
) -> Vec<u64> {
    let elsewhen = Elsewhen::new(0);
    let mut all = Vec::new();
    // Two on the clock, which never borrow.
    let generator = if slot < 2 { "clock" } else { "cached" };
    while Instant::now() < end {
        let count = if fastrand::u8(..4) == 0 { fastrand::u64(1..20_000) } else { 1 << 40 };
        let words = format!(
            "generate {LAYOUT} --generator {generator} --worker lease --lease 1 --lease-wait 30 \
             --mysql-deadline 30 -n {count}"
        );
        let errors = elsewhen.home.folder.path().join("errors");
        let mut command = elsewhen.command(&words);
        command.env("UIDRING_MYSQL_URL", database.url());
        command.stderr(File::create(&errors).expect("a file"));
        let mut child = command.stdout(Stdio::piped()).spawn().expect("starts");
        add(&tally.starts);
        let output = child.stdout.take().expect("piped");
        thread::scope(|scope| {
            let reader = scope.spawn(|| read(output, progress));
            torment(&mut child, &elsewhen, end, tally);
            all.extend(reader.join().expect("no panic"));
        });
        child.wait().expect("ends");
        let text = std::fs::read_to_string(&errors).expect("text");
        match text.lines().find(|line| line.starts_with("error:")) {
            None => add(&tally.done),
            Some(line) if line.contains("lease of the worker id is lost") => add(&tally.lost),
            Some(line) if line.contains(" ahead of the clock, which says") => add(&tally.ahead),
            Some(line) if line.contains("database") || line.contains("is free") => {
                add(&tally.unserved);
            }
            // Clock-driven ones say that the clock went back.
            Some(line) if line.contains("the clock moved backwards") => add(&tally.done),
            Some(line) => tally.other.lock().expect("whole").push(line.to_owned()),
        }
    }
    all
}

/// Pauses, interrupts and kills a process, until it has ended.
fn torment(child: &mut Child, elsewhen: &Elsewhen, end: Instant, tally: &Tally) {
    let has_ended = |child: &mut Child| child.try_wait().expect("ours").is_some();
    loop {
        thread::sleep(some(50..1_200));
        if has_ended(child) {
            return;
        }
        match fastrand::u8(..10) {
            _ if Instant::now() >= end => {
                signal(child, "TERM");
                break;
            }
            0 => {
                add(&tally.kills);
                signal(child, "KILL");
                break;
            }
            1 => {
                add(&tally.ends);
                signal(child, "TERM");
                break;
            }
            2..=4 => {
                add(&tally.pauses);
                signal(child, "STOP");
                // Up to three leases; others have the worker id by then.
                thread::sleep(some(100..3_000));
                signal(child, "CONT");
            }
            5..=6 => {
                add(&tally.steps);
                let far = if fastrand::u8(..4) == 0 { 90 } else { 3 };
                elsewhen.set(fastrand::i64(-far..=far));
            }
            _ => {}
        }
    }
    let killed = Instant::now();
    while !has_ended(child) {
        assert!(killed.elapsed() < Duration::from_secs(60), "a process does not end");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Restarts and freezes the server.
fn trouble(server: &MariaDb, end: Instant, progress: &Progress) -> (u64, u64, Duration) {
    let (mut restarts, mut freezes, mut longest) = (0, 0, Duration::ZERO);
    // Looks at the gap, and not at the time of an outage.
    let watch = |time: Duration, longest: &mut Duration| {
        let begin = Instant::now();
        while begin.elapsed() < time {
            thread::sleep(Duration::from_millis(20));
            let gap = progress.mark().elapsed();
            *longest = gap.max(*longest);
            assert!(gap < PATIENCE, "nothing was issued for {gap:?}, and the server is up");
        }
    };
    while Instant::now() < end {
        watch(some(1_500..5_000), &mut longest);
        match fastrand::u8(..3) {
            0 => {
                restarts += 1;
                if fastrand::bool() {
                    server.kill()
                } else {
                    server.stop()
                }
                thread::sleep(some(0..2_000));
                server.start_again();
            }
            1 => {
                freezes += 1;
                server.freeze();
                thread::sleep(some(100..2_500));
                server.thaw();
            }
            _ => {}
        }
        progress.go_on();
    }
    (restarts, freezes, longest)
}

#[test]
fn twelve_processes_share_three_worker_ids_through_thick_and_thin() {
    let seconds = env::var("UIDRING_TORTURE").map_or(15, |text| text.parse().expect("seconds"));
    let server = MariaDb::start();
    let database = server.database();
    let home = Home::new();
    let made = Run::of(&mut command(&home, "worker init --leases", &database.url()));
    assert_eq!(made.status, Some(0), "{made:?}");
    let tally = Tally::default();
    let progress = Progress(Mutex::new(Instant::now()));
    let end = Instant::now() + Duration::from_secs(seconds);
    let (lists, (restarts, freezes, longest)) = thread::scope(|scope| {
        let (database, tally, progress) = (&database, &tally, &progress);
        let slots: Vec<_> = (0..PROCESSES)
            .map(|slot| scope.spawn(move || live(slot, database, end, tally, progress)))
            .collect();
        let troubles = trouble(&server, end, progress);
        let join = |slot: thread::ScopedJoinHandle<'_, Vec<u64>>| slot.join().expect("no panic");
        (slots.into_iter().map(join).collect::<Vec<_>>(), troubles)
    });
    let other = tally.other.into_inner().expect("whole");
    let count = |count: AtomicU64| count.into_inner();
    let mut all = lists.concat();
    let total = all.len();
    let workers: BTreeSet<u64> = all
        .iter()
        .map(|uid| layout().decode(Uid::new(*uid).expect("63 bits")).expect("ours").worker_id)
        .collect();
    let rows: Vec<(u64, u64)> = database
        .query("SELECT WORKER_ID, TOKEN FROM UIDRING_LEASE WHERE WORKER_ID >= 0 ORDER BY 1");
    eprintln!(
        "{seconds} s: {total} uids of workers {workers:?}, rows and tokens {rows:?}; {} starts, {} \
         kills, {} told to end, {} pauses, {} clock steps; ended well {}, lease lost {}, used ahead \
         {}, not served {}; server: {restarts} restarts, {freezes} freezes; longest gap {longest:?}",
        count(tally.starts),
        count(tally.kills),
        count(tally.ends),
        count(tally.pauses),
        count(tally.steps),
        count(tally.done),
        count(tally.lost),
        count(tally.ahead),
        count(tally.unserved),
    );
    assert!(other.is_empty(), "{other:#?}");
    assert_eq!(workers, BTreeSet::from([1, 2, 3]));
    assert_eq!(rows.len(), 3);
    assert!(total > 10_000, "{total}");
    all.sort_unstable();
    let twice = all.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert_eq!(twice, 0, "uids that came twice, of {total}");
}
