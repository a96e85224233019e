//! Peers that overwrite the ring's memory.

use std::env;
use std::fs::File;
use std::iter;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uidring::SharedRing;
use uidring::TakeError;
use uidring_testkit::fork::alone;

use super::{fork, generator, small, write};

/// A peer writes random bytes all over the memory, and punches holes into it. The owner's other work and other rings
/// continue. Three seconds, or `UIDRING_SCRIBBLER_SECONDS`.
#[test]
fn a_scribbler_ends_the_ring_and_nothing_else() {
    let _alone = alone();
    let seconds = env::var("UIDRING_SCRIBBLER_SECONDS").ok().and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(3));
    let first = fastrand::u64(..);
    println!("the first seed is {first}");
    for seed in (0..).map(|n| first.wrapping_add(n)).take_while(|_| Instant::now() < end) {
        let spoilt = generator();
        let other = generator();
        let ring = spoilt.shared_ring().expect("shared");
        let (memory, length) = mapping(&ring);
        let child = fork(|to| {
            let end = Instant::now() + Duration::from_millis(300);
            let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut next = || {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random
            };
            while Instant::now() < end {
                if seed % 2 == 0 && next() % 10_000 == 0 {
                    // SAFETY: this removes pages from the file. Everyone then reads zeros, which are valid.
                    unsafe { libc::madvise(memory.cast(), length, libc::MADV_REMOVE) };
                }
                let at = next() as usize % length;
                // SAFETY: the byte is within the mapping. Others access it only by atomics.
                unsafe { memory.add(at).write_volatile(next() as u8) };
            }
            write(&[1], to);
        });
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(400) {
            let _ = (spoilt.try_next_uid(), spoilt.stats(), ring.try_next_uid(), ring.stats());
            other.next_uid().expect("it goes on");
        }
        assert_eq!(child.uids(), [1]);
        let begin = Instant::now();
        while spoilt.try_next_uid() != Err(TakeError::Closed) {
            assert!(begin.elapsed() < Duration::from_secs(20), "seed {seed}: it is not ended");
            other.next_uid().expect("it goes on");
        }
        spoilt.close();
        drop(spoilt);
        other.next_uid().expect("it goes on");
        drop(other);
        assert!(begin.elapsed() < Duration::from_secs(20), "seed {seed}: {:?}", begin.elapsed());
    }
}

/// Maps the ring's memory once more. Returns its start and its length.
pub(super) fn mapping(ring: &SharedRing) -> (*mut u8, usize) {
    let [memory, _] = ring.descriptors().expect("shared");
    let file = File::from(memory.try_clone_to_owned().expect("a descriptor"));
    let length = file.metadata().expect("its length").len() as usize;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a mapping at an address of the kernel's choice touches no memory that is in use.
    let memory = unsafe {
        libc::mmap(ptr::null_mut(), length, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    assert_ne!(memory, libc::MAP_FAILED);
    (memory.cast(), length)
}

/// Zeroed memory counts as a closed ring, as wiped memory does.
#[test]
fn a_punched_hole_ends_the_ring() {
    let _alone = alone();
    let generator = generator();
    let ring = generator.shared_ring().expect("shared");
    let first = ring.next_uid().expect("a uid");
    let (memory, length) = mapping(&ring);
    // SAFETY: the ring's words are atomics, for which zeros are valid.
    assert_eq!(unsafe { libc::madvise(memory.cast(), length, libc::MADV_REMOVE) }, 0);
    assert_eq!(ring.try_next_uid(), Err(TakeError::Closed));
    assert_eq!(ring.next_uid(), Err(TakeError::Closed));
    assert!(ring.fill(&mut [first; 2]).is_err());
    let begin = Instant::now();
    while generator.try_next_uid() != Err(TakeError::Closed) {
        assert!(begin.elapsed() < Duration::from_secs(20), "the owner sees it");
    }
}

/// The first word, behind the header of 256 bytes, is the complement of the next number.
#[test]
fn a_next_number_that_is_impossible_ends_the_ring() {
    let _alone = alone();
    for next in [0, 1 << 62] {
        let generator = generator();
        let ring = generator.shared_ring().expect("shared");
        let first = ring.next_uid().expect("a uid");
        // Wait until the owner has seen that uids were taken.
        thread::sleep(Duration::from_millis(300));
        let (memory, _) = mapping(&ring);
        // SAFETY: the ring's words are atomics, for which any value is valid.
        unsafe { memory.add(256).cast::<u64>().write_volatile(!next) };
        let begin = Instant::now();
        loop {
            match generator.try_next_uid() {
                Err(error) => break assert_eq!(error, TakeError::Closed),
                Ok(uid) => assert!(uid > first, "{next}: {uid} is of no run"),
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "{next}: the owner sees it");
        }
    }
}

/// The same if only other processes take.
#[test]
fn the_owner_looks_at_the_next_number_by_itself() {
    let _alone = alone();
    let generator = generator();
    let ring = generator.shared_ring().expect("shared");
    ring.next_uid().expect("a uid");
    thread::sleep(Duration::from_millis(300));
    let (memory, _) = mapping(&ring);
    // SAFETY: as above.
    unsafe { memory.add(256).cast::<u64>().write_volatile(u64::MAX) };
    let begin = Instant::now();
    while generator.stats().ring.available > 0 {
        assert!(begin.elapsed() < Duration::from_secs(20), "the owner sees it");
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(ring.try_next_uid(), Err(TakeError::Closed));
}

/// Takers that draw at once may draw past the end of the last run. The owner sees that, and can still close the ring.
#[test]
fn a_ring_whose_takers_drew_past_its_end_is_closed() {
    let _alone = alone();
    let generator = small(|builder| builder.max_borrow(Duration::ZERO));
    let ring = generator.shared_ring().expect("shared");
    let last = iter::from_fn(|| ring.try_next_uid().ok()).last().expect("a tick of uids").get();
    let (memory, _) = mapping(&ring);
    // SAFETY: the words are atomics, and this is what takers write.
    unsafe {
        AtomicU64::from_ptr(memory.add(256).cast()).fetch_min(!(last + 9), Ordering::Relaxed)
    };
    // Until the owner has refreshed the ring.
    thread::sleep(Duration::from_millis(300));
    generator.close();
    assert_eq!(generator.try_next_uid(), Err(TakeError::Closed));
    assert_eq!(ring.try_next_uid(), Err(TakeError::Closed));
}
