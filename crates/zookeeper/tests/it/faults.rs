//! A real ZooKeeper server that is away, frozen, killed or emptied, and instances that are cut off
//! from it: what goes on, what is refused, and that no uid comes twice.

use std::collections::HashSet;
use std::fs;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::ManualClock;
use uidring::policy::TakePolicy;
use uidring::{ClockedUidGenerator, Error, Layout, TakeError, Timestamp, Uid};
use uidring_testkit::namespace::fresh;
use uidring_testkit::zookeeper::ZooKeeper;
use uidring_zookeeper::{Instance, LeafZooKeeper, ZooKeeperError};

use crate::leaf::{PATIENCE, Site, acquired, chain, generator, now, wait_until};
use crate::line::Line;

const LAYOUT: Layout = Layout::SNOWFLAKE;

/// Where nobody listens.
fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").to_string()
}

/// Takes now and then until the lease is lost; what came before.
pub fn take_until_lost(generator: &ClockedUidGenerator) -> Vec<Uid> {
    let start = Instant::now();
    let mut uids = Vec::new();
    loop {
        assert!(start.elapsed() < Duration::from_secs(120), "it is never lost");
        match generator.try_next_uid() {
            Ok(uid) => uids.push(uid),
            Err(TakeError::LeaseLost) => return uids,
            Err(TakeError::Empty) => {}
            Err(error) => panic!("{error}"),
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_start_while_zookeeper_is_away_needs_the_file() {
    let site = Site::shared();
    // The second number, so that no default can be right.
    drop(generator(&site.original("first")));
    let away = site.original_at(&nowhere(), "a:1");
    let error = chain(&away.lease(&LAYOUT).expect_err("there is no file"));
    assert!(error.contains("there is no cache file") && error.contains("a:1.json"), "{error}");
    let error = chain(&away.clone().no_cache_file().lease(&LAYOUT).expect_err("no file"));
    assert!(error.contains("there is no cache file to start from"), "{error}");
    let last = generator(&site.original("a:1")).next_uid().expect("a uid");

    let start = Instant::now();
    let generator_1 = generator(&away);
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    assert_eq!(generator_1.worker_id(), 1);
    assert!(generator_1.next_uid().expect("a uid") > last);
    let error = away.lease(&LAYOUT).expect_err("the file is in use");
    assert!(matches!(error.store(), Some(ZooKeeperError::InstanceInUse { .. })), "{error:?}");
    drop(generator_1);

    // What is wrong with the file is wrong with and without ZooKeeper.
    let path = site.file(&Instance::new("a:1").expect("a name"));
    let good = fs::read_to_string(&path).expect("a file");
    for wrong in ["", "{}", &good[..40], &good.replace("\"worker_id\":1", "\"worker_id\":0")] {
        fs::write(&path, wrong).expect("writes");
        for registry in [&away, &site.original("a:1")] {
            let error = registry.lease(&LAYOUT).expect_err(wrong);
            assert!(matches!(error.store(), Some(ZooKeeperError::CacheFile { .. })), "{error:?}");
            assert!(chain(&error).contains("is corrupt"), "{error}");
        }
    }
    fs::write(&path, &good).expect("writes");
    let foreign = site.original_at(&nowhere(), "b:1").cache_file(&path);
    let error = chain(&foreign.lease(&LAYOUT).expect_err("of another"));
    assert!(error.contains("belongs to instance a:1"), "{error}");

    let timestamp = serde_json::from_str::<serde_json::Value>(&good).expect("JSON")["timestamp"]
        .as_i64()
        .expect("a number");
    let clock = ManualClock::new(Timestamp::from_millis(timestamp - 1));
    let error = away.clone().clock(clock).lease(&LAYOUT).expect_err("the clock is behind");
    assert!(matches!(error.store(), Some(ZooKeeperError::ClockBehindStored { .. })), "{error:?}");
    let bits = uidring::Bits { time: 41, worker: 1, sequence: 12 };
    let narrow = Layout::new(bits, LAYOUT.tick(), LAYOUT.epoch()).expect("possible");
    assert_eq!(away.lease(&narrow).expect("1 is within 0 to 1").worker_id(), 1);
}

#[test]
fn a_number_in_the_file_that_is_too_large_is_refused() {
    let site = Site::shared();
    site.server.put_many(&site.path("forever"), 2);
    drop(generator(&site.original("a:1")));
    let bits = uidring::Bits { time: 41, worker: 1, sequence: 12 };
    let narrow = Layout::new(bits, LAYOUT.tick(), LAYOUT.epoch()).expect("possible");
    let error = site.original_at(&nowhere(), "a:1").lease(&narrow).expect_err("2 is too large");
    assert!(matches!(error, Error::WorkerIdOutOfRange { worker_id: 2, max: 1 }), "{error:?}");
}

#[test]
fn a_freeze_that_outlasts_the_session_ends_nothing() {
    let site = Site::new(ZooKeeper::start());
    let generator_1 = generator(&site.original("a:1"));
    let worker_id = generator_1.worker_id();
    site.server.freeze();
    let start = Instant::now();
    let mut last = generator_1.next_uid().expect("a uid");
    while start.elapsed() < Duration::from_secs(7) {
        let uid = generator_1.next_uid().expect("uids go on, from the file");
        assert!(uid > last);
        last = uid;
        thread::sleep(Duration::from_millis(5));
    }
    // A start waits for an answer, and goes by its file.
    drop(generator_1);
    let quick = site.servers_at(&site.server.hosts()).connect_deadline(Duration::from_secs(1));
    let instance = Instance::new("a:1").expect("a name");
    let registry = LeafZooKeeper::new(quick, &site.name, instance.clone()).expect("a name");
    let registry = registry.cache_file(site.file(&instance)).risk_repeats_in_outages();
    let generator_2 = generator(&registry);
    assert_eq!(generator_2.worker_id(), worker_id);
    assert!(generator_2.next_uid().expect("a uid") > last);
    site.server.thaw();
    let thawed = now();
    wait_until("the upload is resumed", || site.timestamp("a:1") > thawed);
    // The first generator's session may end only now, and its node with it: the next renewal makes one.
    wait_until("a node in a session of its own", || site.is_live("a:1"));
    for _ in 0..100 {
        generator_2.next_uid().expect("uids go on");
    }
}

/// Its thread may still be about to store something when it is closed. Done when the servers are back, that
/// would take the name from whoever has followed.
#[test]
fn what_was_closed_in_an_outage_does_not_come_back() {
    let site = Site::new(ZooKeeper::start());
    let line = Line::to(&site.server);
    let first = generator(&site.patient_at(&line.hosts(), "a:1").risk_repeats_in_outages());
    line.cut();
    wait_until("the session ends", || !site.is_live("a:1"));
    // Renewals come every 3 s: one waits for the servers by then.
    thread::sleep(Duration::from_secs(4));
    let uploaded = site.timestamp("a:1");
    drop(first);
    line.restore();
    for _ in 0..300 {
        assert!(!site.is_live("a:1"), "nobody has the name");
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(site.timestamp("a:1"), uploaded, "nothing is stored");
}

#[test]
fn a_server_that_dies_and_comes_back_finds_its_instances_at_work() {
    let site = Site::with_session(ZooKeeper::start(), Duration::from_secs(60));
    let generator = generator(&site.original("a:1"));
    site.server.kill();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(4) {
        generator.next_uid().expect("uids go on, from the file");
        thread::sleep(Duration::from_millis(5));
    }
    site.server.start_again();
    let back = now();
    wait_until("the upload is resumed", || site.timestamp("a:1") > back);
    wait_until("the instance is live", || site.is_live("a:1"));
    let uid = generator.next_uid().expect("a uid");
    generator.close();
    let last = LAYOUT.decode(uid).expect("decodes").timestamp.as_millis();
    wait_until("it is given back", || site.reserved("a:1") == last && !site.is_live("a:1"));
}

#[test]
fn without_a_file_uids_end_with_zookeeper_and_come_back_with_it() {
    let site = Site::new(ZooKeeper::start());
    let lease = acquired(&site.original("a:1").no_cache_file());
    let generator = ClockedUidGenerator::leaf_snowflake()
        .worker(lease)
        .namespace(fresh())
        .take_policy(TakePolicy::Reject)
        .build()
        .expect("built");
    generator.next_uid().expect("a uid");
    site.server.kill();
    let reserved = now() + 12_000;
    wait_until("what was reserved is used up", || {
        match generator.try_next_uid() {
            Ok(uid) => {
                assert!(LAYOUT.decode(uid).expect("decodes").timestamp.as_millis() < reserved)
            }
            Err(error) => {
                assert_eq!(error, TakeError::Empty);
                return true;
            }
        }
        false
    });
    assert_eq!(fs::read_dir(site.folder.path()).expect("a folder").count(), 0);
    site.server.start_again();
    wait_until("uids come back", || generator.try_next_uid().is_ok());
}

/// With a budget, another process begins only after this one has stopped.
#[test]
fn an_instance_that_is_cut_off_stops_before_another_takes_its_place() {
    let site = Site::new(ZooKeeper::start());
    let line = Line::to(&site.server);
    let with = |hosts: &str| {
        let servers = site
            .servers_at(hosts)
            .session_timeout(Duration::from_secs(5))
            .connect_deadline(PATIENCE);
        let instance = Instance::new("web_0").expect("a name");
        LeafZooKeeper::new(servers, &site.name, instance).expect("a name")
    };
    let first = with(&line.hosts())
        .cache_file(site.folder.path().join("here.json"))
        .max_outage(Duration::from_millis(4_500));
    let first = generator(&first);
    first.next_uid().expect("a uid");
    line.cut();
    let second = with(&site.server.hosts()).cache_file(site.folder.path().join("there.json"));
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(|| take_until_lost(&first));
        let start = Instant::now();
        let second = generator(&second);
        assert!(start.elapsed() > Duration::from_secs(3), "the session had to end");
        let second: Vec<Uid> = second.uids().take(20_000).map(|uid| uid.expect("one")).collect();
        (first.join().expect("no panic"), second)
    });
    let distinct: HashSet<Uid> = first.iter().chain(&second).copied().collect();
    assert_eq!(distinct.len(), first.len() + second.len());
    assert!(!first.is_empty() && first.last() < second.first());
}

#[test]
fn an_instance_whose_place_was_taken_meanwhile_stops_when_it_hears_of_it() {
    let site = Site::new(ZooKeeper::start());
    let line = Line::to(&site.server);
    let first = site.patient_at(&line.hosts(), "web_0").risk_repeats_in_outages();
    let first = generator(&first);
    line.cut();
    let elsewhere = site.original("web_0").cache_file(site.folder.path().join("there.json"));
    let second = generator(&elsewhere);
    first.next_uid().expect("by default it goes on without ZooKeeper");
    // Even if the other one is gone again by then.
    drop(second);
    line.restore();
    take_until_lost(&first);
    drop(first);
    let last = generator(&elsewhere).next_uid().expect("the name is free");
    assert_eq!(LAYOUT.decode(last).expect("decodes").worker_id, 0);
}

#[test]
fn a_start_by_the_file_ends_when_the_registry_knows_better() {
    let site = Site::new(ZooKeeper::start());
    let line = Line::to(&site.server);
    let start_away = |instance: &str| {
        drop(generator(&site.original(instance)));
        line.cut();
        let generator = generator(&site.original_at(&line.hosts(), instance));
        generator.next_uid().expect("uids come by the file");
        generator
    };
    // Nobody else was there.
    let quiet = start_away("quiet");
    line.restore();
    let restored = now();
    wait_until("the upload is resumed", || site.timestamp("quiet") > restored);
    quiet.next_uid().expect("it goes on");
    // Somebody has reserved what this one may have issued.
    let used = start_away("used");
    let ahead = format!(r#"{{"until":{},"holder":"x","version":1}}"#, now() + 60_000);
    site.server.put(&site.path("reserved/used"), &ahead);
    line.restore();
    take_until_lost(&used);
    assert_eq!(site.server.get(&site.path("reserved/used")), Some(ahead));
    // The registry was emptied, and gives the numbers to others.
    let emptied = start_away("emptied");
    let node = site.forever().into_iter().find(|node| node.starts_with("emptied-"));
    site.server.delete(&site.path(&format!("forever/{}", node.expect("it is there"))));
    line.restore();
    take_until_lost(&emptied);
    assert!(!site.forever().iter().any(|node| node.starts_with("emptied-")), "none is made");
}

#[test]
fn whoever_writes_to_a_running_instances_nodes_ends_it() {
    let bounded = |site: &Site, instance: &str| site.registry(instance);
    end_by_writing(bounded, "@bounded");
    end_by_writing(|site, instance| site.original(instance), "");
}

fn end_by_writing(registry: impl Fn(&Site, &str) -> LeafZooKeeper, end: &str) {
    let site = Site::shared();
    let own = |instance: &str| {
        let node = site.forever().into_iter().find(|node| node.starts_with(instance));
        site.path(&format!("forever/{}", node.expect("it is there")))
    };
    let [removed, written, taken, moved, unnamed] =
        ["removed", "written", "taken", "moved", "unnamed"]
            .map(|instance| generator(&registry(&site, instance)));
    site.server.delete(&own(&format!("removed{end}-")));
    // As a Java Leaf of the same name would.
    let json = format!(r#"{{"ip":"10.0.0.7","port":"80","timestamp":{}}}"#, now());
    site.server.put(&own(&format!("written{end}-")), &json);
    let until = format!(r#"{{"until":{},"holder":"x","version":1}}"#, now());
    site.server.put(&site.path(&format!("reserved/taken{end}")), &until);
    // By hand, with the holder kept.
    let moved_node = site.path(&format!("reserved/moved{end}"));
    let kept = site.server.get(&moved_node).expect("it is there");
    site.server.put(&moved_node, &kept);
    site.server.delete(&site.path(&format!("temporary/unnamed{end}")));
    for generator in [&removed, &written, &taken, &moved, &unnamed] {
        take_until_lost(generator);
    }
    assert_eq!(
        site.server.get(&own(&format!("written{end}-"))),
        Some(json),
        "it has not written over it"
    );
    assert_eq!(site.server.get(&site.path(&format!("reserved/taken{end}"))), Some(until));
}

#[test]
fn a_file_that_cannot_be_written_is_done_without_and_not_left_behind() {
    let site = Site::shared();
    let folder = site.folder.path().join("folder");
    let path = folder.join("a.json");
    let generator = generator(&site.original("a:1").cache_file(&path));
    // In the place of the new file is a folder: it cannot be made.
    fs::create_dir(folder.join("a.json.new")).expect("makes");
    wait_until("the file that is behind is removed", || !path.exists());
    let then = now();
    wait_until("the registry goes on", || site.timestamp("a:1") > then);
    generator.next_uid().expect("uids go on");
    fs::remove_dir(folder.join("a.json.new")).expect("removes");
    wait_until("there is a file again", || path.exists());
    // Nothing can be promised where a start finds that it has no file.
    drop(generator);
    fs::create_dir(folder.join("a.json.new")).expect("makes");
    let error = site.original("a:1").cache_file(&path).lease(&LAYOUT).expect_err("no file");
    assert!(chain(&error).contains("could not be written"), "{error}");
    let cause = std::error::Error::source(&error).expect("the system's error");
    assert_eq!(chain(&error).matches(&cause.to_string()).count(), 1, "said once: {error}");
}

/// Uids go on until the budget since the registry's last answer is over, and not longer; what the
/// registry holds then is above all of them.
#[test]
fn an_outage_is_survived_for_as_long_as_was_reserved() {
    let site = Site::new(ZooKeeper::with_tick(Duration::from_millis(500)));
    let servers = site.servers_at(&site.server.hosts()).session_timeout(Duration::from_secs(10));
    let instance = Instance::new("web_0").expect("a name");
    let registry = LeafZooKeeper::new(servers, &site.name, instance)
        .expect("a name")
        .cache_file(site.folder.path().join("web_0.json"));
    let generator_1 = generator(&registry);
    let worker_id = generator_1.worker_id();
    // A short outage ends nothing.
    generator_1.next_uid().expect("a uid");
    site.server.freeze();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        generator_1.next_uid().expect("it was reserved");
        thread::sleep(Duration::from_millis(5));
    }
    site.server.thaw();
    let back = now();
    wait_until("the upload is resumed", || site.timestamp("web_0@bounded") > back);
    generator_1.next_uid().expect("a uid");

    site.server.kill();
    let start = Instant::now();
    let uids = take_until_lost(&generator_1);
    // The budget counts from the last answer, which was up to a renewal before.
    let after = start.elapsed();
    assert!(after > Duration::from_secs(1), "{after:?}");
    let error = generator_1.try_next_uid().expect_err("for good");
    assert_eq!(error, TakeError::LeaseLost);
    drop(generator_1);
    let error = chain(&registry.lease(&LAYOUT).expect_err("the file grants nothing"));
    assert!(error.starts_with("registry 127.0.0.1:"), "{error}");

    site.server.start_again();
    let last = *uids.last().expect("uids went on");
    let time = LAYOUT.decode(last).expect("decodes").timestamp.as_millis();
    assert!(site.reserved("web_0@bounded") >= time, "{time}");
    // The server has its session, which begins anew with it: the same host need not wait for that.
    let generator_2 = generator(&registry);
    assert_eq!(generator_2.worker_id(), worker_id);
    assert!(generator_2.next_uid().expect("a uid") > last);
}

/// Neither that of a start before, nor anybody else's.
#[test]
fn the_file_of_a_bounded_instance_grants_nothing() {
    let site = Site::shared();
    drop(generator(&site.registry("a:1")));
    let error = site.registry_at(&nowhere(), "a:1").lease(&LAYOUT).expect_err("no registry");
    assert!(matches!(error.store(), Some(ZooKeeperError::Registry { .. })), "{error:?}");
    // A file of another instance or version is refused with and without the registry.
    let path = site.folder.path().join("a:1.json");
    let good = fs::read_to_string(&path).expect("a file");
    let other = good.replace("\"version\":1", "\"version\":2");
    assert_ne!(good, other);
    fs::write(&path, other).expect("writes");
    let error = chain(&site.registry("a:1").lease(&LAYOUT).expect_err("unknown"));
    assert!(error.contains("has version 2, and this uidring uses version 1"), "{error}");
    fs::write(&path, &good).expect("writes");
    let error = chain(&site.original("a:1").lease(&LAYOUT).expect_err("of the other form"));
    assert!(error.contains("belongs to instance a:1@bounded"), "{error}");
}

/// The file says that the holder is dead, so that a start takes its name over without waiting.
#[test]
fn a_start_that_is_refused_takes_nothing_over() {
    let site = Site::with_session(ZooKeeper::start(), Duration::from_secs(60));
    let line = Line::to(&site.server);
    let first = generator(&site.patient_at(&line.hosts(), "a:1"));
    line.cut();
    drop(first);
    let reserved = || site.server.get(&site.path("reserved/a:1@bounded"));
    let before = reserved();
    let behind = site.timestamp("a:1@bounded") - 1;
    let late = site.registry("a:1").clock(ManualClock::new(Timestamp::from_millis(behind)));
    let error = late.lease(&LAYOUT).expect_err("the clock is behind");
    assert!(matches!(error.store(), Some(ZooKeeperError::ClockBehindStored { .. })), "{error:?}");
    assert_eq!(reserved(), before);
    drop(generator(&site.registry("a:1")));
    assert_ne!(reserved(), before);
}
