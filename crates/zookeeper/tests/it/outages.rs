//! An instance that is cut off from the registry while another takes its place: whatever their
//! generators and clocks do, no uid comes twice.

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

use uidring::clock::{Clock, SystemClock};
use uidring::policy::TakePolicy;
use uidring::{
    Bits, CachedUidGenerator, ClockedUidGenerator, Layout, TakeError, Timestamp, Uid, UidGenerator,
};
use uidring_testkit::namespace;
use uidring_testkit::zookeeper::ZooKeeper;
use uidring_zookeeper::{Instance, LeafZooKeeper};

use crate::leaf::{PATIENCE, Site, wait_until};
use crate::line::Line;

const LAYOUT: Layout = Layout::SNOWFLAKE;

/// 16 ids a millisecond, so that it is easy to borrow.
fn narrow() -> Layout {
    let bits = Bits { time: 41, worker: 18, sequence: 4 };
    Layout::new(bits, LAYOUT.tick(), LAYOUT.epoch()).expect("possible")
}

/// Sessions of up to 10 s.
const TICK: Duration = Duration::from_millis(500);

/// The registry of one instance, with the session and the budget of the documentation.
fn registry(site: &Site, hosts: &str, host: &str) -> LeafZooKeeper {
    let servers =
        site.servers_at(hosts).session_timeout(Duration::from_secs(10)).connect_deadline(PATIENCE);
    let instance = Instance::new("web_0").expect("a name");
    LeafZooKeeper::new(servers, &site.name, instance)
        .expect("a name")
        .cache_file(site.folder.path().join(format!("{host}.json")))
        .max_outage(Duration::from_secs(9))
}

/// The system's clock, so far behind.
#[derive(Debug)]
struct Behind(Duration);

impl Clock for Behind {
    fn now(&self) -> Timestamp {
        let behind = i64::try_from(self.0.as_millis()).expect("a short time");
        Timestamp::from_millis(SystemClock.now().as_millis() - behind)
    }
}

/// Takes so many uids each millisecond until there are no more.
fn take_until_lost(generator: &impl UidGenerator, each: usize) -> Vec<Uid> {
    let start = Instant::now();
    let mut uids = Vec::new();
    loop {
        assert!(start.elapsed() < Duration::from_secs(60), "the lease is never lost");
        for _ in 0..each {
            match generator.try_next_uid() {
                Ok(uid) => uids.push(uid),
                Err(TakeError::LeaseLost) => return uids,
                Err(TakeError::Empty | TakeError::BorrowLimit { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Takes so many uids each millisecond, for a time.
fn take_for(generator: &impl UidGenerator, each: usize, time: Duration) -> Vec<Uid> {
    let start = Instant::now();
    let mut uids = Vec::new();
    while start.elapsed() < time {
        for _ in 0..each {
            match generator.try_next_uid() {
                Ok(uid) => uids.push(uid),
                Err(TakeError::Empty | TakeError::BorrowLimit { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
    uids
}

fn assert_distinct(first: &[Uid], second: &[Uid]) {
    assert!(!first.is_empty() && !second.is_empty());
    let mut seen: HashSet<Uid> = first.iter().copied().collect();
    assert_eq!(seen.len(), first.len(), "one generator repeats its own");
    let twice = second.iter().filter(|&&uid| !seen.insert(uid)).count();
    assert_eq!(twice, 0, "uids that came twice, of {} and {}", first.len(), second.len());
}

#[test]
fn a_borrower_that_is_cut_off_and_its_successor_share_no_uid() {
    let site = Site::new(ZooKeeper::with_tick(TICK));
    let line = Line::to(&site.server);
    let cached = |registry: &LeafZooKeeper| {
        CachedUidGenerator::builder()
            .layout(narrow())
            .worker(registry.lease(&narrow()).expect("acquired"))
            .namespace(namespace::fresh())
            .take_policy(TakePolicy::Reject)
            .build()
            .expect("built")
    };
    let first = cached(&registry(&site, &line.hosts(), "here"));
    first.next_uid().expect("a uid");
    line.cut();
    let (first, second) = thread::scope(|scope| {
        // Faster than the clock: it borrows.
        let first = scope.spawn(|| take_until_lost(&first, 64));
        let second = cached(&registry(&site, &site.server.hosts(), "there"));
        let second = take_for(&second, 64, Duration::from_secs(3));
        (first.join().expect("no panic"), second)
    });
    assert_distinct(&first, &second);
}

#[test]
fn a_successor_whose_clock_is_behind_shares_no_uid_with_one_that_is_cut_off() {
    let site = Site::new(ZooKeeper::with_tick(TICK));
    let line = Line::to(&site.server);
    let first = ClockedUidGenerator::snowflake()
        .layout(LAYOUT)
        .worker(registry(&site, &line.hosts(), "here").lease(&LAYOUT).expect("acquired"))
        .namespace(namespace::fresh())
        .take_policy(TakePolicy::Reject)
        .build()
        .expect("built");
    first.next_uid().expect("a uid");
    // Just before it is renewed again, so that the registry knows the least.
    let uploaded = site.timestamp("web_0@bounded");
    wait_until("a renewal", || site.timestamp("web_0@bounded") > uploaded);
    line.cut();
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(|| take_until_lost(&first, 20));
        let behind = Duration::from_secs(5);
        let registry = registry(&site, &site.server.hosts(), "there").clock(Behind(behind));
        let second = ClockedUidGenerator::snowflake()
            .layout(LAYOUT)
            .worker(registry.lease(&LAYOUT).expect("acquired"))
            .clock(Behind(behind))
            .max_start_wait(Duration::from_secs(60))
            .namespace(namespace::fresh())
            .take_policy(TakePolicy::Reject)
            .build()
            .expect("built");
        let second = take_for(&second, 20, Duration::from_secs(10));
        (first.join().expect("no panic"), second)
    });
    assert_distinct(&first, &second);
}
