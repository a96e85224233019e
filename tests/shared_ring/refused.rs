//! The kernel refuses what a shared ring needs.

use uidring::{Error, SharedRing, TakeError, Uid};
use uidring_testkit::fork::alone;

use super::attach::descriptors_of;
use super::{builder_of, fork, start_owner, write};

/// A filter makes a call of the kernel fail, as where memory is short, in a sandbox, or on an old kernel.
#[test]
fn what_the_kernel_refuses_is_an_error() {
    let _alone = alone();
    let calls = [
        (libc::SYS_memfd_create, "memfd_create", libc::EPERM),
        (libc::SYS_fallocate, "fallocate", libc::ENOSPC),
        (libc::SYS_pidfd_open, "pidfd_open", libc::ENOSYS),
    ];
    for (call, name, error) in calls {
        let told = format!("{name}: {}", std::io::Error::from_raw_os_error(error));
        let child = fork(|to| {
            refuse(call as u32, error as u32);
            write(&[tells(&told).into()], to);
        });
        assert_eq!(child.uids(), [1], "{told}");
    }
}

fn tells(expected: &str) -> bool {
    matches!(builder_of(1).build(), Err(Error::Shared { problem }) if problem.contains(expected))
}

/// As in an emulator. Each take asks the kernel whether the owner lives.
#[test]
fn a_kernel_that_marks_nothing_is_done_without() {
    let _alone = alone();
    let (owner, number) =
        start_owner(|| refuse(libc::SYS_set_robust_list as u32, libc::ENOSYS as u32));
    let ring = SharedRing::attach(descriptors_of(owner.id, number)).expect("attaches");
    let (mut local, mut uids) = (ring.local(), [Uid::default(); 10]);
    for _ in 0..1_000 {
        ring.next_uid().expect("the owner lives");
        local.next_uid().expect("the owner lives");
        ring.fill(&mut uids).expect("the owner lives");
    }
    owner.kill();
    owner.uids();
    let ended = Err(TakeError::OwnerEnded);
    assert_eq!([ring.next_uid(), ring.try_next_uid(), local.next_uid()], [ended; 3]);
    assert_eq!(ring.fill(&mut uids).map_err(|error| error.error), Err(TakeError::OwnerEnded));
}

/// Beyond that limit, the kernel would end the process.
#[test]
fn a_limit_of_files_is_an_error() {
    let _alone = alone();
    for limit in [0, 1_000] {
        let child = fork(|to| {
            let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
            // SAFETY: it is about this process.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
            write(&[tells("RLIMIT_FSIZE").into()], to);
        });
        assert_eq!(child.uids(), [1], "{limit}");
    }
}

/// Has a system call fail in this process, and in its threads to come.
fn refuse(call: u32, error: u32) {
    let step = |code: u32, jump_true, jump_false, k| libc::sock_filter {
        code: code as u16,
        jt: jump_true,
        jf: jump_false,
        k,
    };
    // The number of the call comes first in what the filter sees.
    let mut filter = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | error),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the filter lives until the call returns, and is this process's own.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let filter = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, filter, &raw const program), 0);
    }
}
