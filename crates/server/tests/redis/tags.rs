//! Tags that come and go while a server runs.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use uidring::segment::{Loaded, MemorySegments, SegmentRequest, SegmentStore, SegmentTag};
use uidring::{Error, SegmentGenerator};
use uidring_server::Names;

use crate::support::{PATIENCE, start};

/// A table whose reader waits for a gate, which counts the readings. At the greatest count, it fails.
struct Gated(MemorySegments, Arc<Mutex<u64>>);

impl SegmentStore for Gated {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        let mut readings = self.1.lock().expect("a gate");
        let next = readings.checked_add(1);
        *readings = next.ok_or(Error::Forked { what: "table" })?;
        self.0.tags()
    }

    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        self.0.load(wanted, loaded);
    }
}

/// The longest wait of a request for the table.
const LOOK_FOR: Duration = Duration::from_secs(1);

/// Creates tags and asks for each, until one is found at its first request. On a busy machine, reading the table may
/// take longer than a request waits.
fn found_at_once(table: &MemorySegments, mut ask: impl FnMut(&str) -> bool) -> String {
    let begin = Instant::now();
    for number in 0.. {
        let tag = format!("new-{number}");
        let asked = Instant::now();
        if !table.create(SegmentTag::new(&tag).step(10)).expect("created") {
            continue;
        }
        if ask(&tag) {
            return tag;
        }
        assert!(asked.elapsed() >= LOOK_FOR, "{tag} was not waited for");
        assert!(begin.elapsed() < PATIENCE, "{tag} is not found");
    }
    unreachable!("numbers do not end")
}

#[test]
fn tags_that_come_and_go() {
    let table = MemorySegments::new();
    table.create(SegmentTag::new("a").step(10)).expect("created");
    let segments = Arc::new(SegmentGenerator::builder(table.clone()).build().expect("built"));
    let server = start(Names::new().with_segments(segments.clone()));
    let mut client = server.client();
    assert_eq!(client.integer(&["INCR", "a"]), 1);
    assert!(client.say(&["UID.NEXT"]).starts_with("-ERR there is no name ''"));
    let answer = client.say(&["INCR", "nobody"]);
    assert!(answer.starts_with("-ERR there is no name 'nobody'"), "{answer}");
    let found = found_at_once(&table, |tag| client.say(&["INCR", tag]) == ":1\r\n");
    found_at_once(&table, |tag| client.say(&["MGET", "nobody", tag]) == "*2\r\n$-1\r\n$1\r\n1\r\n");
    assert!(table.remove("a"), "it was there");
    segments.refresh().expect("read");
    let gone = client.say(&["INCR", "a"]);
    assert!(gone.starts_with("-ERR ") && gone.contains("create it again"), "{gone}");
    assert_eq!(client.integer(&["INCR", &found]), 2);
    // The tag is there again, and the server has not read the table since.
    let asked = Instant::now();
    table.create(SegmentTag::new("a").max_id(100).step(10)).expect("created");
    let answer = client.say(&["INCR", "a"]);
    assert!(answer == ":100\r\n" || asked.elapsed() >= LOOK_FOR, "{answer}");
}

#[test]
fn answers_do_not_wait_for_a_name_behind_them() {
    let (table, gate) = (MemorySegments::new(), Arc::<Mutex<u64>>::default());
    let gated = Gated(table.clone(), Arc::clone(&gate));
    let segments = SegmentGenerator::builder(gated).build().expect("built");
    let server = start(Names::new().with_segments(Arc::new(segments)));
    let mut client = server.client();
    found_at_once(&table, |tag| {
        let closed = gate.lock().expect("a gate");
        client.send(format!("PING\r\nINCR {tag}\r\n").as_bytes());
        assert_eq!(client.reply(), "+PONG\r\n");
        drop(closed);
        // Found only if the earlier answer came during the reading of the table.
        client.reply() == ":1\r\n"
    });
}

/// Simultaneous requests wait for one reading, however many of their names are unknown.
#[test]
fn many_unknown_names_wait_once() {
    let readings = Arc::<Mutex<u64>>::default();
    let gated = Gated(MemorySegments::new(), Arc::clone(&readings));
    let segments = SegmentGenerator::builder(gated).build().expect("built");
    let server = start(Names::new().with_segments(Arc::new(segments)));
    let mut client = server.client();
    client.send(&b"INCR nobody\r\n".repeat(200));
    for _ in 0..200 {
        let answer = client.reply();
        assert!(answer.starts_with("-ERR there is no name 'nobody'"), "{answer}");
    }
    // They may not have come all at once.
    let readings = *readings.lock().expect("counted");
    assert!(readings < 100, "the table was read {readings} times");
}

/// Without the table, nobody knows whether the name exists.
#[test]
fn an_unknown_name_of_a_table_that_cannot_be_read_may_be_asked_for_again() {
    let readings = Arc::<Mutex<u64>>::default();
    let gated = Gated(MemorySegments::new(), Arc::clone(&readings));
    let segments = SegmentGenerator::builder(gated).build().expect("built");
    let server = start(Names::new().with_segments(Arc::new(segments)));
    let mut client = server.client();
    *readings.lock().expect("a gate") = u64::MAX;
    let begin = Instant::now();
    for words in [&["INCR", "nobody"][..], &["MGET", "nobody", "no"]] {
        // On a busy machine, the reading may fail later than a request waits.
        while !client.say(words).starts_with("-TRYAGAIN the table of tags could not be read") {
            assert!(begin.elapsed() < PATIENCE, "{words:?}");
        }
    }
    *readings.lock().expect("a gate") = 0;
    let answer = client.say(&["INCR", "nobody"]);
    assert!(answer.starts_with("-ERR there is no name 'nobody'"), "{answer}");
}

#[test]
fn questions_about_very_many_names_take_turns() {
    let table = MemorySegments::new();
    for tag in 0..1_000 {
        table.create(SegmentTag::new(format!("tag-{tag:05}")).step(10)).expect("created");
    }
    let segments = SegmentGenerator::builder(table).build().expect("built");
    let server = start(Names::new().with_segments(Arc::new(segments)));
    let mut client = server.client();
    for request in ["SCAN 0 TYPE none\r\n", "DBSIZE\r\n", "KEYS none\r\n", "INFO\r\n"] {
        // As many as are read at once. Without turns, each client would wait for minutes.
        let mut asker = server.client();
        asker.send(request.repeat(3_000).as_bytes());
        client.integer(&["INCR", "tag-00007"]);
    }
    // The same in a transaction.
    let mut asker = server.client();
    asker.send(format!("MULTI\r\n{}EXEC\r\n", "DBSIZE\r\n".repeat(4_000)).as_bytes());
    (0..4_001).for_each(|_| drop(asker.reply()));
    client.integer(&["INCR", "tag-00007"]);
}
