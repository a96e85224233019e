//! The program `uidring`: fresh uids, sources of the worker id, and failures. Only on Unix can the user's data
//! directory be moved.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use uidring::clock::{Clock, SystemClock};
use uidring::{Fields, Layout, Uid};

use crate::support::{Home, Run};

#[test]
fn seven_million_uids_increase() {
    const COUNT: u64 = 7_000_000;
    let home = Home::new();
    let mut child = home.command("generate -n 7M").spawn().expect("starts");
    let mut output = BufReader::with_capacity(1 << 20, child.stdout.take().expect("piped"));
    let (mut line, mut count, mut before) = (String::new(), 0, None);
    while output.read_line(&mut line).expect("reads") > 0 {
        let number: u64 = line.trim_end_matches('\n').parse().expect("a number");
        assert!(before < Some(number), "{number} after {before:?}");
        before = Some(number);
        count += 1;
        line.clear();
    }
    assert_eq!(count, COUNT);
    let rest = child.wait_with_output().expect("ends");
    assert!(rest.status.success());
    // If this takes more than ten seconds, a warning says that such a rate uses up the layout.
    let said = String::from_utf8_lossy(&rest.stderr);
    let (summary, warnings): (Vec<_>, Vec<_>) =
        said.lines().partition(|line| line.starts_with("7,000,000 ids, "));
    assert!(warnings.iter().all(|line| line.contains("is left at the present rate")), "{said}");
    let [summary] = summary[..] else { panic!("one summary: {said}") };
    assert!(summary.contains(&format!(" to {}, of worker id 1;", before.expect("some"))), "{said}");
    // 7,000,000 / 8,192 ticks are 854 s, less the time that this took.
    assert!(summary.ends_with(" min ahead of the clock"), "{said}");
}

#[test]
fn eight_processes_share_a_file() {
    let home = Home::new();
    let outputs = eight_at_once(&home, "generate -u sqlite:new.db?mode=rwc -n 100000");
    let rows = workers(&home, "worker list -u sqlite:new.db --json");
    let rows: BTreeSet<u64> = rows.iter().filter_map(|row| row["id"].as_u64()).collect();
    assert_eq!(rows.len(), 8);
    let mut all = Vec::new();
    let mut seen = BTreeSet::new();
    for output in outputs {
        let uids: Vec<Uid> = output.lines().map(|line| line.parse().expect("a uid")).collect();
        assert_eq!(uids.len(), 100_000);
        let ids: BTreeSet<u64> = uids.iter().copied().map(worker_of).collect();
        assert_eq!(ids.len(), 1, "a process is one worker");
        seen.extend(ids);
        all.extend(uids);
    }
    assert_eq!(seen, rows);
    all.sort_unstable();
    assert!(all.is_sorted_by(|a, b| a < b), "no uid comes twice");
}

/// The first start creates the file, changes it to write-ahead logging and creates the table. A single round may miss
/// the race.
#[test]
fn starts_at_once_all_succeed() {
    for _ in 0..40 {
        let home = Home::new();
        let outputs = eight_at_once(&home, "generate");
        let ids: BTreeSet<u64> = outputs.iter().map(|text| worker_of(only(text))).collect();
        assert_eq!(ids.into_iter().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 8]);
    }
}

#[test]
fn a_layout_that_is_over_costs_no_worker_id() {
    let home = Home::new();
    let run = home.run("generate --layout 28/22/13/s/2016-05-20T00:00:00+08:00");
    assert_eq!((run.status, &*run.stdout), (Some(1), ""));
    assert!(run.stderr.starts_with("error: "), "{}", run.stderr);
    assert!(run.stderr.contains("ended on 2024-11-20"), "{}", run.stderr);
    assert!(is_untouched(&home));
}

#[test]
fn wrong_usage_leaves_the_worker_file_as_it_is() {
    let home = Home::new();
    home.stdout("generate");
    let before = fs::read(worker_file(&home)).expect("reads");
    for words in
        ["generate --layout 29/22/13", "generate -u sqlite:?boost-power=17", "generate -n x"]
    {
        assert_eq!(home.run(words).status, Some(2), "{words}");
    }
    let over = home.run("generate --layout 28/22/13/s/2016-05-20");
    assert_eq!(over.status, Some(1));
    assert!(fs::read(worker_file(&home)).expect("reads") == before, "another worker id is spent");
    assert_eq!(worker_of(only(&home.stdout("generate"))), 2);
}

#[test]
fn a_flag_beats_the_variable_and_that_beats_the_users_own_file() {
    let home = Home::new();
    let worker = |words: &str, variable: Option<&str>| {
        let run = Run::of(home.command(words).envs(variable.map(|url| ("UIDRING_URL", url))));
        assert_eq!(run.status, Some(0), "{words}: {}", run.stderr);
        worker_of(only(&run.stdout))
    };
    assert_eq!(worker("generate -u worker:77", Some("worker:99")), 77);
    assert_eq!(worker("generate -u worker:77", Some("nonsense")), 77);
    assert_eq!(worker("generate", Some("worker:99")), 99);
    fs::write(home.folder.path().join("url"), "worker:88\nworker:89\n").expect("writes");
    assert_eq!(worker("generate --url-file url", Some("worker:99")), 88);
    assert!(!home.folder.path().join("uidring").exists(), "fixed worker ids need no store");
    assert_eq!(worker("generate -u sqlite:other.db?mode=rwc", Some("worker:99")), 1);
    assert!(!worker_file(&home).exists());
    assert_eq!(worker("generate", None), 1);
    assert_eq!(worker("generate", None), 2);
    assert_eq!(worker("generate -u worker:77", None), 77);
    assert_eq!(worker("generate -u sqlite:other.db?mode=rwc", None), 2);
    assert_eq!(workers(&home, "worker list --json").len(), 2);
}

#[test]
fn a_fixed_worker_id_is_warned_about_once() {
    let home = Home::new();
    let flag = home.run("generate -n 5000 -u worker:4194303");
    let variable = Run::of(home.command("generate -n 5000").env("UIDRING_URL", "worker:4194303"));
    for run in [flag, variable] {
        assert_eq!((run.status, run.stdout.lines().count()), (Some(0), 5_000));
        assert!(
            run.stderr.contains(" WARN a worker id of your own choice has no memory"),
            "{run:?}"
        );
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    }
}

#[test]
fn a_fixed_worker_id_goes_on_above_the_uid_it_is_told() {
    let home = Home::new();
    let layout = Layout::UID_GENERATOR;
    let before: Uid = only(&home.run("generate -u worker:5").stdout);
    // A uid of the past, and one borrowed from the future.
    let tick = layout.tick_at(SystemClock.now()).expect("in the layout's life");
    let ahead = layout
        .compose(Fields { tick: tick + 1_000, worker_id: 5, sequence: layout.max_sequence() })
        .expect("in range");
    for generator in ["cached", "clock"] {
        for after in [
            layout.compose(Fields { tick: 7, worker_id: 5, sequence: 2 }).expect("in range"),
            before,
        ] {
            let words = format!("generate --generator {generator} -u worker:5 --start-after");
            let next: Uid = only(&home.stdout(&format!("{words} {after}")));
            assert!(next > after, "{next} after {after}");
            assert_eq!(home.stdout(&format!("{words} {} -n 0", after.hex())), "");
        }
    }
    let run = home.run(&format!("generate -u worker:5 --start-after {ahead}"));
    assert!(run.stderr.contains("the generator starts") && run.status == Some(0), "{}", run.stderr);
    let next: Uid = only(&run.stdout);
    let fields = layout.decode(next).expect("of this layout");
    assert_eq!((fields.tick, fields.worker_id), (tick + 1_001, 5));
    let words = "generate --generator clock -u worker:5?max-start-wait=60 --start-after";
    let refused = home.run(&format!("{words} {ahead}"));
    assert_eq!((refused.status, &*refused.stdout), (Some(1), ""), "it would wait for 1,000 s");
    assert!(refused.stderr.contains("ahead of the clock"), "{}", refused.stderr);
    let foreign = home.run(&format!("generate -u worker:6 --start-after {ahead}"));
    assert_eq!((foreign.status, &*foreign.stdout), (Some(1), ""));
    assert!(is_untouched(&home));
}

#[test]
fn one_uid_is_the_default() {
    let home = Home::new();
    let started = Layout::UID_GENERATOR.tick_at(SystemClock.now()).expect("in the layout's life");
    for words in ["generate", "generate --generator clock", "generate -n 1", "generate --count 1"] {
        let fields = Layout::UID_GENERATOR.decode(only(&home.stdout(words))).expect("its layout");
        assert!(fields.tick >= started, "{words}: {fields:?}");
    }
    assert_eq!(home.stdout("generate -n 0"), "");
}

#[test]
fn who_stops_reading_is_no_failure() {
    let home = Home::new();
    let mut child = home.command("generate -n 100000000").spawn().expect("starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("reads");
    assert!(line.trim_end().parse::<Uid>().is_ok(), "{line}");
    let rest = child.wait_with_output().expect("ends");
    assert_eq!(String::from_utf8_lossy(&rest.stderr), "");
    assert_eq!(rest.status.code(), Some(0));
}

#[test]
fn a_pipe_that_nobody_reads_is_no_failure() {
    let home = Home::new();
    for words in ["generate", "parse 5", "plan", "plan --json", "worker list", "--help"] {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let run = Run::of(home.command(words).stdout(writer));
        assert_eq!((run.status, &*run.stderr), (Some(0), ""), "{words}");
    }
}

#[test]
fn completions_into_a_pipe_that_nobody_reads_are_no_failure() {
    let (reader, writer) = io::pipe().expect("a pipe");
    drop(reader);
    let run = Run::of(Home::new().command("completions bash").stdout(writer));
    assert_eq!((run.status, &*run.stderr), (Some(0), ""));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_a_failure() {
    let home = Home::new();
    for words in ["generate", "generate -n 100000", "parse 5", "plan", "worker list"] {
        let run = Run::of(home.command(words).stdout(full_disk()));
        assert_eq!(run.status, Some(1), "{words}: {}", run.stderr);
        assert!(run.stderr.starts_with("error: "), "{words}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{words}: {}", run.stderr);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn completions_onto_a_full_disk_are_a_failure() {
    let run = Run::of(Home::new().command("completions bash").stdout(full_disk()));
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(run.stderr.starts_with("error: "), "{}", run.stderr);
}

#[test]
fn a_plan_tells_the_last_day() {
    let home = Home::new();
    assert!(home.stdout("plan").contains("2034-07-04"));
    let over = home.stdout("plan --layout 28/22/13/s/2016-05-20");
    assert!(over.contains("2024-11-20") && over.contains("it is over"), "{over}");
    assert!(is_untouched(&home), "planning needs no worker id");

    let plan: Value = serde_json::from_str(&home.stdout("plan --json")).expect("JSON");
    assert_eq!(plan["layout"], "28/22/13");
    assert_eq!(plan["tick"], "s");
    assert_eq!(plan["epoch"], "2026-01-01T00:00:00Z");
    assert_eq!(plan["last_instant"], "2034-07-04T21:24:15.999Z");
    assert_eq!(plan["workers"], 1 << 22);
    assert_eq!(plan["uids_per_second"], 8_192.0);
    assert_eq!(plan["ring_uids"], 8_192 << 3);
    assert_eq!(plan["burst_rate"], 1_000_000);
    for key in ["remaining_seconds", "ring_bytes", "burst_lead_per_second", "burst_seconds"] {
        assert!(plan[key].is_number(), "{key} of {plan}");
    }
    let slow: Value = serde_json::from_str(&home.stdout("plan --json --rate 8192")).expect("JSON");
    assert!(slow["burst_seconds"].is_null(), "a burst of the clock's own rate has no end");
}

#[test]
fn a_layout_that_follows_another_is_worked_out() {
    let home = Home::new();
    let plan = |words: &str| -> Value {
        let plan = home.stdout(&format!("plan --json --after uid --layout {words}"));
        serde_json::from_str::<Value>(&plan).expect("JSON")["after"].take()
    };
    let late = plan("31/10/22");
    let instead = late["instead"].as_str().expect("an earlier epoch");
    let found = plan(instead);
    assert_eq!(found["instead"], Value::Null, "{found}");
    assert_eq!([&found["first_day"], &found["before"]], [&late["first_day"], &late["before"]]);
    // Its lowest worker id issues uids above those of the old layout's greatest.
    let old = only(&home.run("generate -u worker:4194303").stdout);
    let new = only(&home.run(&format!("generate -u worker:0 --layout {instead}")).stdout);
    assert!(new > old, "{instead}: {new} {old}");
    let fewer_bits = plan("javascript-safe");
    assert_eq!([&fewer_bits["first_day"], &fewer_bits["instead"]], [&Value::Null; 2]);
}

#[test]
fn worker_list_shows_every_start() {
    let home = Home::new();
    let missing = home.run("worker list");
    assert_eq!((missing.status, &*missing.stdout), (Some(1), ""));
    assert!(missing.stderr.contains("workers.db"), "{}", missing.stderr);
    assert!(is_untouched(&home), "listing makes no file");

    home.stdout("generate");
    let table = home.stdout("worker list");
    assert_eq!(table.lines().count(), 2, "a heading and a row: {table}");
    let rows = workers(&home, "worker list --json");
    let [row] = rows.as_slice() else { panic!("one row: {rows:?}") };
    let keys: Vec<&String> = row.as_object().expect("an object").keys().collect();
    let columns = ["id", "host_name", "port", "type", "launch_date", "modified", "created"];
    assert_eq!(keys, columns);
    assert_eq!((&row["id"], &row["type"]), (&Value::from(1), &Value::from(2)));
}

#[test]
fn a_container_is_named_by_its_environment() {
    let home = Home::new();
    let own = [("UIDRING_HOST", "pod-7"), ("UIDRING_PORT", "8080")];
    let jpaas = [("JPAAS_HOST", "10.0.0.1"), ("JPAAS_HTTP_PORT", "80")];
    for variables in [own, jpaas] {
        let half =
            Run::of(home.command("generate -u sqlite:half.db?mode=rwc").envs([variables[0]]));
        assert_eq!((half.status, &*half.stdout), (Some(2), ""));
        assert!(half.stderr.contains(variables[1].0), "{}", half.stderr);
        assert!(!home.folder.path().join("half.db").exists());
        assert_eq!(Run::of(home.command("generate").envs(variables)).status, Some(0));
    }
    let rows = workers(&home, "worker list --json");
    for (row, variables) in rows.iter().zip([own, jpaas]) {
        assert_eq!(row["type"], 1);
        assert_eq!(row["host_name"], variables[0].1);
        assert_eq!(row["port"], variables[1].1);
    }
    assert_eq!(rows.len(), 2);
}

#[test]
fn the_worker_file_is_for_its_owner_only() {
    let home = Home::new();
    home.stdout("generate");
    let mode = fs::metadata(worker_file(&home)).expect("is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn help_has_examples_and_completions_name_the_program() {
    let home = Home::new();
    for command in ["generate", "parse", "plan"] {
        let help = home.stdout(&format!("{command} --help"));
        assert!(help.contains("Examples:\n  uidring "), "{help}");
        assert!(home.stdout(&format!("{command} -h")).contains("Examples:"));
    }
    for words in ["--help", "worker --help", "worker list --help", "completions --help"] {
        assert!(home.stdout(words).contains("Usage: uidring"), "{words}");
    }
    assert!(home.stdout("--version").starts_with("uidring "));
    for shell in ["bash", "zsh", "fish"] {
        assert!(home.stdout(&format!("completions {shell}")).contains("uidring"), "{shell}");
    }
    assert!(is_untouched(&home));
}

/// Starts eight processes, and returns what they printed.
fn eight_at_once(home: &Home, words: &str) -> Vec<String> {
    let mut commands: Vec<Command> = (0..8).map(|_| home.command(words)).collect();
    let children: Vec<_> =
        commands.iter_mut().map(|command| command.spawn().expect("starts")).collect();
    let outputs = children.into_iter().map(|child| child.wait_with_output().expect("ends"));
    outputs
        .map(|output| {
            assert_eq!(String::from_utf8_lossy(&output.stderr), "");
            assert_eq!(output.status.code(), Some(0));
            String::from_utf8(output.stdout).expect("digits")
        })
        .collect()
}

fn workers(home: &Home, words: &str) -> Vec<Value> {
    serde_json::from_str(&home.stdout(words)).expect("a JSON array")
}

fn only(output: &str) -> Uid {
    let line = output.strip_suffix('\n').expect("a whole line");
    line.parse().unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn worker_of(uid: Uid) -> u64 {
    Layout::UID_GENERATOR.decode(uid).expect("of the default layout").worker_id
}

/// Returns the default file of worker ids.
fn worker_file(home: &Home) -> PathBuf {
    let macos = "Library/Application Support";
    let data = home.folder.path().join(if cfg!(target_os = "macos") { macos } else { "" });
    data.join("uidring").join("workers.db")
}

/// Whether the home is empty.
fn is_untouched(home: &Home) -> bool {
    fs::read_dir(home.folder.path()).expect("is there").next().is_none()
}

/// Returns a file that is always full.
#[cfg(target_os = "linux")]
fn full_disk() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").expect("is there").into()
}
