//! Each path, requested by curl.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;
use uidring::segment::{MemorySegments, SegmentStore, SegmentTag};
use uidring::{
    CachedUidGenerator, Layout, ParseUidError, PerThreadGenerator, SegmentGenerator, Uid,
};
use uidring_server::{Issuer, Names};

use crate::served::{Answer, Served, generator, segments, table, uids};

#[test]
fn leafs_paths_issue_bare_digits_with_any_method() {
    let served = Served::start(uids(1).with_segments(segments()));
    let mut seen = BTreeSet::new();
    for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        for key in ["x", "uid", "%C3%A4", "%ff", "%"] {
            let path = format!("/api/snowflake/get/{key}");
            let answer = served.curl_with(&path, &["-X", method]);
            assert!(seen.insert(answer.id()), "an id twice");
            assert_eq!(answer.headers["cache-control"], "no-store");
            assert!(answer.headers["content-type"].starts_with("text/plain"));
        }
        let orders = served.curl_with("/api/segment/get/orders", &["-X", method]).id();
        let other = served.curl("/api/segment/get/%3C%C3%A4%3e+%26%20%22b%22%2Fc");
        assert_eq!(other.status, 500, "`+` is no space in a path");
        let other = served.curl("/api/segment/get/%3C%C3%A4%3e%20%26%20%22b%22%2Fc");
        assert_eq!(orders, other.id(), "each tag counts for itself");
    }
    let worker_ids = seen.iter().map(|id| Layout::UID_GENERATOR.max_worker_id() & id >> 13);
    assert_eq!(worker_ids.collect::<BTreeSet<_>>(), BTreeSet::from([1]));
}

#[test]
fn a_head_issues_nothing() {
    let served = Served::start(uids(2).with_segments(segments()));
    let before = served.curl("/api/segment/get/orders").id();
    for path in ["/api/segment/get/orders", "/api/snowflake/get/x", "/v1/ids?name=orders"] {
        let answer = served.curl_with(path, &["--head"]);
        assert_eq!((answer.status, answer.body.len()), (200, 0), "{path}");
    }
    assert_eq!(served.curl("/api/segment/get/orders").id(), before + 1);
    assert_eq!(served.curl_with("/v1/ids?name=nobody", &["--head"]).status, 404);
}

/// Returns Leaf's code from the message of its framework's error.
fn code(answer: &Answer, path: &str) -> i64 {
    let value = answer.json();
    assert_eq!(value["status"], 500);
    assert_eq!((answer.status, &value["error"]), (500, &json!("Internal Server Error")));
    assert_eq!(value["path"], path);
    let message = value["message"].as_str().expect("a message");
    let code = message.strip_prefix("Result{id=").expect("a result").split_once(',');
    let (code, rest) = code.expect("more");
    assert!(rest.starts_with(" status=EXCEPTION}: ") && rest.len() > 30, "{message}");
    code.parse().expect("a number")
}

#[test]
fn leafs_errors_are_500_with_its_codes() {
    let served = Served::start(uids(3).with_segments(segments()));
    let path = "/api/segment/get/nobody";
    assert_eq!(code(&served.curl(path), path), -2, "no such key");
    let path = "/api/segment/get/uid";
    assert_eq!(code(&served.curl(path), path), -2, "uids are no tag");

    let served = Served::start(uids(4));
    let path = "/api/segment/get/orders";
    let answer = served.curl(path);
    assert_eq!(code(&answer, path), -1);
    assert!(answer.text().contains("the segment mode is off"), "{}", answer.text());

    let served = Served::start(Names::new().with_segments(segments()));
    let path = "/api/snowflake/get/x";
    let answer = served.curl(path);
    assert_eq!(code(&answer, path), -1);
    assert!(answer.text().contains("the snowflake mode is off"), "{}", answer.text());

    for path in ["/api/segment/get/%ff", "/api/segment/get/%zz"] {
        let error = served.curl(path);
        assert!(error.status == 400 && error.error().starts_with("the key "), "{error:?}");
    }
    for path in ["/api/segment/get/", "/api/segment/get/a/b", "/api/snowflake/get/", "/api"] {
        assert_eq!(served.curl(path).status, 404, "{path}");
    }
}

#[test]
fn a_snowflake_is_decoded_into_strings() {
    let builder = CachedUidGenerator::builder().layout(Layout::SNOWFLAKE).worker_id(5);
    let snowflake = builder.namespace("http snowflake").build().expect("a generator");
    let served = Served::start(Names::new().with("uid", Issuer::Ordered(Arc::new(snowflake))));
    let id = served.curl("/api/snowflake/get/x").id();
    let value = served.curl(&format!("/decodeSnowflakeId?snowflakeId={id}")).json();
    assert_eq!(value["workerId"], "5");
    assert_eq!(value["sequenceId"], (id & 4095).to_string());
    let millis = (id >> 22) + 1_288_834_974_657;
    let text = value["timestamp"].as_str().expect("a string");
    assert!(text.starts_with(&format!("{millis}(20")) && text.ends_with(" UTC)"), "{text}");
    for query in ["", "?snowflakeId=", "?snowflakeId=x", "?snowflakeId=-1", "?snowflakeId=%ff"] {
        let answer = served.curl(&format!("/decodeSnowflakeId{query}"));
        let value = answer.json();
        assert!(answer.status == 200 && value["errorMsg"].is_string(), "{query}: {value}");
    }
}

#[test]
fn leafs_monitor_shows_tags_and_rows_as_text() {
    let rows = table();
    let names = uids(5).with_segments(segments()).with_rows(move || rows.clone().tags());
    let served = Served::start(names);
    served.curl("/api/segment/get/orders");
    for (path, cell) in [("/cache", "<td>999</td>"), ("/db", "<td>1000</td>")] {
        let answer = served.curl(path);
        assert_eq!(answer.status, 200);
        let page = answer.text();
        assert!(page.contains("<td>orders</td>") && page.contains(cell), "{page}");
        assert!(
            page.contains("&lt;ä&gt; &amp; &quot;b&quot;/c") && !page.contains("<ä>"),
            "{page}"
        );
        assert!(answer.headers["content-security-policy"].contains("default-src 'none'"));
    }
    assert_eq!(Served::start(uids(6)).curl("/db").status, 404);
}

#[test]
fn ids_come_in_four_forms() {
    let per_thread = PerThreadGenerator::new(generator(8));
    let names = uids(7).with_segments(segments()).with("fast", Issuer::PerThread(per_thread));
    let served = Served::start(names);
    let mut seen = BTreeSet::new();
    for name in ["uid", "fast"] {
        for count in [1, 2, 500, 20_000] {
            let path = |form| format!("/v1/ids?name={name}&count={count}&format={form}");
            let text = served.curl(&path("text"));
            assert!(text.headers["content-type"].starts_with("text/plain"));
            let mut ids: Vec<u64> =
                text.text().lines().map(|line| line.parse().expect("an id")).collect();
            let binary = served.curl(&path("binary"));
            assert_eq!(binary.headers["content-type"], "application/octet-stream");
            assert_eq!(binary.body.len(), 8 * count);
            ids.extend(
                binary.body.chunks(8).map(|id| u64::from_le_bytes(id.try_into().expect("eight"))),
            );
            let ndjson = served.curl(&path("ndjson"));
            assert_eq!(ndjson.headers["content-type"], "application/x-ndjson");
            let string = |text| serde_json::from_str::<String>(text).expect("a string");
            ids.extend(ndjson.text().lines().map(|line| string(line).parse::<u64>().expect("id")));
            let json = served.curl(&path("json"));
            let value = json.json();
            assert_eq!((&value["name"], json.status), (&name.into(), 200));
            let list = value["ids"].as_array().expect("a list").iter();
            ids.extend(list.map(|id| id.as_str().expect("a string").parse::<u64>().expect("id")));
            for answer in [text, binary, ndjson, json] {
                assert_eq!(answer.headers["x-content-type-options"], "nosniff");
                assert_eq!(answer.headers["cache-control"], "no-store");
            }
            assert_eq!(ids.len(), 4 * count);
            assert!(ids.is_sorted(), "one connection after another");
            assert!(ids.into_iter().all(|id| seen.insert(id)), "no id twice");
        }
    }
    for (form, read) in [
        ("dec", str::parse as fn(&str) -> Result<Uid, ParseUidError>),
        ("hex", Uid::from_hex),
        ("base62", Uid::from_base62),
        ("base32", Uid::from_base32),
    ] {
        for count in [1, 3_000] {
            let answer = served.curl(&format!("/v1/ids?count={count}&format={form}"));
            assert!(answer.headers["content-type"].starts_with("text/plain"), "{form}");
            let text = answer.text();
            let ids = text.lines().map(|line| read(line).expect("an id").get());
            assert_eq!(ids.filter(|id| seen.insert(*id)).count(), count, "{form}");
            let last = text.lines().last().expect("an id");
            let parsed = served.curl(&format!("/v1/parse/{last}?format={form}")).json();
            assert_eq!(parsed["uid"], read(last).expect("an id").to_string(), "{form}");
            if form == "hex" {
                let parsed = served.curl(&format!("/v1/parse/{last}")).json();
                assert_eq!(parsed["uid"], read(last).expect("an id").to_string(), "0x says it");
            }
        }
    }
    // By default, one id of the default name in JSON. A POST gives the same.
    for arguments in [&[][..], &["-d", "count=5"]] {
        let value = served.curl_with("/v1/ids", arguments).json();
        let ids = value["ids"].as_array().expect("a list");
        assert_eq!((&value["name"], ids.len()), (&"uid".into(), 1));
    }
    let value = served.curl("/v1/ids?name=%3C%C3%A4%3e+%26%20%22b%22/c&count=2").json();
    assert_eq!(value, json!({ "name": "<ä> & \"b\"/c", "ids": ["1", "2"] }));
}

/// Direction marks would make a tag look like another one.
#[test]
fn nothing_in_a_tag_is_invisible() {
    let table = MemorySegments::new();
    let tags = [
        ("a\u{202e}b", r"a\u{202e}b"),
        (r"a\u{202e}b", r"a\\u{202e}b"),
        ("cafe\u{301}", "cafe\u{301}"),
        ("ไทย & กำ", "ไทย &amp; กำ"),
    ];
    for (tag, _) in tags {
        table.create(SegmentTag::new(tag).step(10)).expect("a tag");
    }
    let segments = SegmentGenerator::builder(table.clone()).build().expect("a generator");
    let names = uids(13).with_segments(Arc::new(segments));
    let served = Served::start(names.with_rows(move || table.clone().tags()));
    for path in ["/cache", "/db"] {
        let page = served.curl(path);
        for (_, seen) in tags {
            assert!(page.text().contains(&format!("<td>{seen}</td>")), "{seen} {}", page.text());
        }
    }
    assert!(served.curl("/").text().contains("visible(first.name)"));
}

#[test]
fn what_cannot_be_answered_is_named() {
    let served = Served::start(uids(9).with_segments(segments()));
    for (path, status, words) in [
        ("/v1/ids?count=0", 400, "count is not an integer from 1 to 100000"),
        ("/v1/ids?count=100001", 400, "count"),
        ("/v1/ids?count=-1", 400, "count"),
        ("/v1/ids?count=99999999999999999999", 400, "count"),
        ("/v1/ids?count=", 400, "count"),
        ("/v1/ids?count=%31%", 400, "count has a `%`"),
        ("/v1/ids?format=xml", 400, "format is not json, ndjson, text (or dec), hex"),
        ("/v1/ids?n=1000", 400, "there is no parameter `n`; there are name, count, format"),
        ("/v1/ids?count=1&count=2", 400, "the parameter `count` is given twice"),
        ("/v1/ids?c%6funt=1&count=2", 400, "given twice"),
        ("/v1/parse/1?n=2", 400, "there is no parameter `n`"),
        ("/v1/parse/1?format=xml", 400, "format is not dec, hex, base62 or base32"),
        ("/v1/parse/1?format=%", 400, "format has a `%` without two hexadecimal digits"),
        ("/v1/parse/zz?format=hex", 400, "the id cannot be read as `hex`: 'z' at character 1"),
        ("/v1/parse/U?format=base32", 400, "read as `base32`: 'U' at character 1"),
        ("/v1/ids?name=nobody", 404, "there is no name `nobody`"),
        ("/v1/ids?name=%ff", 400, "name is not UTF-8"),
        ("/v1/parse/x", 400, "the id cannot be read as `dec`: 'x' at character 1"),
        ("/v1/parse/-1", 400, "the id cannot be read"),
        ("/v1/parse/+1", 400, "the id cannot be read"),
        ("/v1/parse/9223372036854775808", 400, "the greatest uid is"),
        ("/v1/parse/1?name=nobody", 404, "there is no name"),
        ("/v1/parse/1?name=orders", 400, "without parts"),
        ("/v1/parse", 400, "the id cannot be read"),
        ("/v1/parse/", 404, "no such path"),
        ("/v1/events?name=uid", 400, "there is no parameter `name`; this path has none"),
        ("/v1", 404, "no such path"),
        ("/favicon.ico", 404, "there are /v1/ids, /v1/parse/{id}, "),
    ] {
        let answer = served.curl(path);
        let error = answer.error();
        assert!(answer.status == status && error.contains(words), "{path}: {answer:?} {error}");
    }
    for path in ["/", "/v1/ids", "/v1/parse/1", "/healthz", "/readyz", "/metrics", "/v1/events"] {
        let answer = served.curl_with(path, &["-X", "PUT"]);
        assert_eq!(answer.status, 405, "{path}");
        assert_eq!(answer.headers["allow"], "GET, HEAD, POST");
    }
}

#[test]
fn a_uid_is_taken_apart() {
    let served = Served::start(uids(10));
    let id = served.curl("/api/snowflake/get/x").id();
    let answer = served.curl(&format!("/v1/parse/{id}?name=uid"));
    let value = answer.json();
    assert_eq!(value["uid"], id.to_string());
    assert_eq!((&value["worker_id"], &value["sequence"]), (&10.into(), &(id & 8191).into()));
    assert_eq!(value["tick"], id >> 35);
    let text = value["timestamp"].as_str().expect("a string");
    assert!(text.starts_with("20") && text.ends_with('Z'), "{text}");
    assert!(answer.text().starts_with(&format!("{{\"name\":\"uid\",\"uid\":\"{id}\"")));
}

#[test]
fn metrics_count_what_was_done() {
    let served = Served::start(uids(11).with_segments(segments()));
    served.curl("/v1/ids?count=7");
    served.curl("/api/segment/get/orders");
    served.curl("/v1/ids?name=nobody");
    let answer = served.curl("/metrics");
    assert_eq!(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let text = answer.text();
    for line in [
        "uidring_taken_total{generator=\"uid\"} ",
        "uidring_segment_taken_total{generator=\"segments\",tag=\"orders\"} 1",
        "uidring_server_ids_total{name=\"uid\",protocol=\"http\"} 7",
        "uidring_server_ids_total{name=\"orders\",protocol=\"http\"} 1",
        "uidring_server_ids_total{name=\"<ä> & \\\"b\\\"/c\",protocol=\"http\"} 0",
        "uidring_server_requests_total{protocol=\"http\"} 3",
        "uidring_server_request_errors_total{protocol=\"http\"} 1",
        "uidring_server_accepted_connections_total{protocol=\"http\"} 4",
        "uidring_server_request_duration_seconds_count{protocol=\"http\"} 3",
        "uidring_server_request_duration_seconds_bucket{protocol=\"http\",le=\"+Inf\"} 3",
        "uidring_server_ready{name=\"uid\"} 1",
    ] {
        let lines = || text.lines().filter(|found| found.starts_with(line));
        assert_eq!(lines().count(), 1, "{line}\n{text}");
    }
}
