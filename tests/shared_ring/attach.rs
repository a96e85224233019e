//! Attaching to rings by their descriptors.

use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use uidring::SharedRing;
use uidring::{Error, TakeError};
use uidring_testkit::fork::alone;

use super::{fork, generator, start_owner, take, write};

fn copies(ring: &SharedRing) -> [OwnedFd; 2] {
    let descriptors = ring.descriptors().expect("shared");
    descriptors.map(|descriptor| descriptor.try_clone_to_owned().expect("a descriptor"))
}

fn problem(memory: OwnedFd, ring: &SharedRing) -> String {
    let [_, owner] = copies(ring);
    match SharedRing::attach([memory, owner]) {
        Err(Error::Attach { problem }) => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn whoever_attaches_takes_from_the_same_ring() {
    let _alone = alone();
    let generator = generator();
    let ring = generator.shared_ring().expect("shared");
    let attached = SharedRing::attach(copies(&ring)).expect("attaches");
    assert_eq!(attached.layout(), generator.layout());
    assert_eq!((attached.worker_id(), attached.stats().capacity), (1, ring.stats().capacity));
    let mut last = 0;
    for _ in 0..10_000 {
        for ring in [&ring, &attached] {
            let uid = ring.next_uid().expect("a uid").get();
            assert!(uid > last);
            last = uid;
        }
    }
    // In a child of the process that attached.
    let child = fork(|to| write(&take(&attached, 10), to));
    let uids = child.uids();
    assert!(uids.len() == 10 && uids.is_sorted_by(|a, b| a < b) && uids[0] > last);
    generator.close();
    assert_eq!(attached.next_uid(), Err(TakeError::Closed));
}

/// Attaches once while the owner lives, and once after it has ended.
#[test]
fn who_attached_sees_the_owner_end() {
    let _alone = alone();
    let (owner, number) = start_owner(|| {});
    let descriptors = || descriptors_of(owner.id, number);
    let ring = SharedRing::attach(descriptors()).expect("attaches");
    ring.next_uid().expect("the owner lives");
    let late = descriptors();
    owner.kill();
    owner.uids();
    assert_eq!(ring.next_uid(), Err(TakeError::OwnerEnded));
    let ring = SharedRing::attach(late).expect("attaches");
    assert_eq!(ring.next_uid(), Err(TakeError::OwnerEnded));
}

/// Those of an owner, and of its memory by the number that it has there.
pub(super) fn descriptors_of(owner: libc::pid_t, number: u64) -> [OwnedFd; 2] {
    let path = format!("/proc/{owner}/fd/{number}");
    let memory = File::options().read(true).write(true).open(path).expect("its memory");
    // SAFETY: the call returns a new descriptor.
    let process = unsafe {
        let file = libc::syscall(libc::SYS_pidfd_open, owner, 0);
        assert!(file >= 0);
        OwnedFd::from_raw_fd(file as i32)
    };
    [memory.into(), process]
}

#[test]
fn other_files_are_refused() {
    let _alone = alone();
    let generator = generator();
    let ring = generator.shared_ring().expect("shared");
    let [memory, owner] = copies(&ring);
    for file in ["/dev/zero", "/proc/self/exe"] {
        let file = File::open(file).expect("opens").into();
        let [memory, _] = copies(&ring);
        let attached = SharedRing::attach([memory, file]).map(|_| ());
        assert!(attached.expect_err("refused").to_string().contains("not of a process"));
    }
    assert!(problem(owner, &ring).contains("sealed memory file"));
    let file = File::open("/proc/self/exe").expect("opens");
    assert!(problem(file.into(), &ring).contains("sealed memory file"));
    // Overwrite each word of the header, as an earlier, a later or a broken program might.
    let file = File::from(memory);
    let mut header = [0; 256];
    file.read_exact_at(&mut header, 0).expect("a header");
    for word in 0..16 {
        let whole = header[8 * word..8 * word + 8].try_into().expect("eight bytes");
        let right = u64::from_le_bytes(whole);
        for wrong in [0, right ^ 1, right + 2, right * 2, right.wrapping_sub(1), 1 << 40, u64::MAX]
        {
            file.write_all_at(&wrong.to_le_bytes(), 8 * word as u64).expect("writes");
            let memory = file.try_clone().expect("a descriptor").into();
            let [_, owner] = copies(&ring);
            // The later words have other valid values, too: those of the layout, for example.
            let attached = SharedRing::attach([memory, owner]);
            if word < 6 && wrong != right {
                assert!(matches!(attached, Err(Error::Attach { .. })), "word {word}: {wrong}");
            }
            file.write_all_at(&right.to_le_bytes(), 8 * word as u64).expect("writes");
        }
    }
    // Claim more slots than the memory has, and a length that fits them.
    let words = [2, 5].map(|word| {
        let whole = header[8 * word..8 * word + 8].try_into().expect("eight bytes");
        (8 * word as u64, u64::from_le_bytes(whole))
    });
    let [(length_at, length), (slots_at, slots)] = words;
    file.write_all_at(&(length + 64 * slots).to_le_bytes(), length_at).expect("writes");
    file.write_all_at(&(2 * slots).to_le_bytes(), slots_at).expect("writes");
    let found = problem(file.try_clone().expect("a descriptor").into(), &ring);
    assert!(found.contains("does not describe"), "{found}");
    file.write_all_at(&9_u64.to_le_bytes(), 8).expect("writes");
    let problem = problem(file.into(), &ring);
    assert_eq!(problem, "its memory has version 9 of the format, and this program knows 1");
}
