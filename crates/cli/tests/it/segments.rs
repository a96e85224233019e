//! Segments: adding, listing and showing tags, in a file and on a real server.

use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use uidring::Uid;
use uidring_testkit::mariadb::MariaDb;

use crate::support::program::{command, failure, wrong_usage};
use crate::support::{Home, Run};

fn json(run: &Run) -> Value {
    assert_eq!((run.status, &*run.stderr), (Some(0), ""), "{run:?}");
    serde_json::from_str(&run.stdout).expect("JSON")
}

/// Tries the commands about tags. `run` runs the program on any table.
fn people_look_after_tags(run: &dyn Fn(&[&str]) -> Run) {
    let made = run(&["create", "orders", "--step", "1000"]);
    assert_eq!((made.status, &*made.stdout), (Some(0), ""), "{made:?}");
    assert!(made.stderr.contains("created tag `orders`: its first id is 1"), "{made:?}");
    let words = ["create", "a b", "--step", "5", "--start", "70", "--description", "it's é"];
    assert_eq!(run(&words).status, Some(0));
    let again = run(&["create", "orders", "--step", "7"]);
    assert_eq!((again.status, &*again.stdout), (Some(1), ""));
    assert!(again.stderr.contains("already, at max_id 1 with step 1000"), "{again:?}");
    assert!(again.stderr.contains("with --if-not-exists, this is no error"), "{again:?}");
    let kept = run(&["create", "orders", "--step", "7", "--if-not-exists"]);
    assert_eq!((kept.status, &*kept.stdout), (Some(0), ""), "{kept:?}");
    assert!(kept.stderr.contains("left as it is, at max_id 1 with step 1000"), "{kept:?}");

    let list = json(&run(&["list", "--json"]));
    assert_eq!(list.as_array().map(Vec::len), Some(2), "{list}");
    for (index, tag, max_id, step, description) in
        [(0, "a b", 70, 5, Value::from("it's é")), (1, "orders", 1, 1_000, Value::Null)]
    {
        let row = &list[index];
        assert_eq!((&row["tag"], &row["max_id"]), (&tag.into(), &max_id.into()), "{list}");
        assert_eq!((&row["step"], &row["description"]), (&step.into(), &description), "{list}");
        assert_eq!(row["update_time"].as_str().map(str::len), Some(20), "{list}");
    }
    let text = run(&["list"]).stdout;
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("TAG     MAX_ID  STEP             IDS LEFT  STATE    UPDATED"));
    let row = "a b         70     5  9223372036854775737  has ids  20";
    assert!(lines[1].starts_with(row) && lines[1].ends_with("  it's é"), "{text}");
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(list[1]["ids_left"], i64::MAX - 1, "{list}");
    assert_eq!(list[0]["state"], "has ids", "{list}");

    let set = run(&["set-step", "a b", "2k"]);
    assert_eq!((set.status, &*set.stdout), (Some(0), ""), "{set:?}");
    assert_eq!(set.stderr, "the step of tag `a b` is now 2000; it was 5\n");
    let again = run(&["set-step", "a b", "2000"]);
    assert!(again.stderr.contains("is now 2000; it was 2000"), "{again:?}");
    let rows = json(&run(&["list", "--json"]));
    let row = |index: usize| (rows[index]["max_id"].as_u64(), rows[index]["step"].as_u64());
    assert_eq!([row(0), row(1)], [(Some(70), Some(2_000)), (Some(1), Some(1_000))], "{rows}");

    let unconfirmed = run(&["delete", "a b"]);
    assert_eq!((unconfirmed.status, &*unconfirmed.stdout), (Some(2), ""), "{unconfirmed:?}");
    assert_eq!(json(&run(&["list", "--json"])), rows, "nothing has changed");
    let deleted = run(&["delete", "a b", "--forget-ids"]);
    assert_eq!((deleted.status, &*deleted.stdout), (Some(0), "70\n"), "{deleted:?}");
    assert!(deleted.stderr.contains("`a b`, whose next id was 70: "), "{deleted:?}");
    assert!(deleted.stderr.contains("use `--start 70 --step 2000`"), "{deleted:?}");
    let rest = json(&run(&["list", "--json"]));
    assert_eq!(rest.as_array().map(Vec::len), Some(1), "{rest}");
    assert_eq!(rest[0]["tag"], "orders");
    for words in [&["delete", "a b", "--forget-ids"][..], &["set-step", "ORDERS", "5"]] {
        let none = run(words);
        assert_eq!((none.status, &*none.stdout), (Some(1), ""), "{none:?}");
        assert!(none.stderr.contains(&format!("there is no tag `{}`", words[1])), "{none:?}");
        assert!(none.stderr.contains("uidring segment list"), "{none:?}");
    }
    assert_eq!(run(&["create", "a b", "--step", "5", "--start", "70"]).status, Some(0));
}

#[test]
fn tags_in_the_users_own_file() {
    let home = Home::new();
    let missing = home.run("segment list");
    assert_eq!((missing.status, &*missing.stdout), (Some(1), ""));
    assert!(missing.stderr.contains("uidring segment create"), "{missing:?}");
    people_look_after_tags(&|words| Run::of(home.command("segment").args(words)));
    assert!(home.folder.path().join("uidring/segments.db").is_file());
    assert!(!home.folder.path().join("uidring/workers.db").exists());
}

/// Worker ids and segments may share a file.
#[test]
fn tags_in_a_file_of_worker_ids() {
    let home = Home::new();
    assert_eq!(home.stdout("worker assign -u sqlite:ids.db?mode=rwc"), "1\n");
    assert_eq!(
        home.stdout("segment list --json -u sqlite:ids.db"),
        "[]\n",
        "a file has all tables"
    );
    people_look_after_tags(&|words| {
        Run::of(home.command("segment").args(words).args(["-u", "sqlite:ids.db"]))
    });
    assert_eq!(home.stdout("worker assign -u sqlite:ids.db"), "2\n");
}

#[test]
fn tags_on_a_server() {
    let database = MariaDb::shared().database();
    let home = Home::new();
    let text = failure(&mut command(&home, "segment list", &database.url()));
    assert!(text.contains("1146") && text.contains("uidring segment create"), "{text}");
    people_look_after_tags(&|words| {
        Run::of(command(&home, "segment", &database.url()).args(words))
    });
    assert!(!home.folder.path().join("uidring").exists(), "no file was made");
    database.execute("UPDATE leaf_alloc SET step = 0 WHERE biz_tag = 'orders'");
    database.execute("UPDATE leaf_alloc SET max_id = 9223372036854775807 WHERE biz_tag = 'a b'");
    database.execute("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('z', -3, 1)");
    home.write_url("url", &database.url());
    let list = json(&home.run("segment list --json --url-file url"));
    let states: Vec<_> = list.as_array().expect("an array").iter().collect();
    for (row, state, left) in [
        (states[0], "used up", 0),
        (states[1], "its step is not positive", i64::MAX - 1),
        (states[2], "its max_id is not positive", i64::MAX - 1),
    ] {
        assert_eq!((&row["state"], &row["ids_left"]), (&state.into(), &left.into()), "{list}");
    }
    database.execute("ALTER TABLE leaf_alloc MODIFY update_time TIMESTAMP(3)");
    let text = home.run("segment list --url-file url").stdout;
    assert!(!text.contains(".000"), "{text}");
}

#[test]
fn a_tag_whose_end_cannot_be_read_is_listed_so_and_not_deleted() {
    let home = Home::new();
    assert_eq!(home.run("segment create a --step 5 -u sqlite:a.db").status, Some(0));
    let path = home.folder.path().join("a.db");
    rusqlite::Connection::open(path)
        .and_then(|c| c.execute_batch("UPDATE leaf_alloc SET max_id = 930000.5"))
        .expect("changed");
    let deleted = home.run("segment delete a --forget-ids -u sqlite:a.db");
    assert_eq!((deleted.status, &*deleted.stdout), (Some(1), ""), "{deleted:?}");
    assert!(deleted.stderr.contains("the max_id of tag `a` is of type Real"), "{deleted:?}");
    let list = json(&home.run("segment list --json -u sqlite:a.db"));
    assert_eq!((&list[0]["max_id"], &list[0]["step"]), (&Value::Null, &5.into()), "{list}");
    assert_eq!(list[0]["state"], "its max_id is of type Real", "{list}");
    assert_eq!(list[0]["ids_left"], Value::Null, "{list}");
    let text = home.run("segment list -u sqlite:a.db").stdout;
    assert!(
        text.lines().nth(1).is_some_and(|line| line.starts_with("a         -     5")),
        "{text}"
    );
}

fn ids(run: &Run) -> Vec<u64> {
    assert_eq!((run.status, &*run.stderr), (Some(0), ""), "{run:?}");
    run.stdout.lines().map(|line| line.parse().expect("a number")).collect()
}

fn max_id(home: &Home) -> u64 {
    json(&home.run("segment list --json"))[0]["max_id"].as_u64().expect("a number")
}

#[test]
fn a_run_reserves_what_it_prints_and_no_less_than_the_step() {
    let home = Home::new();
    assert_eq!(home.run("segment create t --step 1000 --start 7").status, Some(0));
    let generate = "generate --generator segment --tag t";
    assert_eq!(ids(&home.run(&format!("{generate} -n 10"))), Vec::from_iter(7..17));
    assert_eq!(max_id(&home), 1_007, "the rest of the step is lost");
    assert_eq!(home.stdout(generate), "1007\n");
    assert_eq!(ids(&home.run(&format!("{generate} -n 5000"))), Vec::from_iter(2_007..7_007));
    assert_eq!(max_id(&home), 7_007, "nothing is lost");
    let many = home.stdout(&format!("{generate} -q -n 2000500"));
    assert!(many.lines().map(|line| line.parse::<u64>().expect("a number")).eq(7_007..2_007_507));
    assert_eq!(max_id(&home), 2_008_007, "a million, a million, and a step");
    let uid = |number| Uid::new(number).expect("63 bits");
    for (format, text) in [
        ("hex", uid(2_008_007).hex().to_string()),
        ("base62", uid(2_009_007).base62().to_string()),
        ("base32", uid(2_010_007).base32().to_string()),
    ] {
        assert_eq!(home.stdout(&format!("{generate} --format {format}")), format!("{text}\n"));
    }
    assert_eq!(home.stdout(&format!("{generate} -n 0")), "");
}

#[test]
fn processes_at_once_on_one_file() {
    let home = Home::new();
    assert_eq!(home.run("segment create t --step 10").status, Some(0));
    let words = "generate --generator segment --tag t -n";
    let children: Vec<_> = (1..=24_u64)
        .map(|i| home.command(&format!("{words} {}", i * 7)).spawn().expect("starts"))
        .collect();
    let mut all = Vec::new();
    let mut reserved = 0;
    for (child, i) in children.into_iter().zip(1..) {
        let output = child.wait_with_output().expect("ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("text");
        let ids: Vec<u64> = text.lines().map(|line| line.parse().expect("a number")).collect();
        assert_eq!(ids.len(), i * 7);
        assert!(ids.windows(2).all(|pair| pair[0] + 1 == pair[1]), "one range: {ids:?}");
        all.extend(ids);
        reserved += (i as u64 * 7).max(10);
    }
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "no id comes twice");
    assert_eq!(max_id(&home), 1 + reserved);
}

/// On a server, another run does not print what a killed run has reserved.
#[test]
fn a_killed_run_repeats_nothing() {
    let database = MariaDb::shared().database();
    let home = Home::new();
    let url = database.url();
    assert_eq!(Run::of(&mut command(&home, "segment create t --step 50", &url)).status, Some(0));
    let mut all: Vec<u64> = Vec::new();
    for round in 0..12 {
        let words = "generate --generator segment --tag t -n 300000";
        let mut child = command(&home, words, &url).spawn().expect("starts");
        thread::sleep(Duration::from_millis(round));
        child.kill().expect("killed");
        let output = child.wait_with_output().expect("ends");
        let text = String::from_utf8(output.stdout).expect("text");
        let end = text.rfind('\n').map_or(0, |end| end + 1);
        all.extend(text[..end].lines().map(|line| line.parse::<u64>().expect("a number")));
        let mut whole = command(&home, "generate --generator segment --tag t -n 120", &url);
        all.extend(ids(&Run::of(&mut whole)));
    }
    assert!(all.is_sorted_by(|a, b| a < b), "one run after another");
    let max_id: u64 = database.query("SELECT max_id FROM leaf_alloc")[0];
    assert!(all.iter().all(|id| (1..max_id).contains(id)));
}

#[test]
fn each_failure_has_a_message_of_its_own() {
    let home = Home::new();
    let generate = "generate --generator segment --tag t";
    let none = home.run(generate);
    assert_eq!((none.status, &*none.stdout), (Some(1), ""));
    assert!(none.stderr.contains("no such file") && none.stderr.contains("segment create"));
    let database = MariaDb::shared().database();
    let text = failure(&mut command(&home, generate, &database.url()));
    assert!(text.contains("1146") && text.contains("uidring segment create"), "{text}");
    let made = command(&home, "segment create u --step 5", &database.url()).status();
    assert!(made.expect("runs").success());
    let text = failure(&mut command(&home, generate, &database.url()));
    assert!(text.contains("no tag `t`") && text.contains("uidring segment create"), "{text}");
    for (columns, word) in
        [("step = 0", "its step is 0"), ("step = 5, max_id = 9223372036854775807", "used up")]
    {
        database.execute(&format!("UPDATE leaf_alloc SET {columns}"));
        let words = "generate --generator segment --tag u";
        let text = failure(&mut command(&home, words, &database.url()));
        assert!(text.contains(word) && text.contains("`u`"), "{text}");
    }
    let away = "mysql://u:s3cret@127.0.0.1:1/d?deadline=1s";
    let text = failure(&mut command(&home, "generate --tag t", away));
    assert!(text.contains("is the server running?"), "{text}");
    assert!(!home.folder.path().join("uidring").exists(), "no file was made");
}

#[test]
fn wrong_usage_does_nothing() {
    let long = "x".repeat(129);
    for words in [
        "segment",
        "segment create",
        "segment create a",
        "segment create --step 5",
        "segment create a --step 0",
        "segment create a --step -1",
        "segment create a --step 2147483648",
        "segment create a --step 5 --start 0",
        "segment create a --step 5 --start 9223372036854775803",
        "segment create LONG --step 5",
        "segment create a --step 5 --description LONGLONG",
        "segment create a --step 5 -u sqlite:f?max-clock-difference=1",
        "segment create mysql://u:s3cret@h/d --step 5",
        "segment create a --step mysql://u:s3cret@h/d",
        "segment create a --step 5 -u sqlite:f -u mysql://u:s3cret@h/d",
        "segment list -u sqlite:f?ca=ca.pem",
        "segment list -u sqlite:f?durability=require",
        "segment list -u worker:1",
        "generate --tag t -u sqlite:?cluster=synchronous",
        "generate --generator clock --tag t",
        "generate --generator segment",
        "generate --generator segment --tag mysql://u:s3cret@h/d",
        "generate --generator segment --tag t --format json",
        "generate --generator segment --tag t -u worker:1",
        "generate --generator segment --tag t -u worker:1/1",
        "generate --generator segment --tag t --start-after 5",
        "generate --tag t -u sqlite:?boost-power=3",
        "generate --generator segment --tag t --max-borrow 1",
        "generate --tag t -u sqlite:?max-lag=1",
        "generate --generator segment --tag t --layout leaf",
        "generate --generator segment --tag t --layout 28/22/13",
        "generate --tag t -u mysql://u@h/d?max-clock-difference=1",
        "generate --tag t -u sqlite:?worker=lease",
    ] {
        let home = Home::new();
        let run = home.run(&words.replace("LONG", &long));
        assert_eq!((run.status, &*run.stdout), (Some(2), ""), "{words}: {run:?}");
        assert!(!run.stderr.contains("s3cret"), "{words}: {}", run.stderr);
        let made = fs::read_dir(home.folder.path()).expect("is there").count();
        assert_eq!(made, 0, "{words}: nothing was made");
    }
    let home = Home::new();
    let empty = Run::of(home.command("segment create --step 5").arg(""));
    assert_eq!(empty.status, Some(2), "{empty:?}");
    for url in ["mysql://u:s3cret@h", "s3cret"] {
        wrong_usage(home.command("segment list").args(["-u", url]));
        wrong_usage(home.command("segment create t --step 1").args(["-u", url]));
    }
    let path =
        wrong_usage(&mut home.command("segment create t --step 1 -u sqlite:mysql://u:s3cret@h/d"));
    assert!(path.contains("that is a URL, not a path"), "{path}");
}

/// Deleting a tag either reports where it ended, or fails.
#[test]
fn where_a_deleted_tag_ended_is_not_lost() {
    let home = Home::new();
    let create = "segment create t --step 5 --start 70";
    let delete = r#"exec "$1" segment delete t --forget-ids"#;
    home.run(create);
    let closed = Run::of(&mut home.under_sh(&format!("{delete} >&-")));
    assert_eq!(closed.status, Some(1), "{closed:?}");
    assert_eq!(max_id(&home), 70, "it was not deleted");
    assert_eq!(home.stdout("segment delete t --forget-ids -q"), "70\n");
    home.run(create);
    let unheard = Run::of(&mut home.under_sh(&format!("{delete} 2>&-")));
    assert_eq!((unheard.status, &*unheard.stdout), (Some(0), "70\n"), "{unheard:?}");
    #[cfg(target_os = "linux")]
    {
        home.run(create);
        let full = Run::of(&mut home.under_sh(&format!("{delete} -q >/dev/full")));
        assert_eq!(full.status, Some(1), "{full:?}");
        assert!(full.stderr.contains("deleted tag `t`, whose next id was 70: "), "{full:?}");
    }
}

/// Anybody may have written the tags and descriptions, and a terminal shows them.
#[test]
fn names_do_not_steer_the_terminal() {
    let home = Home::new();
    let mut create = home.command("segment create --step 5");
    let run = Run::of(create.args(["a\u{202e}x", "--description", "\u{1b}[2J\n"]));
    assert_eq!(run.status, Some(0));
    assert!(!run.stderr.contains('\u{202e}'), "{run:?}");
    let text = home.stdout("segment list");
    assert!(text.contains("a\\u{202e}x") && text.lines().count() == 2, "{text}");
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
}
