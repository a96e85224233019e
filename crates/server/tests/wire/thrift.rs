//! Twitter's service, with Apache's library for Python and byte by byte.

use std::path::Path;
use std::process::Command;
use std::thread;

use uidring_server::Protocol;

use crate::support::{
    Served, assert_increasing_and_distinct, clients, connect, read, read_to_end, segments, send,
    twitters, uids,
};

const CALL: u8 = 1;
const ONE_WAY: u8 = 4;
const STOP: &[u8] = &[0];

fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("a short frame");
    [&length.to_be_bytes(), message].concat()
}

/// Returns a framed message that begins with a version.
pub fn call(kind: u8, name: &str, sequence_id: i32, arguments: &[u8]) -> Vec<u8> {
    let length = u32::try_from(name.len()).expect("a short name");
    frame(
        &[
            &[0x80, 1, 0, kind],
            &length.to_be_bytes()[..],
            name.as_bytes(),
            &sequence_id.to_be_bytes(),
            arguments,
        ]
        .concat(),
    )
}

/// The same without a version.
pub fn old_call(kind: u8, name: &str, sequence_id: i32, arguments: &[u8]) -> Vec<u8> {
    let length = u32::try_from(name.len()).expect("a short name");
    frame(
        &[
            &length.to_be_bytes(),
            name.as_bytes(),
            &[kind],
            &sequence_id.to_be_bytes()[..],
            arguments,
        ]
        .concat(),
    )
}

pub fn useragent(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).expect("a short text");
    [&[11, 0, 1], &length.to_be_bytes()[..], text.as_bytes(), STOP].concat()
}

pub fn get_id(sequence_id: i32) -> Vec<u8> {
    call(CALL, "get_id", sequence_id, &useragent("a-client"))
}

pub fn answer(stream: &mut impl std::io::Read) -> Vec<u8> {
    let length = read(stream, 4);
    let length = u32::from_be_bytes(length.try_into().expect("four bytes"));
    read(stream, length as usize)
}

pub fn number(answer: &[u8], name: &str, sequence_id: i32) -> u64 {
    let expected = call(2, name, sequence_id, &[10, 0, 0]);
    let number = answer.strip_prefix(&expected[4..]).expect("an answer to the call");
    let (number, stop) = number.split_first_chunk().expect("eight bytes");
    assert_eq!(stop, STOP);
    u64::from_be_bytes(*number)
}

/// Returns the kind and text of an exception that answers this call.
pub fn exception(answer: &[u8], name: &str, sequence_id: i32) -> (i32, String) {
    let expected = call(3, name, sequence_id, &[11, 0, 1]);
    let text = answer.strip_prefix(&expected[4..]).unwrap_or_else(|| panic!("{answer:?}"));
    let (length, text) = text.split_first_chunk().expect("a length");
    let (text, kind) = text.split_at(u32::from_be_bytes(*length) as usize);
    let kind = kind.strip_prefix(&[8, 0, 2]).expect("a type");
    let (kind, stop) = kind.split_first_chunk().expect("a number");
    assert_eq!(stop, STOP);
    (i32::from_be_bytes(*kind), String::from_utf8(text.to_vec()).expect("a text"))
}

/// Runs the client that Apache's compiler generated. Returns its ids, and what it learned about the worker.
fn python(served: &Served, count: usize, header: &str) -> (Vec<u64>, String) {
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("thrift-python");
    let install = Command::new(clients().join("install-thrift")).arg(&library).output();
    let install = install.expect("bash");
    assert!(install.status.success(), "{}", String::from_utf8_lossy(&install.stderr));
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", library).env("PYTHONDONTWRITEBYTECODE", "1");
    python.arg(clients().join("get_ids.py"));
    python.args([&served.thrift.port().to_string(), &count.to_string(), header]);
    let output = python.output().expect("python3, which Debian's package python3 has");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).expect("digits");
    (text.lines().map(|id| id.parse().expect("an id")).collect(), errors.trim().to_owned())
}

#[test]
fn apaches_library_gets_increasing_ids_with_new_and_old_headers() {
    let served = Served::new(twitters(3 << 5 | 9));
    let (mut ids, worker) = python(&served, 3000, "strict");
    assert_eq!(worker, "3 9", "datacenter and worker");
    let (more, _) = python(&served, 3000, "old");
    ids.extend(more);
    assert_eq!(ids.len(), 6000);
    assert_increasing_and_distinct(&ids);
    assert!(ids.iter().all(|id| id >> 12 & 1023 == 3 << 5 | 9), "Twitter's layout");
    let stats = served.running.stats(Protocol::Thrift);
    assert!(stats.requests > 6000 && stats.errors == 18, "{stats:?}");
}

#[test]
fn other_layouts_have_a_worker_id_without_a_datacenter() {
    let served = Served::new(uids());
    let (ids, worker) = python(&served, 10, "strict");
    assert_eq!((ids.len(), worker.as_str()), (10, "0 7"));
}

#[test]
fn calls_that_come_together_are_answered_in_order() {
    let served = Served::new(uids());
    let mut stream = connect(served.thrift);
    let calls: Vec<u8> = (0..5000).flat_map(|number| get_id(number - 2500)).collect();
    let mut writer = stream.try_clone().expect("a handle");
    let writer = thread::spawn(move || send(&mut writer, &calls));
    let ids: Vec<u64> =
        (0..5000).map(|index| number(&answer(&mut stream), "get_id", index - 2500)).collect();
    writer.join().expect("all is sent");
    assert_increasing_and_distinct(&ids);
}

#[test]
fn unknown_fields_are_skipped_up_to_a_depth() {
    let served = Served::new(uids());
    let mut stream = connect(served.thrift);
    // A list of two maps from a string to a double, and a struct.
    let map = [&[11, 4, 0, 0, 0, 1, 0, 0, 0, 1, b'k'], &1.0_f64.to_be_bytes()[..]].concat();
    let list = [&[15, 0, 9, 13, 0, 0, 0, 2], &map[..], &map[..]].concat();
    let skipped = [&list[..], &[12, 0, 8, 2, 0, 1, 1, 0]].concat();
    let nested = |depth| [[12, 0, 5].repeat(depth), [0].repeat(depth)].concat();
    for unknown in [skipped, nested(60)] {
        let arguments = [unknown, useragent("z9-")].concat();
        send(&mut stream, &call(CALL, "get_id", 5, &arguments));
        number(&answer(&mut stream), "get_id", 5);
    }
    for depth in [64, 1000, 16_000] {
        let arguments = [nested(depth), useragent("z")].concat();
        send(&mut stream, &call(CALL, "get_id", 6, &arguments));
        assert_eq!(exception(&answer(&mut stream), "get_id", 6).0, 7);
    }
    send(&mut stream, &get_id(7));
    number(&answer(&mut stream), "get_id", 7);
}

#[test]
fn what_is_no_call_is_an_exception_and_the_connection_goes_on() {
    let served = Served::new(uids());
    let mut stream = connect(served.thrift);
    let many = [&[15, 0, 3, 8, 0x7f, 0xff, 0xff, 0xff], STOP].concat();
    let long = [11, 0, 1, 0x7f, 0xff, 0xff, 0xff];
    let negative = [11, 0, 1, 0xff, 0xff, 0xff, 0xff];
    for (bytes, kind) in [
        (call(2, "get_id", -1, STOP), 2),
        (call(CALL, "get_id", -1, &[]), 7),
        (call(CALL, "get_id", -1, &[STOP, STOP].concat()), 7),
        (call(CALL, "get_id", -1, &many), 7),
        (call(CALL, "get_id", -1, &long), 7),
        (call(CALL, "get_id", -1, &negative), 7),
        (call(CALL, "get_id", -1, &[11, 0, 1, 0, 0, 0, 1, 0xff, 0]), 7),
        (call(CALL, "get_id", -1, STOP), 6),
        (call(CALL, "get_id", -1, &[8, 0, 1, 0, 0, 0, 1, 0]), 6),
    ] {
        send(&mut stream, &bytes);
        assert_eq!(exception(&answer(&mut stream), "get_id", -1).0, kind, "{bytes:?}");
    }
    send(&mut stream, &call(ONE_WAY, "get_id", 1, &[77]));
    send(&mut stream, &call(ONE_WAY, "nothing", 1, STOP));
    send(&mut stream, &get_id(2));
    number(&answer(&mut stream), "get_id", 2);
    send(&mut stream, &old_call(CALL, "get_worker_id", 3, STOP));
    let expected = old_call(2, "get_worker_id", 3, &[10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0]);
    assert_eq!(answer(&mut stream), expected[4..]);
}

#[test]
fn what_has_no_header_ends_the_connection_with_an_exception() {
    let served = Served::new(uids());
    let unframed = &get_id(1)[4..];
    for (bytes, text) in [
        (&frame(b"")[..], ""),
        (&frame(&[0x82, 1, 2, 3]), "received bad version"),
        (&frame(&[0x7f, 0xff, 0xff, 0xff, b'n']), "exceeds maximum"),
        (unframed, "framed transport"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "0 to 65532 bytes"),
        (&[0xff; 64], "and not -1"),
        (&[0, 0, 0xff, 0xfd], "and not 65533"),
    ] {
        let mut stream = connect(served.thrift);
        send(&mut stream, bytes);
        let (kind, said) = exception(&answer(&mut stream), "", 0);
        assert_eq!(kind, 7, "{said}");
        assert!(said.contains(text), "{said}");
        assert_eq!(read_to_end(&mut stream), b"");
    }
    // The longest allowed one is answered.
    let rest = 65_532 - (get_id(0).len() - 4 - "a-client".len());
    let arguments = useragent(&"a".repeat(rest));
    let mut stream = connect(served.thrift);
    let longest = call(CALL, "get_id", 0, &arguments);
    assert_eq!(longest.len(), 65_536);
    send(&mut stream, &longest);
    number(&answer(&mut stream), "get_id", 0);
}

#[test]
fn a_segment_has_no_worker_id_and_no_uids() {
    let served = Served::new(segments());
    let mut stream = connect(served.thrift);
    for name in ["get_id", "get_worker_id", "get_datacenter_id"] {
        send(&mut stream, &call(CALL, name, 1, &useragent("a")));
        let (kind, text) = exception(&answer(&mut stream), name, 1);
        assert_eq!(kind, 6);
        assert!(text.contains("the default name 'orders' is a segment"), "{text}");
    }
    send(&mut stream, &call(CALL, "get_timestamp", 1, STOP));
    number(&answer(&mut stream), "get_timestamp", 1);
}
