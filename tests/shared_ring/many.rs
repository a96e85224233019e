//! Many children of one owner.

use std::env;
use std::io::Read;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uidring::SharedRing;
use uidring_testkit::fork::alone;

use super::{fork, generator, shared, take, write};

const CHILDREN: usize = 8;

/// What the children have taken.
struct Taken {
    counts: [AtomicU64; CHILDREN],
    /// Above it are all uids of takes that begin later.
    greatest: AtomicU64,
    repeats: AtomicU64,
    out_of_order: AtomicU64,
    /// A bit for each uid, from the first one on: of 256 seconds.
    seen: [AtomicU8; 1 << 27],
}

/// Eight children take as many uids each, 100,000 or `UIDRING_SHARED_TAKES`, and are killed and replaced meanwhile.
#[test]
fn children_that_are_killed_and_replaced_take_their_millions() {
    let _alone = alone();
    let each = env::var("UIDRING_SHARED_TAKES").ok().and_then(|text| text.parse().ok());
    let each: u64 = each.unwrap_or(100_000);
    let generator = generator();
    let ring = generator.shared_ring().expect("shared");
    let first = ring.next_uid().expect("a uid").get();
    let taken = shared::<Taken>();
    let start = |number| fork(|_| take_until(each, &ring, number, first, taken));
    let mut children: Vec<_> = (0..CHILDREN).map(start).collect();
    let mut deaths = 0;
    let counts = || taken.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
    while counts().iter().any(|count| *count < each) {
        thread::sleep(Duration::from_micros(fastrand::u64(100..2_000)));
        let number = fastrand::usize(..CHILDREN);
        if counts()[number] < each {
            let replaced = std::mem::replace(&mut children[number], start(number));
            replaced.kill();
            replaced.uids();
            deaths += 1;
        }
    }
    children.into_iter().for_each(|child| drop(child.uids()));
    let [repeats, out_of_order] =
        [&taken.repeats, &taken.out_of_order].map(|count| count.load(Ordering::Relaxed));
    let all: u64 = counts().iter().sum();
    println!("{CHILDREN} children took {all} uids, and {deaths} of them were killed");
    assert_eq!((repeats, out_of_order), (0, 0));
    assert!(generator.stats().taken > all);
}

fn take_until(each: u64, ring: &SharedRing, number: usize, first: u64, taken: &Taken) {
    // Until its predecessor, which may be alive for a moment, has been killed.
    while taken.counts[number].load(Ordering::Relaxed) < each {
        let before = taken.greatest.load(Ordering::Acquire);
        let uid = ring.next_uid().expect("a uid").get();
        taken.greatest.fetch_max(uid, Ordering::AcqRel);
        if uid <= before {
            taken.out_of_order.fetch_add(1, Ordering::Relaxed);
        }
        // 22 bits of sequence, below ten of the worker id, which is the same in all.
        let place = ((uid >> 32) - (first >> 32)) << 22 | uid & 0x3F_FFFF;
        let bit = 1 << (place % 8);
        let before = taken.seen[(place / 8) as usize].fetch_or(bit, Ordering::Relaxed);
        if before & bit != 0 {
            taken.repeats.fetch_add(1, Ordering::Relaxed);
        }
        taken.counts[number].fetch_add(1, Ordering::Relaxed);
    }
}

/// A thousand children take, wait while the owner does nothing, and take again.
#[test]
fn a_thousand_children_share_the_ring() {
    let _alone = alone();
    let generator = generator();
    let ring = generator.shared_ring().expect("shared");
    let alone = idle();
    let phase = shared::<AtomicU8>();
    let children: Vec<_> = (0..1_000)
        .map(|_| {
            fork(|to| {
                write(&take(&ring, 10), to);
                while phase.load(Ordering::Relaxed) == 0 {
                    thread::sleep(Duration::from_millis(100));
                }
                write(&take(&ring, 10), to);
            })
        })
        .collect();
    for child in &children {
        (&child.output).read_exact(&mut [0; 80]).expect("they took");
    }
    let attached = idle();
    println!("an idle second costs the owner {alone:?}, and {attached:?} with its takers");
    phase.store(1, Ordering::Relaxed);
    let mut all: Vec<_> = children.into_iter().flat_map(|child| child.uids()).collect();
    assert_eq!(all.len(), 10_000);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 10_000, "uids repeat");
}

/// Returns the processor time of this process during a second in which it does nothing itself.
fn idle() -> Duration {
    let used = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: it fills in the structure.
        unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let (before, begin) = (used(), Instant::now());
    thread::sleep(Duration::from_secs(1));
    (used() - before).div_f64(begin.elapsed().as_secs_f64())
}
