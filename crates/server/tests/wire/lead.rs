//! Clients that ask for more than the layout has: uids run ahead of the clock, up to a limit.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::{Clock, ManualClock, SystemClock};
use uidring::policy::TakePolicy;
use uidring::{Bits, CachedUidGenerator, Layout, Tick, Timestamp};
use uidring_server::{Issuer, Listener, Names, Protocol};
use uidring_testkit::log::Log;

use crate::batch::{answer, request};
use crate::support::{PATIENCE, Served, connect, send};
use crate::thrift::get_id;

fn http(address: SocketAddr, path: &str) -> String {
    let mut stream = connect(address);
    send(
        &mut stream,
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes(),
    );
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn each_protocol_says_so_and_readiness_turns() {
    let log = Log::start();
    // Four uids a second, and a stopped clock.
    let clock = ManualClock::new(SystemClock.now());
    let bits = Bits { time: 31, worker: 22, sequence: 2 };
    let layout = Layout::new(bits, Tick::Second, Layout::default().epoch()).expect("possible");
    let builder = CachedUidGenerator::builder().layout(layout).worker_id(7).namespace("lead");
    let generator = builder
        .clock(clock.clone())
        .max_borrow(Duration::from_secs(600))
        .take_policy(TakePolicy::WaitFor(Duration::from_secs(1)))
        .build()
        .expect("a generator");
    let generator = Arc::new(generator);
    let [redis, web] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let [redis_at, web_at] = [&redis, &web].map(|socket| socket.local_addr().expect("bound"));
    let names = Names::new().with("uid", Issuer::Ordered(Arc::clone(&generator)));
    let served = Served::with(names, |server| {
        server
            .listen(Listener::tcp(Protocol::Redis, redis))
            .listen(Listener::tcp(Protocol::Http, web))
    });
    assert!(http(web_at, "/readyz").starts_with("HTTP/1.1 200 "));

    let mut redis = BufReader::new(connect(redis_at));
    let mut line = String::new();
    while !line.starts_with('-') {
        redis.get_mut().write_all(b"INCR uid\r\n").expect("sent");
        line.clear();
        redis.read_line(&mut line).expect("an answer");
    }
    let text = "ahead of the clock, and the limit is 600s; wait, raise the limit";
    assert!(
        line.starts_with("-TRYAGAIN the next uid would be 60") && line.contains(text),
        "{line}"
    );
    let answered = http(web_at, "/v1/ids");
    assert!(answered.starts_with("HTTP/1.1 503 ") && answered.contains(text), "{answered}");
    assert!(answered.to_ascii_lowercase().contains("\r\nretry-after: "), "{answered}");
    let leaf = http(web_at, "/api/snowflake/get/x");
    assert!(leaf.starts_with("HTTP/1.1 500 ") && leaf.contains("status=EXCEPTION"), "{leaf}");
    let mut batch = connect(served.batch);
    send(&mut batch, &request(1, "", 1));
    let (status, error) = answer(&mut batch);
    assert!(status != 0 && String::from_utf8_lossy(&error).contains(text), "{status}");
    let mut thrift = connect(served.thrift);
    send(&mut thrift, &get_id(1));
    let mut head = [0; 4];
    thrift.read_exact(&mut head).expect("an answer");
    let mut message = vec![0; u32::from_be_bytes(head) as usize];
    thrift.read_exact(&mut message).expect("the rest");
    assert!(String::from_utf8_lossy(&message).contains(text), "{message:?}");

    let is_ready = || http(web_at, "/readyz").starts_with("HTTP/1.1 200 ");
    wait_until("it is not ready", || !is_ready());
    let readiness = http(web_at, "/readyz");
    assert!(
        readiness.contains("\"name\":\"uid\"") && readiness.contains("may be 600 s"),
        "{readiness}"
    );
    assert!(http(web_at, "/metrics").contains("\nuidring_server_ready{name=\"uid\"} 0\n"));
    wait_until("it is logged", || log.lines("at the limit, clients wait and get errors") == 1);
    // Not before half of the lead is gone.
    clock.advance(Duration::from_secs(200));
    thread::sleep(Duration::from_secs(1));
    assert!(!is_ready());
    clock.advance(Duration::from_secs(200));
    wait_until("it is ready", is_ready);
    wait_until("that is logged", || log.lines("less far ahead of the clock again") == 1);

    // The clock jumps, and is then right again.
    let days = Duration::from_secs(400 * 86_400);
    clock.advance(days);
    wait_until("the padder has seen it", || generator.stats().lag < days / 2);
    clock.set(Timestamp::from_millis(clock.now().as_millis() - days.as_millis() as i64));
    let text = "the clock went back by 34560000 s; uids are 34";
    wait_until("it is not ready", || http(web_at, "/readyz").contains(text));
    wait_until("it is logged", || log.lines("with the same worker:N, ids repeat") == 1);
}
