//! The program on a real PostgreSQL server: sources of the server's URL, keeping it secret, and the commands about the
//! tables.

use std::process::Command;

use uidring_testkit::postgres::{Database, Postgres};

use crate::support::program::{failure, worker_of, wrong_usage};
use crate::support::{Home, Run};

/// Returns a database with all tables, and a tag.
fn database() -> Database {
    let database = Postgres::shared().database();
    let home = Home::new();
    for words in ["worker init --leases", "segment create orders --step 100"] {
        let run = Run::of(&mut command(&home, words, &database.url()));
        assert_eq!(run.status, Some(0), "{words}: {run:?}");
    }
    database
}

fn command(home: &Home, words: &str, url: &str) -> Command {
    let mut command = home.command(words);
    command.env("UIDRING_URL", url);
    command
}

#[test]
fn urls_come_from_flag_file_or_environment_and_are_not_shown() {
    let database = database();
    let home = Home::new();
    home.write_url("url", &format!("{}\n", database.url()));
    let assign = |mut command: Command| {
        let run = Run::of(&mut command);
        assert_eq!((run.status, &*run.stderr), (Some(0), ""), "{run:?}");
        run.stdout.trim().to_owned()
    };
    let by_flag = home.run(&format!("worker assign -u {}", database.url()));
    assert_eq!((by_flag.status, &*by_flag.stdout), (Some(0), "1\n"), "{by_flag:?}");
    assert!(by_flag.stderr.contains("name that with --url-file"), "{by_flag:?}");
    assert!(!by_flag.stderr.contains("%40"), "{by_flag:?}");
    assert_eq!(assign(home.command("worker assign --url-file url")), "2");
    // A flag wins over the environment, which wins over the default file.
    let elsewhere = "postgres://u:s3cret@127.0.0.1:1/d";
    assert_eq!(assign(command(&home, "worker assign --url-file url", elsewhere)), "3");
    assert_eq!(assign(command(&home, "worker assign", &database.url())), "4");
    let fixed = Run::of(&mut command(&home, "generate -u worker:77", elsewhere));
    assert_eq!(worker_of(fixed.stdout.trim().parse().expect("a uid")), 77);
    assert!(!home.folder.path().join("uidring").exists(), "the default file was not made");
    for url in ["s3cret", "postgres://u:s3cret@h", "postgres://u:s3@s3cret@h/d"] {
        let text = wrong_usage(&mut command(&home, "generate", url));
        assert!(text.contains("in UIDRING_URL, is wrong"), "{text}");
        wrong_usage(home.command("generate").args(["-u", url]));
    }
    let away = format!("{elsewhere}?deadline=1s");
    let text = failure(&mut command(&home, "generate", &away));
    assert!(text.contains("is the server running?") && text.contains("within 1s"), "{text}");
    let words = "generate -u postgres://u:s3cret@h/d -u sqlite:f";
    assert!(!home.run(words).stderr.contains("s3cret"));
}

#[test]
fn people_look_after_the_tables() {
    let database = database();
    let home = Home::new();
    let run = |words: &str| {
        let run = Run::of(&mut command(&home, words, &database.url()));
        assert_eq!(run.status, Some(0), "{words}: {run:?}");
        run.stdout
    };
    assert_eq!(run("generate -n 3").lines().count(), 3);
    assert_eq!(run("generate --worker lease -n 3").lines().count(), 3);
    let leases: serde_json::Value =
        serde_json::from_str(&run("worker leases --json")).expect("JSON");
    assert!(leases.to_string().contains("used_until"), "{leases}");
    run("worker fence 2");
    run("worker release 2");
    assert!(run("worker list").contains("HOST_NAME"));
    assert!(run("plan").contains("worker ids"));
    assert_eq!(run("generate --generator segment --tag orders -n 5"), "1\n2\n3\n4\n5\n");
    run("segment set-step orders 7");
    assert!(run("segment list").contains("orders"));
    assert_eq!(run("segment delete orders --forget-ids").trim(), "101");
    assert!(run("worker prune --keep-days 0").is_empty());
}

#[cfg(feature = "server")]
#[test]
fn a_server_is_checked_with_it() {
    let database = database();
    let home = Home::new();
    let words = "serve --redis 0 --http none --thrift none --batch none --check";
    for words in [words, &format!("{words} --worker lease")] {
        let run = Run::of(&mut command(&home, words, &database.url()));
        assert_eq!(run.status, Some(0), "{run:?}");
        assert!(!format!("{run:?}").contains("p@ss"), "{run:?}");
    }
}
