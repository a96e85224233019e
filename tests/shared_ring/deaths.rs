//! The owner dies in many ways, and the next take of each process reports it.

use std::env;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::panic;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::{Clock, ManualClock, SystemClock};
use uidring::policy::TakePolicy;
use uidring::{SharedRing, TakeError, Timestamp, Uid};
use uidring_testkit::fork::alone;
use uidring_testkit::host_storm::now;

use super::attach::descriptors_of;
use super::scribbler::mapping;
use super::{builder_of, fork, generator, park_with, shared, small, start_owner, write};

const WAYS: [&str; 10] = [
    "kill",
    "kill and reap its memory",
    "the padder panics",
    "stop and kill",
    "abort",
    "exec",
    "exec by a thread",
    "kill with much memory",
    "kill after a peer spoilt the mark",
    "kill after a peer punched holes",
];

/// In nanoseconds.
struct Times {
    death: AtomicU64,
    noticed: AtomicU64,
}

/// A child of the test owns the ring, and its own children take from it. No thread watches the owner for them: one takes,
/// waits for the death, and takes again. The other one takes every millisecond.
#[test]
fn the_next_take_tells_of_the_owners_death() {
    let _alone = alone();
    for way in WAYS {
        let times = shared::<Times>();
        let mut owner = fork(|to| own(way, times, to));
        let mut next = || {
            let mut word = [0; 8];
            owner.output.read_exact(&mut word).expect("a report");
            u64::from_le_bytes(word)
        };
        let took = [next(), next()];
        if way == "stop and kill" || way == "kill and reap its memory" {
            thread::sleep(Duration::from_millis(250));
            times.death.store(now(), Ordering::Relaxed);
            // SAFETY: these calls are about our own child, which nobody has waited for.
            unsafe {
                let process = libc::syscall(libc::SYS_pidfd_open, owner.id, 0);
                libc::kill(owner.id, libc::SIGKILL);
                if way.contains("reap") {
                    // As the kernel does when memory is short. It may come too late.
                    libc::syscall(libc::SYS_process_mrelease, process, 0);
                }
                libc::close(process as i32);
            }
        }
        let told = [next(), next()];
        let [death, noticed] =
            [&times.death, &times.noticed].map(|time| time.load(Ordering::Relaxed));
        println!("{way}: noticed after {} µs", noticed.saturating_sub(death) / 1_000);
        owner.kill();
        owner.uids();
        assert_eq!((took, told), ([1; 2], [1; 2]), "{way}");
    }
}

fn own(way: &str, times: &Times, to: &File) -> ! {
    panic::set_hook(Box::new(|_| {}));
    let generator = builder_of(1).clock(Faulty).build().expect("builds");
    let ring = generator.shared_ring().expect("shared");
    // The kernel closes `alive` at the owner's exec or end. The takers' reads of `life` return then.
    let [(life, alive), (mut all_took, took)] = [pipe(), pipe()];
    for waits in [true, false] {
        // SAFETY: the child ends without running the parent's destructors.
        unsafe {
            if libc::fork() == 0 {
                // End it if it hangs.
                libc::alarm(60);
                drop(alive);
                take(&ring, way, to, took, waits.then_some(life), times);
                libc::_exit(0);
            }
        }
    }
    all_took.read_exact(&mut [0; 2]).expect("they took");
    let (memory, length) = mapping(&ring);
    // Do what a peer could do.
    // SAFETY: the ring's words are atomics, for which any value is valid.
    unsafe {
        match way {
            "kill after a peer spoilt the mark" => {
                let mark = memory.add(MARK).cast::<u32>();
                assert_ne!(mark.read_volatile(), 0, "it is there");
                mark.write_volatile(7);
            }
            "kill after a peer punched holes" => {
                libc::madvise(memory.cast(), length, libc::MADV_REMOVE);
            }
            _ => {}
        }
    }
    die(way, times)
}

/// A clock that panics once it shall.
#[derive(Debug)]
struct Faulty;

static PANICS: AtomicBool = AtomicBool::new(false);

impl Clock for Faulty {
    fn now(&self) -> Timestamp {
        assert!(!PANICS.load(Ordering::Relaxed), "a fault of the clock");
        SystemClock.now()
    }
}

fn take(
    ring: &SharedRing,
    way: &str,
    to: &File,
    mut took: File,
    life: Option<File>,
    times: &Times,
) {
    let report = |is_good: bool| write(&[is_good.into()], to);
    report(ring.next_uid().is_ok());
    took.write_all(&[1]).expect("the owner reads");
    let lives_on = way == "the padder panics";
    match life {
        Some(mut life) if !lives_on => {
            let _ = life.read(&mut [0]);
            // The kernel closes files a little before it says that the process is over.
            if way.contains("spoilt") {
                take_until_refused(ring);
            }
        }
        _ => {
            take_until_refused(ring);
            times.noticed.fetch_max(now(), Ordering::Relaxed);
        }
    }
    let takes = [ring.next_uid().err(), ring.try_next_uid().err(), ring.local().next_uid().err()];
    let fill = ring.fill(&mut [Uid::default()]).err().map(|error| error.error);
    let ended = Some(TakeError::OwnerEnded);
    // Zeroed memory counts as a closed ring.
    let is_closed = lives_on || way.contains("punched");
    let also = if is_closed { Some(TakeError::Closed) } else { ended };
    report(takes.iter().chain([&fill]).all(|error| *error == ended || *error == also));
}

/// Takes every millisecond.
fn take_until_refused(ring: &SharedRing) {
    let begin = Instant::now();
    while ring.next_uid().is_ok() && begin.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(1));
    }
}

fn pipe() -> (File, File) {
    let mut ends = [0; 2];
    // SAFETY: the descriptors are new.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        let [output, input] = ends.map(|end| File::from_raw_fd(end));
        (output, input)
    }
}

/// The offset of the mark in the memory.
const MARK: usize = 400;

fn die(way: &str, times: &Times) -> ! {
    let sleep = || {
        // SAFETY: it replaces this process.
        unsafe {
            let sleep = c"/bin/sleep".as_ptr();
            libc::execl(sleep, sleep, c"60".as_ptr(), ptr::null::<libc::c_char>());
        }
    };
    let dies = || times.death.store(now(), Ordering::Relaxed);
    if way != "kill with much memory" {
        dies();
    }
    // SAFETY: it ends this process.
    unsafe {
        match way {
            "abort" => libc::abort(),
            "stop and kill" => {
                libc::raise(libc::SIGSTOP);
            }
            "kill and reap its memory" => {}
            "the padder panics" => PANICS.store(true, Ordering::Relaxed),
            "exec" => sleep(),
            "exec by a thread" => {
                let _ = thread::spawn(sleep).join();
            }
            "kill with much memory" => {
                // Write to it, so that the kernel has to free it.
                let megabytes = env::var("UIDRING_OWNER_MEGABYTES").ok();
                let megabytes = megabytes.and_then(|text| text.parse().ok()).unwrap_or(512);
                let mut memory = vec![1_u8; megabytes << 20];
                let step = 4_096;
                memory.iter_mut().step_by(step).for_each(|byte| *byte = 2);
                std::hint::black_box(&memory);
                dies();
                libc::kill(libc::getpid(), libc::SIGKILL);
            }
            _ => {
                libc::kill(libc::getpid(), libc::SIGKILL);
            }
        }
    }
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(60) {
        thread::park_timeout(Duration::from_secs(1));
    }
    unreachable!("nobody kills it");
}

/// A peer restores the mark after the owner's death. Whatever finds nothing ready asks the kernel.
#[test]
fn a_mark_that_is_restored_hides_no_death() {
    let _alone = alone();
    let (owner, number) = start_owner(|| {});
    let attach = || {
        let descriptors = descriptors_of(owner.id, number);
        SharedRing::attach(descriptors).expect("attaches")
    };
    let rings = [(); 3].map(|()| attach());
    // SAFETY: the mark is an atomic, which may become anything.
    let mark = unsafe { AtomicU32::from_ptr(mapping(&rings[0]).0.add(MARK).cast()) };
    let before = mark.load(Ordering::Relaxed);
    owner.kill();
    owner.uids();
    assert_ne!(mark.swap(before, Ordering::Relaxed), before, "the kernel marks it");
    let mut uids = vec![Uid::default(); 1 << 16];
    let error = loop {
        if let Err(error) = rings[0].fill(&mut uids) {
            break error.error;
        }
    };
    assert_eq!(error, TakeError::OwnerEnded);
    assert_eq!(rings[1].local().next_uid(), Err(TakeError::OwnerEnded));
    assert_eq!(rings[2].next_uid(), Err(TakeError::OwnerEnded));
}

/// The owner is in a PID namespace, whose first process is killed. The taker is outside.
#[test]
fn the_end_of_a_pid_namespace_is_noticed() {
    let _alone = alone();
    let starter = fork(|to| {
        // SAFETY: these processes end without running the parent's destructors.
        unsafe {
            // A user who is not root needs a user namespace, too.
            if libc::unshare(libc::CLONE_NEWPID) != 0 {
                assert_eq!(libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWPID), 0);
            }
            let first = libc::fork();
            if first == 0 {
                if libc::fork() == 0 {
                    park_with(&generator(), to);
                }
                loop {
                    libc::pause();
                }
            }
            write(&[first as u64 | 1 << 32], to);
            loop {
                libc::pause();
            }
        }
    });
    let mut words = [0; 16];
    (&starter.output).read_exact(&mut words).expect("reports");
    let mut words = [0, 8].map(|at| u64::from_le_bytes(words[at..at + 8].try_into().expect("8")));
    words.sort_unstable();
    let (number, first) = (words[0], words[1] as u32 as libc::pid_t);
    let owner = fs::read_to_string(format!("/proc/{first}/task/{first}/children"));
    let owner = owner.expect("its child").trim().parse().expect("one");
    let ring = SharedRing::attach(descriptors_of(owner, number)).expect("attaches");
    ring.next_uid().expect("the owner lives");
    let begin = Instant::now();
    // SAFETY: it is our child's child, which nobody has waited for.
    unsafe { libc::kill(first, libc::SIGKILL) };
    let error = loop {
        match ring.next_uid() {
            Ok(_) => assert!(begin.elapsed() < Duration::from_secs(20), "it is not noticed"),
            Err(error) => break error,
        }
    };
    println!("the end of a PID namespace: noticed after {:?}", begin.elapsed());
    assert_eq!(error, TakeError::OwnerEnded);
    starter.kill();
    starter.uids();
}

/// The offset of the words that takers wait on.
const PUBLISHED: usize = 896;

/// Two takers wait. The one that is called dies without calling the other one, which then looks by itself.
#[test]
fn a_call_that_dies_with_a_taker_is_made_up_for() {
    let _alone = alone();
    call_that_dies(SharedRing::next_uid);
    call_that_dies(|ring| futures_executor::block_on(ring.next_uid_async()));
}

fn call_that_dies(next_uid: impl Fn(&SharedRing) -> Result<Uid, TakeError>) {
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000));
    let theirs = clock.clone();
    let generator = small(|builder| {
        // Refresh rarely: the owner's refresh would also make up for the lost call.
        let hour = Duration::from_secs(3_600);
        builder.clock(theirs).max_borrow(Duration::ZERO).refresh(hour)
    });
    let ring = generator.shared_ring().expect("shared");
    while ring.try_next_uid().is_ok() {}
    let (memory, _) = mapping(&ring);
    let called = fork(|to| {
        write(&[1], to);
        // SAFETY: the words are atomics, and the child ends without running the parent's destructors.
        unsafe {
            let [sequence, waiting] =
                [0, 8].map(|at| AtomicU64::from_ptr(memory.add(PUBLISHED + at).cast()));
            let before = sequence.load(Ordering::SeqCst);
            waiting.fetch_max(before + 1, Ordering::SeqCst);
            let limit = libc::timespec { tv_sec: 20, tv_nsec: 0 };
            let (wait, word) = (libc::FUTEX_WAIT, sequence.as_ptr());
            let woken = libc::syscall(libc::SYS_futex, word, wait, before as u32, &raw const limit);
            write(&[u64::from(woken == 0)], to);
        }
    });
    (&called.output).read_exact(&mut [0; 8]).expect("it begins");
    thread::sleep(Duration::from_millis(100));
    let other = fork(|to| {
        write(&[1], to);
        let policy = TakePolicy::WaitFor(Duration::from_secs(20));
        let ring = generator.shared_ring().expect("shared").take_policy(policy);
        let begin = Instant::now();
        // Well before its deadline, at which it would also look.
        let in_time = next_uid(&ring).is_ok() && begin.elapsed() < Duration::from_secs(15);
        write(&[in_time.into()], to);
    });
    (&other.output).read_exact(&mut [0; 8]).expect("it begins");
    thread::sleep(Duration::from_millis(100));
    clock.advance(Duration::from_secs(1));
    assert_eq!(other.uids(), [1]);
    assert_eq!(called.uids(), [1]);
}
