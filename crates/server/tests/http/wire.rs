//! Bytes on the wire: pipelined, in pieces, cut off, and wrong.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread;
use std::time::Duration;

use crate::served::{Answer, Served, read_all, segments, uids};

const REQUEST: &[u8] =
    b"GET /api/segment/get/orders?a=%20b HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";

#[test]
fn a_connection_is_kept_for_many_requests() {
    let served = Served::start(uids(40));
    // One curl with many requests on one connection.
    let count = "%{num_connects}\n";
    let output = std::process::Command::new("curl")
        .args(["-q", "-s", "--noproxy", "*", "-o", "/dev/null", "-w", count])
        .arg(format!("http://{}/api/snowflake/get/[1-50]", served.address))
        .output()
        .expect("curl runs; `scripts/install curl curl` installs it");
    let connects = String::from_utf8(output.stdout).expect("text");
    let connects: Vec<_> = connects.lines().collect();
    assert_eq!(connects.len(), 50);
    assert!(connects.iter().skip(1).all(|connects| *connects == "0"), "{connects:?}");

    let mut stream = served.connect();
    let mut last = 0;
    for _ in 0..100 {
        stream
            .write_all(b"GET /api/snowflake/get/x HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .expect("it reads");
        let mut bytes = Vec::new();
        let answer = loop {
            if let Some((answer, _)) = Answer::split(&bytes) {
                break answer;
            }
            let mut more = [0; 1024];
            let length = stream.read(&mut more).expect("it answers");
            assert!(length > 0, "it stays open");
            bytes.extend_from_slice(&more[..length]);
        };
        assert!(answer.id() > last, "ids of a connection increase");
        last = answer.id();
    }
}

/// Otherwise a client that keeps connections sends its next request into one that the server closes.
#[test]
fn an_answer_before_the_requests_body_announces_the_end_of_the_connection() {
    let served = Served::start(uids(48));
    let mut stream = served.connect();
    let head =
        b"POST /api/snowflake/get/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n";
    stream.write_all(head).expect("it reads");
    let answer = read_all(&mut stream);
    let answer = String::from_utf8(answer).expect("text").to_lowercase();
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
}

#[test]
fn a_pipeline_is_answered_in_order() {
    let served = Served::start(uids(41).with_segments(segments()));
    let mut pipeline = REQUEST.repeat(1_000);
    pipeline.extend_from_slice(
        b"GET /v1/ids?name=orders&count=20000 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    );
    pipeline.extend_from_slice(b"HEAD /api/segment/get/orders HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let answers = served.send(&pipeline);
    let end =
        answers.len() - answers.windows(4).rev().position(|at| at == b"HTTP").expect("one") - 4;
    let answers = Answer::split_all(&answers[..end]);
    let ids: Vec<u64> = answers[..1_000].iter().map(Answer::id).collect();
    assert_eq!(ids, Vec::from_iter(1..=1_000));
    assert_eq!(answers.len(), 1_001);
    let value = answers[1_000].json();
    assert_eq!(value["ids"].as_array().expect("a list").len(), 20_000);
    assert_eq!((&value["ids"][0], &value["ids"][19_999]), (&"1001".into(), &"21000".into()));
}

#[test]
fn a_request_may_be_cut_at_every_byte() {
    let served = Served::start(uids(42).with_segments(segments()));
    for cut in 0..REQUEST.len() {
        let answer = served.send(&REQUEST[..cut]);
        // The parser does not need the last line feed.
        if let Some((answer, rest)) = Answer::split(&answer) {
            assert!(rest.is_empty() && answer.status == 400, "cut at {cut}: {answer:?}");
        } else {
            assert!(answer.is_empty(), "cut at {cut}: {answer:?}");
        }
    }
    let before = served.curl("/api/segment/get/orders").id();
    assert_eq!(before, 1, "no part of a request has taken an id");
    for cut in 1..REQUEST.len() {
        let mut stream = served.connect();
        stream.write_all(&REQUEST[..cut]).expect("it reads");
        thread::sleep(Duration::from_millis(1));
        stream.write_all(&REQUEST[cut..]).expect("it reads");
        stream.shutdown(Shutdown::Write).expect("it is open");
        let answer = read_all(&mut stream);
        let (answer, rest) = Answer::split(&answer).expect("an answer");
        assert!(rest.is_empty() && answer.id() == before + cut as u64, "in pieces at {cut}");
    }
    served.wait_for_connections(0);
}

#[test]
fn what_is_no_request_is_refused() {
    let served = Served::start(uids(43));
    let long_method = "A".repeat(20_000);
    for bytes in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1 \xff\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\na b: c\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nTransfer-Encoding: nothing\r\n\r\n",
        b"GET /\x01 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        long_method.as_bytes(),
    ] {
        let answer = served.send(bytes);
        if !answer.is_empty() {
            let (answer, rest) = Answer::split(&answer).expect("an answer");
            let text = String::from_utf8_lossy(bytes);
            assert!(rest.is_empty(), "{text}");
            assert!((400..500).contains(&answer.status), "{} to {text}", answer.status);
        }
    }
    // Bytes that are not UTF-8, and more parameters than anybody needs.
    for path in
        [&b"/\xff\xfe"[..], b"/api/snowflake/get/\xff", b"/v1/ids?name=\xff", b"/v1/parse/\xff"]
    {
        let answer =
            served.send(&[b"GET ", path, b" HTTP/1.1\r\nHost: localhost\r\n\r\n"].concat());
        let (answer, _) = Answer::split(&answer).expect("an answer");
        assert!(answer.status == 400 || answer.status == 404 || answer.id() > 0, "{answer:?}");
    }
    let query = "&".repeat(10_000);
    let answer = served.curl(&format!("/v1/ids?{query}&count=2"));
    assert_eq!(answer.json()["ids"].as_array().expect("a list").len(), 2);
    served.wait_for_connections(0);
}

#[test]
fn damaged_requests_do_no_harm() {
    let served = Served::start(uids(47).with_segments(segments()));
    let mut random = fastrand::Rng::with_seed(7);
    // The last id of the tag, and of the default name, which answers if the name is lost.
    let mut last = [0; 2];
    for _ in 0..2_000 {
        let mut bytes = match random.u8(..3) {
            0 => REQUEST.to_vec(),
            1 => {
                b"GET /v1/ids?name=orders&count=2&format=text HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()
            }
            _ => b"POST /v1/parse/%31?name=%75id HTTP/1.1\r\nHost:\r\nContent-Length: 3\r\n\r\nabc"
                .to_vec(),
        };
        for _ in 0..=random.usize(..3) {
            let at = random.usize(..bytes.len());
            match random.u8(..4) {
                0 => bytes[at] = random.u8(..),
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, *random.choice(b"%\r\n \0\xff&=?/:0").expect("one")),
                _ => bytes.extend_from_within(at..),
            }
        }
        let answer = served.send(&bytes);
        // Ids of a connection are above those of earlier ones.
        if let Some((answer, _)) = Answer::split(&answer)
            && answer.status == 200
            && let Ok(id) = answer.text().lines().next().unwrap_or_default().parse::<u64>()
        {
            let last = &mut last[usize::from(id > 1 << 40)];
            assert!(id > *last, "{id} after {last}: {}", String::from_utf8_lossy(&bytes));
            *last = id;
        }
    }
    assert!(last[0] > 100, "some are requests still");
    assert!(served.curl("/api/segment/get/orders").id() > last[0]);
    served.wait_for_connections(0);
}

#[test]
fn bodies_are_skipped() {
    let served = Served::start(uids(44));
    let head = "POST /api/snowflake/get/x HTTP/1.1\r\nHost: localhost\r\nContent-Length:";
    // A short body, followed by another request; a chunked one; one of 8 MiB, after which the connection may end.
    let short = format!("{head} 5\r\n\r\nhello{head} 0\r\n\r\n");
    let answers = Answer::split_all(&served.send(short.as_bytes()));
    assert_eq!(answers.iter().map(Answer::id).collect::<Vec<_>>().len(), 2);
    let chunked = "PUT /api/snowflake/get/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n\
                   3\r\nabc\r\n0\r\n\r\n";
    Answer::split(&served.send(chunked.as_bytes())).expect("an answer").0.id();
    let mut long = format!("{head} {}\r\n\r\n", 8 << 20).into_bytes();
    long.resize(long.len() + (8 << 20), b'x');
    let answer = served.send(&long);
    if let Some((answer, _)) = Answer::split(&answer) {
        answer.id();
    }
    served.wait_for_connections(0);
}

#[test]
fn version_1_0_gets_one_answer() {
    let served = Served::start(uids(45));
    let mut stream = served.connect();
    stream.write_all(b"GET /api/snowflake/get/x HTTP/1.0\r\n\r\n").expect("it reads");
    let answer = read_all(&mut stream);
    assert!(Answer::split(&answer).expect("an answer").1.is_empty());
}

#[test]
fn connections_never_get_the_same_id() {
    let served = Served::with(uids(46), |server| server.threads(2));
    let ids = thread::scope(|scope| {
        let clients: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let request = b"GET /api/snowflake/get/x HTTP/1.1\r\nHost: localhost\r\n\r\n";
                    let answers = Answer::split_all(&served.send(&request.repeat(500)));
                    let ids: Vec<u64> = answers.iter().map(Answer::id).collect();
                    assert!(ids.len() == 500 && ids.is_sorted());
                    ids
                })
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().expect("done")).collect::<Vec<_>>()
    });
    let mut distinct = ids.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!((distinct.len(), ids.len()), (4_000, 4_000));
}
