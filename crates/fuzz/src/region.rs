//! The memory of a ring that processes share.
// Memory files, which std does not have.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use uidring::SharedRing;
use uidring::policy::TakePolicy;
use uidring::{Bits, CachedUidGenerator, Layout, Tick, Timestamp, Uid};

/// Changes the memory of a ring: ten bytes each are an offset and a value, and the rest shortens the memory. Attaching to
/// it fails, or all takes from it return.
pub(crate) fn attach(input: &[u8]) {
    let mut bytes = valid().to_vec();
    let (writes, rest) = input.as_chunks::<10>();
    for write in writes {
        let [low, high, value @ ..] = write;
        let at = usize::from(u16::from_le_bytes([*low, *high])) % (bytes.len() - 7);
        bytes[at..at + 8].copy_from_slice(value);
    }
    let less = rest.iter().map(|byte| usize::from(*byte)).sum();
    bytes.truncate(bytes.len().saturating_sub(less));
    let Ok(ring) = SharedRing::attach([sealed(&bytes), this_process()]) else { return };
    let ring = ring.take_policy(TakePolicy::Reject);
    let mut uids = [Uid::default(); 300];
    for _ in 0..10 {
        for uid in &mut uids[..10] {
            *uid = ring.next_uid().unwrap_or_default();
        }
        let _ = ring.try_fill(&mut uids[10..]);
        assert!(uids.iter().all(|uid| uid.get() < 1 << 63));
        let _ = ring.stats();
    }
}

/// Returns the memory of a ring of eight runs, after some takes.
fn valid() -> &'static [u8] {
    static VALID: OnceLock<Vec<u8>> = OnceLock::new();
    VALID.get_or_init(|| {
        let bits = Bits { time: 40, worker: 10, sequence: 6 };
        let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
        let generator = CachedUidGenerator::builder().layout(layout).worker_id(1).shared();
        let generator = generator.build().expect("builds");
        let ring = generator.shared_ring().expect("shared");
        assert!((0..100).all(|_| ring.next_uid().is_ok()));
        let [memory, _] = ring.descriptors().expect("on Linux");
        let file = File::from(memory.try_clone_to_owned().expect("a descriptor"));
        let mut bytes = vec![0; file.metadata().expect("its length").len() as usize];
        file.read_exact_at(&mut bytes, 0).expect("its memory");
        bytes
    })
}

fn sealed(bytes: &[u8]) -> OwnedFd {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name ends in a zero, and the descriptor is new.
    let mut file = unsafe { File::from_raw_fd(libc::memfd_create(c"fuzz".as_ptr(), flags)) };
    file.write_all(bytes).expect("room");
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: the call is about our own file.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }, 0);
    file.into()
}

fn this_process() -> OwnedFd {
    // SAFETY: the descriptor is new.
    unsafe {
        let file = libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0);
        OwnedFd::from_raw_fd(i32::try_from(file).expect("a descriptor"))
    }
}
