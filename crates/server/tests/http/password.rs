//! A server that requires a token.

use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use uidring_server::{Issuer, Names};

use crate::served::{Answer, PATIENCE, Served, generator, uids};

#[test]
fn a_token_opens_what_is_not_open() {
    let served = Served::with(uids(20), |server| server.password("s3cret"));
    let paths = ["/v1/ids", "/v1/parse/1", "/metrics", "/cache", "/db", "/nothing"];
    let paths = paths.into_iter().chain(["/api/snowflake/get/x", "/api/segment/get/x"]);
    for path in paths.chain(["/decodeSnowflakeId?snowflakeId=1", "/v1/events"]) {
        for header in [
            "X-Nothing: s3cret",
            "Authorization: s3cret",
            "Authorization: Bearer",
            "Authorization: Bearer ",
            "Authorization: Bearer s3cre",
            "Authorization: Bearer s3cret2",
            "Authorization: Basic s3cret",
            "Authorization: Bearér s3cret",
        ] {
            let answer = served.curl_with(path, &["-H", header]);
            assert_eq!(answer.status, 401, "{path} with {header}");
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
            assert!(answer.error().contains("token") && !answer.text().contains("s3c"));
        }
    }
    for header in ["Authorization: Bearer s3cret", "authorization: bearer  s3cret "] {
        served.curl_with("/api/snowflake/get/x", &["-H", header]).id();
    }
    for path in ["/healthz", "/"] {
        assert_eq!(served.curl(path).status, 200, "{path} is open");
    }
}

/// Kubernetes' probes send no token. They must learn no names, and use up no more than a uid a second.
#[test]
fn readiness_is_open_and_says_no_more_than_that() {
    let generator = generator(29);
    let names = Names::new().with("uid", Issuer::Ordered(Arc::clone(&generator)));
    let served = Served::with(names, |server| server.password("s3cret"));
    let known = served.curl_with("/readyz", &["-H", "Authorization: Bearer s3cret"]);
    assert_eq!(known.json()["failing"], json!([]));
    let (begin, taken) = (Instant::now(), generator.stats().taken);
    for _ in 0..50 {
        let answer = served.curl_with("/readyz", &["-H", "Authorization: Bearer s3cre"]);
        assert_eq!((answer.status, answer.text()), (200, "{\"ready\":true}\n"));
    }
    let checks = generator.stats().taken - taken;
    assert!((1..=begin.elapsed().as_secs() + 1).contains(&checks), "{checks} checks");
    generator.close();
    let end = Instant::now() + PATIENCE;
    while served.curl("/readyz").status != 503 {
        assert!(Instant::now() < end, "still ready");
    }
    assert_eq!(served.curl("/readyz").text(), "{\"ready\":false}\n");
}

/// A page of another site may make a browser ask, and let its own name resolve to this host.
#[test]
fn browsers_ask_for_this_servers_own_page_alone() {
    let served = Served::with(uids(97), |server| server);
    for header in
        ["Host: evil.example", "Host: evil.example:80", "Host: localhost.evil.example:8080"]
    {
        let answer = served.curl_with("/api/snowflake/get/x", &["-H", header]);
        assert_eq!(answer.status, 403, "{header}");
    }
    for header in [
        "Host: localhost",
        "Host: LOCALHOST:99",
        "Host: 127.0.0.1:1",
        "Host: [::1]:1",
        "Host: [::1]",
    ] {
        served.curl_with("/api/snowflake/get/x", &["-H", header]).id();
    }
    let named = served.curl_with("/v1/ids", &["-H", "Host: evil.example:80"]);
    assert!(named.error().starts_with("the Host header names `evil.example:80`"), "{named:?}");
    let answer = served.curl_with("/v1/ids", &["-H", "Sec-Fetch-Site: cross-site"]);
    assert!(answer.status == 403 && answer.error().contains("another site"), "{}", answer.status);
    // A link to the dashboard.
    for (path, mode, status) in
        [("/", "navigate", 200), ("/", "cors", 403), ("/v1/ids", "navigate", 403)]
    {
        let mode = format!("Sec-Fetch-Mode: {mode}");
        let arguments = ["-H", "Sec-Fetch-Site: cross-site", "-H", &mode];
        assert_eq!(served.curl_with(path, &arguments).status, status, "{path} {mode}");
    }
    served.curl_with("/api/snowflake/get/x", &["-H", "Sec-Fetch-Site: same-origin"]).id();
}

/// A proxy in between must understand the same host.
#[test]
fn a_request_names_one_host() {
    let served = Served::start(uids(26));
    let status = |head: &str| {
        let answer = served.send(format!("{head}\r\n\r\n").as_bytes());
        Answer::split(&answer).expect("an answer").0.status
    };
    for wrong in [
        "GET /v1/ids HTTP/1.1",
        "GET /v1/ids HTTP/1.1\r\nHost: localhost\r\nHost: localhost",
        "GET /v1/ids HTTP/1.1\r\nHost: localhost\r\nhost: evil.example",
        "GET /v1/ids HTTP/1.1\r\nHost: \u{e4}",
        "GET /v1/ids HTTP/1.1\r\nHost: a b",
        "GET http://evil.example/v1/ids HTTP/1.1\r\nHost: localhost",
        "GET http://localhost:81/v1/ids HTTP/1.1\r\nHost: localhost",
        "GET https://localhost:80/v1/ids HTTP/1.1\r\nHost: localhost",
        "GET http://localhost/v1/ids HTTP/1.1\r\nHost: localhost:443",
        "GET http://me@localhost/v1/ids HTTP/1.1\r\nHost: localhost",
        "GET http://me@localhost/v1/ids HTTP/1.1\r\nHost: me@localhost",
        "GET /v1/ids HTTP/1.1\r\nHost: me@localhost",
        "GET /healthz HTTP/1.1",
    ] {
        assert_eq!(status(wrong), 400, "{wrong}");
    }
    for right in [
        "GET /v1/ids HTTP/1.1\r\nHost: localhost",
        "GET http://LOCALHOST/v1/ids HTTP/1.1\r\nHost: localhost",
        "GET http://localhost:80/v1/ids HTTP/1.1\r\nHost: localhost",
        "GET http://localhost/v1/ids HTTP/1.1\r\nHost: localhost:80",
        "GET https://localhost:443/v1/ids HTTP/1.1\r\nHost: localhost",
        "GET /v1/ids HTTP/1.1\r\nHost:",
        "GET /v1/ids HTTP/1.0",
    ] {
        assert_eq!(status(right), 200, "{right}");
    }
    let answer = served.send(b"GET http://localhost/v1/ids HTTP/1.0\r\n\r\n");
    let error = Answer::split(&answer).expect("an answer").0.error();
    assert_eq!(error, "the target names a host, and there is no Host header; send one");
}

/// Browsers name the origin of a page.
#[test]
fn pages_of_other_origins_are_refused() {
    for server in [Served::start(uids(27)), Served::with(uids(28), |server| server.password("x"))] {
        let host = server.address.to_string();
        let status = |origin: &str| {
            let header = format!("Origin: {origin}");
            let arguments = ["-X", "POST", "-H", "Authorization: Bearer x", "-H", &header];
            server.curl_with("/v1/ids", &arguments).status
        };
        for origin in ["null", "http://evil.example", "http://localhost", "x", &host] {
            assert_eq!(status(origin), 403, "{origin}");
        }
        assert_eq!(status(&format!("http://{host}")), 200);
    }
}
