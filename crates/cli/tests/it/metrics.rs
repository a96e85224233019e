//! The alert rules and the dashboard of the docs, against the metrics of a running server.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::serve::{LIMIT, Server, ids};
use crate::support::Home;

const ALERTS: &str = "alerts.yml";
const DASHBOARD: &str = "deploy/grafana.json";

/// Metrics of the library that no server has: none of its generators is on the clock. The core compares the table in
/// docs/operations.md with its code.
const NOT_OF_SERVERS: [&str; 1] = ["uidring_clock_refusals_total"];

fn read(name: &str) -> String {
    fs::read_to_string(uidring_testkit::docs::folder().join(name)).expect(name)
}

fn dashboard() -> Value {
    serde_json::from_str(&read(DASHBOARD)).expect("it is JSON")
}

/// Returns the panels by title, without the rows that group them.
fn panels(dashboard: &Value) -> BTreeMap<&str, &Value> {
    let all = dashboard["panels"].as_array().expect("panels");
    let panels = all.iter().filter(|panel| panel["type"] != "row");
    panels.map(|panel| (panel["title"].as_str().expect("a title"), panel)).collect()
}

/// Returns the queries of a panel.
fn queries(panel: &Value) -> Vec<&str> {
    let targets = panel["targets"].as_array().map_or(&[][..], Vec::as_slice);
    targets.iter().map(|target| target["expr"].as_str().expect("a query")).collect()
}

/// Returns the words of a text that are names of metrics.
fn names_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("uidring_")).collect()
}

/// What an alert fires on: a comparison, perhaps with further conditions.
struct Alert<'a> {
    name: &'a str,
    query: &'a str,
    metric: &'a str,
    sign: &'a str,
    limit: f64,
}

fn alerts(text: &str) -> Vec<Alert<'_>> {
    let mut lines = text.lines().map(str::trim);
    let mut alerts = Vec::new();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix("- alert: ") else { continue };
        let query = lines.find_map(|line| line.strip_prefix("expr: ")).expect(name);
        let words: Vec<_> = query.split(' ').collect();
        let number = |place: usize| words[place].parse::<f64>().expect(query);
        let factor = if words.get(3) == Some(&"*") { number(4) } else { 1.0 };
        let metric = names_in(words[0]).pop_first().expect(query);
        alerts.push(Alert { name, query, metric, sign: words[1], limit: number(2) * factor });
    }
    alerts
}

#[test]
fn alerts_and_dashboard_name_metrics_that_exist() {
    let home = Home::new();
    let url = "-u sqlite:ids.db?mode=rwc";
    let run = home.run(&format!("segment create orders --step 100 {url}"));
    assert_eq!(run.status, Some(0), "{run:?}");
    let words = format!("serve --redis 0 --http 0 --thrift none --batch none --worker lease {url}");
    let server = Server::start(&mut home.command(&words));
    for name in ["uid", "orders"] {
        assert_eq!(ids(&server.ask(&format!("INCR {name}"), 3)).count(), 3);
    }
    let line = server.said.lines().find_map(|line| line.strip_prefix("http "));
    let address = line.expect("it says where").trim().trim_start_matches("http://");
    let address = address.trim_end_matches('/');
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(LIMIT)).expect("set");
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("UTF-8");
    assert!(answer.starts_with("HTTP/1.0 200 "), "{answer}");
    let samples = answer.lines().filter(|line| line.starts_with("uidring_"));
    let of_server: BTreeSet<_> = samples.filter_map(|line| line.split(['{', ' ']).next()).collect();

    let operations = read("operations.md");
    for name in NOT_OF_SERVERS {
        assert!(!of_server.contains(name) && operations.contains(&format!("\n| `{name}` |")));
    }
    for page in [ALERTS, DASHBOARD] {
        let text = read(page);
        let names = names_in(&text);
        assert!(names.len() > 8, "{page}: {names:?}");
        for name in names {
            let is_known = of_server.contains(name) || NOT_OF_SERVERS.contains(&name);
            assert!(is_known, "{page} names {name}: {answer}");
        }
    }
}

#[test]
fn panels_of_the_dashboard_are_complete() {
    let dashboard = dashboard();
    assert_eq!(dashboard["uid"], "uidring");
    let panels = panels(&dashboard);
    assert!(!panels.is_empty() && panels.len() <= 12, "{}", panels.len());
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    let variables: BTreeSet<_> =
        variables.iter().filter_map(|each| each["name"].as_str()).collect();
    assert!(variables.contains("DS_PROMETHEUS"));
    for (title, panel) in &panels {
        let has_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
        assert!(has_text(&panel["description"]), "{title} has a description");
        assert!(has_text(&panel["fieldConfig"]["defaults"]["unit"]), "{title} has a unit");
        assert_eq!(panel["datasource"]["uid"], "${DS_PROMETHEUS}", "{title}");
        assert!(!queries(panel).is_empty(), "{title} has a query");
        for query in queries(panel) {
            assert!(!names_in(query).is_empty(), "{title}: {query}");
            for rest in query.split("\"$").skip(1) {
                let variable = rest.split('"').next().expect("a split has a first part");
                assert!(variables.contains(variable), "{title}: {query}");
            }
        }
    }
    let all = dashboard["panels"].as_array().expect("panels");
    let own: BTreeSet<_> = all.iter().map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(own.len(), all.len(), "each panel has an id of its own");
}

/// What an alert fires on can be seen in a panel: its metrics, and the limit as a threshold or in the query.
#[test]
fn the_dashboard_shows_what_alerts_fire_on() {
    let text = read(ALERTS);
    let alerts = alerts(&text);
    assert_eq!(alerts.len(), text.matches("alert: ").count());
    let dashboard = dashboard();
    let panels = panels(&dashboard);
    for Alert { name, query, metric, sign, limit } in alerts {
        let is_in = |panel: &Value, metric: &str| {
            queries(panel).iter().any(|query| names_in(query).contains(metric))
        };
        for metric in names_in(query) {
            assert!(panels.values().any(|panel| is_in(panel, metric)), "{name}: {metric}");
        }
        let shows_limit = |panel: &Value| {
            if sign == "==" {
                let condition = format!("}} == {limit}");
                let mut parts =
                    queries(panel).into_iter().filter_map(|query| query.split_once(&condition));
                // The name that stands last before it.
                let last = |begin: &str| begin.rfind("uidring_");
                return parts.any(|(begin, _)| {
                    begin.rfind(metric).is_some_and(|at| Some(at) == last(begin))
                });
            }
            let steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"].as_array();
            let mut values = steps.into_iter().flatten().filter_map(|step| step["value"].as_f64());
            // A panel is red from a threshold on, and an alert for more than 0 fires above it.
            values.any(|value| (value - limit).abs() < 0.01)
        };
        let mut showing = panels.values().filter(|panel| is_in(panel, metric));
        assert!(showing.any(|panel| shows_limit(panel)), "{name}: {metric} {sign} {limit}");
    }
}
