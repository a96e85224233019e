//! Requests in pieces, slow ones, garbage, and clients that do not read.

use std::fs;
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::support::{Served, connect, limits, read_to_end, send, uids};
use crate::{batch, thrift};

/// Requests of a protocol, and a check of the answers.
struct Talk {
    requests: Vec<u8>,
    check: fn(&mut TcpStream),
}

fn talks(served: &Served) -> [(SocketAddr, Talk); 2] {
    let thrifts = [thrift::get_id(1), thrift::old_call(1, "get_datacenter_id", 2, &[0])].concat();
    let check_thrifts = |stream: &mut TcpStream| {
        thrift::number(&thrift::answer(stream), "get_id", 1);
        let expected = thrift::old_call(2, "get_datacenter_id", 2, &[&[10][..], &[0; 11]].concat());
        assert_eq!(thrift::answer(stream), expected[4..]);
    };
    let batches = [batch::request(1, "uid", 3), batch::request(1, "", 1)].concat();
    let check_batches = |stream: &mut TcpStream| {
        let mut counts = [0; 2];
        for count in &mut counts {
            let (status, bytes) = batch::answer(stream);
            assert_eq!(status, 0);
            *count = batch::ids(&bytes).len();
        }
        assert_eq!(counts, [3, 1]);
    };
    [
        (served.thrift, Talk { requests: thrifts, check: check_thrifts }),
        (served.batch, Talk { requests: batches, check: check_batches }),
    ]
}

fn assert_served(served: &Served) {
    for (address, talk) in talks(served) {
        let mut stream = connect(address);
        send(&mut stream, &talk.requests);
        (talk.check)(&mut stream);
    }
}

#[test]
fn requests_cut_at_every_byte_are_answered() {
    let served = Served::new(uids());
    for (address, talk) in talks(&served) {
        for cut in 0..=talk.requests.len() {
            let mut stream = connect(address);
            let (first, second) = talk.requests.split_at(cut);
            send(&mut stream, first);
            // Usually long enough for the server to see the first part alone.
            std::thread::sleep(Duration::from_millis(1));
            send(&mut stream, second);
            (talk.check)(&mut stream);
            // An incomplete request gets no answer.
            send(&mut stream, first);
            stream.shutdown(Shutdown::Write).expect("an end");
            read_to_end(&mut stream);
        }
        let mut stream = connect(address);
        talk.requests.iter().for_each(|byte| send(&mut stream, &[*byte]));
        (talk.check)(&mut stream);
    }
}

#[test]
fn slow_and_silent_clients_are_left() {
    let short = |limits: &mut uidring_server::Limits| {
        (limits.idle, limits.slow) = (Duration::from_secs(2), Duration::from_secs(1));
    };
    let served = Served::with(uids(), |server| server.limits(limits(short)));
    for (address, talk) in talks(&served) {
        let mut silent = connect(address);
        let mut slow = connect(address);
        send(&mut slow, &talk.requests[..5]);
        let last_words = read_to_end(&mut slow);
        assert_eq!(last_words.is_empty(), address == served.thrift);
        assert_eq!(read_to_end(&mut silent), b"");
    }
    assert_served(&served);
}

#[test]
fn clients_without_a_place_are_told() {
    let one = |limits: &mut uidring_server::Limits| limits.connections = 1;
    let served = Served::with(uids(), |server| server.limits(limits(one)));
    let mut first = connect(served.batch);
    send(&mut first, &batch::request(1, "uid", 1));
    assert_eq!(batch::answer(&mut first).0, 0);
    let mut second = connect(served.batch);
    assert_eq!(batch::answer(&mut second).0, 3);
    assert_eq!(read_to_end(&mut second), b"");
    let mut third = connect(served.thrift);
    let (kind, text) = thrift::exception(&thrift::answer(&mut third), "", 0);
    assert!(kind == 6 && text.contains("no room"), "{text}");
    assert_eq!(read_to_end(&mut third), b"");
}

fn mutate(random: &mut fastrand::Rng, requests: &[u8]) -> Vec<u8> {
    let mut bytes = requests.repeat(random.usize(1..4));
    for _ in 0..random.usize(1..6) {
        let at = random.usize(..bytes.len());
        match random.u8(..5) {
            0 => bytes[at] ^= 1 << random.u8(..8),
            1 => bytes[at] = random.u8(..),
            2 => bytes.insert(at, random.choice([0, 1, 0x7f, 0x80, 0xff]).unwrap_or_default()),
            3 if bytes.len() > 1 => drop(bytes.remove(at)),
            _ => bytes.truncate(at + 1),
        }
    }
    bytes
}

#[test]
fn garbage_neither_stops_nor_hangs_the_server() {
    let served = Served::new(uids());
    let mut random = fastrand::Rng::with_seed(17);
    for round in 0..2000 {
        for (address, talk) in talks(&served) {
            let bytes = mutate(&mut random, &talk.requests);
            let mut stream = connect(address);
            // The server may refuse it midway.
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(Shutdown::Write);
            read_to_end(&mut stream);
        }
        if round % 100 == 0 {
            assert_served(&served);
        }
    }
    assert_served(&served);
}

fn resident_bytes() -> usize {
    let text = fs::read_to_string("/proc/self/statm").expect("Linux's /proc");
    let pages = text.split(' ').nth(1).expect("a number");
    4096 * pages.parse::<usize>().expect("a number")
}

#[test]
fn clients_that_do_not_read_cost_little() {
    let served = Served::new(uids());
    let before = resident_bytes();
    // Each would have answers of more than 2 GB.
    let requests: Vec<_> = [
        (served.batch, batch::request(1, "uid", 100_000).repeat(3000)),
        (served.thrift, thrift::get_id(1).repeat(500_000)),
    ]
    .into();
    let mut streams = Vec::new();
    for _ in 0..20 {
        for (address, bytes) in &requests {
            let mut stream = connect(*address);
            stream.set_nonblocking(true).expect("an option");
            let mut sent = 0;
            while let Ok(count @ 1..) = stream.write(&bytes[sent..]) {
                sent += count;
            }
            streams.push(stream);
        }
    }
    assert_served(&served);
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 200 << 20, "{} MiB for {} connections", grown >> 20, streams.len());
    drop(streams);
    assert_served(&served);
}
