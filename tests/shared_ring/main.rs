//! A ring that forked children share: uids are distinct and ordered, whatever happens to the children.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
// std can neither fork nor wait for forked children.
#![allow(unsafe_code)]

mod attach;
mod blocks;
mod deaths;
mod foreign;
mod many;
mod refused;
mod scribbler;
mod tasks;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::ManualClock;
use uidring::generator::CachedBuilder;
use uidring::policy::TakePolicy;
use uidring::{Bits, CachedUidGenerator, Layout, SharedRing, TakeError, Tick, Timestamp, Uid};
use uidring_testkit::fork::alone;
use uidring_testkit::host_storm::{Owners, storm};
use uidring_testkit::namespace::fresh;

/// A layout with uids for all takes: 2^22 a second.
fn generator() -> CachedUidGenerator {
    generator_of(1)
}

fn generator_of(worker_id: u64) -> CachedUidGenerator {
    builder_of(worker_id).build().expect("builds")
}

fn builder_of(worker_id: u64) -> CachedBuilder {
    let bits = Bits { time: 31, worker: 10, sequence: 22 };
    let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
    let builder = CachedUidGenerator::builder().layout(layout).worker_id(worker_id);
    builder.namespace(fresh()).shared()
}

/// A layout of 16 uids a second, and a clock that stands still.
fn small(set: impl FnOnce(CachedBuilder) -> CachedBuilder) -> CachedUidGenerator {
    let bits = Bits { time: 31, worker: 10, sequence: 4 };
    let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
    let builder = CachedUidGenerator::builder().layout(layout).worker_id(1).namespace(fresh());
    let builder = builder.clock(ManualClock::new(Timestamp::from_millis(1_000_000))).shared();
    set(builder).build().expect("builds")
}

/// Memory of zeros that parent and children share.
fn shared<T>() -> &'static T {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping touches no memory that is in use. It is never unmapped, and the types here are valid as zeros.
    unsafe {
        let memory = libc::mmap(ptr::null_mut(), size_of::<T>(), protection, flags, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        &*memory.cast()
    }
}

/// A forked child, and what it writes.
struct Child {
    id: libc::pid_t,
    output: File,
}

fn fork(work: impl FnOnce(&mut File)) -> Child {
    let mut pipe = [0; 2];
    // SAFETY: the child does its work, and ends without running the parent's destructors.
    unsafe {
        assert_eq!(libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC), 0);
        let id = libc::fork();
        assert!(id >= 0);
        let [output, mut input] = pipe.map(|end| File::from_raw_fd(end));
        if id == 0 {
            // End it if it hangs.
            libc::alarm(120);
            drop(output);
            work(&mut input);
            libc::_exit(0);
        }
        Child { id, output }
    }
}

impl Child {
    fn kill(&self) {
        // SAFETY: it is our child, and nobody has waited for it.
        unsafe { libc::kill(self.id, libc::SIGKILL) };
    }

    fn uids(mut self) -> Vec<u64> {
        let mut bytes = Vec::new();
        self.output.read_to_end(&mut bytes).expect("read");
        // SAFETY: as above.
        unsafe { libc::waitpid(self.id, std::ptr::null_mut(), 0) };
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8"))).collect()
    }
}

fn write(uids: &[u64], mut to: &File) {
    let bytes: Vec<u8> = uids.iter().flat_map(|uid| uid.to_le_bytes()).collect();
    let _ = to.write_all(&bytes);
}

/// Tells the number of the memory's descriptor, and lives until it is killed.
fn park_with(generator: &CachedUidGenerator, to: &File) {
    let ring = generator.shared_ring().expect("shared");
    let [memory, _] = ring.descriptors().expect("shared");
    write(&[memory.as_raw_fd() as u64], to);
    loop {
        thread::park();
    }
}

/// Starts a process that owns a ring until it is killed. Returns it, and the number that the memory's descriptor has
/// there.
fn start_owner(prepare: impl FnOnce()) -> (Child, u64) {
    let owner = fork(|to| {
        prepare();
        park_with(&generator(), to);
    });
    let mut number = [0; 8];
    (&owner.output).read_exact(&mut number).expect("a descriptor");
    (owner, u64::from_le_bytes(number))
}

fn take(ring: &SharedRing, count: usize) -> Vec<u64> {
    (0..count).map(|_| ring.next_uid().expect("a uid").get()).collect()
}

fn all_distinct(mut all: Vec<u64>) {
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "uids repeat");
}

#[test]
fn a_storm_of_deaths_repeats_nothing() {
    storm(Owners::Different, generator_of);
}

#[test]
fn children_share_the_ring() {
    let _alone = alone();
    let generator = generator();
    let ring = generator.shared_ring().expect("shared");
    let children: Vec<_> =
        (0..8).map(|_| fork(|to| (0..10).for_each(|_| write(&take(&ring, 10_000), to)))).collect();
    let own = take(&ring, 100_000);
    let mut all = own;
    for child in children {
        let uids = thread::spawn(|| child.uids()).join().expect("read");
        assert_eq!(uids.len(), 100_000);
        assert!(uids.is_sorted_by(|a, b| a < b));
        all.extend(uids);
    }
    all_distinct(all);
}

#[test]
fn the_generator_itself_refuses_in_a_child() {
    let _alone = alone();
    let generator = generator();
    let ring = generator.shared_ring().expect("shared");
    let mut local = generator.local();
    local.next_uid().expect("a block");
    let per_thread = generator.per_thread();
    per_thread.next_uid().expect("a block");
    let child = fork(|to| {
        let mut out = [Uid::default(); 3];
        let refused = [
            generator.next_uid().err(),
            generator.try_next_uid().err(),
            generator.try_fill(&mut out).err(),
            local.next_uid().err(),
            local.try_next_uid().err(),
            per_thread.next_uid().err(),
        ];
        let count = refused.iter().filter(|error| **error == Some(TakeError::Forked)).count();
        write(&[count as u64], to);
        // A child cannot close the ring.
        generator.close();
        write(&take(&ring, 10), to);
    });
    let found = child.uids();
    assert_eq!((found[0], found.len()), (6, 11));
    assert!(ring.next_uid().expect("open").get() > found[10]);
    assert!(generator.next_uid().expect("open") > Uid::new(found[10]).expect("one"));
    generator.close();
    assert_eq!(ring.next_uid(), Err(TakeError::Closed));
}

/// A daemon closes all descriptors that it does not know, and opens files of its own.
#[test]
fn a_child_that_closed_the_descriptors_takes() {
    let _alone = alone();
    let generator = small(|builder| builder.max_borrow(Duration::from_secs(3_600)));
    let ring = generator.shared_ring().expect("shared");
    let child = fork(|to| {
        let [_, process] = ring.descriptors().expect("shared").map(|file| file.as_raw_fd());
        // SAFETY: the child ends without running the destructors of those who had the descriptor.
        let is_replaced = unsafe {
            let readable = libc::open(c"/dev/zero".as_ptr(), libc::O_RDONLY);
            libc::dup2(readable, process) == process
        };
        assert!(is_replaced);
        (0..10).for_each(|_| write(&take(&ring, 100), to));
    });
    assert_eq!(child.uids().len(), 1_000);
    // Closing a handle is for good.
    ring.close();
    assert_eq!(ring.max_owner_pause(None).next_uid(), Err(TakeError::Closed));
}

#[test]
fn killed_takers_cost_nobody_else_anything() {
    let _alone = alone();
    let generator = generator();
    let ring = generator.shared_ring().expect("shared");
    let end = Instant::now() + Duration::from_secs(2);
    let mut all = Vec::new();
    while Instant::now() < end {
        let children: Vec<_> = (0..4)
            .map(|_| {
                fork(|to| {
                    loop {
                        write(&take(&ring, 100), to)
                    }
                })
            })
            .collect();
        let readers: Vec<_> = children
            .into_iter()
            .map(|child| {
                let killer = libc::pid_t::from(child.id);
                let reader = thread::spawn(|| child.uids());
                (killer, reader)
            })
            .collect();
        all.extend(take(&ring, 1_000));
        thread::sleep(Duration::from_millis(7));
        for (id, reader) in readers {
            Child { id, output: File::open("/dev/null").expect("opens") }.kill();
            let uids = reader.join().expect("read");
            assert!(uids.is_sorted_by(|a, b| a < b));
            all.extend(uids);
        }
    }
    assert!(all.len() > 10_000, "{}", all.len());
    all_distinct(all);
}

/// The owner is stopped, and later continued.
#[test]
fn a_stopped_owner_is_noticed_by_who_asks() {
    let _alone = alone();
    let owner = fork(|to| {
        let generator = generator();
        let ring = generator.shared_ring().expect("shared");
        let parent = std::process::id();
        // SAFETY: as in `fork`.
        unsafe {
            if libc::fork() == 0 {
                let bounded = |ring: SharedRing| ring.max_owner_pause(Duration::from_secs(1));
                let asks = bounded(generator.shared_ring().expect("shared"));
                let tries = bounded(generator.shared_ring().expect("shared"));
                let waits_briefly = TakePolicy::WaitFor(Duration::from_millis(20));
                let tries = tries.take_policy(waits_briefly);
                let before = asks.try_next_uid().is_ok();
                libc::kill(parent as libc::pid_t, libc::SIGSTOP);
                let at_once = asks.try_next_uid().is_ok();
                thread::sleep(Duration::from_millis(1_500));
                let is_paused = |error| matches!(error, TakeError::OwnerPaused { .. });
                let refused = asks.try_next_uid().is_err_and(is_paused)
                    && tries.next_uid().is_err_and(is_paused)
                    && futures_executor::block_on(tries.next_uid_async()).is_err_and(is_paused)
                    && asks.try_fill(&mut [Uid::default()]).is_err_and(is_paused);
                // Handles without a limit still take what is left.
                let others_take = ring.try_next_uid().is_ok();
                libc::kill(parent as libc::pid_t, libc::SIGCONT);
                // Waits until the owner has refreshed the ring.
                let goes_on = asks.next_uid().is_ok();
                let seen = [before, at_once, refused, others_take, goes_on];
                write(&seen.map(u64::from), to);
                libc::kill(parent as libc::pid_t, libc::SIGKILL);
                libc::_exit(0);
            }
        }
        loop {
            thread::park();
        }
    });
    assert_eq!(owner.uids(), [1; 5]);
}
