//! Names that fail, beside others that go on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use uidring::policy::TakePolicy;
use uidring::segment::{
    LoadError, Loaded, MemorySegments, SegmentRequest, SegmentStore, SegmentTag,
};
use uidring::{
    Bits, CachedUidGenerator, Error, Layout, SegmentGenerator, Tick, Timestamp, UidGenerator,
};
use uidring_server::{Issuer, Names};
use uidring_sqlite::{LeaseOptions, LeaseTable, SqliteStore};

use crate::served::{PATIENCE, Served, generator, segments, uids};

/// Returns what fails according to `/readyz`.
fn failing(served: &Served) -> Vec<Value> {
    let begin = Instant::now();
    let (answer, health, is_lost) = loop {
        let answer = served.curl("/readyz");
        let health = served.curl("/healthz").status;
        // Only a lost lease needs a restart. It may be lost between the two, and one may see it first.
        let is_lost = answer.text().contains("restart the server");
        if is_lost == (health == 503) || begin.elapsed() > PATIENCE {
            break (answer, health, is_lost);
        }
    };
    let value = answer.json();
    let failing = value["failing"].as_array().expect("a list").clone();
    assert_eq!(value["ready"], failing.is_empty());
    assert_eq!(answer.status, if failing.is_empty() { 200 } else { 503 }, "{value}");
    assert_eq!(health, if is_lost { 503 } else { 200 }, "{value}");
    failing
}

#[test]
fn a_closed_generator_is_red_and_others_go_on() {
    let closed = generator(31);
    let names = uids(30).with("other", Issuer::Ordered(Arc::clone(&closed)));
    let served = Served::start(names.with_segments(segments()));
    assert_eq!(failing(&served), Vec::<Value>::new());
    closed.close();
    assert_eq!(failing(&served), [json!({ "name": "other", "error": "the generator is closed" })]);
    let answer = served.curl("/v1/ids?name=other");
    assert_eq!((answer.status, answer.error().as_str()), (503, "the generator is closed"));
    assert!(!answer.headers.contains_key("retry-after"), "it does not pass");
    served.curl("/api/snowflake/get/x").id();
    served.curl("/api/segment/get/orders").id();
    let metrics = served.curl("/metrics");
    assert!(metrics.text().contains("uidring_server_ready{name=\"other\"} 0\n"));
    assert!(metrics.text().contains("_issue_errors_total{name=\"other\",protocol=\"http\"} 1\n"));
}

#[test]
fn a_lost_lease_is_red() {
    let folder = tempfile::tempdir().expect("a folder");
    let leases = SqliteStore::new(folder.path().join("workers.db")).create(true).leases();
    let options = LeaseOptions::default().lasts(Duration::from_secs(3));
    let builder = CachedUidGenerator::builder().worker_from(leases.clone().options(options));
    let leased = builder.namespace("http leased").build().expect("a generator");
    let worker_id = leased.worker_id();
    let names = uids(34).with("leased", Issuer::Ordered(Arc::new(leased)));
    let served = Served::start(names.with_origin("leased", "leased from workers.db"));
    assert_eq!(failing(&served), Vec::<Value>::new());
    leases.fence(worker_id).expect("it is held");
    let begin = Instant::now();
    let red = loop {
        let red = failing(&served);
        if !red.is_empty() {
            break red;
        }
        assert!(begin.elapsed() < PATIENCE, "the next renewal notices");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(red.len() == 1 && red[0]["name"] == "leased", "{red:?}");
    let error = red[0]["error"].to_string();
    assert!(error.contains("lease of the worker id is lost; restart the server"), "{red:?}");
    assert_eq!(served.curl("/v1/ids?name=leased").status, 503);
    let metrics = served.curl("/metrics");
    assert!(metrics.text().contains("uidring_lease_lost{generator=\"leased\"} 1\n"));
    served.curl("/api/snowflake/get/x").id();
}

#[test]
fn a_layout_at_its_end_is_red() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let epoch = Timestamp::from_millis(i64::try_from(now.as_millis()).expect("years") - 1_000);
    let bits = Bits { time: 8, worker: 2, sequence: 4 };
    let layout = Layout::new(bits, Tick::Second, epoch).expect("possible");
    let short = CachedUidGenerator::builder().layout(layout).worker_id(1).namespace("http short");
    let short = short.max_borrow(None).build().expect("a generator");
    let served = Served::start(uids(32).with("short", Issuer::Ordered(Arc::new(short))));
    assert_eq!(failing(&served), Vec::<Value>::new());
    let answer = served.curl("/v1/ids?name=short&count=5000");
    assert_eq!(answer.status, 503);
    assert!(answer.error().contains("time is over"), "{}", answer.error());
    let failing = failing(&served);
    assert_eq!((failing.len(), &failing[0]["name"]), (1, &"short".into()));
    served.curl("/api/snowflake/get/x").id();
}

/// A table whose server can be away.
struct Table {
    rows: MemorySegments,
    is_away: Arc<AtomicBool>,
}

impl SegmentStore for Table {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        self.rows.tags()
    }

    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        if self.is_away.load(Ordering::SeqCst) {
            for index in 0..wanted.len() {
                let error = Error::Forked { what: "table that is away" };
                loaded(index, Err(LoadError::Store(error)));
            }
        } else {
            self.rows.load(wanted, loaded);
        }
    }
}

#[test]
fn a_table_that_is_away_is_red_once_nothing_is_left() {
    let is_away = Arc::new(AtomicBool::new(false));
    let table = Table { rows: MemorySegments::new(), is_away: Arc::clone(&is_away) };
    for tag in ["used", "unused"] {
        table.rows.create(SegmentTag::new(tag).step(10)).expect("a tag");
    }
    let policy = TakePolicy::WaitFor(Duration::from_secs(5));
    let builder = SegmentGenerator::builder(table).take_policy(policy);
    let retry = Duration::from_millis(10);
    let segments = Arc::new(builder.retry(retry, retry).build().expect("a generator"));
    let served = Served::start(uids(33).with_segments(Arc::clone(&segments)));
    assert_eq!(served.curl("/api/segment/get/used").id(), 1);
    is_away.store(true, Ordering::SeqCst);
    assert_eq!(failing(&served), Vec::<Value>::new(), "ids are left");
    let begin = Instant::now();
    loop {
        let answer = served.curl("/api/segment/get/used");
        if answer.status != 200 {
            let message = answer.json()["message"].to_string();
            assert!(message.starts_with("\"Result{id=-3, "), "{message}");
            break;
        }
        assert!(begin.elapsed() < PATIENCE);
    }
    let red = failing(&served);
    assert_eq!((red.len(), &red[0]["name"]), (1, &"used".into()), "{red:?}");
    served.curl("/api/snowflake/get/x").id();
    is_away.store(false, Ordering::SeqCst);
    while !failing(&served).is_empty() {
        assert!(begin.elapsed() < PATIENCE, "it comes back by itself");
    }
    let unused = segments.stats("unused").expect("stats");
    assert_eq!((unused.reserved, unused.taken), (0, 0), "looking has reserved nothing");
}

/// Nobody has asked for these tags. The rows are read every 10 ms.
#[test]
fn a_row_that_serves_nothing_is_red_until_it_is_changed() {
    let rows = MemorySegments::new();
    rows.create(SegmentTag::new("good").step(10)).expect("a tag");
    rows.create(SegmentTag::new("last").max_id(i64::MAX - 1)).expect("a tag");
    let table = Listed { rows: rows.clone(), bad: Arc::default() };
    let bad = Arc::clone(&table.bad);
    let policy = TakePolicy::WaitFor(Duration::from_secs(5));
    let refresh = Duration::from_millis(10);
    let builder = SegmentGenerator::builder(table).take_policy(policy).refresh(refresh);
    let served = Served::start(uids(35).with_segments(Arc::new(builder.build().expect("one"))));
    assert_eq!(failing(&served), Vec::<Value>::new());
    let red_names = |served: &Served| -> Vec<Value> {
        failing(served).iter().map(|failing| failing["name"].clone()).collect()
    };
    *bad.lock().expect("ours") = vec![
        SegmentTag::new("zero").max_id(0),
        SegmentTag::new("negative").max_id(-5),
        SegmentTag::new("no step").step(0),
        SegmentTag { max_id: Err("is NULL"), ..SegmentTag::new("null") },
    ];
    let begin = Instant::now();
    while red_names(&served).len() < 4 {
        assert!(begin.elapsed() < PATIENCE, "{:?}", red_names(&served));
    }
    assert_eq!(red_names(&served), ["negative", "no step", "null", "zero"]);
    bad.lock().expect("ours").clear();
    while !red_names(&served).is_empty() {
        assert!(begin.elapsed() < PATIENCE, "{:?}", red_names(&served));
    }
    // The last id, then the end: the tag stays red after the rows are read again.
    served.curl("/api/segment/get/last").id();
    while served.curl("/api/segment/get/last").status == 200 {
        assert!(begin.elapsed() < PATIENCE);
    }
    for _ in 0..30 {
        assert_eq!(red_names(&served), ["last"]);
        std::thread::sleep(refresh / 3);
    }
}

/// A table with rows that no store creates.
struct Listed {
    rows: MemorySegments,
    bad: Arc<Mutex<Vec<SegmentTag>>>,
}

impl SegmentStore for Listed {
    fn tags(&mut self) -> Result<Vec<SegmentTag>, Error> {
        let mut tags = self.rows.tags()?;
        tags.extend(self.bad.lock().expect("ours").iter().cloned());
        Ok(tags)
    }

    fn load(&mut self, wanted: &[SegmentRequest], loaded: &mut Loaded<'_>) {
        self.rows.load(wanted, loaded);
    }
}

#[test]
fn a_server_without_names_is_ready() {
    let served = Served::start(Names::new());
    assert_eq!(failing(&served), Vec::<Value>::new());
    assert_eq!(served.curl("/v1/ids").status, 404);
    assert_eq!(served.curl("/api/snowflake/get/x").status, 500);
}
