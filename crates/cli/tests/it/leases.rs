//! Leases: `generate --worker lease`, and the commands about the table, in a file and on a real server.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use serde_json::Value;
use uidring::{Layout, Uid};
use uidring_testkit::mariadb::MariaDb;

use crate::support::program::{command, failure};
use crate::support::{Home, Run};

/// Returns the program on one table.
type Program<'a> = &'a dyn Fn(&str) -> Command;

fn run(program: Program<'_>, words: &str) -> Run {
    Run::of(&mut program(words))
}

fn good(program: Program<'_>, words: &str) -> String {
    let run = run(program, words);
    assert_eq!((run.status, &*run.stderr), (Some(0), ""), "{words}");
    run.stdout
}

fn leases(program: Program<'_>) -> Value {
    serde_json::from_str(&good(program, "worker leases --json")).expect("JSON")
}

fn on_both(test: impl Fn(Program<'_>)) {
    let home = Home::new();
    assert_eq!(home.run("worker init --leases").status, Some(0));
    test(&|words| home.command(words));
    let database = MariaDb::shared().database();
    let url = database.url();
    let text = failure(&mut command(&home, "generate --worker lease", &url));
    assert!(text.contains("1146") && text.contains("worker init --leases"), "{text}");
    let made = Run::of(&mut command(&home, "worker init --leases", &url));
    let (_, place) = url.split_once('@').expect("a user");
    let ready = format!("{place} is set up for worker ids and leases; starts so far: 0\n");
    assert_eq!(made.stderr, ready);
    let again = Run::of(&mut command(&home, "worker init --leases", &url));
    assert_eq!(again.stderr, ready);
    test(&|words| command(&home, words, &url));
}

#[test]
fn a_hundred_restarts_use_one_worker_id_and_stay_in_order() {
    on_both(|program| {
        let mut all = Vec::new();
        for round in 0..100 {
            let generator = ["cached", "clock"][round % 2];
            let words = format!("generate --worker lease -n 10 --generator {generator}");
            all.extend(
                good(program, &words).lines().map(|line| line.parse::<Uid>().expect("a uid")),
            );
        }
        assert_eq!(all.len(), 1_000);
        let worker = |uid: &Uid| Layout::UID_GENERATOR.decode(*uid).expect("ours").worker_id;
        assert!(all.iter().all(|uid| worker(uid) == 1));
        assert!(all.is_sorted_by(|a, b| a < b), "nothing twice, and in order over all starts");
        let rows = leases(program);
        assert_eq!((rows.as_array().map(Vec::len), &rows[0]["state"]), (Some(1), &"free".into()));
        // A start without a lease gets another worker id.
        let uid: Uid = good(program, "generate").trim().parse().expect("a uid");
        assert_eq!(worker(&uid), 2);
    });
}

#[test]
fn who_is_told_to_end_gives_the_worker_id_back() {
    on_both(|program| {
        for (name, number) in [("TERM", 15), ("INT", 2), ("KILL", 9)] {
            let words = "generate --worker lease -n 1000000000000";
            let mut child = program(words).spawn().expect("starts");
            let mut output = child.stdout.take().expect("piped");
            output.read_exact(&mut [0; 1_000]).expect("uids");
            let row = &leases(program)[0];
            assert_eq!((&row["state"], &row["worker_id"]), (&"held".into(), &1.into()), "{row}");
            let id = child.id().to_string();
            let sent = Command::new("kill").args([&format!("-{name}"), &id]).status();
            assert!(sent.is_ok_and(|status| status.success()));
            let status = child.wait().expect("ends");
            assert_eq!(status.signal(), Some(number), "as if it had not been caught");
            let state = if name == "KILL" { "held" } else { "free" };
            assert_eq!(leases(program)[0]["state"], state, "after {name}");
        }
        // The lease of the killed run.
        let held = run(program, "worker release 1");
        assert_eq!(held.status, Some(1));
        assert!(held.stderr.contains("worker id 1 is held by"), "{held:?}");
        let fenced = run(program, "worker fence 1");
        assert_eq!(fenced.status, Some(0));
        assert!(fenced.stderr.contains("is fenced") && fenced.stderr.contains("next renewal"));
        assert_eq!(leases(program)[0]["state"], "expired");
        assert_eq!(run(program, "worker release 1").status, Some(0));
        assert_eq!(leases(program)[0]["state"], "free");
        assert_eq!(run(program, "worker release 1 --force").status, Some(0));
        let unknown = run(program, "worker fence 77");
        assert_eq!(unknown.status, Some(1));
        assert!(unknown.stderr.contains("worker id 77 was never leased"), "{unknown:?}");
    });
}

#[test]
fn leases_are_listed_for_people() {
    on_both(|program| {
        good(program, "generate --worker lease --layout snowflake");
        let text = good(program, "worker leases");
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("WORKER ID  STATE  LEASE ENDS"), "{text}");
        assert!(lines[1].starts_with("        1  free   -     "), "{text}");
        assert_eq!(lines.len(), 2);
        let row = &leases(program)[0];
        assert_eq!(row["layout"], "41/10/12 in ms since 2010-11-04T01:42:54.657Z");
        assert_eq!((&row["token"], &row["lease_end"]), (&2.into(), &Value::Null));
        assert!(row["used_until"].as_str().is_some_and(|time| time.ends_with('Z')), "{row}");
        let other = run(program, "generate --worker lease");
        assert_eq!((other.status, &*other.stdout), (Some(1), ""));
        assert!(other.stderr.contains("41/10/12 in ms") && other.stderr.contains("28/22/13 in s"));
    });
}

/// Generators of such a URL need the table of leases.
#[test]
fn the_table_of_leases_is_made_for_a_url_that_leases() {
    let home = Home::new();
    for options in ["worker=lease", "layout=javascript-safe"] {
        let database = MariaDb::shared().database();
        let url = format!("{}?{options}", database.url());
        let mut init = home.command("worker init");
        let made = Run::of(init.env("UIDRING_URL", &url));
        assert!(made.stderr.contains("is set up for worker ids and leases"), "{made:?}");
        let mut generate = home.command("generate");
        let run = Run::of(generate.env("UIDRING_URL", &url));
        assert_eq!(run.status, Some(0), "{run:?}");
    }
}

/// If starts have used up a layout's worker ids, leases can reuse them.
#[test]
fn worker_ids_of_starts_that_have_ended_are_leased() {
    on_both(|program| {
        let layout = "--layout 40/1/10/ms/2026-01-01";
        let used = format!("generate {layout} --worker disposable");
        assert_eq!(run(program, &used).status, Some(0));
        let full = run(program, &used);
        assert_eq!(full.status, Some(1), "{full:?}");
        let full = run(program, &format!("generate {layout} --worker lease"));
        assert!(full.stderr.contains("the layout's only one was used up"), "{full:?}");
        let reuse = format!("worker reuse 1 1 {layout} --used-until 2026-06-01");
        assert_eq!(run(program, &reuse).status, Some(0));
        let twice = run(program, &reuse);
        assert_eq!(twice.status, Some(1));
        assert!(twice.stderr.contains("leased already"), "{twice:?}");
        assert_eq!(good(program, &format!("generate {layout} --worker lease")).lines().count(), 1);
        assert_eq!(run(program, "worker reuse 2 1 --used-until 2026-06-01").status, Some(2));
    });
}

#[test]
fn one_that_finds_all_held_waits_if_told_to() {
    let home = Home::new();
    let layout = "--layout 40/1/10/ms/2026-01-01 -u sqlite:ids.db?mode=rwc";
    let words = format!("generate {layout}&lease=60s --worker lease -n 1000000000000");
    let mut holder = home.command(&words).spawn().expect("starts");
    let mut output = holder.stdout.take().expect("piped");
    output.read_exact(&mut [0; 1_000]).expect("uids");
    let refused = home.run(&format!("generate {layout} --worker lease"));
    assert_eq!((refused.status, &*refused.stdout), (Some(1), ""));
    assert!(refused.stderr.contains("the layout's only one is held, for"), "{refused:?}");
    let fence = "with `uidring worker fence ID -u 'sqlite:ids.db?mode=rwc'`; or";
    assert!(refused.stderr.contains(fence), "{refused:?}");
    let words = format!("generate {layout}&lease-wait=30s --worker lease");
    let mut waiter = home.command(&words).spawn().expect("starts");
    let mut stderr = BufReader::new(waiter.stderr.take().expect("piped"));
    let mut said = String::new();
    while !said.contains(": waiting for a worker id until ") {
        assert!(stderr.read_line(&mut said).expect("UTF-8") > 0, "it ended: {said}");
    }
    assert!(said.contains(": 1 held, the first until "), "{said}");
    let id = holder.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill").success());
    drop(output);
    holder.wait().expect("ends");
    let done = waiter.wait_with_output().expect("ends");
    assert!(done.status.success(), "{}", std::io::read_to_string(stderr).expect("UTF-8"));
}
