//! Clients that are slow, many, silent or wrong.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore};
use uidring_server::{Limits, Protocol, Server};
use uidring_testkit::certificates::Authority;

use crate::support::{Client, PATIENCE, names, run, start};

const SECOND: Duration = Duration::from_secs(1);

fn limits(set: impl FnOnce(&mut Limits)) -> Server {
    let mut limits = Limits::default();
    set(&mut limits);
    Server::new().limits(limits)
}

/// The answers do not depend on where requests are split.
#[test]
fn requests_cut_at_every_byte() {
    let server = start(names());
    let requests = b"*2\r\n$4\r\nECHO\r\n$5\r\na\r\nbc\r\nPING \"x\"\r\n\n*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nnone\r\n";
    let mut whole = server.client();
    whole.send(requests);
    let answers: Vec<String> = (0..4).map(|_| whole.reply()).collect();
    assert_eq!(answers[0], "$5\r\na\r\nbc\r\n");
    for cut in 1..requests.len() {
        let mut client = server.client();
        client.send(&requests[..cut]);
        // Alone, so that the server may see it before the rest.
        client.send(&requests[cut..cut + 1]);
        thread::yield_now();
        client.send(&requests[cut + 1..]);
        assert_eq!((0..4).map(|_| client.reply()).collect::<Vec<_>>(), answers, "cut at {cut}");
    }
    let mut client = server.client();
    for byte in requests.chunks(1) {
        client.send(byte);
    }
    assert_eq!((0..4).map(|_| client.reply()).collect::<Vec<_>>(), answers);
}

/// The client says something now and then, which does not help.
#[test]
fn a_transaction_ends_in_a_bounded_time() {
    let server = run(limits(|limits| limits.idle = SECOND), names());
    let mut client = server.client();
    assert_eq!(client.say(&["MULTI"]), "+OK\r\n");
    let begin = Instant::now();
    let answer = loop {
        let answer = client.say(&["PING"]);
        if answer != "+QUEUED\r\n" {
            break answer;
        }
        assert!(begin.elapsed() < PATIENCE, "it is still open");
        thread::sleep(SECOND / 20);
    };
    assert!(answer.starts_with("-ERR the transaction did not end in time"), "{answer}");
    assert_eq!(client.stream().read(&mut [0]).expect("it is closed"), 0);
}

#[test]
fn what_is_no_request_ends_the_connection() {
    let server = start(names());
    let long = format!("*1\r\n$70000\r\n{}", "x".repeat(70_000));
    for (bytes, error) in [
        ("*x\r\n", "invalid multibulk length"),
        ("*-1\r\n", "invalid multibulk length"),
        ("*1025\r\n", "invalid multibulk length"),
        ("*99999999999999999999\r\n", "invalid multibulk length"),
        ("*1\r\n:5\r\n", "expected '$' before a word's length"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$1\r\nab\r\n", "a word is longer than its length says"),
        ("*1\r\n$\r\n", "invalid bulk length"),
        ("*1\rx", "invalid multibulk length"),
        ("a\0b\r\n", "a line of words has no control characters"),
        (&long, "a request has at most 65536 bytes"),
        (&"x".repeat(70_000), "a request has at most 65536 bytes"),
    ] {
        let mut client = server.client();
        // Earlier requests are answered.
        client.send(b"PING\r\n");
        assert_eq!(client.reply(), "+PONG\r\n");
        // The server may close before everything is sent.
        let _ = client.stream().write_all(bytes.as_bytes());
        let answer = client.reply();
        assert!(answer.starts_with("-ERR Protocol error: ") && answer.contains(error), "{answer}");
    }
    assert_eq!(server.client().say(&["PING"]), "+PONG\r\n");
}

/// A client that stops sending, but reads, gets all its answers.
#[test]
fn half_a_connection() {
    let server = start(names());
    let mut client = server.client();
    client.send(&b"PING\r\n".repeat(1_000));
    client.stream().shutdown(Shutdown::Write).expect("shut");
    assert_eq!(client.rest(), "+PONG\r\n".repeat(1_000));
    // An incomplete request gets none.
    let mut client = server.client();
    client.send(b"*1\r\n$4\r\nPI");
    client.stream().shutdown(Shutdown::Write).expect("shut");
    assert!(client.is_closed());
}

#[test]
fn more_connections_than_there_may_be() {
    let server = run(limits(|limits| limits.connections = 3), names());
    let mut clients: Vec<Client> = (0..3).map(|_| server.client()).collect();
    for client in &mut clients {
        assert_eq!(client.say(&["PING"]), "+PONG\r\n");
    }
    assert_eq!(server.client().rest(), "-ERR max number of clients reached\r\n");
    assert_eq!(clients[0].say(&["PING"]), "+PONG\r\n");
    drop(clients.pop());
    let begin = Instant::now();
    loop {
        let mut client = server.client();
        if client.say(&["PING"]) == "+PONG\r\n" {
            break;
        }
        assert!(begin.elapsed() < 60 * SECOND, "there is room");
    }
    assert!(server.running().stats(Protocol::Redis).refused >= 1);
}

#[test]
fn who_asks_for_nothing_has_to_go() {
    let server = run(limits(|limits| limits.idle = SECOND), names());
    let mut client = server.client();
    assert_eq!(client.say(&["PING"]), "+PONG\r\n");
    // No message: clients would take it for the answer to their next request.
    assert!(client.is_closed());
    // An occasional request keeps a connection open.
    let mut client = server.client();
    for _ in 0..8 {
        thread::sleep(SECOND / 4);
        assert_eq!(client.say(&["PING"]), "+PONG\r\n");
    }
}

/// A request must end in time, however often a byte of it comes.
#[test]
fn who_does_not_come_to_an_end_has_to_go() {
    let server = run(limits(|limits| limits.slow = SECOND), names());
    for pause in [Duration::ZERO, SECOND / 8] {
        let mut client = server.client();
        client.send(b"PING\r\n*2\r\n$4\r\nECHO\r\n$500\r\n");
        assert_eq!(client.reply(), "+PONG\r\n");
        let begin = Instant::now();
        while !pause.is_zero() && client.stream().write_all(b"x").is_ok() {
            assert!(begin.elapsed() < 60 * SECOND, "a byte now and then is no request");
            thread::sleep(pause);
        }
        if pause.is_zero() {
            assert_eq!(client.rest(), "-ERR the request or transaction did not end in time\r\n");
        }
    }
}

/// Half a TLS handshake gets no more time, even if the server has answered it.
#[test]
fn a_greeting_that_stops_half_way_has_to_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = Authority::new(folder.path()).server();
    let [shown, key] =
        [&certificate.certificate, &certificate.key].map(|path| fs::read(path).expect("there"));
    // Long enough for the server's half of the handshake, and shorter than the test waits for the end.
    let server = limits(|limits| limits.slow = 10 * SECOND).tls(&shown, &key).expect("they fit");
    let server = run(server, names());
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("of rustls")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let mut greeting = Vec::new();
    let mut tls = ClientConnection::new(Arc::new(config), name).expect("a client");
    tls.write_tls(&mut greeting).expect("into memory");
    let mut half = server.client();
    half.send(&greeting);
    // The server's half, then the end.
    assert!(half.rest_of_bytes().len() > 100);
}

/// As many connections may wait to be accepted as the system allows.
#[test]
fn a_herd_finds_room_in_the_queue() {
    let server = start(names());
    let port = format!("sport = :{}", server.port());
    let output = Command::new("ss").args(["-ltnH", &port]).output().expect("ss, of iproute2");
    let line = String::from_utf8(output.stdout).expect("text");
    let most = fs::read_to_string("/proc/sys/net/core/somaxconn").expect("Linux");
    assert_eq!(line.split_whitespace().nth(2), Some(most.trim()), "{line}");
}

/// The server stops reading from a client that does not read, spends little memory on it, and closes it; others go on.
#[test]
fn who_does_not_read_has_to_go() {
    let server = run(limits(|limits| limits.slow = SECOND), names());
    let before = resident();
    let mut deaf: Vec<Client> = (0..50).map(|_| server.client()).collect();
    for client in &mut deaf {
        client.stream().set_nonblocking(true).expect("set");
        // The system buffers some of it.
        let begin = Instant::now();
        let request = b"UID.NEXT COUNT 10000\r\n".repeat(100);
        while client.stream().write(&request).is_ok() {
            assert!(begin.elapsed() < 60 * SECOND, "the server reads without end");
        }
    }
    assert_eq!(server.client().say(&["PING"]), "+PONG\r\n");
    let grown = resident().saturating_sub(before);
    assert!(grown < 100 << 20, "{grown} bytes for 50 clients");
    let begin = Instant::now();
    while server.running().connections() > 0 {
        assert!(begin.elapsed() < 60 * SECOND, "{} stay", server.running().connections());
        thread::sleep(SECOND / 20);
    }
}

/// Requests before the end are answered, later ones are not.
#[test]
fn a_server_that_ends() {
    for threads in [1, 2] {
        let server = run(Server::new().threads(threads), names());
        let mut silent = server.client();
        assert_eq!(silent.say(&["PING"]), "+PONG\r\n");
        let mut begun = server.client();
        begun.send(b"*1\r\n$4\r\nPI");
        let mut clients: Vec<Client> = (0..8).map(|_| server.client()).collect();
        for client in &mut clients {
            client.send(&b"INCR uid\r\n".repeat(5_000));
        }
        assert_eq!(server.stop(60 * SECOND), 0);
        for client in &mut clients {
            let answers = client.rest();
            let ids: Vec<u64> =
                answers.lines().map(|line| line[1..].parse().expect("an id")).collect();
            assert!(ids.len() == 5_000 && ids.is_sorted_by(|a, b| a < b), "{}", ids.len());
        }
        assert!(silent.is_closed() && begun.is_closed());
    }
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("there");
    line.trim().trim_end_matches(" kB").trim().parse::<usize>().expect("a number") << 10
}
