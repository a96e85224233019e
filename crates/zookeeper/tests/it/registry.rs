//! Worker ids from a real ZooKeeper server: numbers, names, clocks and what Leaf makes of it all.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::{Clock, ManualClock, SystemClock};
use uidring::policy::TakePolicy;
use uidring::{ClockedUidGenerator, Error, Layout, StoreErrorKind, Timestamp};
use uidring_testkit::namespace::fresh;
use uidring_testkit::zookeeper::ZooKeeper;
use uidring_zookeeper::{Instance, LeafZooKeeper, ZooKeeperError, ZooKeeperServers};

use crate::leaf::{Site, acquired, chain, generator, now, refusal, refused, wait_until};

const LAYOUT: Layout = Layout::SNOWFLAKE;

/// What a Java Leaf writes into its node, byte for byte.
fn java_json(ip: &str, port: u16, timestamp: i64) -> String {
    format!(r#"{{"ip":"{ip}","port":"{port}","timestamp":{timestamp}}}"#)
}

/// How a Java Leaf reads a node's name: `key.split("-")`, of which it takes the first two parts.
fn as_java_reads(node: &str) -> (String, u32) {
    let parts: Vec<&str> = node.split('-').collect();
    (parts[0].to_owned(), parts[1].parse().expect("Integer.parseInt"))
}

fn kind(error: &Error) -> StoreErrorKind {
    match error {
        Error::Store(error) => error.kind(),
        _ => panic!("{error:?}"),
    }
}

fn eight_first_boots(registry: impl Fn(&Site, &str) -> LeafZooKeeper + Sync) -> Vec<(String, u64)> {
    let site = Site::shared();
    let boot = || {
        let barrier = Barrier::new(8);
        let (site, barrier, registry) = (&site, &barrier, &registry);
        thread::scope(|scope| {
            let boots: Vec<_> = (0..8)
                .map(|instance| {
                    scope.spawn(move || {
                        let registry = registry(site, &format!("10.0.0.{instance}:8080"));
                        barrier.wait();
                        let generator = generator(&registry);
                        let uid = generator.next_uid().expect("a uid");
                        let fields = generator.decode(uid).expect("decodes");
                        assert_eq!(fields.worker_id, generator.worker_id());
                        // All of them are there at once.
                        barrier.wait();
                        generator.worker_id()
                    })
                })
                .collect();
            boots.into_iter().map(|boot| boot.join().expect("no panic")).collect::<Vec<_>>()
        })
    };
    let first = boot();
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 8, "{first:?}");
    let nodes = site.forever();
    assert_eq!(boot(), first, "the same names, the same numbers");
    assert_eq!((site.forever(), nodes.len()), (nodes.clone(), 8));
    let name = |node: &String| node.split_once('-').expect("a number").0.to_owned();
    let number = |node: &String| node.split_once('-').expect("a number").1.parse().expect("one");
    let numbers: Vec<_> = nodes.iter().map(|node| (name(node), number(node))).collect();
    assert_eq!(numbers.iter().map(|(_, number)| *number).collect::<Vec<u64>>(), first);
    numbers
}

#[test]
fn eight_first_boots_at_once_get_eight_numbers_and_keep_them() {
    let numbers = eight_first_boots(Site::registry);
    assert!(numbers.iter().all(|(name, _)| name.ends_with(":8080@bounded")), "{numbers:?}");
    // A Java Leaf that boots at the same time may take it without asking.
    assert!(numbers.iter().all(|(_, number)| *number > 0), "{numbers:?}");

    let numbers = eight_first_boots(Site::original);
    assert!(numbers.iter().all(|(name, _)| name.ends_with(":8080")), "{numbers:?}");
    assert_eq!(
        numbers.iter().map(|(_, number)| *number).collect::<BTreeSet<_>>(),
        (0..8).collect()
    );
}

#[test]
fn a_java_leafs_registry_goes_on_as_it_stands() {
    let site = Site::shared();
    let long_ago = 1_596_957_371_092;
    let other = site.server.put_numbered(
        &site.path("forever/10.0.0.6:8080-"),
        &java_json("10.0.0.6", 8_080, long_ago),
    );
    let own = site.server.put_numbered(
        &site.path("forever/10.0.0.7:8080-"),
        &java_json("10.0.0.7", 8_080, long_ago),
    );
    assert!(own.ends_with("/10.0.0.7:8080-0000000001"), "{own}");
    let before = now();
    let registry = site.original("10.0.0.7:8080");
    let generator = generator(&registry);
    assert_eq!(generator.worker_id(), 1, "the number in the node's name");
    let timestamp = site.timestamp("10.0.0.7:8080");
    assert!((before..=now()).contains(&timestamp), "never ahead of the clock");
    let json = site.server.get(&own).expect("it is there");
    assert_eq!(json, java_json("10.0.0.7", 8_080, timestamp), "Leaf's reader takes nothing else");
    assert_eq!(site.server.get(&other), Some(java_json("10.0.0.6", 8_080, long_ago)));

    // One that has no address for a name is one more node that Leaf can read.
    let named = crate::leaf::generator(&site.original("web-0").address("10.0.0.9", 80));
    assert_eq!(named.worker_id(), 2);
    let nodes: Vec<_> = site.forever().iter().map(|node| as_java_reads(node)).collect();
    let expected = [("10.0.0.6:8080", 0), ("10.0.0.7:8080", 1), ("web_0", 2)];
    assert_eq!(nodes, expected.map(|(name, number)| (name.to_owned(), number)));
    let node = site.server.get(&site.path("forever/web_0-0000000002")).expect("it is there");
    assert_eq!(node, java_json("10.0.0.9", 80, site.timestamp("web_0")));

    let listed = site.servers_at(&site.server.hosts()).leaf_nodes(&site.name).expect("listed");
    let rows: Vec<_> =
        listed.iter().map(|node| (node.number, &*node.instance, node.is_live)).collect();
    assert_eq!(rows, [(0, "10.0.0.6:8080", false), (1, "10.0.0.7:8080", true), (2, "web_0", true)]);
    assert_eq!(listed[0].timestamp, Some(Timestamp::from_millis(long_ago)));
    assert_eq!((&*listed[2].ip, &*listed[2].port), ("10.0.0.9", "80"));
}

/// A Java Leaf reserves nothing: what it issued after its last upload is not known.
#[test]
fn after_a_java_leaf_the_gap_between_uploads_is_left_out() {
    let site = Site::shared();
    let uploaded = now();
    let json = java_json("10.0.0.7", 80, uploaded);
    let node = site.server.put_numbered(&site.path("forever/10.0.0.7:80-"), &json);
    let lease = site.original("10.0.0.7:80").lease(&LAYOUT).expect("acquired");
    let after = LAYOUT.decode(lease.after().expect("something")).expect("decodes");
    assert_eq!(after.timestamp.as_millis(), uploaded + 3_000);
    assert_eq!((after.worker_id, after.sequence), (0, LAYOUT.max_sequence()));
    lease.release().expect("released");
    // The same when it had the name after one of ours.
    site.server.put(&node, &java_json("10.0.0.7", 80, uploaded + 1));
    let lease = site.original("10.0.0.7:80").lease(&LAYOUT).expect("acquired");
    let after = LAYOUT.decode(lease.after().expect("something")).expect("decodes");
    assert_eq!(after.timestamp.as_millis(), uploaded + 3_001);
}

#[test]
fn a_clock_behind_the_stored_timestamp_is_refused_with_and_without_a_file() {
    let site = Site::shared();
    drop(generator(&site.original("a:1")));
    let node = site.path(&format!("forever/{}", site.forever()[0]));
    let clock = ManualClock::new(Timestamp::from_millis(site.timestamp("a:1") - 1));
    let behind = |error: Error, location: &str| match error.store() {
        Some(ZooKeeperError::ClockBehindStored { location: found, stored, now }) => {
            assert!(found.ends_with(location), "{found}");
            stored.saturating_since(*now)
        }
        _ => panic!("{error:?}"),
    };
    // The file says it before the registry can.
    let registry = site.original("a:1").clock(clock.clone());
    behind(registry.lease(&LAYOUT).expect_err("the file is ahead"), "a:1.json");
    // Neither no file nor one that knows less makes up for what the registry says.
    let ahead = now() + 60_000;
    site.server.put(&node, &java_json("a", 1, ahead));
    for registry in [site.original("a:1"), site.original("a:1").no_cache_file()] {
        let error = registry.lease(&LAYOUT).expect_err("the registry is ahead");
        let by = behind(error, &site.forever()[0]);
        assert!((Duration::from_secs(55)..=Duration::from_secs(60)).contains(&by), "{by:?}");
        assert!(!site.is_live("a:1"), "the name is free again");
    }
    assert_eq!(site.server.get(&node), Some(java_json("a", 1, ahead)), "nothing was written");
    site.server.put(&node, &java_json("a", 1, now() - 5_000));
    generator(&site.original("a:1"));
}

#[test]
fn a_number_over_the_layouts_maximum_is_refused_and_leaves_no_litter() {
    let site = Site::shared();
    site.server.put_many(&site.path("forever"), 1_024);
    for number in [1_024, 1_025] {
        let error = site.original("late").lease(&LAYOUT).expect_err("all are in use");
        assert_eq!(kind(&error), StoreErrorKind::Exhausted);
        let text = format!("number {number} is over the layout's greatest worker id, 1023: ");
        assert!(chain(&error).contains(&text), "{error}");
        assert!(chain(&error).contains("more worker bits"), "{error}");
        assert_eq!(site.forever().len(), 1_024);
        assert!(!site.is_live("late"));
    }
    // Nor does a bounded one leave its reservation behind.
    site.registry("later").lease(&LAYOUT).expect_err("all are in use");
    let reserved = site.server.children(&site.path("reserved"));
    assert!(!reserved.contains(&"later@bounded".to_owned()), "{reserved:?}");
    // Those that are in the registry go on.
    assert_eq!(generator(&site.original("10.0.0.1:1023")).worker_id(), 1_023);
    // With another layout there is room.
    let bits = uidring::Bits { time: 41, worker: 11, sequence: 11 };
    let wide = Layout::new(bits, LAYOUT.tick(), LAYOUT.epoch()).expect("possible");
    let lease = site.original("late").lease(&wide).expect("acquired");
    assert_eq!(lease.worker_id(), 1_027);
    drop(lease);
    wait_until("the name is free again", || !site.is_live("late"));
    let error = site.original("late").lease(&LAYOUT).expect_err("its number is too large now");
    assert!(matches!(error, Error::WorkerIdOutOfRange { .. }), "{error:?}");
    let registry = site.original("late").no_cache_file();
    let error = registry.lease(&LAYOUT).expect_err("its number is too large now");
    assert_eq!(kind(&error), StoreErrorKind::Exhausted);
    assert!(chain(&error).contains("number 1027 is over"), "{error}");
    assert_eq!(site.forever().len(), 1_025, "a node that is used is never removed");
}

#[test]
fn a_second_live_process_is_refused() {
    let site = Site::shared();
    let registry = site.registry("web-0").address("10.0.0.9", 80);
    let first = generator(&registry);
    let number = first.worker_id();
    // On the same host the file says it at once, on another one the registry.
    let start = Instant::now();
    let error = registry.lease(&LAYOUT).expect_err("the file is in use");
    assert!(
        matches!(error.store(), Some(ZooKeeperError::InstanceInUse { instance, .. }) if instance == "web_0")
    );
    assert!(chain(&error).contains("web_0.json.lock"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    // A start waits as long as its own session for a name that is in use.
    let elsewhere = registry.clone().cache_file(site.folder.path().join("elsewhere.json"));
    let error = elsewhere.lease(&LAYOUT).expect_err("the name is in use");
    assert!(
        matches!(error.store(), Some(ZooKeeperError::InstanceInUse { instance, .. }) if instance == "web_0")
    );
    assert!(chain(&error).contains("10.0.0.9:80 has it, since 20"), "{error}");
    first.next_uid().expect("the first one is not affected");
    // Once it is gone, the name is free at once.
    drop(first);
    let start = Instant::now();
    let second = generator(&elsewhere);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert_eq!(second.worker_id(), number);
}

#[test]
fn what_is_reserved_is_waited_for_and_given_back() {
    let site = Site::shared();
    let registry = site.original("a:1");
    let generator_1 = generator(&registry);
    let uid = generator_1.next_uid().expect("a uid");
    let reserved = site.reserved("a:1");
    assert!(reserved > now() + 3_000, "{reserved} is ahead");
    generator_1.close();
    let last = LAYOUT.decode(uid).expect("decodes").timestamp.as_millis();
    wait_until("what was not used is given back", || site.reserved("a:1") == last);
    assert!(generator(&registry).next_uid().expect("a uid") > uid);

    // As after a crash, or a step of the clock: the start waits for what may have been issued.
    let ahead = now() + 1_500;
    site.server.put(
        &site.path("reserved/a:1"),
        &format!(r#"{{"until":{ahead},"holder":"x","version":1}}"#),
    );
    let next = generator(&registry).next_uid().expect("a uid");
    assert!(LAYOUT.decode(next).expect("decodes").timestamp.as_millis() > ahead);
    // Unless that would take too long.
    let ahead = now() + 60_000;
    site.server.put(
        &site.path("reserved/a:1"),
        &format!(r#"{{"until":{ahead},"holder":"x","version":1}}"#),
    );
    let lease = registry.lease(&LAYOUT).expect("acquired");
    let refused = ClockedUidGenerator::snowflake().worker(lease).namespace(fresh()).build();
    assert!(matches!(refused, Err(Error::UsedAhead { .. })), "{refused:?}");
}

/// What was issued after the last upload was not known to a start with a clock that was set back by
/// less than the 3 s between two of them.
/// As after a crash: what is reserved is the horizon and the budget, and a start goes on above it.
#[test]
fn what_a_crash_leaves_reserved_is_waited_for() {
    let site = Site::shared();
    let registry = site.registry("a:1").max_outage(Duration::from_millis(1_800));
    let first = generator(&registry);
    let uid = first.next_uid().expect("a uid");
    let name = "a:1@bounded";
    let ahead = site.reserved(name) - now();
    assert!(ahead > 1_800, "the budget of 1.8 s, and the horizon: {ahead}");
    first.close();
    let last = LAYOUT.decode(uid).expect("decodes").timestamp.as_millis();
    wait_until("what was not used is given back", || site.reserved(name) == last);
    assert!(generator(&registry).next_uid().expect("a uid") > uid);

    let node = site.path(&format!("reserved/{name}"));
    let leave = |ahead: i64| {
        let until = now() + ahead;
        // Both are written at once.
        let forever = site.path(&format!("forever/{}", site.forever()[0]));
        let endpoint = site.server.get(&forever).expect("it is there");
        let reserved = format!(r#"{{"until":{until},"holder":"x","version":1}}"#);
        site.server.put(&forever, &endpoint);
        site.server.put(&node, &reserved);
        until
    };
    let until = leave(1_500);
    let next = generator(&registry).next_uid().expect("a uid");
    assert!(LAYOUT.decode(next).expect("decodes").timestamp.as_millis() > until);
    // By default it is waited for as long as one with these options may have reserved.
    leave(60_000);
    let lease = registry.lease(&LAYOUT).expect("acquired");
    assert_eq!(lease.terms().start_wait(&LAYOUT), Duration::from_secs(30), "at least");
    let refused = ClockedUidGenerator::snowflake().worker(lease).build();
    assert!(matches!(refused, Err(Error::UsedAhead { .. })), "{refused:?}");
}

#[test]
fn a_step_back_shorter_than_the_gap_between_uploads_repeats_nothing() {
    let site = Site::shared();
    let start = now();
    let clock = ManualClock::new(Timestamp::from_millis(start));
    let registry = site.original("a:1").clock(clock.clone());
    let lease = registry.lease(&LAYOUT).expect("acquired");
    let generator = ClockedUidGenerator::leaf_snowflake()
        .worker(lease)
        .namespace(fresh())
        .clock(clock.clone())
        .build()
        .expect("built");
    clock.advance(Duration::from_millis(900));
    let last = generator.next_uid().expect("a uid");
    // What a crash would leave behind.
    let nodes = [format!("forever/{}", site.forever()[0]), "reserved/a:1".into()]
        .map(|node| site.path(&node));
    let left = nodes.each_ref().map(|node| site.server.get(node).expect("it is there"));
    let path = site.file(&Instance::new("a:1").expect("a name"));
    let file = fs::read(&path).expect("a file");
    drop(generator);
    for (node, left) in nodes.iter().zip(&left) {
        site.server.put(node, left);
    }
    clock.set(Timestamp::from_millis(start + 100));
    fs::write(&path, file).expect("writes");
    let away = site.original_at("127.0.0.1:1", "a:1").clock(clock.clone());
    for registry in [registry.clone().no_cache_file(), away, registry] {
        let lease = registry.lease(&LAYOUT).expect("the stored timestamp is in the past");
        assert!(lease.after() > Some(last), "{:?}", lease.after());
        drop(lease);
        wait_until("the name is free again", || !site.is_live("a:1"));
    }
}

#[test]
fn timestamps_are_uploaded_and_never_go_backwards() {
    let site = Site::shared();
    let start = now();
    let clock = ManualClock::new(Timestamp::from_millis(start));
    let lease = site.original("a:1").clock(clock.clone()).lease(&LAYOUT).expect("acquired");
    let generator = ClockedUidGenerator::leaf_snowflake()
        .worker(lease)
        .namespace(fresh())
        .clock(clock.clone())
        .take_policy(TakePolicy::Reject)
        .build()
        .expect("built");
    assert_eq!(site.timestamp("a:1"), start);
    clock.advance(Duration::from_secs(2));
    wait_until("it is uploaded", || site.timestamp("a:1") == start + 2_000);
    let file = fs::read_to_string(site.folder.path().join("a:1.json")).expect("a file");
    assert!(file.contains(&format!("\"timestamp\":{}", start + 2_000)), "{file}");
    let (_, before) = site.server.stat(&site.path("reserved/a:1")).expect("it is there");
    clock.set(Timestamp::from_millis(start - 60_000));
    wait_until("it is written again", || {
        let (_, stat) = site.server.stat(&site.path("reserved/a:1")).expect("it is there");
        stat.version > before.version
    });
    assert_eq!(site.timestamp("a:1"), start + 2_000);
    drop(generator);
}

#[test]
fn only_live_peers_clocks_count() {
    let site = Site::shared();
    let at = |instance: &str, ahead: i64| {
        let clock = ManualClock::new(Timestamp::from_millis(now() + ahead));
        site.registry(instance).clock(clock).lease(&LAYOUT).expect("acquired")
    };
    // A Java Leaf that runs is not known to be live.
    site.server.put_numbered(&site.path("forever/j:1-"), &java_json("j", 1, now() - 50_000));
    let limit = Duration::from_secs(5);
    let fourth = site.registry("d:1").max_clock_difference(limit);
    let peers = [at("a:1", 60_000), at("b:1", 61_000), at("c:1", 0)];
    let error = fourth.lease(&LAYOUT).expect_err("behind");
    let Some(ZooKeeperError::PeerClocksDiffer { peers: 3, by_millis, limit: found }) =
        error.store()
    else {
        panic!("{error:?}");
    };
    assert!((-62_000..=-58_000).contains(by_millis), "{by_millis}");
    assert_eq!(*found, limit);
    let error = chain(&fourth.lease(&LAYOUT).expect_err("still"));
    assert!(error.contains("behind the median of 3 live instances'"), "{error}");
    let [a, b, c] = peers;
    drop((a, b));
    wait_until("two are gone", || site.server.children(&site.path("temporary")).len() == 1);
    drop(fourth.lease(&LAYOUT).expect("the one that is left agrees"));
    drop(c);
    // However old the last upload is.
    let clock = ManualClock::new(Timestamp::from_millis(now() + 30_000));
    let old = site.registry("e:1").clock(clock).lease(&LAYOUT).expect("acquired");
    thread::sleep(Duration::from_secs(2));
    let clock = ManualClock::new(Timestamp::from_millis(now() + 30_000));
    let close = Duration::from_secs(1);
    let sixth = site.registry("f:1").clock(clock).max_clock_difference(close);
    sixth.lease(&LAYOUT).expect("both are as wrong, and one has not uploaded for 2 s");
    drop(old);
}

#[test]
fn nodes_that_nobody_can_read_are_refused() {
    let site = Site::shared();
    let node = site.server.put_numbered(&site.path("forever/a:1-"), "");
    for wrong in ["", "{}", "x", r#"{"ip":"a","port":"1"}"#] {
        site.server.put(&node, wrong);
        let error = chain(&site.original("a:1").lease(&LAYOUT).expect_err(wrong));
        assert!(error.contains(&node) && error.contains("correct"), "{error}");
    }
    site.server.put(&node, &java_json("a", 1, 5));
    site.server.put(&site.path("reserved/a:1"), "x");
    let error = chain(&site.original("a:1").lease(&LAYOUT).expect_err("no JSON"));
    assert!(error.contains("reserved/a:1"), "{error}");
    // Other nodes are not this one's business.
    site.server.put(&site.path("forever/stray"), "");
    site.server.put(&site.path("forever/b:1-x"), "");
    let lease = site.original("b:1").lease(&LAYOUT).expect("acquired");
    assert_eq!(lease.worker_id(), 3);
}

#[test]
fn a_path_behind_the_hosts_is_below_what_it_names() {
    let site = Site::shared();
    let hosts = format!("{}/deep/{}", site.server.hosts(), site.name);
    let error = refusal(&site.registry_at(&hosts, "a:1"));
    assert!(error.contains("the path after the hosts must exist"), "{error}");
    let servers = ZooKeeperServers::new(&hosts).expect("servers");
    assert!(servers.leaf_nodes(&site.name).is_err());
    site.server.put(&format!("/deep/{}", site.name), "");
    assert_eq!(generator(&site.registry_at(&hosts, "a:1")).worker_id(), 1);
    let below = format!("/deep/{}{}", site.name, site.path("forever"));
    assert_eq!(site.server.children(&below), ["a:1@bounded-0000000001"]);
    assert!(site.forever().is_empty());
}

#[test]
fn it_may_be_called_within_a_runtime() {
    let site = Site::shared();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let generator = generator(&site.registry("a:1"));
        generator.next_uid().expect("a uid");
        site.servers_at(&site.server.hosts()).leaf_nodes(&site.name).expect("listed");
    });
}

#[test]
fn an_outage_is_within_the_session() {
    // It allows sessions of up to 5 s.
    let site = Site::new(ZooKeeper::with_tick(Duration::from_millis(250)));
    let registry = |millis| site.registry("a:1").max_outage(Duration::from_millis(millis));
    let error = registry(999).lease(&LAYOUT).expect_err("too short");
    assert!(matches!(error, Error::OptionOutOfRange { min: 1_000, .. }), "{error:?}");
    // The servers grant the 2 s that are asked for.
    let error = refused(&registry(1_801));
    assert_eq!(kind(&error), StoreErrorKind::Invalid);
    assert!(chain(&error).contains("the servers grant sessions of 2s, of which"), "{error}");
    assert!(chain(&error).contains("maxSessionTimeout"), "{error}");
    assert!(!site.is_live("a:1@bounded"), "nothing is left of it");
    for (lease, lasts) in
        [(registry(1_800), 1_800), (registry(1_000), 1_000), (site.registry("a:1"), 1_800)]
    {
        let lease = acquired(&lease);
        let (terms, lasts) = (lease.terms(), Duration::from_millis(lasts));
        assert_eq!(
            (terms.lasts, terms.reserve, terms.renew_every),
            (Some(lasts), lasts, lasts / 3)
        );
        lease.release().expect("released");
    }
    // More than the servers grant.
    let servers = site.servers_at(&site.server.hosts()).session_timeout(Duration::from_secs(60));
    let long = LeafZooKeeper::new(servers, &site.name, Instance::new("b").expect("a name"));
    let long = long.expect("a name").no_cache_file();
    let lease = acquired(&long);
    assert_eq!(lease.terms().lasts, Some(Duration::from_millis(4_500)), "of 5 s");
    drop(lease);
    let error = refused(&long.max_outage(Duration::from_secs(9)));
    assert!(
        chain(&error).contains("the servers grant sessions of")
            || matches!(error.store(), Some(ZooKeeperError::InstanceInUse { .. })),
        "{error:?}"
    );
    assert!(SystemClock.now() > Timestamp::default());
}
