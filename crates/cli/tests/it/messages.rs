//! How much the program reports on stderr, and in which form.

use std::time::SystemTime;

use serde_json::Value;
use uidring::Timestamp;

use crate::support::{Home, Run};

/// Returns arguments of a generator that warns of its layout's end, because 2^24 seconds are half a year.
fn near_its_end() -> String {
    let today = Timestamp::from(SystemTime::now()).to_string();
    format!("--layout 24/22/13/s/{}", &today[..10])
}

#[test]
fn a_summary_comes_after_many_ids_or_when_asked_for() {
    let home = Home::new();
    for (words, lines) in [
        ("generate -n 999999", 0),
        ("generate -n 1M", 1),
        ("generate -n 1M --output ids", 1),
        ("generate -n 1M -q", 0),
        ("generate -n 5 --generator clock -v", 1),
    ] {
        let run = home.run(words);
        assert_eq!(run.status, Some(0), "{words}: {}", run.stderr);
        let summaries = run.stderr.lines().filter(|line| line.contains(" ids, "));
        assert_eq!(summaries.count(), lines, "{words}: {}", run.stderr);
    }
    let datacenters = "generate --generator snowflake -u worker:3/17 -v";
    let run = home.run(datacenters);
    assert!(run.stderr.contains("\none id, "), "{}", run.stderr);
    assert!(run.stderr.contains(", of datacenter 3, worker 17; the last is"), "{}", run.stderr);
    assert_eq!(home.run("segment create t --step 5").status, Some(0));
    let run = home.run("generate --tag t -n 1M");
    assert_eq!(run.stderr, "1,000,000 ids, 1 to 1000000\n");
}

#[test]
fn quiet_leaves_errors_only() {
    let home = Home::new();
    for (words, status) in [
        ("segment create t --step 5", 0),
        ("segment create t --step 5 --if-not-exists", 0),
        ("generate -u worker:5", 0),
        // Without --quiet, it warns of the password.
        #[cfg(feature = "mysql")]
        ("worker list -u mysql://u:s3cret@127.0.0.1:1/d?deadline=1s", 1),
        ("worker init", 0),
        ("segment create t --step 5", 1),
    ] {
        let run = home.run(&format!("{words} --quiet"));
        assert_eq!(run.status, Some(status), "{words}");
        assert_eq!(run.stderr.lines().count(), usize::from(status != 0), "{words}: {}", run.stderr);
        assert!(run.stderr.is_empty() || run.stderr.starts_with("error: "), "{}", run.stderr);
    }
    let run = home.run(&format!("generate -q {}", near_its_end()));
    assert_eq!((run.status, &*run.stderr), (Some(0), ""));
}

#[test]
fn log_lines_have_a_time_and_a_level() {
    let home = Home::new();
    let warned = home.run(&format!("generate {}", near_its_end()));
    let (time, rest) = warned.stderr.split_once(' ').expect("a time");
    assert!(time.parse::<uidring::Timestamp>().is_ok(), "{}", warned.stderr);
    assert!(rest.starts_with("WARN the layout ends on "), "{}", warned.stderr);
    let verbose = home.run("generate -v");
    assert!(verbose.stderr.contains(" INFO generator started worker_id="), "{}", verbose.stderr);
}

#[test]
fn messages_as_json_are_an_object_each() {
    let home = Home::new();
    let run = home.run(&format!("generate -v --log-format json {}", near_its_end()));
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let lines: Vec<Value> =
        run.stderr.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let levels: Vec<_> = lines.iter().map(|line| line["level"].as_str().expect("text")).collect();
    let expected = ["INFO", "WARN", "INFO", "INFO"];
    assert_eq!(levels, expected, "the file, the layout, the start, the summary: {lines:?}");
    for line in &lines {
        let time = line["timestamp"].as_str().expect("text");
        assert!(time.parse::<uidring::Timestamp>().is_ok() && time.len() == 24, "{line}");
        assert!(line["message"].as_str().is_some_and(|text| !text.is_empty()), "{line}");
    }
    let failed = home.run("check nowhere --log-format json");
    let error: Value = serde_json::from_str(failed.stderr.trim_end()).expect("one object");
    assert_eq!(error["level"], "ERROR");
    assert!(error["message"].as_str().is_some_and(|text| text.starts_with("reading nowhere: ")));
}

/// A message is one line with no control characters, whatever names it contains.
#[test]
fn names_forge_no_messages() {
    let home = Home::new();
    let run = Run::of(home.command("check").arg("a\nerror: b\u{202e}c\u{9b}d"));
    assert_eq!(run.status, Some(1));
    let expected = "error: reading a\\nerror: b\\u{202e}c\\u{9b}d: ";
    assert!(run.stderr.starts_with(expected) && run.stderr.lines().count() == 1, "{run:?}");
    // A default file in a folder of this name gets a warning or an error, depending on the file system here.
    let mut command = home.command("worker assign");
    let folder = home.folder.path().join("a\n\u{202e}b");
    let run = Run::of(command.env("XDG_DATA_HOME", folder).env("UIDRING_CONTAINER", "1"));
    assert!(run.stderr.contains("/a\\n\\u{202e}b/") && run.stderr.lines().count() == 1, "{run:?}");
    assert!(!run.stderr.contains('\u{202e}'), "{run:?}");
}

/// Output into files and pipes has no colours, unless they are requested.
#[test]
fn colours_are_for_terminals() {
    let home = Home::new();
    for words in ["--help", "generate --help", "generate --nonsense", "generate -v", "plan"] {
        let run = home.run(words);
        assert!(!format!("{}{}", run.stdout, run.stderr).contains('\u{1b}'), "{words}: {run:?}");
    }
}

/// The warning comes before the password is sent, and once, however many attempts follow.
#[test]
fn a_password_that_others_can_read_is_warned_of_before_it_is_sent() {
    // By its text, 0.0.0.0 is not this machine. Nobody listens there.
    for url in [
        "mysql://u:s3cret@0.0.0.0:1/d?tls=off&deadline=1s",
        "postgres://u:s3cret@0.0.0.0:1/d?sslmode=disable&deadline=1s",
    ] {
        let home = Home::new();
        home.write_url("url", url);
        let run = home.run("worker list --url-file url");
        assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{run:?}");
        let warning = "a connection to 0.0.0.0 has no TLS: anyone on the path can read";
        assert_eq!(run.stderr.matches(warning).count(), 1, "{run:?}");
        assert!(run.stderr.find(warning) < run.stderr.find("trying again"), "{run:?}");
        assert!(!run.stderr.contains("s3cret"), "{run:?}");
    }
}
