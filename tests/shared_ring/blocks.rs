//! Blocks, which belong to one thread and which no child continues.

use std::cell::Cell;
use std::thread;
use std::time::Duration;

use uidring::policy::{TakeDecision, TakePolicy};
use uidring::{TakeError, Uid, UidGenerator};
use uidring_testkit::fork::alone;

use super::{all_distinct, fork, generator, write};

/// Takes from one handle in the parent, its child and its grandchild, and checks that the uids are distinct.
fn check(mut take: impl FnMut() -> u64, name: &str) {
    let mut all = vec![take()];
    let child = fork(|to| {
        let mut uids = vec![take(), take()];
        let grandchild = fork(|to| write(&[(); 300].map(|()| take()), to));
        uids.extend((0..600).map(|_| take()));
        uids.extend(grandchild.uids());
        write(&uids, to);
    });
    all.extend((0..600).map(|_| take()));
    let theirs = child.uids();
    assert_eq!(theirs.len(), 902, "{name}");
    all.extend(theirs);
    all_distinct(all);
}

#[test]
fn a_child_continues_no_block_of_its_parent() {
    let _alone = alone();
    let generator = generator();
    let ring = generator.shared_ring().expect("shared");
    let mut local = ring.local();
    check(|| local.next_uid().expect("a uid").get(), "local");
    let mut local = ring.local();
    check(|| local.try_next_uid().expect("a uid").get(), "local, at once");
    let mut local = ring.local();
    let take = || futures_executor::block_on(local.next_uid_async()).expect("a uid").get();
    check(take, "local, as a task");
    let mut local = ring.local();
    let take = || {
        let mut one = [Uid::default()];
        local.fill(&mut one).expect("a uid");
        one[0].get()
    };
    check(take, "local, filled");
    let handle = ring.per_thread();
    check(|| handle.next_uid().expect("a uid").get(), "per thread");
    check(|| handle.try_next_uid().expect("a uid").get(), "per thread, at once");
    let take = || futures_executor::block_on(handle.next_uid_async()).expect("a uid").get();
    check(take, "per thread, as a task");
    let take = || {
        let mut one = [Uid::default()];
        handle.fill(&mut one).expect("a uid");
        one[0].get()
    };
    check(take, "per thread, filled");
    let take = || {
        let mut one = [Uid::default()];
        assert_eq!(UidGenerator::try_fill(&handle, &mut one), Ok(1));
        one[0].get()
    };
    check(take, "per thread, filled at once");
}

/// In a child, an inherited local handle and a new per-thread handle take blocks.
#[test]
fn handles_of_a_child_take_blocks() {
    let _alone = alone();
    let generator = generator();
    let ring = generator.shared_ring().expect("shared");
    let mut local = ring.local();
    local.next_uid().expect("a uid");
    let child = fork(|to| {
        let before = ring.stats().taken;
        (0..100).for_each(|_| assert!(local.next_uid().is_ok()));
        let by_local = ring.stats().taken - before;
        let handle = ring.per_thread();
        (0..100).for_each(|_| assert!(handle.next_uid().is_ok()));
        write(&[by_local, ring.stats().taken - before - by_local], to);
    });
    assert_eq!(child.uids(), [255, 255]);
}

/// A handle in the middle of its block notices that the owner has ended.
#[test]
fn blocks_end_with_the_owner() {
    let _alone = alone();
    let owner = fork(|to| {
        let generator = generator();
        let ring = generator.shared_ring().expect("shared");
        // SAFETY: the child ends without running the parent's destructors.
        unsafe {
            if libc::fork() == 0 {
                let (mut local, handle) = (ring.local(), ring.per_thread());
                let is_good = local.next_uid().is_ok() && handle.next_uid().is_ok();
                libc::kill(libc::getppid(), libc::SIGKILL);
                let ended = TakeError::OwnerEnded;
                // Far fewer takes than a block has uids.
                let is_seen = (0..100).any(|_| {
                    thread::sleep(Duration::from_millis(100));
                    local.next_uid() == Err(ended)
                });
                let is_seen = is_seen && handle.next_uid() == Err(ended);
                write(&[is_good.into(), is_seen.into()], to);
                libc::_exit(0);
            }
        }
        loop {
            thread::park();
        }
    });
    assert_eq!(owner.uids(), [1, 1]);
}

#[test]
fn a_close_is_for_one_handle_in_one_process() {
    let _alone = alone();
    let generator = generator();
    let [ring, other] = [(); 2].map(|()| generator.shared_ring().expect("shared"));
    let (mut local, handle) = (ring.local(), ring.per_thread());
    local.next_uid().and_then(|_| handle.next_uid()).expect("open");
    let child = fork(|to| {
        ring.close();
        let closed = Err(TakeError::Closed);
        let takes = [ring.next_uid(), ring.try_next_uid(), handle.next_uid(), local.next_uid()];
        let all = takes.iter().filter(|taken| **taken == closed).count();
        let filled = ring.try_fill(&mut [Uid::default()]) == Err(TakeError::Closed);
        write(&[all as u64, filled.into(), other.next_uid().is_ok().into()], to);
    });
    assert_eq!(child.uids(), [4, 1, 1]);
    ring.next_uid().and_then(|_| handle.next_uid()).expect("still open here");
    local.next_uid().expect("still open here");
}

/// A take handler forks in the middle of a fill. What was filled in before is the parent's alone.
#[test]
fn a_fill_that_is_forked_ends_in_the_child() {
    let _alone = alone();
    thread_local!(static CHILD: Cell<Option<libc::pid_t>> = const { Cell::new(None) });
    let policy = TakePolicy::handler(|_| {
        if CHILD.get().is_none() {
            // SAFETY: the child ends below.
            CHILD.set(Some(unsafe { libc::fork() }));
        }
        TakeDecision::GiveUp
    });
    for is_local in [false, true] {
        let generator = super::small(|builder| builder.max_borrow(Duration::ZERO));
        let ring = generator.shared_ring().expect("shared").take_policy(policy.clone());
        CHILD.set(None);
        let mut out = [Uid::default(); 100];
        let filled = match is_local {
            true => ring.local().fill(&mut out),
            false => ring.fill(&mut out),
        };
        let error = filled.expect_err("fewer are ready");
        let child = CHILD.get().expect("it was asked");
        if child == 0 {
            let is_refused = (error.filled, error.error) == (0, TakeError::Forked);
            // SAFETY: the child ends without running the parent's destructors.
            unsafe { libc::_exit(if is_refused { 0 } else { 1 }) };
        }
        assert_eq!((error.filled > 0, error.error), (true, TakeError::Empty));
        let mut status = 0;
        // SAFETY: it is our child, and nobody has waited for it.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0, "local: {is_local}");
    }
}
