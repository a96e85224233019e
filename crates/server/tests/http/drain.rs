//! A server that ends: requests are answered, and connections end by themselves.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use uidring::segment::{Loaded, MemorySegments, SegmentRequest, SegmentStore, SegmentTag};
use uidring::{Error, SegmentGenerator};

use crate::served::{Answer, PATIENCE, Served, read_all, uids};

#[test]
fn idle_connections_and_watchers_end() {
    let served = Served::start(uids(60));
    let mut fresh = served.connect();
    let mut used = served.connect();
    used.write_all(b"GET /api/snowflake/get/x HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .expect("it reads");
    assert!(used.read(&mut [0; 1024]).expect("an answer") > 0);
    let mut begun = served.connect();
    begun.write_all(b"GET /api/snowflake/get/x HTT").expect("it reads");
    let mut watcher = served.connect();
    watcher.write_all(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it reads");
    assert!(watcher.read(&mut [0; 1024]).expect("an event") > 0);
    served.wait_for_connections(4);
    let begin = Instant::now();
    assert_eq!(served.running.stop(PATIENCE), 0, "none is cut off");
    assert!(begin.elapsed() < PATIENCE / 2);
    for stream in [&mut fresh, &mut used, &mut begun] {
        assert!(read_all(stream).is_empty());
    }
    let end = read_all(&mut watcher);
    assert!(end.ends_with(b"0\r\n\r\n"), "the last chunk ends the answer");
}

#[test]
fn what_has_arrived_is_answered() {
    let served = Served::start(uids(61));
    let mut streams: Vec<_> = (0..20).map(|_| served.connect()).collect();
    for stream in &mut streams {
        stream
            .write_all(&b"GET /api/snowflake/get/x HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(20))
            .expect("it reads");
    }
    served.wait_for_connections(20);
    assert_eq!(served.running.stop(PATIENCE), 0);
    for stream in &mut streams {
        let answers = Answer::split_all(&read_all(stream));
        assert_eq!(answers.iter().map(Answer::id).collect::<Vec<_>>().len(), 20);
    }
}

/// A table that waits for permission to load.
struct Gated(MemorySegments, Receiver<()>);

impl SegmentStore for Gated {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        self.0.tags()
    }

    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        // Once the sender is gone, permission is permanent.
        let _ = self.1.recv();
        self.0.load(wanted, loaded);
    }
}

#[test]
fn an_answer_under_way_is_sent() {
    let rows = MemorySegments::new();
    rows.create(SegmentTag::new("orders").step(1_000)).expect("a tag");
    let (gate, gated) = channel();
    let segments = SegmentGenerator::builder(Gated(rows, gated)).build().expect("a generator");
    let served = Served::start(uids(62).with_segments(Arc::new(segments)));
    let ask = |path: &str| {
        let mut stream = served.connect();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it reads");
        stream
    };
    let mut leaf = ask("/api/segment/get/orders");
    let mut own = ask("/v1/ids?name=orders&count=10&format=text");
    let mut gone = ask("/api/segment/get/orders");
    // A half-closed connection still waits for its answer.
    let mut half = ask("/api/segment/get/orders");
    half.shutdown(std::net::Shutdown::Write).expect("it is open");
    served.wait_for_connections(4);
    gone.set_nonblocking(true).expect("possible");
    assert!(gone.read(&mut [0; 1]).is_err(), "nothing has come");
    drop(gone);
    let stopping = thread::spawn(move || served.running.stop(PATIENCE));
    thread::sleep(Duration::from_millis(300));
    assert!(!stopping.is_finished(), "it waits for answers");
    drop(gate);
    assert_eq!(stopping.join().expect("done"), 0);
    let mut ids = Vec::new();
    for stream in [&mut leaf, &mut half] {
        let bytes = read_all(stream);
        ids.push(Answer::split(&bytes).expect("an answer").0.id());
    }
    let bytes = read_all(&mut own);
    let (answer, _) = Answer::split(&bytes).expect("an answer");
    ids.extend(answer.text().lines().map(|id| id.parse::<u64>().expect("an id")));
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 12, "{ids:?}");
}
