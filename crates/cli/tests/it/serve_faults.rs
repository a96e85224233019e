//! `uidring serve` while its surroundings fail: no id repeats, and errors say why.

use std::collections::HashSet;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

use uidring_testkit::mariadb::MariaDb;

use crate::serve::{LIMIT, REDIS, Server, ask, ids};
use crate::support::Home;
use crate::support::elsewhen::Elsewhen;
use crate::support::program::{command, database};

fn assert_distinct(all: &[u64]) {
    let distinct: HashSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "an id came twice");
}

/// A database does not answer. Fresh worker ids do not need it, leases end by themselves, and segments are issued until
/// memory has none.
#[test]
fn a_database_that_stands_still() {
    let mariadb = MariaDb::start();
    let database = database(&mariadb);
    let home = Home::new();
    for words in ["worker init --leases", "segment create orders --step 200"] {
        let made = command(&home, words, &database.url()).output().expect("it runs");
        assert!(made.status.success(), "{made:?}");
    }
    fs::write(
        home.folder.path().join("serve.toml"),
        "deadline = '1s'\n[names.leased]\nworker = 'lease'\nlease = '2s'\n",
    )
    .expect("written");
    let words = format!("{REDIS} --config serve.toml");
    let server = Server::start(&mut command(&home, &words, &database.url()));
    let mut client = server.client().expect("it listens");
    let mut take = |name: &str| ask(&mut client, &format!("INCR {name}"), 100);
    let mut fresh: Vec<u64> = ids(&take("uid")).collect();
    let mut leased: Vec<u64> = ids(&take("leased")).collect();
    let mut orders: Vec<u64> = ids(&take("orders")).collect();
    mariadb.freeze();
    let begin = Instant::now();
    let (mut lost, mut down) = (String::new(), String::new());
    while lost.is_empty() || down.is_empty() {
        assert!(begin.elapsed() < LIMIT, "lost: {lost}, down: {down}");
        let answers = take("uid");
        fresh.extend(ids(&answers));
        assert!(answers.iter().all(|answer| answer.starts_with(':')), "{answers:?}");
        for (name, taken, error) in
            [("leased", &mut leased, &mut lost), ("orders", &mut orders, &mut down)]
        {
            let answers =
                ask(&mut server.client().expect("it listens"), &format!("INCR {name}"), 1);
            taken.extend(ids(&answers));
            if answers[0].starts_with("-ERR the lease")
                || answers[0].starts_with("-TRYAGAIN no segment")
            {
                *error = answers[0].clone();
            }
        }
    }
    mariadb.thaw();
    // Segments come back by themselves; a lost lease does not.
    let begin = Instant::now();
    loop {
        let answers = take("orders");
        orders.extend(ids(&answers));
        if answers[99].starts_with(':') {
            break;
        }
        assert!(begin.elapsed() < LIMIT, "{}", answers[99]);
    }
    assert!(take("leased")[99].starts_with("-ERR the lease of the worker id is lost"));
    let again = Server::start(&mut command(&home, &words, &database.url()));
    leased.extend(ids(&again.ask("INCR leased", 1_000)));
    fresh.extend(ids(&again.ask("INCR uid", 1_000)));
    orders.extend(ids(&again.ask("INCR orders", 1_000)));
    [fresh, leased, orders].iter().for_each(|all| assert_distinct(all));
}

/// The clock is set back and forth by hours while ids are taken, and between starts.
#[test]
fn a_clock_that_is_set() {
    for worker in ["", "?worker=lease&lease=5s"] {
        let elsewhen = Elsewhen::new(0);
        assert_eq!(elsewhen.run("worker init --leases -u sqlite:workers.db").status, Some(0));
        let words = format!("{REDIS} -u sqlite:workers.db{worker} --max-borrow 24h");
        let mut all = Vec::new();
        for offset in [0, 3_600, -7_200, 300] {
            elsewhen.set(offset);
            let server = Server::start(&mut elsewhen.command(&words));
            let mut client = server.client().expect("it listens");
            let mut taken = Vec::new();
            for step in [0, -1_800, 3_600, -3_600] {
                elsewhen.set(offset + step);
                thread::sleep(Duration::from_millis(150));
                taken.extend(ids(&ask(&mut client, "INCR uid", 5_000)));
            }
            assert!(taken.is_sorted_by(|a, b| a < b), "ids of one connection increase");
            assert_eq!(taken.len(), 20_000, "{worker} {offset}");
            all.extend(taken);
            server.signal(15);
            assert_eq!(server.end().0, Some(0));
        }
        assert_distinct(&all);
    }
}

/// The disk is full: here, no file may grow beyond 4 KiB.
#[test]
fn a_disk_that_is_full() {
    let home = Home::new();
    for words in [
        "worker init --leases -u sqlite:workers.db",
        "segment create orders --step 20 -u sqlite:workers.db",
    ] {
        assert_eq!(home.run(words).status, Some(0));
    }
    let words = format!("{REDIS} -u sqlite:workers.db?lease=2s --worker lease");
    let server = Server::start(&mut home.under_sh(&format!("trap '' XFSZ; exec \"$1\" {words}")));
    let mut uids: Vec<u64> = ids(&server.ask("INCR uid", 1_000)).collect();
    let mut orders: Vec<u64> = ids(&server.ask("INCR orders", 50)).collect();
    assert_eq!((uids.len(), orders.len()), (1_000, 50));
    let pid = server.child.id().to_string();
    let limited = Command::new("prlimit").args(["--pid", &pid, "--fsize=4096"]).status();
    assert!(limited.expect("prlimit").success());
    let begin = Instant::now();
    let (mut no_lease, mut no_segment) = (false, false);
    while !(no_lease && no_segment) {
        assert!(begin.elapsed() < LIMIT, "lease: {no_lease}, segment: {no_segment}");
        // Each may wait for a second.
        let answers = server.ask("INCR uid", 2);
        no_lease |= answers.iter().any(|answer| answer.starts_with("-ERR the lease"));
        uids.extend(ids(&answers));
        let answers = server.ask("INCR orders", 2);
        no_segment |= answers.iter().any(|answer| answer.starts_with('-'));
        orders.extend(ids(&answers));
    }
    server.signal(15);
    drop(server.end());
    // There is room again.
    let server = Server::start(&mut home.command(&words));
    uids.extend(ids(&server.ask("INCR uid", 1_000)));
    let answers = server.ask("INCR orders", 1_000);
    assert!(answers.iter().all(|answer| answer.starts_with(':')), "{answers:?}");
    orders.extend(ids(&answers));
    assert_distinct(&uids);
    assert_distinct(&orders);
}
