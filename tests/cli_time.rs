//! `uidring generate` and the clock: how far uids may be ahead of it, and behind.
#![cfg(all(feature = "cli", unix))]

mod support;

use std::io::{BufRead, BufReader};

use support::Home;
use uidring::{Clock, Layout, SystemClock, Timestamp, Uid};

/// The greatest lead of the uids that the program prints, against the time when they are read.
fn greatest_lead(words: &str, count: usize) -> std::time::Duration {
    let home = Home::new();
    let mut child = home.command(&format!("{words} -n {count}")).spawn().expect("starts");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let mut seen = 0;
    let lead = |line: String| {
        seen += 1;
        let uid: Uid = line.parse().expect("a uid");
        let time: Timestamp = Layout::UID_GENERATOR.decode(uid).expect("its layout").timestamp;
        time.saturating_since(SystemClock.now())
    };
    let greatest = output.lines().map(|line| line.expect("text")).map(lead).max();
    assert!(child.wait().expect("ends").success());
    assert_eq!(seen, count);
    greatest.expect("some")
}

/// 8,192 uids a second: this many take two seconds, or borrow some.
#[test]
fn who_may_borrow_nothing_waits_for_the_clock() {
    let words = "generate --layout 28/22/13";
    assert!(greatest_lead(&format!("{words} --max-borrow 0 --max-lag 0.5"), 20_000).is_zero());
    let bounded = greatest_lead(&format!("{words} --max-borrow 1.5"), 40_000);
    assert!(!bounded.is_zero() && bounded.as_millis() <= 1_500, "{bounded:?}");
    assert!(greatest_lead(words, 100_000).as_secs() > 3, "without a bound it borrows");
}

#[test]
fn bounds_are_seconds_of_a_generator_that_has_a_ring() {
    let home = Home::new();
    for words in ["--max-borrow 0 --max-lag 0", "--max-lag 1e3", "--max-borrow 0.001"] {
        let run = home.run(&format!("generate -n 3 {words}"));
        assert_eq!((run.status, run.stdout.lines().count()), (Some(0), 3), "{words}: {run:?}");
    }
    for words in [
        "--max-borrow -1",
        "--max-borrow x",
        "--max-borrow nan",
        "--max-lag inf",
        "--max-lag none",
        "--max-lag 1e30",
        "--generator default --max-borrow 1",
        "--generator default --max-lag 1",
    ] {
        let run = home.run(&format!("generate {words}"));
        assert_eq!((run.status, &*run.stdout), (Some(2), ""), "{words}");
        assert!(run.stderr.starts_with("error: "), "{words}: {}", run.stderr);
    }
}
