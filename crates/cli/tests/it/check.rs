//! `uidring check`, with ids of any origin.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Home, Run};

fn check(words: &str, input: &str) -> (Option<i32>, Value, String) {
    let home = Home::new();
    let mut command = home.command(&format!("check --json {words}"));
    let run = Run::with_input(&mut command, input.as_bytes());
    (run.status, serde_json::from_str(&run.stdout).expect("JSON"), run.stderr)
}

#[test]
fn good_ids_are_good_in_every_form() {
    let home = Home::new();
    for format in ["dec", "hex", "base62", "base32", "json", "binary"] {
        let file = format!("{format}.ids");
        home.stdout(&format!("generate -n 5000 --format {format} --output {file}"));
        let words = format!("check --ordered --json --layout uid --format {format} {file}");
        let found: Value = serde_json::from_str(&home.stdout(&words)).expect("JSON");
        for (key, value) in
            [("ids", 5_000), ("unreadable", 0), ("duplicates", 0), ("out_of_order", 0)]
        {
            assert_eq!(found[key], value, "{format}: {found}");
        }
        let fields = &found["fields"];
        assert_eq!((&fields["worker_ids"], &fields["of_another_layout"]), (&1.into(), &0.into()));
        assert!(fields["first_time"].as_str().is_some_and(|time| time.starts_with("20")));
    }
    // The same file twice, each in ascending order.
    let all = home.run("check --format binary --ordered binary.ids binary.ids");
    assert_eq!(all.status, Some(1), "{all:?}");
    assert!(all.stdout.contains("duplicates    5,000\n"), "{all:?}");
    assert!(all.stdout.contains("out of order  1\n"), "{all:?}");
    assert_eq!(all.stderr.lines().count(), 11, "a descent, and ten of the ids: {all:?}");
}

#[test]
fn nothing_to_check_is_good_and_causes_a_warning() {
    let (status, found, said) = check("", "");
    assert_eq!((status, &found["ids"]), (Some(0), &0.into()));
    assert_eq!(said, "warning: there was no id to check\n");
    assert_eq!(check("", "x\n").2.lines().count(), 1, "a line that holds none");
}

#[test]
fn each_mistake_is_counted_and_shown() {
    let (status, found, said) = check("", "\u{feff}7\n5\n5\n5\nx\n\n9\n7\n\n");
    assert_eq!(status, Some(1));
    let expected = json!({
        "ids": 6, "unreadable": 1, "duplicates": 3, "out_of_order": 4, "min": "5", "max": "9",
        "first_out_of_order": "stdin, line 2: 5 comes after 7",
    });
    assert_eq!(found, expected);
    let lines: Vec<_> = said.lines().collect();
    let [x, five, seven] = lines[..] else { panic!("{said}") };
    assert!(x.starts_with("error: stdin, line 5: `x`: "), "{said}");
    assert_eq!(five, "error: 5 comes more than once");
    assert_eq!(seven, "error: 7 comes more than once");

    let home = Home::new();
    fs::write(home.folder.path().join("a"), "7\n5\n").expect("writes");
    fs::write(home.folder.path().join("b"), "\n7\n").expect("writes");
    let run = home.run("check a b");
    assert_eq!(run.stderr, "error: 7 comes more than once: a, line 1, b, line 2\n");
    assert!(run.stdout.contains("out of order  1; a, line 2: 5 comes after 7\n"), "{run:?}");

    let (status, found, said) = check("--ordered", "7\n5\n9\n");
    assert_eq!((status, &found["out_of_order"]), (Some(1), &1.into()));
    assert_eq!(said, "error: stdin, line 2: 5 comes after 7\n");
    assert_eq!(check("", "7\n5\n9\n").0, Some(0), "order is not demanded");
    assert_eq!(check("--ordered", "").0, Some(0), "no id is no mistake");
}

#[test]
fn fields_are_those_of_the_layout() {
    // 4 bits in all. The ids below are n × 2^35 + 3 × 2^13 + 2: n seconds, worker 3, sequence 2.
    let (status, found, said) = check("--layout 1/2/1/s/2026-01-01", "15\n16\n");
    assert_eq!((status, &found["fields"]["of_another_layout"]), (Some(1), &1.into()), "{said}");
    assert!(said.contains("line 2: uid 16 is not of this layout"), "{said}");
    let input = "34359762946\n68719501314\n9223372036854775807\n";
    let (status, found, _) = check("--layout uid", input);
    let fields = &found["fields"];
    assert_eq!((status, &fields["worker_ids"]), (Some(0), &2.into()), "{found}");
    assert_eq!(fields["first_time"], "2026-01-01T00:00:01Z");
    assert_eq!(fields["last_time"], "2034-07-04T21:24:15Z");
    assert_eq!(fields["ahead_of_the_clock"], 1);
    assert!(fields["seconds_ahead"].as_f64().is_some_and(|seconds| seconds > 1e6), "{found}");
}

/// The ids are sorted in two parts. One id is in both.
#[test]
fn more_ids_than_are_sorted_in_memory() {
    // The tested program sorts fewer in memory in debug builds.
    const COUNT: u64 = if cfg!(debug_assertions) { 300_000 } else { 8_500_000 };
    let home = Home::new();
    let mut bytes = Vec::new();
    // Each id once, in no order, because the two numbers have no common factor.
    for index in 0..COUNT {
        bytes.extend_from_slice(&(index * 7_654_321 % COUNT).to_le_bytes());
    }
    let place = (0..COUNT).find(|index| index * 7_654_321 % COUNT == 123).expect("it is there");
    bytes.extend_from_slice(&123_u64.to_le_bytes());
    fs::write(home.folder.path().join("ids"), &bytes).expect("writes");
    let run = home.run("check --format binary ids --json");
    assert_eq!(run.status, Some(1), "{run:?}");
    assert_eq!(
        run.stderr,
        format!("error: 123 comes more than once: ids, id {}, ids, id {}\n", place + 1, COUNT + 1)
    );
    let found: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!((&found["ids"], &found["duplicates"]), (&(COUNT + 1).into(), &1.into()));
    let left: Vec<_> = fs::read_dir(home.folder.path()).expect("is there").collect();
    assert_eq!(left.len(), 1, "no temporary file is left: {left:?}");

    // TMPDIR sets the folder of the temporary file.
    let nowhere = Run::of(home.command("check --format binary ids").env("TMPDIR", "/nowhere"));
    assert_eq!((nowhere.status, &*nowhere.stdout), (Some(1), ""), "{nowhere:?}");
    assert!(nowhere.stderr.contains("temporary file in /nowhere"), "{nowhere:?}");
    assert!(nowhere.stderr.contains("set TMPDIR"), "{nowhere:?}");
}

/// `script` provides a terminal.
#[cfg(target_os = "linux")]
#[test]
fn progress_is_shown_on_a_terminal() {
    let home = Home::new();
    let bytes: Vec<u8> = (0..2_500_000_u64).flat_map(u64::to_le_bytes).collect();
    fs::write(home.folder.path().join("ids"), bytes).expect("writes");
    let script = r#"script -qefc "'$1' check --format binary ids" /dev/null"#;
    let run = Run::of(&mut home.under_sh(script));
    assert_eq!(run.status, Some(0), "{run:?}");
    assert!(run.stdout.contains(" read, "), "{run:?}");
    assert!(run.stdout.contains("2,500,000"), "{run:?}");
}

#[test]
fn a_file_that_cannot_be_read_is_a_failure() {
    let run = Home::new().run("check nowhere");
    assert_eq!((run.status, &*run.stdout), (Some(1), ""));
    assert!(run.stderr.starts_with("error: reading nowhere: "), "{run:?}");
}
