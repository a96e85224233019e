//! What a generator tells through `tracing`: once, not at every turn.
#![cfg(feature = "cli")]

#[path = "support/namespace.rs"]
mod namespace;

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use namespace::fresh;
use tracing_subscriber::fmt::MakeWriter;
use uidring::{
    Bits, CachedUidGenerator, Layout, ManualClock, SequenceStart, TakeError, TakePolicy, Tick,
    Timestamp, UidGenerator,
};

/// Keeps what is logged by any thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lines(&self, word: &str) -> usize {
        let text = self.0.lock().expect("no panic");
        String::from_utf8_lossy(&text).lines().filter(|line| line.contains(word)).count()
    }

    fn wait_for(&self, word: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        while self.lines(word) == 0 {
            assert!(Instant::now() < end, "never logged: {word}");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// One test, since the log is the process's.
#[test]
fn events_are_told_once() {
    let log = Log::default();
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG)
        .with_writer(log.clone())
        .with_ansi(false)
        .init();
    let bits = Bits { time: 26, worker: 5, sequence: 4 };
    let layout = Layout::new(bits, Tick::Second, Timestamp::default()).expect("possible");
    // 31 days and a bit are left, and with them less than a year.
    let month = 31 * 86_400;
    let clock = ManualClock::new(layout.time_of((1 << 26) - month - 600));
    let generator = CachedUidGenerator::builder()
        .layout(layout)
        .worker_id(3)
        .namespace(fresh())
        .sequence_start(SequenceStart::Zero)
        .max_borrow(Duration::ZERO)
        .take_policy(TakePolicy::Reject)
        .refresh(Duration::from_millis(1))
        .clock(clock.clone())
        .build()
        .expect("possible");
    assert_eq!(log.lines("generator started"), 1);
    assert_eq!(log.lines("the layout ends on"), 1, "the builder says that it is not long");

    // Told once in ten seconds at most; a busy machine may take longer than that for all this.
    let begin = Instant::now();
    let taken = generator.uids().take_while(Result::is_ok).count();
    assert_eq!(taken, 16, "a second's");
    for _ in 0..1_000 {
        assert!(matches!(generator.next_uid(), Err(TakeError::BorrowLimit { .. })));
        thread::sleep(Duration::from_micros(20));
    }
    log.wait_for("the limit of borrowing is reached");
    for _ in 0..5 {
        clock.advance(Duration::from_secs(60));
        // The padder has looked when the second's uids are there.
        while generator.next_uid().is_err() {
            thread::yield_now();
        }
    }
    log.wait_for("stale uids discarded");
    for word in ["the limit of borrowing is reached", "stale uids discarded"] {
        let times = log.lines(word);
        assert!(times as u64 <= 1 + begin.elapsed().as_secs() / 10, "{word}: {times} times");
    }
    assert_eq!(log.lines("generator started"), 1);
    assert_eq!(log.lines("less than a month"), 0);

    clock.advance(Duration::from_secs(86_400 + 600));
    log.wait_for("less than a month of uids is left");
    clock.advance(Duration::from_secs(25 * 86_400));
    log.wait_for("less than a week of uids is left");
    clock.advance(Duration::from_secs(9 * 86_400 / 2));
    log.wait_for("less than a day of uids is left");
    assert_eq!(log.lines("of uids is left"), 3, "each once");

    let (clock, namespace) = (ManualClock::new("2026-06-01".parse().expect("a time")), fresh());
    let build = || {
        let builder = CachedUidGenerator::builder().worker_id(3).namespace(&namespace);
        builder.clock(clock.clone()).build().expect("possible")
    };
    build().next_uid().expect("ready");
    build().next_uid().expect("ready");
    assert_eq!(log.lines("ahead of the clock"), 0);
    clock.set("2026-05-31T23:00:00Z".parse().expect("a time"));
    build().next_uid().expect("ready");
    assert_eq!(log.lines("the generator starts 3600s ahead of the clock"), 1);
}
