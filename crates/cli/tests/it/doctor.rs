//! `uidring doctor` on healthy stores of each engine and on planted faults. It must not change anything.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uidring::clock::{Clock, SystemClock};
use uidring_testkit::certificates::Authority;
use uidring_testkit::etcd::Etcd;
use uidring_testkit::mariadb::{self, MariaDb};
use uidring_testkit::postgres::Postgres;
use uidring_testkit::zookeeper::ZooKeeper;

use crate::support::program::with;
use crate::support::{Home, Run};

/// Returns the status, and the findings of each store as `VERDICT ABOUT: TEXT`.
fn doctor(mut command: Command) -> (Option<i32>, Vec<Vec<String>>) {
    let run = Run::of(command.args(["--format", "json"]));
    for secret in ["p@ss", "%40", "s3cret"] {
        assert!(!format!("{run:?}").contains(secret), "{run:?}");
    }
    let stores: Value =
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
    let word = |value: &Value| value.as_str().expect("a text").to_owned();
    let finding = |finding: &Value| {
        let [verdict, about, text] = ["verdict", "about", "text"].map(|key| word(&finding[key]));
        format!("{verdict} {about}: {text}")
    };
    let findings = |store: &Value| {
        store["findings"].as_array().expect("findings").iter().map(finding).collect()
    };
    (run.status, stores.as_array().expect("stores").iter().map(findings).collect())
}

fn examine(url: &str) -> (Option<i32>, Vec<String>) {
    let home = Home::new();
    let mut command = home.command("doctor");
    command.env("UIDRING_URL", url).env("UIDRING_INSTANCE", "web-0");
    let (status, mut stores) = doctor(command);
    (status, stores.pop().expect("a store"))
}

#[track_caller]
fn is_healthy(url: &str, expected: &[&str]) {
    let begin = Instant::now();
    let (status, found) = loop {
        let (status, found) = examine(url);
        // On a busy machine, a server may answer late.
        let is_late = found.iter().any(|finding| finding.starts_with("fix connection: "));
        if !is_late || begin.elapsed() > Duration::from_secs(60) {
            break (status, found);
        }
    };
    assert_eq!(status, Some(0), "{found:#?}");
    for part in expected {
        assert!(found.iter().any(|finding| finding.starts_with(part)), "{part}: {found:#?}");
    }
}

/// Expects this fault, with all of the words in its text.
#[track_caller]
fn has_fault(url: &str, about: &str, words: &[&str]) {
    let (status, found) = examine(url);
    assert_eq!(status, Some(1), "{found:#?}");
    let begin = format!("fix {about}: ");
    let is_it = |finding: &&String| {
        finding.starts_with(&begin) && words.iter().all(|word| finding.contains(word))
    };
    assert!(found.iter().any(|finding| is_it(&finding)), "{about} {words:?}: {found:#?}");
}

fn init(url: &str) {
    for words in ["worker init --leases", "segment create orders --step 100"] {
        let home = Home::new();
        let run = Run::of(home.command(words).env("UIDRING_URL", url));
        assert_eq!(run.status, Some(0), "{words}: {run:?}");
    }
}

fn assign(url: &str) -> String {
    let home = Home::new();
    Run::of(home.command("worker assign").env("UIDRING_URL", url)).stdout
}

/// Checks all but certificates, which do not depend on server, account and table.
#[track_caller]
fn databases_are_healthy(url: &str) {
    init(url);
    assert_eq!(assign(url), "1\n");
    let workers =
        "ok worker ids: 4194302 of the layout's 4194303 worker ids are left; it is too early";
    let common = ["ok connection", "ok TLS", "ok durability", "ok clock", "ok rights", "ok layout"];
    is_healthy(url, &[&common[..], &[workers]].concat());
    is_healthy(
        &with(url, "worker=lease&layout=snowflake"),
        &[
            "ok rights",
            "ok worker ids: of the layout's 1023 worker ids, 1022 are free, 0 leased, and 1 used up",
        ],
    );
    is_healthy(&with(url, "tag=orders"), &["ok tag: `orders` goes on from 1, in steps of 100"]);
    // Nothing was used up.
    assert_eq!(assign(url), "2\n");
    is_healthy(&with(url, "tag=orders"), &["ok tag: `orders` goes on from 1"]);

    has_fault(&with(url, "tag=other"), "tag", &["no tag `other`", "uidring segment create other"]);
    let ended = with(url, "layout=28/22/13/s/2016-05-20");
    has_fault(&ended, "layout", &["ended on 2024-11-20"]);
    let worker = "layout=28/1/13/s/2026-01-01&worker=";
    let used_up = ["over the layout's greatest, 1", "worker reuse FIRST LAST"];
    has_fault(&with(url, &format!("{worker}disposable")), "worker ids", &used_up);
    let none = ["no worker id is free: the layout's only one was used up", "worker reuse 1 1 "];
    has_fault(&with(url, &format!("{worker}lease")), "worker ids", &none);
}

/// Checks a range, and faults of it. `execute` changes the database.
/// `set_back` sets the counter of `WORKER_NODE` to 2000.
fn ranges_are_examined(url: &str, set_back: &str, execute: impl Fn(&str)) {
    let home = Home::new();
    let run = |words: &str| {
        let run = Run::of(home.command(words).env("UIDRING_URL", url));
        assert_eq!(run.status, Some(0), "{words}: {run:?}");
    };
    run("worker init --leases --workers 2000-2009");
    let wide = "layout=41/12/10/ms/2026-01-01";
    let disposable = with(url, wide);
    let ids = "of the 10 worker ids 2000-2009 of this store";
    is_healthy(
        &with(url, &format!("{wide}&worker=disposable")),
        &[&format!("ok worker ids: 10 {ids}")],
    );
    is_healthy(
        &disposable,
        &[&format!("ok worker ids: {ids}, 10 are free, 0 leased, and 0 used up")],
    );
    for worker in ["disposable", "lease"] {
        let narrow = with(url, &format!("layout=snowflake&worker={worker}"));
        let words = ["this store are 2000-2009, and the layout's greatest is 1023", "lower range"];
        has_fault(&narrow, "worker ids", &words);
    }
    for _ in 0..10 {
        run("worker assign --layout 41/12/10/ms/2026-01-01");
    }
    let used_up = with(url, &format!("{wide}&worker=disposable"));
    has_fault(&used_up, "worker ids", &["the next, 2010, is over the last"]);
    let soon = SystemClock.now().saturating_add(Duration::from_secs(300));
    run(&format!("worker reuse 2000 2000 --used-until {soon:.0} --layout 41/12/10/ms/2026-01-01"));
    is_healthy(
        &disposable,
        &[&format!("ok worker ids: {ids}, 1 are free, 0 leased, and 9 used up")],
    );
    let strict = with(&disposable, "max-borrow=0s&max-start-wait=10s");
    has_fault(&strict, "worker ids", &["0 are free", "1 can be leased only later"]);
    execute("UPDATE UIDRING_LEASE SET HORIZON_TICK = 441763200000 WHERE WORKER_ID = 2000");
    let later = ["0 are free, 0 leased, and 9 used up; 1 can be leased only later", "2040-01-01"];
    has_fault(&disposable, "worker ids", &later);
    execute("DELETE FROM WORKER_NODE WHERE TYPE <> 0");
    has_fault(&used_up, "worker ids", &["the next, 2010, is over the last"]);
    execute(set_back);
    let lost = ["worker id 2000 is leased, and the counter of worker ids is below it"];
    has_fault(&used_up, "worker ids", &lost);
    has_fault(&disposable, "worker ids", &lost);
    execute("UPDATE UIDRING_LEASE SET WORKER_ID = 7 WHERE WORKER_ID = 2000");
    let outside = ["worker id 7, which is outside it", "delete the rows of its worker id from"];
    has_fault(&disposable, "worker ids", &outside);
}

#[test]
fn mariadb_is_healthy_or_its_fault_is_named() {
    let server = MariaDb::shared();
    let database = server.database();
    databases_are_healthy(&database.url());
    let other = server.database();
    let set_back = "ALTER TABLE WORKER_NODE AUTO_INCREMENT = 2000";
    ranges_are_examined(&other.url(), set_back, |statement| other.execute(statement));
    let wrong = database.url().replace(&*database.user(), "nobody");
    has_fault(&wrong, "connection", &["Access denied"]);
    database.execute("ALTER TABLE WORKER_NODE ENGINE = MyISAM");
    has_fault(&database.url(), "durability", &["ALTER TABLE WORKER_NODE ENGINE = InnoDB"]);
    database.execute("ALTER TABLE WORKER_NODE ENGINE = InnoDB COMMENT = 'uidring version 2'");
    has_fault(&database.url(), "connection", &["WORKER_NODE has another version"]);
    database.execute("ALTER TABLE WORKER_NODE COMMENT = ''");
    database.execute("UPDATE leaf_alloc SET step = 0");
    has_fault(&with(&database.url(), "tag=orders"), "tag", &["step is 0"]);
    // A start for worker ids does not use this table.
    database.execute("ALTER TABLE leaf_alloc COMMENT = 'uidring version 2'");
    is_healthy(&database.url(), &["ok connection"]);
    has_fault(
        &with(&database.url(), "tag=orders"),
        "connection",
        &["leaf_alloc has another version"],
    );
    database.execute("ALTER TABLE WORKER_NODE AUTO_INCREMENT = 4194304");
    has_fault(&database.url(), "worker ids", &["over the layout's greatest"]);

    let empty = server.database();
    has_fault(&empty.url(), "rights", &["WORKER_NODE", "uidring worker init"]);
    let lease = with(&empty.url(), "worker=lease");
    has_fault(&lease, "rights", &["UIDRING_LEASE", "uidring worker init --leases"]);
    let reader = format!("{}_r", empty.user());
    empty.administer(&format!("CREATE USER {reader} IDENTIFIED BY '{}'", empty.password()));
    empty.administer(&format!("GRANT SELECT, INSERT ON {}.* TO {reader}", empty.name()));
    let reader = empty.url_of(&reader, &server.address().to_string());
    has_fault(&reader, "rights", &["uidring worker init", "no right of its own to create it"]);
    init(&empty.url());
    let lease = with(&reader, "worker=lease");
    has_fault(&lease, "rights", &["UPDATE command denied", "SELECT, INSERT and UPDATE"]);
    let ranged = server.database();
    let blind = format!("{}_b", ranged.user());
    let home = Home::new();
    let mut init = home.command("worker init --workers 5-9");
    assert_eq!(Run::of(init.env("UIDRING_URL", ranged.url())).status, Some(0));
    ranged.administer(&format!("CREATE USER {blind} IDENTIFIED BY '{}'", ranged.password()));
    let (name, table) = (ranged.name(), "WORKER_NODE");
    ranged.administer(&format!("GRANT SELECT, INSERT ON {name}.{table} TO {blind}"));
    let blind = ranged.url_of(&blind, &server.address().to_string());
    has_fault(&blind, "rights", &["UIDRING_RANGE", "SELECT on"]);
}

#[test]
fn a_server_that_forgets_or_has_another_time_is_named() {
    let clock = "--init-connect=SET timestamp = UNIX_TIMESTAMP() + 30";
    let server = MariaDb::start_with(&["--log-bin", "--sync-binlog=0", clock]);
    let url = server.database().url();
    init(&url);
    has_fault(&url, "durability", &["sync_binlog is 0", "set sync_binlog = 1"]);
    has_fault(&url, "clock", &["its clock says", "set the wrong one right"]);
    server.stop();
    has_fault(&with(&url, "deadline=1s"), "connection", &["is the server running?"]);
}

#[test]
fn an_expired_certificate_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path());
    let start = |shown| {
        let arguments = authority.arguments(&shown);
        MariaDb::start_with(&arguments.each_ref().map(|argument| &**argument))
    };
    let ca = format!("ca={}", authority.certificate().display());
    let server = start(authority.server());
    let url = with(&server.database().url(), &ca);
    init(&url);
    is_healthy(&url, &["ok TLS: each connection has TLS; the server's certificate is signed by"]);
    let unverified = with(&url.replace(&*format!("?{ca}"), ""), "tls=unverified");
    let (status, found) = examine(&unverified);
    assert_eq!(status, Some(0), "{found:#?}");
    assert!(found.iter().any(|finding| finding.starts_with("risk TLS: ")), "{found:#?}");
    let server = start(authority.expired());
    has_fault(&with(&server.database().url(), &ca), "connection", &["needs a new certificate"]);
}

#[test]
fn postgresql_is_healthy_or_its_fault_is_named() {
    let server = Postgres::shared();
    let database = server.database();
    databases_are_healthy(&database.url());
    let other = server.database();
    let set_back = "ALTER TABLE WORKER_NODE ALTER COLUMN ID RESTART WITH 2000";
    ranges_are_examined(&other.url(), set_back, |statement| other.execute(statement));
    database.execute("ALTER TABLE leaf_alloc SET UNLOGGED");
    has_fault(&with(&database.url(), "tag=orders"), "durability", &["SET LOGGED"]);
    database.execute("ALTER TABLE leaf_alloc SET LOGGED");
    database.execute("ALTER TABLE WORKER_NODE ALTER COLUMN ID RESTART WITH 4194304");
    has_fault(&database.url(), "worker ids", &["over the layout's greatest"]);
    database.execute("ALTER TABLE WORKER_NODE ALTER COLUMN ID RESTART WITH 1");
    has_fault(&database.url(), "worker ids", &["was set back below 2", "starts will fail"]);
    // Another sequence that belongs to the column does not count.
    database.execute("CREATE SEQUENCE \"a?b\" OWNED BY WORKER_NODE.ID");
    database.execute("SELECT SETVAL('\"a?b\"', 7)");
    has_fault(&database.url(), "worker ids", &["was set back below 2", "starts will fail"]);
    database.execute("ALTER TABLE WORKER_NODE ALTER COLUMN ID DROP IDENTITY");
    database.execute("ALTER TABLE WORKER_NODE ALTER COLUMN ID SET DEFAULT NEXTVAL('\"a?b\"')");
    is_healthy(&database.url(), &["ok worker ids: 4194296 of"]);
    let empty = server.database();
    let reader = format!("{}_r", empty.user());
    empty.administer(&format!("CREATE USER {reader} PASSWORD '{}'", empty.password()));
    let reader = empty.url_of(&reader, &server.address().to_string());
    has_fault(&reader, "rights", &["uidring worker init", "no right of its own to create it"]);
    init(&empty.url());
    has_fault(&reader, "rights", &["permission denied for table worker_node"]);
}

#[test]
fn etcd_is_healthy_or_its_fault_is_named() {
    let server = Etcd::start();
    let url = server.url("doctor");
    let rights = "ok rights: the user may read and write";
    is_healthy(&url, &[rights, "ok worker ids: 4194303 of the layout's"]);
    let everything = json!({"key": "AA==", "range_end": "AA==", "count_only": true});
    let keys = server.post("kv/range", &everything);
    assert!(keys.get("count").is_none(), "nothing was written: {keys}");
    assert_eq!(assign(&url), "1\n");
    is_healthy(
        &url,
        &["ok connection", "ok TLS", rights, "ok worker ids: 4194302 of the layout's"],
    );
    is_healthy(
        &with(&url, "worker=lease"),
        &[
            rights,
            "ok worker ids: of the layout's 4194303 worker ids, 4194302 are free, 0 leased, and 1 used up",
        ],
    );
    assert_eq!(assign(&url), "2\n");
    let away = with(&url.replace("etcd://", "etcd://127.0.0.1:1,"), "deadline=1s");
    has_fault(&away, "connection", &["no connection", "127.0.0.1:1"]);
    let (_, found) = examine(&away);
    let workers = found.iter().filter(|finding| finding.starts_with("ok worker ids")).count();
    assert_eq!(workers, 1, "the other member answers: {found:#?}");
    let (_, found) = examine("etcd://127.0.0.1:1/a?deadline=1s");
    assert_eq!(found.len(), 2, "layout, and connection once: {found:#?}");

    server.post("maintenance/alarm", &json!({"action": "ACTIVATE", "alarm": "NOSPACE"}));
    has_fault(&url, "alarms", &["NOSPACE", "etcdctl alarm disarm"]);
    server.post("maintenance/alarm", &json!({"action": "DEACTIVATE", "alarm": "NOSPACE"}));
    for user in ["root", "ids"] {
        server.post("auth/user/add", &json!({"name": user, "password": "s3cret"}));
        server.post("auth/role/add", &json!({"name": user}));
        server.post("auth/user/grant", &json!({"user": user, "role": user}));
    }
    // The base64 of `/doctor/` and `/doctor0`.
    let (key, end) = ("L2RvY3Rvci8=", "L2RvY3RvcjA=");
    let reads = json!({"permType": "READ", "key": key, "range_end": end});
    server.post("auth/role/grant", &json!({"name": "ids", "perm": reads}));
    server.post("auth/enable", &json!({}));
    let reader = url.replace("etcd://", "etcd://ids:s3cret@");
    has_fault(&reader, "rights", &["grant the user's role readwrite"]);
}

#[test]
fn a_registry_is_healthy_or_its_fault_is_named() {
    let server = ZooKeeper::shared();
    let url = format!(
        "zookeeper://{}?name={}&generator=leaf-snowflake&cache=none",
        server.hosts(),
        server.name()
    );
    is_healthy(
        &url,
        &["ok connection", "ok TLS", "ok worker ids: 1024 are left for new instances"],
    );
    let home = Home::new();
    let mut unnamed = home.command("doctor");
    unnamed.env("UIDRING_URL", &url).env_remove("UIDRING_INSTANCE");
    let (status, found) = doctor(unnamed);
    assert!(status == Some(1) && format!("{found:?}").contains("UIDRING_INSTANCE is not set"));
    let nowhere = format!("zookeeper://{}/nowhere?name=a&generator=leaf-snowflake", server.hosts());
    has_fault(&nowhere, "connection", &["the path after the hosts must exist"]);
    let away = "zookeeper://127.0.0.1:1?name=a&generator=leaf-snowflake";
    has_fault(away, "connection", &["no session"]);
}

#[test]
fn a_file_is_healthy_or_its_fault_is_named() {
    let home = Home::new();
    let on = |words: &str| doctor(home.command(&format!("doctor {words}")));
    assert_eq!(on("worker:5 -u worker:6").0, Some(0));
    let (status, found) = on("worker:5 -u worker:5");
    assert!(status == Some(1) && format!("{found:?}").contains("both hand out worker id 5 of"));
    let (status, found) = on("sqlite:a.db?mode=rwc");
    assert!(status == Some(0) && format!("{found:?}").contains("the first start creates"));
    let (status, found) = on("sqlite:nowhere/a.db?mode=rwc");
    assert!(
        status == Some(0)
            && found[0].iter().any(|finding| finding.starts_with(
                "risk file: the worker file nowhere/a.db could not be created: there is no folder "
            ))
    );
    let (status, found) = on("sqlite:a.db");
    assert!(status == Some(1) && format!("{found:?}").contains("there is no such file"));
    assert!(!home.folder.path().join("a.db").exists(), "nothing was made");
    for words in ["worker init -u sqlite:a.db", "generate -u sqlite:a.db --layout snowflake"] {
        assert_eq!(home.run(words).status, Some(0));
    }
    let (status, found) = on("sqlite:a.db");
    assert_eq!(status, Some(0), "{found:#?}");
    let (status, found) = on("sqlite:a.db?layout=31/10/22");
    assert!(
        status == Some(1) && format!("{found:?}").contains("its leases are for layout 41/10/12")
    );
    // One file with three names.
    std::os::unix::fs::symlink("a.db", home.folder.path().join("c.db")).expect("linked");
    let (_, found) = on("sqlite:a.db sqlite:./a.db");
    let last = found.last().and_then(|found| found.last()).expect("a finding");
    assert_eq!(last, "ok ranges: two of the URLs lead to one store, ./a.db");
    let run = home.run("doctor sqlite:c.db sqlite:a.db --format json");
    assert!(!run.stdout.contains("both hand out"), "{run:?}");
    let commits = home.folder.path().join("a.db-commits");
    let counted = std::fs::read(&commits).expect("counted");
    for (bytes, words) in [(vec![0xff; 16], "commits are lost"), (Vec::new(), "")] {
        std::fs::write(&commits, &bytes).expect("writes");
        let (status, found) = on("sqlite:a.db?layout=snowflake");
        let expected = if words.is_empty() { Some(0) } else { Some(1) };
        assert!(status == expected && format!("{found:?}").contains(words), "{found:#?}");
        let run = home.run("serve --check -u sqlite:a.db?layout=snowflake");
        assert!(run.status == expected && run.stderr.contains(words), "{run:?}");
    }
    std::fs::write(&commits, counted).expect("writes");
    let unseen = home.run("doctor 'sqlite:a\u{1b}[31m.db?mode=rwc'");
    assert!(!unseen.stdout.contains('\u{1b}'), "{unseen:?}");
    let (_, found) = on("sqlite:a.db?on-clock-back=new-worker-id&worker=lease&layout=snowflake");
    assert!(format!("{found:?}").contains("is for worker=disposable"), "{found:?}");
    // Root may write anything, so it drops its capabilities.
    let mut command = home.under_sh(
        r#"[ "$(id -u)" = 0 ] && set -- setpriv --bounding-set=-all "$1"
           chmod 555 . && "$@" doctor sqlite:a.db --format json; status=$?; chmod 755 .; exit $status"#,
    );
    let run = Run::of(&mut command);
    assert!(run.status == Some(1) && run.stdout.contains("this account may not write"), "{run:?}");
    std::fs::write(
        home.folder.path().join("b.db"),
        "no database, but longer than a header of one is, so that it is \
        read as one, which takes a hundred bytes",
    )
    .expect("writes");
    let (status, found) = on("sqlite:b.db");
    assert!(status == Some(1) && found[0].iter().any(|finding| finding.starts_with("fix file: ")));
}

/// With -q, only risks and faults are printed.
#[test]
fn quietly_only_risks_and_faults_are_printed() {
    let home = Home::new();
    let all = home.run("doctor -u worker:4").stdout;
    let quiet = home.run("doctor -q -u worker:4").stdout;
    let attention = |line: &&str| !line.starts_with("  ok ");
    let expected: Vec<_> = all.lines().filter(attention).collect();
    assert!(expected.len() < all.lines().count(), "{all}");
    assert!(expected.len() > 1, "{all}");
    assert_eq!(quiet.lines().collect::<Vec<_>>(), expected);
}

/// A store without ordinals says so before the environment is read.
#[test]
fn a_store_without_ordinals_says_so() {
    let home = Home::new();
    let mut command = home.command("doctor -u mysql://127.0.0.1:1/d?worker=ordinal");
    command.env_remove("UIDRING_ORDINAL").env_remove("HOSTNAME");
    let (status, found) = doctor(command);
    assert_eq!(status, Some(1), "{found:?}");
    assert!(found[0].iter().any(|finding| finding.starts_with("fix options: ")), "{found:?}");
    assert!(!format!("{found:?}").contains("UIDRING_ORDINAL"), "{found:?}");
}

/// Two stores with separate ranges, and a third that overlaps one of them.
#[test]
fn ranges_that_overlap_are_named() {
    let (home, databases) = (Home::new(), [(); 3].map(|()| MariaDb::shared().database()));
    let urls = databases.each_ref().map(mariadb::Database::url);
    for (index, (url, range)) in urls.iter().zip(["1-99", "100-199", "150-250"]).enumerate() {
        let mut init = home.command(&format!("worker init --workers {range}"));
        assert_eq!(Run::of(init.env("UIDRING_URL", url)).status, Some(0));
        home.write_url(&format!("url{index}"), url);
    }
    let (status, found) = doctor(home.command("doctor --url-file url0 --url-file url1"));
    assert_eq!(status, Some(0), "{found:#?}");
    let (status, found) = doctor(
        home.command("doctor --url-file url0 --url-file url1 --url-file url2 --url-file url2"),
    );
    assert_eq!(status, Some(1), "{found:#?}");
    let faults = |store: &Vec<String>| store.iter().filter(|text| text.starts_with("fix")).count();
    assert_eq!(found.iter().map(faults).collect::<Vec<_>>(), [0, 0, 1, 1], "{found:#?}");
    let names = [&databases[1], &databases[2]].map(mariadb::Database::name);
    let fault = found[2].last().expect("a fault");
    assert!(names.iter().all(|name| fault.contains(name)), "{fault}");
    assert!(
        fault.starts_with("fix ranges: ") && fault.contains("worker ids 150 to 199"),
        "{fault}"
    );
    // With another layout, the ids cannot meet.
    let other = with(&urls[2], "layout=snowflake&worker=disposable");
    home.write_url("url2", &other);
    let (status, found) = doctor(home.command("doctor --url-file url1 --url-file url2"));
    assert_eq!(status, Some(0), "{found:#?}");
}
