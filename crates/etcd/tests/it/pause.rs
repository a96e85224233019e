//! A holder of a lease that is paused for longer than it lasts, in a process of its own: others take its
//! worker id meanwhile, nothing comes twice, and soon after it goes on it knows.

use std::collections::HashSet;
use std::env;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use uidring::worker::Lease;
use uidring::{Bits, CachedUidGenerator, Layout, TakeError, Tick, Uid};
use uidring_etcd::{EtcdStore, LeaseOptions, LeaseTable};
use uidring_testkit::etcd::Etcd;
use uidring_testkit::namespace::fresh;
use uidring_testkit::request;

/// The endpoints, for the process that is to be paused.
const VARIABLE: &str = "UIDRING_TEST_PAUSED";

/// So long that a busy machine renews it all the same.
const LASTS: Duration = Duration::from_secs(2);

/// A longer gap between two takes was the pause.
const GAP: Duration = Duration::from_secs(3);

const REFRESH: Duration = Duration::from_millis(100);

/// One worker id: 1.
fn layout() -> Layout {
    let bits = Bits { time: 41, worker: 1, sequence: 10 };
    Layout::new(bits, Tick::Millisecond, "2026-01-01".parse().expect("a time")).expect("possible")
}

fn lease(endpoints: &str) -> Lease {
    let store = EtcdStore::new(endpoints).expect("endpoints");
    let options = LeaseOptions::default().lasts(LASTS).wait_for(Duration::from_secs(60));
    store.leases().lease(&request(layout()), &options).expect("free")
}

fn cached(lease: Lease) -> CachedUidGenerator {
    let builder = CachedUidGenerator::builder().layout(layout()).refresh(REFRESH);
    builder.worker(lease).namespace(fresh()).build().expect("possible")
}

/// Not a test of its own: what the process does that is paused. It tells of its uids, and of how
/// long after the pause it got the first error.
#[test]
fn paused_process() {
    let Ok(endpoints) = env::var(VARIABLE) else { return };
    let generator = cached(lease(&endpoints));
    let mut uids = Vec::new();
    let mut last = Instant::now();
    println!("ready");
    let resumed = loop {
        uids.push(generator.next_uid().expect("held"));
        thread::sleep(Duration::from_millis(1));
        let now = Instant::now();
        if now - last > GAP {
            break now;
        }
        last = now;
    };
    let error = loop {
        match generator.next_uid() {
            Ok(uid) => uids.push(uid),
            Err(error) => break error,
        }
    };
    let after = resumed.elapsed();
    let later = [0; 100].map(|_| generator.try_next_uid());
    assert!(later.iter().all(|taken| *taken == Err(TakeError::LeaseLost)));
    println!("{error:?} {}", after.as_micros());
    for uid in uids {
        println!("{uid}");
    }
}

fn start(endpoints: &str) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(env::current_exe().expect("this test"))
        .args(["pause::paused_process", "--exact", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, endpoints)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("ready") {
        line.clear();
        assert!(output.read_line(&mut line).expect("reads") > 0, "it gets ready");
    }
    (child, output)
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
}

#[test]
fn after_a_pause_of_two_leases_nothing_comes_twice_and_the_loss_is_known() {
    let server = Etcd::start();
    let endpoints = server.endpoints();
    let leases = EtcdStore::new(&endpoints).expect("endpoints").leases();
    let (mut child, mut output) = start(&endpoints);
    thread::sleep(Duration::from_millis(300));
    let stopped = Instant::now();
    signal(&child, "STOP");
    // The only worker id there is.
    let generator = cached(lease(&endpoints));
    let waited = stopped.elapsed();
    assert!(waited > LASTS, "{waited:?}");
    let mut seen: HashSet<Uid> = HashSet::new();
    while stopped.elapsed() < GAP + LASTS {
        assert!(seen.insert(generator.next_uid().expect("held")));
        thread::sleep(Duration::from_millis(1));
    }
    signal(&child, "CONT");
    // While the first goes on with what it has.
    let mut text = String::new();
    thread::scope(|scope| {
        let reader = scope.spawn(|| output.read_to_string(&mut text).expect("reads"));
        while !reader.is_finished() {
            assert!(seen.insert(generator.next_uid().expect("held")));
            thread::sleep(Duration::from_micros(100));
        }
    });
    assert!(child.wait().expect("ends").success(), "{text}");
    let mut lines = text.lines();
    let (error, micros) = lines.next().and_then(|line| line.split_once(' ')).expect("what it got");
    assert_eq!(error, "LeaseLost");
    let delay = Duration::from_micros(micros.parse().expect("a number"));
    let uids = lines.map_while(|line| line.parse::<Uid>().ok());
    let mut count = 0;
    for uid in uids {
        assert!(seen.insert(uid), "{uid} came twice");
        count += 1;
    }
    assert!(count > 50, "{count}");
    drop(generator);
    assert_eq!(leases.list().expect("listed").len(), 1);
    // Within a refresh and what a busy machine adds; that it is the padder's next look is shown in
    // virtual time, by the model of leases.
    eprintln!("the loss was known {delay:?} after the pause");
}
