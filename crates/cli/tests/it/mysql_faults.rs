//! The program on a real MySQL-compatible server: simultaneous starts, killed starts, and servers that fail in every
//! way.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use uidring::Uid;
use uidring_testkit::certificates::Authority;
use uidring_testkit::mariadb::MariaDb;
use uidring_testkit::proxy::{Proxy, Verdict};

use crate::support::program::{command, database, failure, ids, with, worker_of, wrong_usage};
use crate::support::{Home, Run};

/// How the statement that acquires a worker id begins.
const INSERT: &str = "INSERT INTO WORKER_NODE";

/// Returns the uids of whole lines. The last line may be incomplete.
fn whole_lines(output: &str) -> Vec<Uid> {
    let end = output.rfind('\n').map_or(0, |end| end + 1);
    output[..end].lines().map(|line| line.parse().expect("a uid")).collect()
}

fn assert_distinct(mut uids: Vec<Uid>) {
    let count = uids.len();
    uids.sort_unstable();
    uids.dedup();
    assert_eq!(uids.len(), count, "no uid comes twice");
}

#[test]
fn sixty_four_starts_at_once() {
    let database = database(&MariaDb::start());
    let home = Home::new();
    let children: Vec<Child> = (0..64)
        .map(|_| {
            let url = with(&database.url(), "deadline=60s");
            command(&home, "generate -n 100000", &url).spawn().expect("starts")
        })
        .collect();
    let outputs: Vec<_> = thread::scope(|scope| {
        let wait = |child: Child| scope.spawn(|| child.wait_with_output().expect("ends"));
        let waiting: Vec<_> = children.into_iter().map(wait).collect();
        waiting.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let (mut all, mut workers) = (Vec::new(), BTreeSet::new());
    for output in outputs {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let uids = whole_lines(&String::from_utf8(output.stdout).expect("text"));
        assert_eq!(uids.len(), 100_000);
        let ids: BTreeSet<u64> = uids.iter().copied().map(worker_of).collect();
        assert_eq!(ids.len(), 1, "a process is one worker");
        workers.extend(ids);
        all.extend(uids);
    }
    assert_eq!(all.len(), 6_400_000);
    assert_distinct(all);
    assert_eq!(workers, ids(&database), "each uid decodes to its row");
    assert_eq!(workers.len(), 64);
}

/// Kills by process id. The same thread waits for the child later, so the id is still valid.
fn kill(id: u32) {
    let status = Command::new("kill").args(["-KILL", &id.to_string()]).status();
    assert!(status.expect("kill is there").success());
}

#[test]
fn two_hundred_starts_that_are_killed() {
    let database = database(&MariaDb::start());
    let home = Home::new();
    let mut all = Vec::new();
    let mut unspoken = 0;
    // Adapts to slow starts, so that some get to print.
    let mut longest = Duration::from_millis(40);
    for round in 0..200_u64 {
        let victim = Arc::new(Mutex::new(0));
        let shot = {
            let victim = Arc::clone(&victim);
            move || kill(*victim.lock().expect("no panic"))
        };
        let port = database.server().port();
        let proxy = match round % 10 {
            // Before the server gets the INSERT; after it, before the program knows; the same for the COMMIT; else at
            // any moment.
            0 => Some(Proxy::before(port, INSERT, shot)),
            1 => Some(Proxy::after(port, INSERT, move || {
                shot();
                Verdict::Forward
            })),
            2 => Some(Proxy::before(port, "COMMIT", shot)),
            3 => Some(Proxy::after(port, "COMMIT", move || {
                shot();
                Verdict::Forward
            })),
            _ => None,
        };
        let url = match &proxy {
            Some(proxy) => database.url_at(&format!("127.0.0.1:{}", proxy.port())),
            None => database.url(),
        };
        let mut child = {
            // The hook waits until it knows which process to kill.
            let mut victim = victim.lock().expect("no panic");
            let child = command(&home, "generate -n 100000", &url).spawn().expect("starts");
            *victim = child.id();
            child
        };
        let mut stdout = child.stdout.take().expect("piped");
        let reader = thread::spawn(move || {
            let mut output = String::new();
            stdout.read_to_string(&mut output).map(|_| output).expect("reads")
        });
        if proxy.is_none() {
            thread::sleep(longest.mul_f64(fastrand::f64()));
            child.kill().expect("killed");
        }
        child.wait().expect("ends");
        let uids = whole_lines(&reader.join().expect("no panic"));
        if proxy.is_none() && uids.is_empty() {
            longest += Duration::from_millis(2);
        }
        unspoken += u64::from(uids.is_empty());
        all.extend(uids);
    }
    let spoken: BTreeSet<u64> = all.iter().copied().map(worker_of).collect();
    assert!(spoken.is_subset(&ids(&database)), "every worker id that spoke has its row");
    assert!(unspoken >= 80 && spoken.len() >= 20, "both kinds of death: {unspoken} of 200");
    assert!(!all.is_empty());
    assert_distinct(all);
}

#[test]
fn a_server_that_is_away_is_an_error_within_the_deadline() {
    let server = MariaDb::start();
    let database = database(&server);
    let home = Home::new();
    let first = Run::of(&mut command(&home, "generate", &database.url()));
    assert_eq!((first.status, &*first.stderr), (Some(0), ""));
    let first = worker_of(first.stdout.trim().parse().expect("a uid"));

    server.stop();
    let start = Instant::now();
    let run = Run::of(&mut command(&home, "generate", &with(&database.url(), "deadline=2s")));
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert_eq!((run.status, &*run.stdout), (Some(1), ""));
    assert!(run.stderr.contains("WARN database 127.0.0.1:"), "{}", run.stderr);
    assert!(run.stderr.contains("is the server running?"), "{}", run.stderr);
    assert!(run.stderr.contains("attempts within 2s"), "{}", run.stderr);

    server.start_again();
    let again = Run::of(&mut command(&home, "generate", &database.url()));
    let again = worker_of(again.stdout.trim().parse().expect("a uid"));
    assert!(again > first, "{again} after {first}");
}

/// The server dies at each step of the assignment and comes back. The start succeeds on a new connection, with a row
/// that stays.
#[test]
fn a_server_killed_in_the_middle_costs_a_key_at_the_most() {
    let server = MariaDb::start();
    let database = database(&server);
    let home = Home::new();
    let mut last = 0;
    for (text, after) in [(INSERT, false), (INSERT, true), ("COMMIT", false), ("COMMIT", true)] {
        let struck = Arc::new(AtomicBool::new(false));
        let strike = {
            let (server, struck) = (Arc::clone(&server), Arc::clone(&struck));
            move || {
                server.kill();
                struck.store(true, Ordering::Release);
            }
        };
        let proxy = match after {
            false => Proxy::before(server.port(), text, strike),
            true => Proxy::after(server.port(), text, move || {
                strike();
                Verdict::Cut
            }),
        };
        let url = database.url_at(&format!("127.0.0.1:{}", proxy.port()));
        let child = command(&home, "generate -n 1000", &url).spawn().expect("starts");
        while !struck.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(5));
        }
        server.start_again();
        let output = child.wait_with_output().expect("ends");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text} {after}: {stderr}");
        assert!(stderr.contains("trying again"), "{text} {after}: {stderr}");
        let uids = whole_lines(&String::from_utf8(output.stdout).expect("text"));
        assert_eq!(uids.len(), 1_000);
        let workers: BTreeSet<u64> = uids.into_iter().map(worker_of).collect();
        let worker = *workers.first().expect("one");
        assert!(workers.len() == 1 && worker > last, "{text} {after}: {workers:?} after {last}");
        assert!(ids(&database).contains(&worker), "{text} {after}: {worker} has its row");
        last = worker;
    }
}

#[test]
fn each_failure_has_a_message_of_its_own() {
    let server = MariaDb::start();
    let good = database(&server);
    let none = server.database();
    let home = Home::new();
    let at_once = "generate";
    let mut texts = BTreeSet::new();
    let mut check = |words: &str, url: &str, expected: &[&str]| {
        let start = Instant::now();
        let url = if url.contains("deadline=") { url } else { &with(url, "deadline=5s") };
        let text = failure(&mut command(&home, words, url));
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}: {text}", start.elapsed());
        for word in expected {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(texts.insert(text.clone()), "twice: {text}");
    };
    let wrong = good.url().replacen("%23", "%24", 1);
    check(at_once, &wrong, &["Access denied", "1045", "check user and password"]);
    let unknown = good.url().replace(&good.name(), "nowhere");
    server.execute(&format!("GRANT ALL ON nowhere.* TO {}@'%'", good.user()));
    check(at_once, &unknown, &["Unknown database", "1049", "create it"]);
    let foreign = good.url().replace(&good.name(), "mysql");
    check(at_once, &foreign, &["1044", "grant the account"]);
    check(at_once, &none.url(), &["1146", "worker init"]);

    let name = good.name();
    let grantee = format!("{}@'%'", good.user());
    server.execute(&format!("REVOKE ALL ON {name}.* FROM {grantee}"));
    server.execute(&format!("GRANT SELECT ON {name}.WORKER_NODE TO {grantee}"));
    check(at_once, &good.url(), &["INSERT command denied", "1142", "SELECT and INSERT"]);
    server.execute(&format!("GRANT INSERT ON {name}.WORKER_NODE TO {grantee}"));
    let least = Run::of(&mut command(&home, "generate", &good.url()));
    assert_eq!(least.status, Some(0), "the least rights are enough: {least:?}");
    check("worker prune", &good.url(), &["1142", "DELETE"]);
    check("worker init", &good.url(), &["1142", "CREATE"]);
    for (words, right) in [
        ("worker list", "SELECT"),
        ("plan", "SELECT"),
        ("worker prune", "DELETE"),
        ("worker init", "CREATE"),
    ] {
        server.execute(&format!("GRANT {right} ON {name}.WORKER_NODE TO {grantee}"));
        let run = Run::of(&mut command(&home, words, &good.url()));
        assert_eq!(run.status, Some(0), "{words} with {right}: {run:?}");
    }
    server.execute(&format!("GRANT ALL ON {name}.* TO {grantee}"));

    server.execute(&format!("ALTER USER {grantee} ACCOUNT LOCK"));
    check(at_once, &good.url(), &["4151", "ACCOUNT UNLOCK"]);
    server.execute(&format!("ALTER USER {grantee} ACCOUNT UNLOCK"));
    server.execute(&format!("ALTER USER {grantee} WITH MAX_CONNECTIONS_PER_HOUR 1"));
    assert_eq!(Run::of(&mut command(&home, "generate", &good.url())).status, Some(0));
    check(at_once, &good.url(), &["max_connections_per_hour", "1226", "limit of this hour"]);
    server.execute(&format!("ALTER USER {grantee} WITH MAX_CONNECTIONS_PER_HOUR 0"));

    let tls = format!("{}?tls=verify", good.url());
    check(at_once, &tls, &["TLS was asked for", "offers none"]);
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("bound").to_string();
    check(
        "generate",
        &with(&good.url_at(&address), "deadline=1s"),
        &["no answer within 1s while connecting"],
    );
    drop(silent);
    check("generate", &with(&good.url_at(&address), "deadline=1s"), &["is the server running?"]);

    // Read-only, as after a failover.
    server.execute("SET GLOBAL read_only = 1");
    let text = failure(&mut command(&home, at_once, &good.url()));
    server.execute("SET GLOBAL read_only = 0");
    assert!(text.contains("1290") && text.contains("name the primary"), "{text}");
}

#[test]
fn tls_is_checked() {
    let home = Home::new();
    let folder = tempfile::tempdir().expect("a folder");
    let other = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path());
    let stranger = Authority::new(other.path());
    let trusting = |url: &str, file: &std::path::Path| {
        command(&home, "generate", &with(url, &format!("ca={}", file.display())))
    };

    let start = |certificate| {
        let arguments = authority.arguments(&certificate);
        MariaDb::start_with(&arguments.each_ref().map(String::as_str))
    };
    let server = start(authority.server());
    let good = database(&server);
    server.execute(&format!("ALTER USER {}@'%' REQUIRE SSL", good.user()));
    let run = Run::of(&mut trusting(&good.url(), &authority.certificate()));
    assert_eq!((run.status, &*run.stderr), (Some(0), ""), "{run:?}");
    let text = failure(&mut command(&home, "generate", &good.url()));
    assert!(text.contains("may also demand TLS"), "{text}");
    let text = failure(&mut trusting(&good.url(), &stranger.certificate()));
    assert!(text.contains("TLS failed") && text.contains("name the authority"), "{text}");
    // The check may be turned off, but not with an authority named.
    let unchecked = format!("{}?tls=unverified", good.url());
    let run = Run::of(&mut command(&home, "generate", &unchecked));
    assert!(run.status == Some(0) && run.stderr.contains("tls=unverified accepts any"), "{run:?}");
    assert_eq!(run.stderr.lines().count(), 1, "{run:?}");
    let text = wrong_usage(&mut trusting(&unchecked, &stranger.certificate()));
    assert!(text.contains("`ca`") && text.contains("tls=unverified"), "{text}");
    let all_the_world = format!("{}?tls=verify", good.url());
    let text = failure(&mut command(&home, "generate", &all_the_world));
    assert!(text.contains("name the authority"), "{text}");

    for (certificate, word) in [
        (authority.expired(), "needs a new certificate"),
        (authority.stranger(), "the host name that is in the certificate"),
    ] {
        let server = start(certificate);
        let database = server.database();
        let text = failure(&mut trusting(&database.url(), &authority.certificate()));
        assert!(text.contains("TLS failed") && text.contains(word), "{text}");
    }

    let missing = failure(&mut trusting(&good.url(), std::path::Path::new("/nowhere.pem")));
    assert!(missing.contains("nowhere.pem"), "{missing}");
    let empty = home.folder.path().join("empty.pem");
    fs::write(&empty, "").expect("writes");
    let empty = failure(&mut trusting(&good.url(), &empty));
    assert!(empty.contains("no certificate"), "{empty}");
}
