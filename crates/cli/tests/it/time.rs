//! `uidring generate` and the clock: how far ahead or behind uids may be.

use std::io::{BufRead, BufReader};
use std::process::Command;

use uidring::clock::{Clock, SystemClock};
use uidring::{Layout, Timestamp, Uid};

use crate::support::{Home, Run};

/// Returns the greatest lead of the printed uids over the time when they are read.
fn greatest_lead(words: &str, count: usize) -> std::time::Duration {
    let home = Home::new();
    let mut child = home.command(&format!("{words} -n {count}")).spawn().expect("starts");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let mut seen = 0;
    let lead = |line: String| {
        seen += 1;
        let uid: Uid = line.parse().expect("a uid");
        let time: Timestamp = Layout::UID_GENERATOR.decode(uid).expect("its layout").timestamp;
        time.saturating_since(SystemClock.now())
    };
    let greatest = output.lines().map(|line| line.expect("text")).map(lead).max();
    assert!(child.wait().expect("ends").success());
    assert_eq!(seen, count);
    greatest.expect("some")
}

/// At 8,192 uids a second, this many take two seconds, or borrow some.
#[test]
fn who_may_borrow_nothing_waits_for_the_clock() {
    let words = "generate --layout 28/22/13";
    assert!(
        greatest_lead(&format!("{words} --max-borrow 0 -u sqlite:?max-lag=0.5"), 20_000).is_zero()
    );
    let bounded = greatest_lead(&format!("{words} --max-borrow 1.5"), 40_000);
    assert!(!bounded.is_zero() && bounded.as_millis() <= 1_500, "{bounded:?}");
    assert!(greatest_lead(words, 1_000_000).as_secs() > 3, "without a bound it borrows");
}

/// At 8,192 uids a second, half a million take a minute, of which ten seconds may be borrowed.
#[test]
fn a_wait_that_is_foreseen_is_announced_with_what_helps_against_it() {
    let home = Home::new();
    let words = "generate -n 500000 --worker lease -u sqlite:leases.db?mode=rwc";
    let mut waiting = home.command(&format!("{words} --max-borrow 10 --output waits"));
    let mut child = waiting.spawn().expect("starts");
    let mut said = BufReader::new(child.stderr.take().expect("piped")).lines();
    let told = said.next().expect("a line").expect("text");
    assert!(
        told.starts_with("500,000 uids take about 51 s: layout 28/22/13 has 8,192 a"),
        "{told}"
    );
    assert!(told.contains("none may be more than 10s ahead of the clock"), "{told}");
    assert!(told.contains("`--max-borrow 3m` lets them all be borrowed"), "{told}");
    let logged = said.next().expect("a line").expect("text");
    let why = "padding waits: uids are as far ahead of the clock as max_borrow allows";
    assert!(logged.contains(why) && !logged.contains("lease"), "{logged}");
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill").success());
    child.wait().expect("ends");

    let run = home.run(&format!("{words} --max-borrow 3m"));
    assert!(run.status == Some(0) && !run.stderr.contains("take about"), "{}", run.stderr);
    let layout =
        home.run("generate -n 500000 -u sqlite:other.db?mode=rwc --max-borrow 0 --layout 31/10/22");
    assert_eq!((layout.status, &*layout.stderr), (Some(0), ""));
}

#[cfg(target_os = "linux")]
#[test]
fn the_time_that_is_left_is_shown_on_a_terminal() {
    let home = Home::new();
    let generate = "'$1' generate -n 135000 --max-borrow 10 --output waits";
    let run = Run::of(&mut home.under_sh(&format!("script -qefc \"{generate}\" /dev/null")));
    let left = (0..=7).filter(|left| run.stdout.contains(&format!("/s, {left} s left")));
    assert!(left.count() >= 2, "it goes down: {run:?}");
}

#[test]
fn bounds_are_seconds_of_a_generator_that_has_a_ring() {
    let home = Home::new();
    for words in
        ["--max-borrow 0 -u sqlite:?max-lag=0", "-u sqlite:?max-lag=1e3", "--max-borrow 0.001"]
    {
        let run = home.run(&format!("generate -n 3 {words}"));
        assert_eq!((run.status, run.stdout.lines().count()), (Some(0), 3), "{words}: {run:?}");
    }
    for words in [
        "--max-borrow -1",
        "--max-borrow x",
        "--max-borrow nan",
        "-u sqlite:?max-lag=inf",
        "-u sqlite:?max-lag=none",
        "-u sqlite:?max-lag=1e30",
        "--generator clock --max-borrow 1",
        "--generator clock -u sqlite:?max-lag=1",
    ] {
        let run = home.run(&format!("generate {words}"));
        assert_eq!((run.status, &*run.stdout), (Some(2), ""), "{words}");
        assert!(run.stderr.starts_with("error: "), "{words}: {}", run.stderr);
    }
}

/// The table of docs/inside-time.md: what a million uids a second borrow, and how long the field lasts.
#[test]
fn a_plan_does_the_sums_of_the_table_of_borrowing() {
    let home = Home::new();
    for (layout, per_second, borrowed, days) in [
        ("28/22/13", 8_192, 121.1, 25.0),
        ("29/21/13", 8_192, 121.1, 51.0),
        ("31/10/12", 4_096, 243.1, 102.0),
        ("31/10/22", 4_194_304, 0.0, 0.0),
        ("41/10/12/ms/2026-01-01", 4_096_000, 0.0, 0.0),
    ] {
        let text = home.stdout(&format!("plan --json --rate 1000000 --layout {layout}"));
        let plan: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(plan["uids_per_second"].as_f64(), Some(f64::from(per_second)), "{layout}");
        let lead = plan["burst_lead_per_second"].as_f64().expect("a number");
        assert!((lead - borrowed).abs() < 0.05, "{layout}: {lead}");
        // For the whole field, as if it began today.
        let time = |key: &str| plan[key].as_str().expect(key).parse::<Timestamp>().expect("a time");
        let whole = time("last_instant").saturating_since(time("epoch")).as_secs_f64();
        let lasts = whole / (lead + 1.0) / 86_400.0;
        assert!(days == 0.0 || (lasts - days).abs() < 1.0, "{layout}: {lasts} days");
        assert_eq!(plan["burst_seconds"].is_null(), borrowed == 0.0, "{layout}");
    }
}
