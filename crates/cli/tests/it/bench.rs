//! `uidring bench`: its figures are plausible, and it reports what it cannot do. The figures themselves depend on the
//! machine.

use std::fs;
use std::io;

use serde_json::Value;
use uidring::clock::{Clock, SystemClock};

use crate::support::{Home, Run};

/// Too short to measure anything, long enough to check that it works.
const SHORT: &str = "bench --seconds 0.05";

/// No bench uses up this layout.
const LASTS: &str = "--layout 45/5/13/s/1970-01-01";

#[test]
fn the_table_has_its_rows() {
    let home = Home::new();
    let table = home.stdout(SHORT);
    let names = ["shared", "per-thread", "local", "fill", "fetch_add", "increment", "store_loop"];
    for name in names {
        let [ns, ratio, rate] = cells(&table, "ns/uid", name)[..] else { panic!("{table}") };
        assert!(ns > 0.0 && ratio > 0.0 && rate > 0.0, "{name}: {table}");
        let latency = cells(&table, "calls timed", name);
        assert!(latency.len() >= 5 && latency[..5].is_sorted(), "{name}: {table}");
    }
    assert_eq!(cells(&table, "ns/uid", "fetch_add")[1], 1.0, "{table}");
    assert!(table.contains("pair of clock readings"), "{table}");
    assert!(table.contains("layout 28/22/13 in s from 2026-01-01"), "{table}");
    assert!(is_untouched(&home), "a bench spends no worker id");
}

#[test]
fn the_json_is_sane() {
    let report = json("");
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert!(report["machine"]["cores"].as_u64() >= Some(1), "{report}");
    assert!(report["machine"]["os"].is_string(), "{report}");
    assert!(report["timer_ns"].is_u64() && report["rounds"].as_u64() >= Some(15), "{report}");
    let settings = &report["settings"];
    assert_eq!(
        settings["forms"],
        Value::from(["shared", "per-thread", "local", "fill"].as_slice())
    );
    assert_eq!(settings["threads"], 1);
    assert_eq!(settings["ring_uids"], 8_192 << 3);
}

#[test]
fn every_form_has_its_baselines() {
    let forms = [
        ("shared", vec!["shared", "fetch_add"]),
        ("per-thread", vec!["per-thread", "fetch_add", "increment"]),
        // Each once, in the order of all.
        ("local,shared,local", vec!["shared", "local", "fetch_add", "increment"]),
        ("fill", vec!["fill", "fetch_add", "store_loop"]),
    ];
    for (form, names) in forms {
        let report = json(&format!("--form {form} --threads 2"));
        let results = report["results"].as_object().expect("an object");
        assert_eq!(results.keys().collect::<Vec<_>>(), names);
        for (name, figures) in results {
            check_figures(figures);
            let is_many = ["fill", "store_loop"].contains(&&**name);
            assert_eq!(figures["uids_per_call"], if is_many { 4_096 } else { 1 }, "{name}");
            let ratios = &figures["ratios_to_fetch_add"];
            assert!(ratios["ns_per_uid"].as_f64() > Some(0.0), "{ratios}");
            let tail = ratios["p99_99"].as_f64();
            assert!(if is_many { tail.is_none() } else { tail > Some(0.0) }, "{ratios}");
        }
    }
}

#[test]
fn every_flag_is_taken() {
    let words = "--seconds 1e-1 --threads 3 --layout 40/10/10/ms/2020-01-01";
    let report = json(words);
    let settings = &report["settings"];
    for (key, value) in [
        ("threads", Value::from(3)),
        ("seconds", 0.1.into()),
        ("layout", "40/10/10".into()),
        ("tick", "ms".into()),
        ("epoch", "2020-01-01T00:00:00Z".into()),
        ("ring_uids", (1_024 << 3).into()),
    ] {
        assert_eq!(settings[key], value, "{key}");
    }
    check_figures(&report["results"]["shared"]);
    if cfg!(target_os = "linux") {
        assert_eq!(json("--pin")["settings"]["pin"], true);
    }
}

#[test]
fn the_layout_is_the_default_one_or_the_one_given() {
    for (words, layout, epoch) in [
        ("", "28/22/13", "2026-01-01T00:00:00Z"),
        ("--layout 28/22/13/s/2025-01-01", "28/22/13", "2025-01-01T00:00:00Z"),
        ("--layout javascript-safe", "31/10/12", "2026-01-01T00:00:00Z"),
        ("--layout 30/20/13", "30/20/13", "2026-01-01T00:00:00Z"),
    ] {
        let settings = &json(words)["settings"];
        assert_eq!((&settings["layout"], &settings["epoch"]), (&layout.into(), &epoch.into()));
    }
}

#[test]
fn a_layout_that_runs_out_is_an_error_that_names_one_that_lasts() {
    let home = Home::new();
    let today = SystemClock.now().date();
    // Less than 2^17 s of two uids each are left, which even a slow machine uses up at once.
    let words = format!("bench --seconds 2 --layout 17/1/1/s/{today}");
    let run = home.run(&words);
    assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{}", run.stderr);
    let error = run.stderr.lines().last().unwrap_or_default();
    assert!(error.starts_with("error: the layout ran out of timestamps"), "{}", run.stderr);
    assert!(error.contains(LASTS), "{}", run.stderr);
    let settings = &json(LASTS)["settings"];
    assert_eq!(settings["layout"], "45/5/13");
    assert_eq!(settings["epoch"], "1970-01-01T00:00:00Z");
}

#[test]
fn wrong_flags_are_wrong_usage() {
    let home = Home::new();
    for words in [
        "--threads 0",
        "--threads 1025",
        "--threads many",
        "--seconds 0",
        "--seconds -1",
        "--seconds 3601",
        "--seconds nan",
        "--seconds inf",
        "--form other",
        "--layout 1/2",
        "--layout 60/5/13",
        "--layout 28/22/13/h/2026-01-01",
        "--layout 28/22/13/s/today",
        "-u worker:1",
        "words",
    ] {
        let run = home.run(&format!("bench {words}"));
        assert_eq!((run.status, &*run.stdout), (Some(2), ""), "{words}: {}", run.stderr);
        assert!(run.stderr.starts_with("error: "), "{words}: {}", run.stderr);
    }
    assert!(is_untouched(&home), "no file is made for words that are wrong");
}

#[test]
fn who_stops_reading_is_no_failure_and_a_full_disk_is_one() {
    let home = Home::new();
    let (reader, writer) = io::pipe().expect("a pipe");
    drop(reader);
    let run = Run::of(home.command(SHORT).stdout(writer));
    assert_eq!((run.status, &*run.stderr), (Some(0), ""));
    if cfg!(target_os = "linux") {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("is there");
        let run = Run::of(home.command(SHORT).stdout(full));
        assert_eq!(run.status, Some(1));
        assert!(run.stderr.starts_with("error: "), "{}", run.stderr);
    }
}

#[test]
fn help_says_what_becomes_of_the_uids() {
    let home = Home::new();
    let help = home.stdout("bench --help");
    for text in ["Examples:\n  uidring ", LASTS, "none is spent"] {
        assert!(help.contains(text), "{text}: {help}");
    }
    assert!(home.stdout("--help").contains("bench"));
}

fn json(words: &str) -> Value {
    let seconds = if words.contains("--seconds") { "" } else { "--seconds 0.05" };
    let text = Home::new().stdout(&format!("bench --json {seconds} {words}"));
    assert_eq!(text.lines().count(), 1, "one object: {text}");
    serde_json::from_str(&text).expect("JSON")
}

fn check_figures(figures: &Value) {
    let above = |key: &str| figures[key].as_f64().filter(|number| *number > 0.0);
    let (ns, rate) = (above("ns_per_uid"), above("million_uids_per_second"));
    let product = ns.zip(rate).map(|(ns, rate)| ns * rate);
    assert!(product.is_some_and(|product| (product - 1_000.0).abs() < 1.0), "{figures}");
    let latency = &figures["latency_ns"];
    let times = ["p50", "p99", "p99_9", "p99_99", "max"].map(|key| latency[key].as_u64());
    assert!(times.iter().all(Option::is_some) && times.is_sorted(), "{figures}");
    assert!(times[4] > Some(0) && latency["calls"].as_u64() > Some(0), "{figures}");
}

/// Returns the numbers of the row with this name, in the part of the table whose heading has this word.
fn cells(table: &str, heading: &str, row: &str) -> Vec<f64> {
    let part = table
        .split("\n\n")
        .find(|part| part.lines().next().is_some_and(|line| line.contains(heading)));
    let line =
        part.and_then(|part| part.lines().find_map(|line| line.strip_prefix(&format!("{row} "))));
    let line = line.unwrap_or_else(|| panic!("{heading}, {row}: {table}"));
    line.split_whitespace()
        .filter(|cell| *cell != "%")
        .map_while(|cell| cell.parse().ok())
        .collect()
}

fn is_untouched(home: &Home) -> bool {
    fs::read_dir(home.folder.path()).expect("is there").next().is_none()
}
