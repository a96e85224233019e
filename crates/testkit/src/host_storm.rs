//! A storm over the processes that share a ring: takers of all forms are killed and replaced, some fork, and owners are
//! killed or close. All that they took is checked.
// std has no fork, and no waiting for forked children.
#![allow(unsafe_code)]

use std::collections::HashSet;
use std::env;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use uidring::{CachedUidGenerator, SharedRing, TakeError, Uid};

use crate::fork::alone;
use crate::history::{Checker, Form, Run};

const TAKERS: usize = 16;

/// The most runs that a taker reports in one write, which the kernel does not divide.
const BATCH: usize = 64;

/// The most uids of a fill.
const FILL: usize = 1_000;

/// The most uids that are lost with a taker: what it has not reported, a block of each handle, and a number that it
/// drew.
const LOSS: u64 = (BATCH * FILL + 2 * 255 + 1) as u64;

/// In place of a form, marks the owner's report: how many takers there were at most, and how many uids they took.
const SUMMARY: u64 = u64::MAX;

/// What the uids of consecutive owners have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Owners {
    /// Each has a worker id of its own. Uids are in order within an owner's life.
    Different,
    /// All have the same one, leased. Each owner's uids are above those of the owners before it.
    InOneOrder,
}

/// Builds each owner's generator in a process of its own, from the owner's number. Lasts three seconds, or
/// `UIDRING_STORM_SECONDS`.
///
/// # Panics
///
/// If a uid repeats, is out of order, or is lost without a death to explain it.
pub fn storm(owners: Owners, make: impl Fn(u64) -> CachedUidGenerator) {
    let _alone = alone();
    let seconds = env::var("UIDRING_STORM_SECONDS").ok().and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(3));
    let seed = fastrand::u64(..);
    println!("storm: seed {seed}");
    let (mut checker, mut lives, mut takers, mut uids, mut lost) = (Checker::default(), 0, 0, 0, 0);
    while lives < 2 || Instant::now() < end && lives < 1_000 {
        lives += 1;
        if owners == Owners::Different {
            checker.begin_another();
        }
        let closes = lives % 2 == 0;
        let (history, summary) = live(|| make(lives), closes, seed.wrapping_add(lives));
        let taken: u64 = history.iter().map(|run| run.last - run.first + 1).sum();
        let processes: HashSet<_> = history.iter().map(|run| run.thread).collect();
        takers += processes.len();
        uids += taken;
        assert_eq!(summary.is_some(), closes, "life {lives}, seed {seed}");
        if let Some((started, counted)) = summary {
            assert!(taken <= counted, "{taken} uids of {counted}: life {lives}, seed {seed}");
            let missing = counted - taken;
            lost += missing;
            let bound = started * LOSS;
            assert!(missing <= bound, "{missing} lost, {bound} allowed: life {lives}, seed {seed}");
        }
        if let Err(problem) = checker.check(history) {
            panic!("{problem}: life {lives}, seed {seed}");
        }
    }
    println!("storm: {lives} owners, {takers} takers, {uids} uids, {lost} lost with the killed");
}

/// Runs an owner. Returns what its takers took and, if it closed the ring, its report.
fn live(
    make: impl Fn() -> CachedUidGenerator,
    closes: bool,
    seed: u64,
) -> (Vec<Run>, Option<(u64, u64)>) {
    let mut pipe = [0; 2];
    // SAFETY: the owner ends without running destructors.
    let (owner, output) = unsafe {
        assert_eq!(libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC), 0);
        let owner = libc::fork();
        assert!(owner >= 0);
        let [output, input] = pipe.map(|end| File::from_raw_fd(end));
        if owner == 0 {
            drop(output);
            let random = fastrand::Rng::with_seed(seed);
            // A panic must not run the destructors of the test.
            let _ = catch_unwind(AssertUnwindSafe(|| own(&input, &make(), closes, random)));
            libc::kill(libc::getpid(), libc::SIGKILL);
            unreachable!();
        }
        (owner, output)
    };
    let (done, all) = mpsc::channel();
    let reader = thread::spawn(move || done.send(read(output)));
    // The pipe is open until the last taker has ended.
    let read = all.recv_timeout(Duration::from_secs(60));
    // SAFETY: these are our own child and its group, which nobody has waited for.
    unsafe {
        libc::kill(-owner, libc::SIGKILL);
        libc::waitpid(owner, std::ptr::null_mut(), 0);
    }
    let read = read.unwrap_or_else(|_| panic!("a taker does not end: seed {seed}"));
    // A process that is forked while a thread of std ends may find a lock of std held, and can start no thread.
    reader.join().expect("no panic").expect("received");
    read
}

fn read(mut output: File) -> (Vec<Run>, Option<(u64, u64)>) {
    let mut bytes = Vec::new();
    output.read_to_end(&mut bytes).expect("reads");
    let (mut history, mut summary) = (Vec::new(), None);
    for words in bytes.chunks_exact(48) {
        let words: Vec<_> = words.as_chunks().0.iter().map(|w| u64::from_le_bytes(*w)).collect();
        let [begin, end, first, last, form, thread] = words[..] else { unreachable!() };
        let form = match form {
            0 => Form::Shared,
            1 => Form::PerThread,
            2 => Form::Local,
            _ => {
                summary = Some((first, last));
                continue;
            }
        };
        history.push(Run { begin, end, first, last, form, thread });
    }
    (history, summary)
}

/// In a process of its own.
fn own(input: &File, generator: &CachedUidGenerator, closes: bool, mut random: fastrand::Rng) {
    // SAFETY: the call concerns only this process.
    unsafe { libc::setpgid(0, 0) };
    let ring = generator.shared_ring().expect("shared");
    let mut started = 0;
    let mut start = |random: &mut fastrand::Rng| {
        started += 1;
        // SAFETY: as in `live`.
        let taker = unsafe { libc::fork() };
        if taker == 0 {
            take(&ring, input, random.fork());
            // SAFETY: it ends this process.
            unsafe { libc::_exit(0) };
        }
        random.u64(..);
        taker
    };
    let mut takers = [(); TAKERS].map(|()| start(&mut random));
    let end = Instant::now() + Duration::from_millis(random.u64(300..1_500));
    while Instant::now() < end {
        thread::sleep(Duration::from_micros(random.u64(100..5_000)));
        let taker = &mut takers[random.usize(..TAKERS)];
        // SAFETY: it is our child, and nobody has waited for it.
        unsafe {
            libc::kill(*taker, libc::SIGKILL);
            libc::waitpid(*taker, std::ptr::null_mut(), 0);
        }
        *taker = start(&mut random);
    }
    if closes {
        generator.close();
        for taker in takers {
            // SAFETY: as above.
            unsafe { libc::waitpid(taker, std::ptr::null_mut(), 0) };
        }
        // A taker may have forked another one, which `started` does not count.
        let summary = [0, 0, 2 * started, generator.stats().taken, SUMMARY, 0];
        report(input, &[summary]);
    }
}

/// Takes in all forms until the ring is closed, or its owner has ended.
fn take(ring: &SharedRing, input: &File, mut random: fastrand::Rng) {
    let (mut local, handle) = (ring.local(), ring.per_thread());
    let mut uids = [Uid::default(); FILL];
    let mut forks = random.u8(..8) == 0;
    loop {
        let mut batch = Vec::with_capacity(2 * BATCH);
        let mut is_over = false;
        while batch.len() < BATCH && !is_over {
            let want = random.usize(1..=FILL);
            let begin = now();
            let (form, taken) = match random.u8(..100) {
                0..2 => (0, ring.fill(&mut uids[..want]).map(|()| want).map_err(|e| e.error)),
                2..4 => (0, ring.try_fill(&mut uids[..want])),
                4..40 => (0, one(&mut uids, ring.next_uid())),
                40..50 => (0, one(&mut uids, ring.try_next_uid())),
                50..60 => {
                    let taken = futures_executor::block_on(ring.next_uid_async());
                    (0, one(&mut uids, taken))
                }
                60..80 => (1, one(&mut uids, handle.next_uid())),
                _ => (2, one(&mut uids, local.next_uid())),
            };
            let end = now();
            let count = match taken {
                Ok(count) => count,
                Err(TakeError::Empty) => 0,
                Err(TakeError::Closed | TakeError::OwnerEnded | TakeError::LeaseLost) => {
                    is_over = true;
                    0
                }
                Err(error) => panic!("{error}"),
            };
            let process = u64::from(std::process::id());
            for run in uids[..count].chunk_by(|a, b| a.get() + 1 == b.get()) {
                let [first, last] = [run[0], run[run.len() - 1]].map(Uid::get);
                batch.push([begin, end, first, last, form, process]);
            }
        }
        batch.chunks(BATCH).for_each(|part| report(input, part));
        if is_over {
            return;
        }
        if forks {
            forks = false;
            // SAFETY: the child continues as a taker, and ends without running destructors.
            unsafe {
                libc::signal(libc::SIGCHLD, libc::SIG_IGN);
                libc::fork();
            }
        }
    }
}

fn one(uids: &mut [Uid], taken: Result<Uid, TakeError>) -> Result<usize, TakeError> {
    uids[0] = taken?;
    Ok(1)
}

/// Reports in one write, small enough that the kernel does not divide it.
fn report(mut input: &File, runs: &[[u64; 6]]) {
    let bytes: Vec<u8> = runs.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
    assert!(bytes.len() <= libc::PIPE_BUF);
    let _ = input.write(&bytes);
}

/// Nanoseconds of a clock that all processes share.
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes only to the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
