//! An ensemble of three, each server in a network namespace of its own: an instance's session moves
//! between servers, and an instance with the minority stops before another one has its name.

use std::thread;
use std::time::{Duration, Instant};

use uidring::policy::TakePolicy;
use uidring::{CachedUidGenerator, Layout, TakeError, Uid};
use uidring_testkit::namespace;
use uidring_testkit::zookeeper::Ensemble;
use uidring_zookeeper::{Instance, LeafZooKeeper, ZooKeeperServers};

use crate::leaf::{chain, wait_until};

const LAYOUT: Layout = Layout::SNOWFLAKE;

/// A client takes a quarter of it to notice that its server is silent, and another quarter if it tries that one
/// again. Nine tenths are the lease: the rest is for an election, on a busy machine.
const SESSION: Duration = Duration::from_secs(20);

/// For an instance that is to lose it.
const SHORT: Duration = Duration::from_secs(3);

/// An election, with the time to notice that one is needed, on a busy machine.
const BOUND: Duration = Duration::from_secs(60);

/// An instance on these servers, without a local file, as on a host of its own.
fn registry(hosts: &str, name: &str, session: Duration) -> LeafZooKeeper {
    let servers = ZooKeeperServers::new(hosts).expect("servers").session_timeout(session);
    let instance = Instance::new("web_0").expect("a name");
    LeafZooKeeper::new(servers, name, instance).expect("a name").no_cache_file()
}

fn generator(registry: &LeafZooKeeper) -> CachedUidGenerator {
    let start = Instant::now();
    let lease = loop {
        match registry.lease(&LAYOUT) {
            Err(error) if error.may_pass() && start.elapsed() < BOUND => {}
            done => break done.unwrap_or_else(|error| panic!("{}", chain(&error))),
        }
    };
    CachedUidGenerator::builder()
        .layout(LAYOUT)
        .worker(lease)
        .namespace(namespace::fresh())
        .take_policy(TakePolicy::Reject)
        .build()
        .expect("built")
}

/// The session that has the instance's name.
fn session(ensemble: &Ensemble, name: &str) -> Option<i64> {
    let node = format!("/snowflake/{name}/temporary/web_0@bounded");
    ensemble.stat(&node).map(|(_, stat)| stat.ephemeral_owner)
}

fn reserved(ensemble: &Ensemble, name: &str) -> i64 {
    let node = format!("/snowflake/{name}/reserved/web_0@bounded");
    let (json, _) = ensemble.stat(&node).expect("the node is there");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    json["until"].as_i64().expect("a number")
}

/// The first millisecond of a uid's tick.
fn millis(uid: Uid) -> i64 {
    LAYOUT.decode(uid).expect("of the layout").timestamp.as_millis()
}

/// Takes for a time, and returns the last uid. What is taken increases.
fn take_for(generator: &CachedUidGenerator, time: Duration, mut last: Uid) -> Uid {
    let start = Instant::now();
    while start.elapsed() < time {
        match generator.try_next_uid() {
            Ok(uid) => {
                assert!(uid > last, "{uid} after {last}");
                last = uid;
            }
            Err(TakeError::Empty) => {}
            Err(error) => panic!("{error}"),
        }
        thread::sleep(Duration::from_millis(1));
    }
    last
}

/// What is done to a server, and undone.
type Fault = (&'static str, fn(&Ensemble, usize), fn(&Ensemble, usize));

#[test]
fn a_session_moves_to_another_server_when_its_own_dies_stands_still_or_is_cut_off() {
    let ensemble = Ensemble::start();
    let name = "moves";
    let generator = generator(&registry(&ensemble.hosts(), name, SESSION));
    let mut last = generator.next_uid().expect("a uid");
    let first = session(&ensemble, name).expect("the name is taken");
    let faults: [Fault; 3] = [
        ("killed", |e, n| e.server(n).kill(), |e, n| e.server(n).spawn()),
        ("stopped", |e, n| e.server(n).freeze(), |e, n| e.server(n).thaw()),
        ("cut off", |e, n| e.network().unplug(n), |e, n| e.network().plug_in(n)),
    ];
    for (what, act, undo) in faults {
        let server = ensemble.server_of(first).expect("it is connected");
        let start = Instant::now();
        act(&ensemble, server);
        // It finds another server before the lease is over: otherwise takes fail.
        while ensemble.server_of(first).is_none_or(|now| now == server) {
            last = take_for(&generator, Duration::from_millis(20), last);
            assert!(start.elapsed() < BOUND, "the session does not move");
        }
        let moved = start.elapsed();
        // The lease is renewed there.
        let before = reserved(&ensemble, name);
        while reserved(&ensemble, name) == before {
            last = take_for(&generator, Duration::from_millis(20), last);
        }
        undo(&ensemble, server);
        assert_eq!(session(&ensemble, name), Some(first), "{what}");
        eprintln!("server {what}: the session is with another one after {moved:?}");
        wait_until("the server is back", || ensemble.server(server).is_serving());
    }
    assert!(millis(last) <= reserved(&ensemble, name));
}

#[test]
fn an_instance_with_the_minority_stops_before_another_has_its_name() {
    let ensemble = Ensemble::start();
    let name = "minority";
    let host = |number| ensemble.server(number).address().to_string();
    let leader = ensemble.leader();
    let first = generator(&registry(&host(leader), name, SHORT));
    first.next_uid().expect("a uid");
    let session_of_first = session(&ensemble, name);
    ensemble.network().isolate(leader);
    let majority: Vec<_> = (0..3).filter(|n| *n != leader).map(host).collect();
    let (before, second, last) = thread::scope(|scope| {
        let before = scope.spawn(|| {
            let (start, mut last) = (Instant::now(), Uid::default());
            loop {
                assert!(start.elapsed() < BOUND, "the lease is never lost");
                match first.try_next_uid() {
                    Ok(uid) => last = uid,
                    Err(TakeError::LeaseLost) => return (last, Instant::now()),
                    Err(TakeError::Empty) => {}
                    Err(error) => panic!("{error}"),
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        let registry = registry(&majority.join(","), name, SHORT);
        // While the first one's session lasts, the name is in use.
        let second = loop {
            match registry.lease(&LAYOUT) {
                Ok(lease) => break (lease, Instant::now()),
                Err(error) => assert!(error.may_pass(), "{}", chain(&error)),
            }
        };
        let ((last, lost), (lease, acquired)) = (before.join().expect("no panic"), second);
        assert!(lost <= acquired, "the name was given away {:?} too early", lost - acquired);
        let builder = CachedUidGenerator::builder().layout(LAYOUT).worker(lease);
        let second = builder.namespace(namespace::fresh()).build().expect("built");
        (last, second.next_uid().expect("a uid"), second)
    });
    assert!(second > before, "{second} of the second after {before} of the first");
    assert_ne!(session(&ensemble, name), session_of_first);
    // The server with the minority serves nothing old.
    let minority = registry(&host(leader), name, SHORT);
    let error = minority.lease(&LAYOUT).expect_err("a minority");
    assert!(error.may_pass(), "{}", chain(&error));
    assert!(chain(&error).contains("quorum"), "{}", chain(&error));
    ensemble.network().rejoin(leader);
    drop(last);
}
