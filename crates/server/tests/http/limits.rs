//! Limits of what a client may use.

use std::io::{ErrorKind, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use crate::served::{Answer, PATIENCE, Served, read_all, uids};

#[test]
fn long_heads_are_refused() {
    let served = Served::limited(uids(50), |limits| limits.request = 16 * 1024);
    let with = |headers: String| {
        format!("GET /api/snowflake/get/x HTTP/1.1\r\nHost:\r\n{headers}\r\n").into_bytes()
    };
    let good = with(format!("X: {}\r\n", "x".repeat(8_000)));
    Answer::split(&served.send(&good)).expect("an answer").0.id();
    let long = with(format!("X: {}\r\n", "x".repeat(20_000)));
    let many = with("X: x\r\n".repeat(101));
    let endless = b"GET /".iter().copied().chain(std::iter::repeat_n(b'x', 1 << 20));
    for request in [long, many, endless.collect()] {
        let answer = served.send(&request);
        // The server closes with bytes unread, so the answer may get lost.
        if let Some((answer, _)) = Answer::split(&answer) {
            assert!(matches!(answer.status, 414 | 431), "{answer:?}");
        }
    }
    served.wait_for_connections(0);
}

#[test]
fn a_slow_request_is_ended() {
    let served = Served::limited(uids(51), |limits| limits.slow = Duration::from_secs(1));
    let mut idle = served.connect();
    let mut slow = served.connect();
    let begin = Instant::now();
    slow.write_all(b"GET /api/snowflake/get/x HTTP/1.1\r\nX: ").expect("it reads");
    // An occasional byte does not help.
    let mut dripping = slow.try_clone().expect("a clone");
    let drip = thread::spawn(move || {
        while dripping.write_all(b"x").is_ok() && begin.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(50));
        }
    });
    let answer = read_all(&mut slow);
    // If the drip causes a reset, the answer may get lost.
    if !answer.is_empty() {
        let (answer, rest) = Answer::split(&answer).expect("an answer");
        assert!(answer.status == 408 && rest.is_empty(), "{answer:?}");
        assert!(answer.error().contains("did not end in time"));
    }
    assert!(begin.elapsed() < PATIENCE);
    drip.join().expect("done");
    let mut stuck = served.connect();
    stuck.write_all(b"GET / HTTP/1.1\r\n").expect("it reads");
    let answer = read_all(&mut stuck);
    assert_eq!(Answer::split(&answer).expect("an answer").0.status, 408);
    // The idle connection has not begun a request.
    idle.write_all(b"GET /api/snowflake/get/x HTTP/1.0\r\n\r\n").expect("it reads");
    Answer::split(&read_all(&mut idle)).expect("an answer").0.id();
}

#[test]
fn an_idle_connection_is_ended() {
    let served = Served::limited(uids(52), |limits| limits.idle = Duration::from_secs(1));
    let mut fresh = served.connect();
    let mut used = served.connect();
    used.write_all(b"GET /api/snowflake/get/x HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .expect("it reads");
    assert!(read_all(&mut fresh).is_empty());
    let answers = Answer::split_all(&read_all(&mut used));
    assert_eq!((answers.len(), answers[0].status), (1, 200));
    served.wait_for_connections(0);
}

#[test]
fn a_client_that_does_not_read_is_ended() {
    let served = Served::limited(uids(53), |limits| limits.slow = Duration::from_secs(1));
    let mut stream = served.connect();
    let request = b"GET /v1/ids?count=100000 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.set_write_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    loop {
        match stream.write_all(request) {
            Ok(()) => {}
            Err(error) => match error.kind() {
                // The server stops reading requests when it cannot write answers. Then it closes.
                ErrorKind::WouldBlock | ErrorKind::TimedOut => {}
                _ => break,
            },
        }
        if served.running.connections() == 0 {
            break;
        }
    }
    served.wait_for_connections(0);
    served.curl("/api/snowflake/get/x").id();
}

#[test]
fn there_is_room_for_so_many_connections() {
    let served = Served::limited(uids(54), |limits| limits.connections = 2);
    let first = served.connect();
    let _second = served.connect();
    served.wait_for_connections(2);
    let mut third = served.connect();
    let (answer, _) = {
        let bytes = read_all(&mut third);
        let (answer, rest) = Answer::split(&bytes).expect("an answer");
        (answer, rest.len())
    };
    assert_eq!(answer.status, 503);
    assert!(answer.error().contains("as many connections"), "{}", answer.error());
    drop(first);
    served.wait_for_connections(1);
    served.curl("/api/snowflake/get/x").id();
}

#[test]
fn there_is_room_for_so_many_watchers() {
    let served = Served::limited(uids(55), |limits| limits.watchers = 2);
    let watch = || {
        let mut stream = served.connect();
        stream.write_all(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it reads");
        let (mut bytes, mut more) = (Vec::new(), [0; 4096]);
        // Two events, or all of a refusal.
        while String::from_utf8_lossy(&bytes).matches("\ndata: {").count() < 2
            && Answer::split(&bytes).is_none_or(|(answer, _)| answer.status == 200)
        {
            let length = stream.read(&mut more).expect("it answers");
            assert!(length > 0, "it stays open");
            bytes.extend_from_slice(&more[..length]);
        }
        (String::from_utf8(bytes).expect("text"), stream)
    };
    let (text, first) = watch();
    assert!(text.contains("content-type: text/event-stream\r\n"), "{text}");
    let (_, _second) = watch();
    let (text, _third) = watch();
    assert!(text.starts_with("HTTP/1.1 503 ") && text.contains("2 others are watching"), "{text}");
    drop(first);
    let begin = Instant::now();
    while !watch().0.starts_with("HTTP/1.1 200 ") {
        assert!(begin.elapsed() < PATIENCE, "a watcher that is gone leaves its place");
        thread::sleep(Duration::from_millis(50));
    }
}
