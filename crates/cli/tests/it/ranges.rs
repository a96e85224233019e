//! A database's range of worker ids: recorded once, obeyed by starts and leases, and shown.

use uidring::Layout;
use uidring_testkit::etcd::Etcd;
use uidring_testkit::mariadb::MariaDb;

use crate::support::{Home, Run};

const LAYOUT: &str = "--layout 41/10/12/ms/2026-01-01";

fn succeeds(home: &Home, words: &str) -> Run {
    let run = home.run(words);
    assert_eq!(run.status, Some(0), "{words}: {run:?}");
    run
}

fn worker_of(home: &Home, words: &str) -> u64 {
    let uid = succeeds(home, &format!("generate {words} {LAYOUT}")).stdout;
    let layout: Layout = "41/10/12 in ms since 2026-01-01T00:00:00Z".parse().expect("possible");
    layout.decode(uid.trim().parse().expect("a uid")).expect("of the layout").worker_id
}

/// `place` are the flags of a database, `other` those of another one.
fn a_range_is_recorded_obeyed_and_shown(place: &str, other: &str) {
    let home = Home::new();
    let init = |words: &str| home.run(&format!("worker init {words}"));
    let recorded = "starts and leases get worker ids 100-102\n";
    for words in ["--workers 100-102", "", "--workers 100-102 --leases", "--leases"] {
        let run = init(&format!("{words} {place}"));
        assert_eq!((run.status, &*run.stdout), (Some(0), ""), "{words}: {run:?}");
        assert!(run.stderr.ends_with(recorded), "{words}: {run:?}");
    }
    let run = init(&format!("--workers 100-199 {place}"));
    assert_eq!(run.status, Some(1), "{run:?}");
    assert!(
        run.stderr.contains("recorded as 100-102") && run.stderr.contains("for 100-199"),
        "{run:?}"
    );

    assert_eq!(succeeds(&home, &format!("worker assign {place}")).stdout, "100\n");
    assert_eq!(worker_of(&home, &format!("{place} --worker lease")), 101);
    assert_eq!(worker_of(&home, &format!("{place} --worker disposable")), 102);
    assert_eq!(worker_of(&home, &format!("{place} --worker lease")), 101);
    let list = succeeds(&home, &format!("worker list {place}"));
    assert!(
        list.stderr.contains("worker ids here are 100-102; left for new starts: 0"),
        "{list:?}"
    );
    assert_eq!(list.stdout.lines().count(), 4, "{list:?}");
    let plan = succeeds(&home, &format!("plan {place} {LAYOUT} --json")).stdout;
    let plan: serde_json::Value = serde_json::from_str(&plan).expect("JSON");
    assert_eq!(plan["worker_table"]["worker_ids_left"], 0);
    let end = home.run(&format!("generate {place} {LAYOUT} --worker disposable"));
    assert_eq!((end.status, &*end.stdout), (Some(1), ""), "{end:?}");
    for words in ["the next, 103, is over the last", "worker ids are 100-102", "--worker lease"] {
        assert!(end.stderr.contains(words), "{words}: {end:?}");
    }

    assert_eq!(succeeds(&home, &format!("worker init {other}")).stdout, "");
    let disposable = format!("{other} --worker disposable");
    assert_eq!(worker_of(&home, &disposable), 1);
    let run = init(&format!("--workers 103-199 {other}"));
    assert_eq!(run.status, Some(1), "{run:?}");
    assert!(run.stderr.contains("worker ids up to 1 may be in use there"), "{run:?}");
    succeeds(&home, &format!("worker init --workers 1-99 {other}"));
    assert_eq!(worker_of(&home, &disposable), 2);
}

#[test]
fn in_files() {
    a_range_is_recorded_obeyed_and_shown("-u sqlite:a.db", "-u sqlite:b.db");
    let home = Home::new();
    for wrong in ["100", "199-100", "0-9", "a-b", "-5"] {
        let run = home.run(&format!("worker init -u sqlite:c.db --workers {wrong}"));
        assert_eq!((run.status, &*run.stdout), (Some(2), ""), "{run:?}");
        assert!(wrong == "-5" || run.stderr.contains("write FIRST-LAST"), "{run:?}");
    }
    assert!(!home.folder.path().join("c.db").exists(), "nothing was made");
}

#[test]
fn on_a_mysql_server() {
    let [one, other] = [(); 2].map(|()| MariaDb::shared().database());
    let flags = |database: &uidring_testkit::mariadb::Database| format!("-u {}", database.url());
    a_range_is_recorded_obeyed_and_shown(&flags(&one), &flags(&other));
}

#[test]
fn in_etcd() {
    let server = Etcd::shared();
    let prefix = |name: &str| format!("-u {}", server.url(&format!("ranges/{name}")));
    a_range_is_recorded_obeyed_and_shown(&prefix("one"), &prefix("other"));
}
