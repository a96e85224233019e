//! Takers of segments on a real server that is slow, away, or gone for good. Every id is accounted for.

use std::collections::BTreeSet;
use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use uidring::policy::TakePolicy;
use uidring::segment::{
    Loaded, SegmentBuilder, SegmentError, SegmentRequest, SegmentStore, SegmentTag,
};
use uidring::{Error, SegmentGenerator};
use uidring_mysql::{MySqlSegments, MySqlStore};
use uidring_store::{NewSegmentTag, SegmentTable};
use uidring_testkit::chain;
use uidring_testkit::mariadb::{Database, MariaDb};
use uidring_testkit::proxy::{Proxy, Verdict};

fn server_at(url: &str) -> MySqlStore {
    MySqlStore::from_url(url).expect("a URL")
}

fn database(server: &Arc<MariaDb>, tags: &[(&str, u64, u64)]) -> Database {
    let database = server.database();
    let table = server_at(&database.url()).segments().create_table_if_missing(true);
    for &(tag, step, start) in tags {
        let new = NewSegmentTag::new(tag, step).and_then(|new| new.start(start));
        table.create_tag(&new.expect("allowed")).expect("created");
    }
    database
}

fn max_id(database: &Database, tag: &str) -> u64 {
    database.query(&format!("SELECT max_id FROM leaf_alloc WHERE biz_tag = '{tag}'"))[0]
}

/// The ranges that a store has handed over, with the tags.
type Ranges = Arc<Mutex<Vec<(String, u64, u64)>>>;

/// A store whose ranges are noted.
struct Noting {
    store: MySqlSegments,
    ranges: Ranges,
}

impl Noting {
    fn new(server: MySqlStore) -> (Self, Ranges) {
        let ranges = Ranges::default();
        (Self { store: server.segments(), ranges: Arc::clone(&ranges) }, ranges)
    }
}

impl SegmentStore for Noting {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        self.store.tags()
    }

    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        let ranges = &self.ranges;
        self.store.load(wanted, &mut |place, result| {
            if let Ok(range) = &result {
                let noted = (wanted[place].tag.clone(), range.start, range.end);
                ranges.lock().expect("no panic").push(noted);
            }
            loaded(place, result);
        });
    }
}

/// What one generator, which is gone, did with one tag.
struct Account {
    ranges: Vec<(u64, u64)>,
    ids: Vec<u64>,
}

impl Account {
    fn new(tag: &str, ranges: &Ranges, ids: Vec<u64>) -> Self {
        let ranges = ranges.lock().expect("no panic");
        let ranges = ranges.iter().filter(|(of, ..)| of == tag).map(|&(_, s, e)| (s, e)).collect();
        Self { ranges, ids }
    }

    /// The ids are those of the ranges, each once, but for the last ones, which were in memory at the
    /// end: there is no other gap.
    fn check(&self, tag: &str) {
        let mut ids = self.ids.clone();
        ids.sort_unstable();
        let reserved = self.ranges.iter().flat_map(|&(start, end)| start..end);
        assert!(reserved.take(ids.len()).eq(ids.iter().copied()), "{tag}: {:?}", self.ranges);
        let last = ids.last().expect("some ids");
        let unused = self.ranges.iter().filter(|(start, _)| start > last).count();
        assert!(unused <= 4, "{tag}: {unused} segments beyond {last}: {:?}", self.ranges);
    }
}

/// The accounts of all generators of a tag: their ranges follow each other from the tag's start to its
/// `max_id` without overlap; and without a gap, unless the server was killed in a commit.
fn check_all(tag: &str, start: u64, max_id: u64, accounts: &[&Account], may_have_gaps: bool) {
    accounts.iter().for_each(|account| account.check(tag));
    let mut ranges: Vec<_> = accounts.iter().flat_map(|account| account.ranges.clone()).collect();
    ranges.sort_unstable();
    ranges.insert(0, (start, start));
    ranges.push((max_id, max_id));
    for pair in ranges.windows(2) {
        let ((_, end), (next, _)) = (pair[0], pair[1]);
        assert!(end == next || (may_have_gaps && end < next), "{tag}: {pair:?}");
    }
}

/// A generator, whose settings `set` changes, and the ranges it loads.
fn generator(
    server: MySqlStore,
    set: impl FnOnce(SegmentBuilder) -> SegmentBuilder,
) -> (SegmentGenerator, Ranges) {
    let (store, ranges) = Noting::new(server);
    (set(SegmentGenerator::builder(store)).build().expect("built"), ranges)
}

/// Checks the account of the only generator there was.
fn check_one(database: &Database, ranges: &Ranges, ids: Vec<u64>, may_have_gaps: bool) {
    let account = Account::new("t", ranges, ids);
    check_all("t", 1, max_id(database, "t"), &[&account], may_have_gaps);
}

/// Each load takes 200 ms. Leaf's callers get errors after 10.
#[test]
fn a_slow_server_makes_takers_wait_and_nothing_else() {
    let database = database(&MariaDb::shared(), &[("t", 500, 1)]);
    let slow = Proxy::with(database.server().port(), |chunk| match chunk.asks("COMMIT") {
        true => Verdict::Hold(Duration::from_millis(200)),
        false => Verdict::Forward,
    });
    let url = database.url_at(&format!("127.0.0.1:{}", slow.port()));
    let (patient, ranges) = generator(server_at(&url), |b| b.step_factor(1));
    let ids: Vec<u64> = thread::scope(|scope| {
        let take = || (0..1_500).map(|_| patient.next_id("t").expect("taken")).collect::<Vec<_>>();
        let takers = [scope.spawn(take), scope.spawn(take)];
        takers.into_iter().flat_map(|taker| taker.join().expect("no panic")).collect()
    });
    let stats = patient.stats("t").expect("known");
    assert!(stats.waits > 0 && stats.rejects == 0 && stats.load_failures == 0, "{stats:?}");
    assert!(stats.depth > 2, "who runs dry has more in memory the next time: {stats:?}");
    drop(patient);
    check_one(&database, &ranges, ids, false);

    let hasty = |policy| generator(server_at(&url), |b| b.take_policy(policy)).0;
    let rejecting = hasty(TakePolicy::Reject);
    assert!(matches!(rejecting.next_id("t"), Err(SegmentError::Empty)));
    let brief = hasty(TakePolicy::WaitFor(Duration::from_millis(50)));
    assert!(matches!(brief.next_id("t"), Err(SegmentError::DeadlineExceeded)));
    let [one, two] = [rejecting, brief].map(|generator| {
        let start = Instant::now();
        loop {
            match generator.next_id("t") {
                Ok(id) => break id,
                Err(error) => assert!(start.elapsed() < Duration::from_secs(30), "{error}"),
            }
            thread::sleep(Duration::from_millis(10));
        }
    });
    assert!(one.abs_diff(two) >= 500, "{one} and {two} are of different segments");
}

/// How long the server is away: seconds in `UIDRING_TEST_OUTAGE`, 2 if it is not set.
fn outage() -> Duration {
    let seconds = env::var("UIDRING_TEST_OUTAGE").map_or(2, |text| text.parse().expect("seconds"));
    Duration::from_secs(seconds)
}

/// Says that it is over at the end of a test, however that comes: nothing waits for ever.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits longer than any server is away here, but not for ever.
fn patience() -> TakePolicy {
    TakePolicy::WaitFor(outage() + Duration::from_secs(60))
}

/// Takes about 2,000 ids a second until it is over. Returns the ids, and the longest time that one of
/// them took.
fn take_until(over: &AtomicBool, generator: &SegmentGenerator) -> (Vec<u64>, Duration) {
    let (mut ids, mut longest) = (Vec::new(), Duration::ZERO);
    while !over.load(Ordering::Relaxed) {
        let start = Instant::now();
        ids.push(generator.next_id("t").expect("taken"));
        longest = longest.max(start.elapsed());
        thread::sleep(Duration::from_micros(500));
    }
    (ids, longest)
}

#[test]
fn a_server_that_is_stopped_is_waited_for() {
    let server = MariaDb::start();
    let database = database(&server, &[("t", 100, 1)]);
    let (patient, ranges) =
        generator(server_at(&database.url()), |b| b.step_factor(1).take_policy(patience()));
    let impatient = server_at(&database.url()).deadline(Duration::from_secs(2));
    let (brief, brief_ranges) = generator(impatient, |b| {
        b.step_factor(1).take_policy(TakePolicy::WaitFor(Duration::from_millis(500)))
    });
    let over = AtomicBool::new(false);
    let (ids, brief_ids) = thread::scope(|scope| {
        let end = Over(&over);
        let takers = [(); 2].map(|()| scope.spawn(|| take_until(&over, &patient)));
        let mut brief_ids: Vec<u64> = (0..130).map(|_| brief.next_id("t").expect("up")).collect();
        thread::sleep(Duration::from_millis(300));
        server.stop();
        let stopped = Instant::now();
        let mut errors = Vec::new();
        while stopped.elapsed() < outage() {
            match brief.next_id("t") {
                Ok(id) => brief_ids.push(id),
                Err(error) => errors.push(error),
            }
        }
        server.start_again();
        let up = Instant::now();
        loop {
            match brief.next_id("t") {
                Ok(id) => break brief_ids.push(id),
                Err(_) => assert!(up.elapsed() < Duration::from_secs(30), "it recovers by itself"),
            }
        }
        assert!(!errors.is_empty());
        let is_typed = |error: &SegmentError| {
            matches!(error, SegmentError::DeadlineExceeded | SegmentError::StoreDown(_))
        };
        assert!(errors.iter().all(is_typed), "{errors:?}");
        let last = chain(errors.last().expect("some"));
        assert!(last.contains("is the server running?"), "{last}");
        assert!(!last.contains("p@ss"), "{last}");
        thread::sleep(Duration::from_millis(1_500));
        drop(end);
        let mut ids = Vec::new();
        for taker in takers {
            let (taken, longest) = taker.join().expect("no panic");
            assert!(longest > outage().mul_f64(0.5), "it has waited: {longest:?}");
            assert!(longest < outage() + Duration::from_secs(60), "and gone on: {longest:?}");
            ids.extend(taken);
        }
        (ids, brief_ids)
    });
    drop((patient, brief));
    let accounts = [(&ranges, ids), (&brief_ranges, brief_ids)];
    let [one, two] = accounts.map(|(ranges, ids)| Account::new("t", ranges, ids));
    // A commit that outlasts the short deadline may leave a gap.
    check_all("t", 1, max_id(&database, "t"), &[&one, &two], true);
}

#[test]
fn a_server_that_is_gone_for_good_is_an_error_by_the_policy() {
    let server = MariaDb::start();
    let database = database(&server, &[("t", 10, 1), ("u", 10, 1)]);
    let impatient = || server_at(&database.url()).deadline(Duration::from_secs(2));
    let build = |policy| generator(impatient(), |b| b.depth(1).take_policy(policy)).0;
    let waiting = build(TakePolicy::Wait);
    let brief = build(TakePolicy::WaitFor(Duration::from_secs(4)));
    let rejecting = build(TakePolicy::Reject);
    for generator in [&waiting, &brief] {
        assert_eq!(generator.next_id("t").expect("up") % 10, 1);
    }
    server.kill();
    // What is in memory is good.
    for generator in [&waiting, &brief] {
        let rest: Vec<_> =
            (0..9).map(|_| generator.next_id("t").expect("in memory") % 10).collect();
        assert_eq!(rest, [2, 3, 4, 5, 6, 7, 8, 9, 0]);
    }
    let start = Instant::now();
    let error = brief.next_id("t").expect_err("dead");
    assert!(matches!(error, SegmentError::StoreDown(_)), "{error:?}");
    assert!(chain(&error).contains("is the server running?"), "{error}");
    assert!((3_900..60_000).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    assert!(matches!(brief.next_id("none"), Err(SegmentError::UnknownTag(_))));
    // At first nothing is known; then it is.
    assert!(matches!(rejecting.next_id("u"), Err(SegmentError::Empty)));
    let known = Instant::now() + Duration::from_secs(60);
    while !matches!(rejecting.next_id("u"), Err(SegmentError::StoreDown(_))) {
        assert!(Instant::now() < known, "the failure is told");
        thread::sleep(Duration::from_millis(10));
    }
    // Who has all the time in the world waits, until somebody closes.
    thread::scope(|scope| {
        let taker = scope.spawn(|| waiting.next_id("t"));
        thread::sleep(Duration::from_millis(1_500));
        assert!(!taker.is_finished());
        waiting.close();
        assert!(matches!(taker.join().expect("no panic"), Err(SegmentError::Closed)));
    });
    let start = Instant::now();
    drop((waiting, brief, rejecting));
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());

    // A generator that cannot read its tags is not built, unlike Leaf's.
    let error = SegmentGenerator::builder(impatient().segments()).build().map(drop);
    let error = chain(&error.expect_err("dead"));
    assert!(error.contains("is the server running?") && !error.contains("p@ss"), "{error}");
}

#[test]
fn what_people_do_with_the_table_while_it_is_in_use() {
    let database = database(&MariaDb::shared(), &[("t", 10, 1), ("u", 10, 1)]);
    let (generator, ranges) = generator(server_at(&database.url()), |b| {
        b.step_factor(1)
            .depth(1)
            .max_depth(1)
            .take_policy(TakePolicy::WaitFor(Duration::from_secs(5)))
    });
    let take = |count: usize| -> Vec<u64> {
        (0..count).map(|_| generator.next_id("t").expect("taken")).collect()
    };
    let mut ids = take(25);
    database.execute("UPDATE leaf_alloc SET step = 40 WHERE biz_tag = 't'");
    ids.extend(take(50));
    let stats = generator.stats("t").expect("known");
    assert_eq!((stats.table_step, stats.step), (40, 40), "{stats:?}");
    assert_eq!(max_id(&database, "t"), 1 + 3 * 10 + 2 * 40);
    check_one(&database, &ranges, ids, false);

    let other = generator.next_id("u").expect("taken");
    database.execute("DELETE FROM leaf_alloc WHERE biz_tag = 'u'");
    generator.refresh().expect("read");
    let error = generator.next_id("u").expect_err("removed");
    assert!(matches!(&error, SegmentError::RemovedTag(_)) && chain(&error).contains("`u`"));
    database.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('u', 1000, 5)");
    generator.refresh().expect("read");
    assert_eq!((other, generator.next_id("u").expect("back")), (1, 1_000));
    database.execute("UPDATE leaf_alloc SET max_id = 9223372036854775806 WHERE biz_tag = 'u'");
    let until: BTreeSet<String> =
        (0..10).filter_map(|_| Some(generator.next_id("u").err()?.to_string())).collect();
    assert_eq!(until.len(), 1, "{until:?}");
    assert!(until.iter().all(|text| text.contains("used up")), "{until:?}");
    // Set back below what is in use, it is not served: that would repeat ids.
    database.execute("UPDATE leaf_alloc SET max_id = 500 WHERE biz_tag = 'u'");
    generator.refresh().expect("read");
    let error = chain(&generator.next_id("u").expect_err("went back"));
    assert!(error.contains("went back to 500"), "{error}");
}
