//! The owner dies in many ways, and the next take of each process tells.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::ManualClock;
use uidring::policy::TakePolicy;
use uidring::{SharedRing, TakeError, Timestamp, Uid};
use uidring_testkit::fork::alone;

use super::scribbler::mapping;
use super::{fork, generator, small, write};

const WAYS: [&str; 8] = [
    "kill",
    "stop and kill",
    "abort",
    "exec",
    "exec by a thread",
    "kill with much memory",
    "kill after a peer spoilt the mark",
    "kill after a peer punched holes",
];

/// A child of the test owns the ring, and its own children take from it after it has died. No thread watches the owner for
/// them: each takes, waits for the death, and takes again.
#[test]
fn the_next_take_tells_of_the_owners_death() {
    let _alone = alone();
    for way in WAYS {
        let mut owner = fork(|to| own(way, to));
        let mut words = Vec::new();
        let mut word = [0; 8];
        while words.len() < 4 && owner.output.read_exact(&mut word).is_ok() {
            words.push(u64::from_le_bytes(word));
            if words.len() == 2 && way == "stop and kill" {
                thread::sleep(Duration::from_millis(250));
                owner.kill();
            }
        }
        owner.kill();
        owner.uids();
        assert_eq!(words, [1; 4], "{way}");
    }
}

fn own(way: &str, to: &File) -> ! {
    let generator = generator();
    let ring = generator.shared_ring().expect("shared");
    // The kernel closes them at an exec and at the process's end: then there is nothing more to read.
    let [(life, alive), (mut all_took, took)] = [pipe(), pipe()];
    for _ in 0..2 {
        // SAFETY: the child ends without running the parent's destructors.
        unsafe {
            if libc::fork() == 0 {
                // It ends if it hangs.
                libc::alarm(60);
                drop(alive);
                take(&ring, way, to, took, life);
                libc::_exit(0);
            }
        }
    }
    all_took.read_exact(&mut [0; 2]).expect("they took");
    let (memory, length) = mapping(&ring);
    // As a peer would do it.
    // SAFETY: the ring's words are atomics, which may become anything.
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
    die(way)
}

fn take(ring: &SharedRing, way: &str, to: &File, mut took: File, mut life: File) {
    let report = |is_good: bool| write(&[is_good.into()], to);
    report(ring.next_uid().is_ok());
    took.write_all(&[1]).expect("the owner reads");
    let _ = life.read(&mut [0]);
    if way.contains("spoilt") {
        // The kernel closes files a little before it says that the process is over.
        let begin = Instant::now();
        while ring.next_uid().is_ok() && begin.elapsed() < Duration::from_secs(20) {}
    }
    let takes = [ring.next_uid().err(), ring.try_next_uid().err(), ring.local().next_uid().err()];
    let fill = ring.fill(&mut [Uid::default()]).err().map(|error| error.error);
    let ended = Some(TakeError::OwnerEnded);
    // Memory of zeros is that of a closed ring.
    let also = if way.contains("punched") { Some(TakeError::Closed) } else { ended };
    report(takes.iter().chain([&fill]).all(|error| *error == ended || *error == also));
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

/// Where the mark is in the memory.
const MARK: usize = 400;

fn die(way: &str) -> ! {
    let sleep = || {
        // SAFETY: it replaces this process.
        unsafe {
            let sleep = c"/bin/sleep".as_ptr();
            libc::execl(sleep, sleep, c"60".as_ptr(), ptr::null::<libc::c_char>());
        }
    };
    // SAFETY: it ends this process.
    unsafe {
        match way {
            "abort" => libc::abort(),
            "stop and kill" => {
                libc::raise(libc::SIGSTOP);
            }
            "exec" => sleep(),
            "exec by a thread" => {
                let _ = thread::spawn(sleep).join();
            }
            "kill with much memory" => {
                // Written to, so that it has to be freed.
                let mut memory = vec![1_u8; 512 << 20];
                let step = 4_096;
                memory.iter_mut().step_by(step).for_each(|byte| *byte = 2);
                std::hint::black_box(&memory);
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

/// Where the words are by which takers wait.
const PUBLISHED: usize = 896;

/// Two takers wait. The one that is called dies, and does not call the other one. That one looks by itself.
#[test]
fn a_call_that_dies_with_a_taker_is_made_up_for() {
    let _alone = alone();
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000));
    let theirs = clock.clone();
    let generator = small(|builder| {
        // The owner's refresh would make up for it, too.
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
        // At the deadline it would look, too.
        let in_time = ring.next_uid().is_ok() && begin.elapsed() < Duration::from_secs(15);
        write(&[in_time.into()], to);
    });
    (&other.output).read_exact(&mut [0; 8]).expect("it begins");
    thread::sleep(Duration::from_millis(100));
    clock.advance(Duration::from_secs(1));
    assert_eq!(other.uids(), [1]);
    assert_eq!(called.uids(), [1]);
}
