//! A taker in C, which was written from the format's description in docs/host-rings.md.

use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::thread;

use uidring::{Bits, Layout, Tick, Timestamp};
use uidring_testkit::fork::alone;
use uidring_testkit::namespace::fresh;

use super::attach::descriptors_of;
use super::{all_distinct, builder_of, start_owner, take};

/// The taker's exit codes.
const CLOSED: i32 = 1;
const OWNER_ENDED: i32 = 4;

const PROGRAM: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/taker");

fn compile() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/shared_ring/taker.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", PROGRAM, source]);
    assert!(compiler.status().expect("a C compiler, as Debian's gcc").success());
}

fn start(descriptors: [BorrowedFd<'_>; 2], count: u64, wanted: u64) -> Child {
    // Without the flag that closes them.
    // SAFETY: the calls return new descriptors.
    let [memory, owner] =
        descriptors.map(|file| unsafe { OwnedFd::from_raw_fd(libc::dup(file.as_raw_fd())) });
    let numbers = [memory.as_raw_fd(), owner.as_raw_fd()].map(|number| number.to_string());
    let rest = [count, wanted].map(|number| number.to_string());
    let mut taker = Command::new(PROGRAM);
    taker.args(numbers).args(rest).stdout(Stdio::piped()).spawn().expect("starts")
}

fn end(taker: Child) -> (Option<i32>, Vec<u64>) {
    let output = taker.wait_with_output().expect("ends");
    let words = output.stdout.as_chunks().0;
    (output.status.code(), words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

#[test]
fn a_taker_in_another_language_takes() {
    let _alone = alone();
    compile();
    // Ticks that are near each other have no room for takes by addition.
    for (sequence, count) in [(22, 200_000), (13, 50_000), (4, 5_000)] {
        let bits = Bits { time: 31, worker: 10, sequence };
        let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
        let generator = builder_of(1).layout(layout).namespace(fresh()).build().expect("builds");
        let ring = generator.shared_ring().expect("shared");
        let descriptors = ring.descriptors().expect("shared");
        let takers: Vec<_> = [1, 1, 7, 1_000]
            .map(|wanted| {
                thread::spawn({
                    let taker = start(descriptors, count, wanted);
                    move || end(taker)
                })
            })
            .into();
        let mut all = take(&ring, count as usize);
        for taker in takers {
            let (code, uids) = taker.join().expect("no panic");
            assert_eq!((code, uids.len() as u64), (Some(0), count), "{sequence} bits");
            assert!(uids.is_sorted_by(|a, b| a < b), "{sequence} bits");
            all.extend(uids);
        }
        assert_eq!(generator.stats().taken, all.len() as u64, "{sequence} bits");
        all_distinct(all);
        generator.close();
        assert_eq!(end(start(descriptors, 1, 1)).0, Some(CLOSED));
    }
}

#[test]
fn a_taker_in_another_language_sees_the_owner_end() {
    let _alone = alone();
    compile();
    let (owner, number) = start_owner(|| {});
    let descriptors = descriptors_of(owner.id, number);
    for wanted in [1, 1_000] {
        let mut taker = start(descriptors.each_ref().map(|file| file.as_fd()), 1 << 40, wanted);
        let mut output = taker.stdout.take().expect("piped");
        output.read_exact(&mut [0; 8]).expect("it takes");
        if wanted == 1_000 {
            owner.kill();
        } else {
            taker.kill().expect("killed");
        }
        let rest = thread::spawn(move || output.read_to_end(&mut Vec::new()));
        rest.join().expect("no panic").expect("read");
        let code = taker.wait().expect("ends").code();
        assert_eq!(code, (wanted == 1_000).then_some(OWNER_ENDED));
    }
    owner.uids();
}
