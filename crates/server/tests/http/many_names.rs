//! Pages about thousands of names.

use std::collections::HashSet;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use uidring::SegmentGenerator;
use uidring::segment::{MemorySegments, SegmentTag};
use uidring_server::Names;

use crate::served::{PATIENCE, Served, uids};

const TAGS: usize = 4_000;

fn names(worker_id: u64, tags: usize) -> Names {
    let table = MemorySegments::new();
    for tag in 0..tags {
        table.create(SegmentTag::new(format!("tag-{tag:05}")).step(1_000)).expect("a tag");
    }
    let segments = SegmentGenerator::builder(table).build().expect("a generator");
    uids(worker_id).with_segments(segments.into())
}

#[test]
fn each_of_very_many_names_is_on_its_pages() {
    let served = Served::start(names(90, TAGS));
    served.curl("/metrics");
    for tag in ["tag-00999", "tag-03999"] {
        served.curl(&format!("/api/segment/get/{tag}")).id();
    }
    let (cache, metrics) = (served.curl("/cache"), served.curl("/metrics"));
    let (cache, metrics) = (cache.text(), metrics.text());
    let lines: HashSet<&str> = metrics.lines().collect();
    // The first names have their own series; the others share a sum.
    for tag in 0..999 {
        let line = format!("uidring_server_ready{{name=\"tag-{tag:05}\"}} 1");
        assert!(lines.contains(&*line), "{tag} in the metrics");
    }
    for line in [
        "uidring_server_ready{name=\"(others)\"} 1",
        "uidring_server_ids_total{name=\"(others)\",protocol=\"http\"} 2",
        "uidring_segment_taken_total{generator=\"segments\",tag=\"(others)\"} 2",
    ] {
        assert!(lines.contains(line), "{line}");
    }
    assert!(!metrics.contains("tag-00999") && metrics.len() < 2_000_000, "{}", metrics.len());
    let rows = cache.lines().filter_map(|line| line.strip_prefix("<tr><td>"));
    let rows: HashSet<_> = rows.filter_map(|row| row.split('<').next()).collect();
    for tag in 0..TAGS {
        assert!(rows.contains(&*format!("tag-{tag:05}")), "{tag} in the cache");
    }
    assert!(cache.ends_with("</html>\n"));
    let ready = served.curl("/readyz").json();
    assert_eq!(
        (ready["ready"].as_bool(), ready["names"].as_u64()),
        (Some(true), Some(TAGS as u64 + 1))
    );
}

/// Whatever tags are deleted and created: a counter that goes down would look like a restart.
#[test]
fn a_sum_of_names_never_goes_down() {
    let table = MemorySegments::new();
    let create = |tag: &str| table.create(SegmentTag::new(tag).step(1_000)).expect("a tag");
    for tag in 0..1_100 {
        create(&format!("tag-{tag:05}"));
    }
    let segments = Arc::new(SegmentGenerator::builder(table.clone()).build().expect("a generator"));
    let served = Served::start(uids(93).with_segments(Arc::clone(&segments)));
    served.curl("/metrics");
    for tag in ["tag-00500", "tag-01050", "tag-01051"] {
        served.curl(&format!("/api/segment/get/{tag}")).id();
    }
    let check = |others: u64, ready: &str| {
        let metrics = served.curl("/metrics");
        let lines: HashSet<&str> = metrics.text().lines().collect();
        for line in [
            format!("uidring_server_ids_total{{name=\"(others)\",protocol=\"http\"}} {others}"),
            format!(
                "uidring_segment_taken_total{{generator=\"segments\",tag=\"(others)\"}} {others}"
            ),
            "uidring_server_ids_total{name=\"tag-00500\",protocol=\"http\"} 1".to_owned(),
            ready.to_owned(),
        ] {
            assert!(lines.contains(&*line), "{line}");
        }
        assert!(!metrics.text().contains("tag-0105"));
    };
    let ready = "uidring_server_ready{name=\"(others)\"} 1";
    check(2, ready);
    let delete = |tags: &[String]| {
        tags.iter().for_each(|tag| assert!(table.remove(tag), "{tag} was there"));
        segments.refresh().expect("read");
    };
    delete(&(0..200).map(|tag| format!("tag-{tag:05}")).collect::<Vec<_>>());
    check(2, ready);
    delete(&["tag-01050".into()]);
    check(2, ready);
    create("tag-00000-before-all");
    segments.refresh().expect("read");
    check(2, ready);
}

#[test]
fn those_who_do_not_read_long_pages_keep_no_more_than_some() {
    let served = Served::start(names(91, 3 * TAGS));
    let mut deaf: Vec<_> = (0..20).map(|_| served.connect()).collect();
    for stream in &mut deaf {
        stream.write_all(b"GET /cache HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it reads");
    }
    let begin = Instant::now();
    let refused = loop {
        let answer = served.curl("/metrics");
        if answer.status == 503 {
            break answer;
        }
        assert!(begin.elapsed() < PATIENCE, "each page has found room");
    };
    assert!(refused.error().contains("long pages"), "{}", refused.error());
    // Short pages and ids go on.
    assert_eq!(served.curl("/readyz").status, 200);
    served.curl("/api/segment/get/tag-00007").id();
    drop(deaf);
    while served.curl("/metrics").status != 200 {
        assert!(begin.elapsed() < PATIENCE, "there is room again");
    }
}

/// Names that an exporter may confuse with each other, or with the sum of others.
#[test]
fn no_series_comes_twice() {
    let table = MemorySegments::new();
    let plain = (0..1_100).map(|tag| format!("tag-{tag:05}"));
    let odd =
        ["(others)", r"a\b", r"a\\b", r#"a"b"#, r#"a\"b"#, r"a\", r"a\\", r"a\n"].map(String::from);
    for tag in plain.chain(odd) {
        table.create(SegmentTag::new(tag).step(1_000)).expect("a tag");
    }
    let segments = SegmentGenerator::builder(table).build().expect("a generator");
    let served = Served::start(uids(92).with_segments(segments.into()));
    let metrics = served.curl("/metrics");
    let mut seen = HashSet::new();
    for line in metrics.text().lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (series, _) = line.rsplit_once(' ').expect("a value");
        assert!(seen.insert(series), "{series} comes twice");
    }
    for tag in [r"a\\b", r"a\\\\b", r#"a\"b"#, r#"a\\\"b"#, r"a\\", r"a\\\\", r"a\\n"] {
        for series in [
            format!("uidring_segment_taken_total{{generator=\"segments\",tag=\"{tag}\"}}"),
            format!("uidring_server_ready{{name=\"{tag}\"}}"),
        ] {
            assert!(seen.contains(&*series), "{series} is missing");
        }
    }
}
