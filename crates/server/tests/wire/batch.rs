//! The binary batch, byte by byte as in docs/server-batch.md.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use uidring::SegmentGenerator;
use uidring::policy::TakePolicy;
use uidring::segment::{Loaded, MemorySegments, SegmentRequest, SegmentStore, SegmentTag};
use uidring_server::Names;
use uidring_testkit::docs;

use crate::support::{
    PATIENCE, Served, assert_increasing_and_distinct, clients, connect, hex, limits, read,
    read_to_end, segments, send, uids,
};

pub fn request(version: u8, name: &str, count: u32) -> Vec<u8> {
    let mut bytes = vec![version, u8::try_from(name.len()).expect("a short name"), 0, 0];
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(name.as_bytes());
    bytes
}

pub fn answer(stream: &mut impl std::io::Read) -> (u32, Vec<u8>) {
    let head = read(stream, 8);
    let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
    let (status, length) = (word(0), word(4) as usize);
    (status, read(stream, if status == 0 { 8 * length } else { length }))
}

pub fn ids(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|id| u64::from_le_bytes(*id)).collect()
}

fn error(stream: &mut impl std::io::Read) -> (u32, String) {
    let (status, text) = answer(stream);
    (status, String::from_utf8(text).expect("a text"))
}

#[test]
fn examples_of_the_docs_are_true() {
    let served = Served::new(segments());
    for first in ["request   01", "request   02"] {
        let block = docs::block("server-batch.md", first);
        let (request, rest) = block.split_once("\nanswer").expect("an answer");
        let (expected, text) = rest.trim_end().split_once(" and ").unwrap_or((rest, ""));
        let mut expected = hex(expected);
        if let Some((_, text)) = text.split_once(": ") {
            expected.extend_from_slice(text.as_bytes());
        }
        let mut stream = connect(served.batch);
        send(&mut stream, &hex(request.trim_start_matches("request")));
        assert_eq!(read(&mut stream, expected.len()), expected, "{block}");
    }
}

#[test]
fn a_reader_in_python_gets_increasing_ids() {
    let served = Served::new(uids());
    let mut python = Command::new("python3");
    python.arg(clients().join("batch.py")).arg(served.path()).args(["uid", "4096", "50"]);
    let output = python.output().expect("python3, which Debian's package python3 has");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("digits");
    let ids: Vec<u64> = text.lines().map(|id| id.parse().expect("an id")).collect();
    assert_eq!(ids.len(), 4096 * 50);
    assert_increasing_and_distinct(&ids);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let served = Served::new(segments());
    let mut stream = connect(served.batch);
    let counts: Vec<u32> = (1..=2000).collect();
    let requests: Vec<u8> = counts.iter().flat_map(|count| request(1, "orders", *count)).collect();
    let mut writer = stream.try_clone().expect("a handle");
    let writer = thread::spawn(move || send(&mut writer, &requests));
    let mut all = Vec::new();
    for count in counts {
        let (status, bytes) = answer(&mut stream);
        assert_eq!((status, bytes.len()), (0, 8 * count as usize));
        all.extend(ids(&bytes));
    }
    writer.join().expect("all is sent");
    assert_increasing_and_distinct(&all);
}

#[test]
fn errors_say_what_to_do_and_leave_the_connection_open_where_they_can() {
    let max = |limits: &mut uidring_server::Limits| limits.batch = 1000;
    let served = Served::with(segments(), |server| server.limits(limits(max)));
    let mut stream = connect(served.batch);
    for (request, status, text) in [
        (request(1, "none", 1), 2, "there is no name 'none'"),
        (request(1, "orders", 0), 1, "0 ids were asked for; a request is for 1 to 1000"),
        (request(1, "orders", 1001), 1, "1001 ids were asked for"),
        (request(1, "", u32::MAX), 1, "4294967295 ids"),
    ] {
        send(&mut stream, &request);
        let (got, words) = error(&mut stream);
        assert_eq!(got, status, "{words}");
        assert!(words.contains(text), "{words}");
    }
    send(&mut stream, &[1, 2, 0, 0, 1, 0, 0, 0, 0xff, 0xfe]);
    assert_eq!(error(&mut stream).0, 2);
    send(&mut stream, &request(1, "", 2));
    assert_eq!(answer(&mut stream), (0, [1_u64.to_le_bytes(), 2_u64.to_le_bytes()].concat()));
    for bad in [[2, 0, 0, 0, 1, 0, 0, 0], [1, 0, 1, 0, 1, 0, 0, 0], [0x81, 0, 0, 0, 1, 0, 0, 0]] {
        let mut stream = connect(served.batch);
        send(&mut stream, &bad);
        send(&mut stream, &request(1, "orders", 1));
        assert_eq!(error(&mut stream).0, 1);
        assert_eq!(read_to_end(&mut stream), b"", "requests after a bad one are not answered");
    }
    let stats = served.running.stats(uidring_server::Protocol::Batch);
    assert_eq!(stats.errors, 8);
}

#[test]
fn a_password_comes_first() {
    let served = Served::with(uids(), |server| server.password("a secret"));
    let mut stream = connect(served.batch);
    send(&mut stream, &request(1, "uid", 1));
    assert_eq!(error(&mut stream).0, 5);
    send(&mut stream, &request(0x81, "a secret", 0));
    assert_eq!(answer(&mut stream), (0, Vec::new()));
    send(&mut stream, &request(1, "uid", 1));
    assert_eq!(answer(&mut stream).0, 0);
    for wrong in ["", "a secreT", "a secret "] {
        let mut stream = connect(served.batch);
        send(&mut stream, &request(0x81, wrong, 0));
        assert_eq!(error(&mut stream), (5, "wrong password".to_owned()));
        assert_eq!(read_to_end(&mut stream), b"");
    }
    let open = Served::new(uids());
    let mut stream = connect(open.batch);
    send(&mut stream, &request(0x81, "a secret", 0));
    assert_eq!(error(&mut stream).0, 5);
}

/// A table whose readings and loads wait for a gate.
struct Gated(MemorySegments, Arc<Mutex<()>>);

impl SegmentStore for Gated {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, uidring::Error> {
        let _gate = self.1.lock().expect("a gate");
        self.0.tags()
    }

    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        let _gate = self.1.lock().expect("a gate");
        self.0.load(wanted, loaded);
    }
}

#[test]
fn answers_do_not_wait_for_later_ones_and_one_that_breaks_off_leaves_no_trace() {
    for goes_well in [true, false] {
        let table = MemorySegments::new();
        table.create(SegmentTag::new("orders").step(1000)).expect("a tag");
        let gate = Arc::new(Mutex::new(()));
        let builder = SegmentGenerator::builder(Gated(table.clone(), Arc::clone(&gate)));
        let patient = TakePolicy::WaitFor(PATIENCE);
        let generator = Arc::new(builder.take_policy(patient).build().expect("a generator"));
        let served = Served::new(Names::new().with_segments(generator));
        let mut stream = connect(served.batch);
        send(&mut stream, &request(1, "orders", 1));
        assert_eq!(ids(&answer(&mut stream).1), [1]);

        let closed = gate.lock().expect("a gate");
        send(&mut stream, &[request(1, "orders", 2), request(1, "orders", 50_000)].concat());
        assert_eq!(ids(&answer(&mut stream).1), [2, 3], "while the next answer waits");
        assert!(goes_well || table.remove("orders"));
        drop(closed);
        let (status, bytes) = answer(&mut stream);
        if goes_well {
            let rest = ids(&bytes);
            assert_eq!((status, rest.len(), rest[0]), (0, 50_000, 4));
            assert_increasing_and_distinct(&rest);
        } else {
            assert_eq!(status, 4, "{}", String::from_utf8_lossy(&bytes));
        }
        send(&mut stream, &request(1, "none", 1));
        assert_eq!(error(&mut stream).0, 2);
    }
}

#[test]
fn answers_do_not_wait_for_a_name_behind_them() {
    let table = MemorySegments::new();
    table.create(SegmentTag::new("orders").step(1000)).expect("a tag");
    let gate = Arc::new(Mutex::new(()));
    let builder = SegmentGenerator::builder(Gated(table.clone(), Arc::clone(&gate)));
    let generator = Arc::new(builder.build().expect("a generator"));
    let served = Served::new(Names::new().with_segments(generator));
    let mut stream = connect(served.batch);
    send(&mut stream, &request(1, "orders", 1));
    assert_eq!(answer(&mut stream).0, 0);
    let begin = Instant::now();
    for number in 0.. {
        send(&mut stream, &request(1, "nobody", 1));
        assert_eq!(error(&mut stream).0, 2);
        let closed = gate.lock().expect("a gate");
        let tag = format!("new {number}");
        table.create(SegmentTag::new(&tag)).expect("a tag");
        send(&mut stream, &[request(1, "orders", 1), request(1, &tag, 1)].concat());
        assert_eq!(answer(&mut stream).0, 0);
        drop(closed);
        // Found only if the earlier answer came during the reading of the table, for which a request waits a second.
        if answer(&mut stream).0 == 0 {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{tag} is not found");
    }
}
