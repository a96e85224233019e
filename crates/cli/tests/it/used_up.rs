//! Worker ids that run out: announced, refused, and helped by what the error advises.

use rusqlite::Connection;
use uidring_testkit::etcd::Etcd;
use uidring_testkit::mariadb::MariaDb;
use uidring_testkit::postgres::Postgres;

use crate::support::Home;

/// Has the worker ids 1 to 3.
const LAYOUT: &str = "--layout 40/2/10/ms/2026-01-01";

fn what_is_advised_helps(url: &str) {
    let home = Home::new();
    // A URL with a password goes into a file.
    let place = &match url.contains('@') {
        true => {
            home.write_url("url", url);
            "--url-file url".to_owned()
        }
        false => format!("-u {url}"),
    };
    for words in ["worker init --leases", "worker assign", "worker assign"] {
        let layout = if words.ends_with("assign") { LAYOUT } else { "" };
        let run = home.run(&format!("{words} {place} {layout}"));
        assert_eq!(run.status, Some(0), "{words}: {run:?}");
        assert!(!run.stderr.contains("WARN"), "{words}: {run:?}");
    }
    let last = home.run(&format!("worker assign {place} {LAYOUT}"));
    assert_eq!((last.status, &*last.stdout), (Some(0), "3\n"), "{last:?}");
    assert!(last.stderr.contains("of the layout's 3 worker ids, 0 are left;"), "{last:?}");

    let lease = format!("generate {place} {LAYOUT} --worker lease");
    for (words, which, why) in [
        // The worker ids may be leased already.
        (
            format!("generate {place} {LAYOUT} --worker disposable"),
            "FIRST LAST",
            "the next, 4, is over the layout's greatest, 3; start with --worker lease, and if none is free, ",
        ),
        (
            lease.clone(),
            "1 3",
            "of the layout's 3 worker ids, 3 were used up by starts without a lease",
        ),
    ] {
        let run = home.run(&words);
        assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{run:?}");
        assert!(run.stderr.contains(why), "{run:?}");
        let reuse =
            format!("`uidring worker reuse {which} --used-until TIME {place}` and the flags of");
        assert!(run.stderr.contains(&reuse), "{run:?}");
        assert!(!run.stderr.contains("wait"), "that cannot help: {run:?}");
    }
    if url.contains('@') {
        let run = home.run(&format!("generate -u {url} {LAYOUT} --worker lease"));
        assert_eq!(run.status, Some(1), "{run:?}");
        let reuse = "`uidring worker reuse 1 3 --used-until TIME -u URL`";
        assert!(run.stderr.contains(reuse) && !run.stderr.contains(url), "{run:?}");
        let warning = "can see the URL's password in the list of processes";
        assert!(run.stderr.contains(warning) && run.stderr.contains("--url-file"), "{run:?}");
    }
    let reuse = format!("worker reuse 1 3 --used-until 2026-01-02 {place} {LAYOUT}");
    assert_eq!(home.run(&reuse).status, Some(0));
    let run = home.run(&lease);
    assert_eq!((run.status, &*run.stderr), (Some(0), ""), "{run:?}");
}

#[test]
fn in_a_file() {
    what_is_advised_helps("sqlite:workers.db");
}

#[test]
fn on_a_mysql_server() {
    let database = MariaDb::shared().database();
    what_is_advised_helps(&database.url());
}

#[test]
fn on_a_postgresql_server() {
    let database = Postgres::shared().database();
    what_is_advised_helps(&database.url());
}

#[test]
fn on_an_etcd_server() {
    let server = Etcd::shared();
    what_is_advised_helps(&server.url("used-up"));
}

/// 13 of 15 are used up, one each day.
#[test]
fn the_last_tenth_is_announced_with_the_day_on_which_it_ends() {
    let home = Home::new();
    home.run("worker init --leases -u sqlite:workers.db");
    let file = Connection::open(home.folder.path().join("workers.db")).expect("opens");
    for id in 1..=13 {
        let row = "INSERT INTO WORKER_NODE
            VALUES (?1, 'h', '80', 1, DATE('now'), DATETIME('now'), DATETIME('now', ?2))";
        file.execute(row, (id, format!("-{} days", 14 - id))).expect("inserts");
    }
    for (words, id) in [("worker assign", 14), ("generate --worker lease", 15)] {
        let words = format!("{words} -u sqlite:workers.db --layout 40/4/10/ms/2026-01-01");
        let run = home.run(&words);
        assert_eq!(run.status, Some(0), "{run:?}");
        assert_eq!(run.stderr.lines().count(), 1, "{run:?}");
        let verb = if id == 14 { "is" } else { "are" };
        let left = format!("of the layout's 15 worker ids, {} {verb} left", 15 - id);
        assert!(run.stderr.contains(" WARN workers.db: ") && run.stderr.contains(&left), "{run:?}");
        let is_dated = run.stderr.contains(", and at 1.0 starts a day they end on 20");
        assert_eq!(is_dated, id == 14, "{run:?}");
    }
}
