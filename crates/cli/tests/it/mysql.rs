//! The program on a real MySQL-compatible server: sources of the server's URL, keeping it secret, and the commands
//! about the table.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use uidring_testkit::certificates::Authority;
use uidring_testkit::mariadb::MariaDb;

use crate::support::program::{command, database, failure, ids, worker_of, wrong_usage};
use crate::support::{Home, Run};

#[test]
fn urls_come_from_flag_file_or_environment_and_are_not_shown() {
    let database = database(&MariaDb::shared());
    let home = Home::new();
    let file = home.folder.path().join("url");
    home.write_url("url", &format!("{}\n", database.url()));
    let generate = |words: &str| {
        let run = Run::of(home.command(words).args(["--layout", "28/22/13"]));
        assert_eq!(run.status, Some(0), "{words}: {run:?}");
        (worker_of(run.stdout.trim().parse().expect("a uid")), run.stderr)
    };
    let (worker, warned) = generate(&format!("generate -u {}", database.url()));
    assert!(worker == 1 && warned.contains("name that with --url-file"), "{warned}");
    assert!(warned.lines().count() == 1 && !warned.contains("%40"), "{warned}");
    assert_eq!(generate("generate --url-file url"), (2, String::new()));

    // A flag wins over the environment, which wins over the default file.
    let elsewhere = "mysql://u:s3cret@127.0.0.1:1/d";
    let flag = Run::of(&mut command(&home, "worker assign --url-file url", elsewhere));
    assert_eq!((flag.status, &*flag.stdout), (Some(0), "3\n"));
    let fixed = Run::of(&mut command(&home, "generate -u worker:77", elsewhere));
    assert_eq!(fixed.status, Some(0));
    assert_eq!(worker_of(fixed.stdout.trim().parse().expect("a uid")), 77);
    let server = Run::of(&mut command(&home, "worker assign", &database.url()));
    assert_eq!((server.status, &*server.stdout), (Some(0), "4\n"));
    assert!(!home.folder.path().join("uidring").exists(), "the default file was not made");

    for url in ["s3cret", "mysql://u:s3cret@h", "mysql://u:s3@s3cret@h/d", "mysql://u:s3cret@h:x/d"]
    {
        let text = wrong_usage(&mut command(&home, "generate", url));
        assert!(text.contains("in UIDRING_URL, is wrong"), "{text}");
        wrong_usage(home.command("generate").args(["-u", url]));
        wrong_usage(home.command("worker list").args(["-u", url]));
        fs::write(&file, url).expect("writes");
        let text = wrong_usage(&mut home.command("plan --url-file url"));
        assert!(text.contains("in the file ") && text.contains(", is wrong"), "{text}");
    }
    let text = wrong_usage(&mut command(&home, "generate", ""));
    assert!(text.contains("in UIDRING_URL, is wrong: it is empty"), "{text}");
    fs::write(&file, "\n").expect("writes");
    let text = wrong_usage(&mut home.command("plan --url-file url"));
    assert!(text.contains("in the file url, is wrong: it is empty"), "{text}");
    let none = failure(&mut home.command("generate --url-file nowhere"));
    assert!(none.contains("nowhere"), "{none}");
    for words in ["generate --help", "worker init --help", "plan --help", "generate -u"] {
        let run = Run::of(&mut command(&home, words, elsewhere));
        assert!(!format!("{run:?}").contains("s3cret"), "{run:?}");
    }
    for (words, why) in [
        ("generate -u mysql://u:s3cret@h/d -u sqlite:f", "cannot be used multiple times"),
        ("generate -u mysql://u:s3cret@h/d --url-file f", "cannot be used with '--url-file"),
        (
            "generate -u mysql://u:s3cret@h/d?tls=off --start-after 5",
            "a store knows what was issued",
        ),
        ("generate -u mysql://u:s3cret@h/d?ca=ca.pem&tls=off", "tls=off"),
        ("generate -u sqlite:f?ca=ca.pem", "no parameter `ca`"),
        ("generate -u worker:1?ca=ca.pem", "no parameter `ca`"),
        ("plan -u sqlite:f?ca=ca.pem", "no parameter `ca`"),
        ("generate -u sqlite:f?durability=require", "no parameter `durability`"),
        ("generate -u worker:1?cluster=synchronous", "no parameter `cluster`"),
        ("worker list -u sqlite:f?cluster=synchronous", "no parameter `cluster`"),
        ("generate -u mysql://u:s3cret@h/d?deadline=0", "`deadline`: write a time from 1s"),
        ("generate -u sqlite:f?max-clock-difference=1", "no parameter `max-clock-difference`"),
        ("generate -u worker:1?max-clock-difference=1", "no parameter `max-clock-difference`"),
        (
            "generate -u mysql://u:s3cret@h/d?max-clock-difference=-1",
            "`max-clock-difference`: write a time",
        ),
    ] {
        let run = home.run(words);
        assert_eq!((run.status, &*run.stdout), (Some(2), ""), "{words}: {run:?}");
        assert!(run.stderr.contains(why), "{words}: {}", run.stderr);
        assert!(!run.stderr.contains("s3cret"), "{}", run.stderr);
    }
}

#[test]
fn people_look_after_the_table() {
    let database = MariaDb::shared().database();
    let home = Home::new();
    let run = |words: &str| Run::of(&mut command(&home, words, &database.url()));
    let plan = "plan";
    assert_eq!(run("worker init").status, Some(0));
    assert!(run(plan).stdout.contains("none: the table is empty"));
    assert_eq!(run("worker assign").stdout, "1\n");
    assert_eq!(run("generate -n 3").stdout.lines().count(), 3);
    assert!(run(plan).stdout.contains("too early to tell"));

    database.execute("UPDATE WORKER_NODE SET CREATED = NOW() - INTERVAL 100 HOUR WHERE ID = 1");
    database.execute("ALTER TABLE WORKER_NODE AUTO_INCREMENT = 401");
    assert_eq!(run("worker assign").stdout, "401\n");
    let small = format!("{plan} --layout 41/10/12/ms/2026-01-01 --json");
    let forecast: serde_json::Value = serde_json::from_str(&run(&small).stdout).expect("JSON");
    let table = &forecast["worker_table"];
    assert_eq!((&table["starts"], &table["newest_worker_id"]), (&3.into(), &401.into()));
    assert_eq!(table["worker_ids_left"], 622);
    let rate = table["worker_ids_per_day"].as_f64().expect("a rate");
    assert!((95.0..=96.1).contains(&rate), "{rate}");
    assert!(table["runs_out"].as_str().is_some_and(|day| day.ends_with('Z')), "{table}");
    let text = run(&format!("{plan} --layout 41/10/12/ms/2026-01-01")).stdout;
    assert!(text.contains("a day") && text.contains("622 worker ids are left"), "{text}");
    let over = run("worker assign --layout 28/22/13/s/2016-05-20");
    assert_eq!((over.status, &*over.stdout), (Some(1), ""));
    assert!(over.stderr.contains("ended on 2024-11-20"), "{}", over.stderr);
    assert!(!ids(&database).contains(&402), "it cost no worker id");
    let full = run(&format!("{plan} --layout 45/5/12/ms/2026-01-01")).stdout;
    assert!(
        full.contains(
            "now: lease those of starts that have ended (`uidring worker reuse FIRST LAST"
        ),
        "{full}"
    );
    let full = run(&format!("plan --layout 45/5/12/ms/2026-01-01 -u {}", database.url())).stdout;
    assert!(
        full.contains("(`uidring worker reuse FIRST LAST --used-until TIME -u URL`)"),
        "{full}"
    );

    let pruned = run("worker prune --keep-days 1");
    assert_eq!((pruned.status, &*pruned.stdout), (Some(0), ""));
    assert!(pruned.stderr.contains(": 1; the newest row, of worker id 401"), "{}", pruned.stderr);
    assert_eq!(ids(&database), BTreeSet::from([2, 401]));
    let rows: serde_json::Value =
        serde_json::from_str(&run("worker list --json").stdout).expect("JSON");
    assert_eq!(rows[1]["id"], 401);
    assert_eq!(run("worker list").stdout.lines().count(), 3);
    database.execute("DELETE FROM WORKER_NODE");
    assert!(run("worker prune").stderr.contains("empty"));
    assert_eq!(run("worker assign").stdout, "402\n");

    let long = "x".repeat(200);
    let named = Run::of(
        command(&home, "worker assign", &database.url())
            .env("UIDRING_HOST", &long)
            .env("UIDRING_PORT", "é".repeat(70)),
    );
    assert_eq!((named.status, &*named.stdout), (Some(0), "403\n"), "{named:?}");
    let names: Vec<(u64, u64)> = database
        .query("SELECT CHAR_LENGTH(HOST_NAME), CHAR_LENGTH(PORT) FROM WORKER_NODE WHERE ID = 403");
    assert_eq!(names, [(64, 64)]);
}

/// A start succeeds whatever letters the column of names can hold.
#[test]
fn names_fit_a_column_of_plain_letters() {
    let database = database(&MariaDb::shared());
    database.execute("ALTER TABLE WORKER_NODE CONVERT TO CHARACTER SET ascii");
    let home = Home::new();
    let mut start = command(&home, "worker assign", &database.url());
    let run = Run::of(start.env("UIDRING_HOST", "h\u{f6}st\u{7}").env("UIDRING_PORT", "8\u{661}"));
    assert_eq!((run.status, &*run.stdout), (Some(0), "1\n"), "{run:?}");
    let names: Vec<(String, String)> = database.query("SELECT HOST_NAME, PORT FROM WORKER_NODE");
    assert_eq!(names, [("h?st?".to_owned(), "8?".to_owned())]);
}

/// Anybody may have written the names in the table, and a terminal shows them.
#[test]
fn names_do_not_steer_the_terminal() {
    let database = database(&MariaDb::shared());
    let home = Home::new();
    database.execute(
        "INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE)
         VALUES (CONCAT('a', CHAR(27), '[2J', CHAR(10), '\"b'), '80', 1, UTC_DATE())",
    );
    let list = Run::of(&mut command(&home, "worker list", &database.url()));
    assert_eq!((list.status, list.stdout.lines().count()), (Some(0), 2), "{list:?}");
    assert!(list.stdout.ends_with("  a\\u{1b}[2J\\n\"b:80\n"), "{list:?}");
}

/// The error omits the password, and nothing is created.
#[test]
fn a_url_in_the_wrong_place_is_not_shown() {
    const URL: &str = "mysql://root:s3cret@db/ids";
    for (words, status) in [
        ("generate -u sqlite:URL", 2),
        ("worker init -u sqlite:URL", 2),
        ("worker list -u sqlite:URL", 2),
        ("plan -u sqlite:URL", 2),
        ("generate --url-file URL", 2),
        ("generate -u mysql://u@h/d?ca=URL", 2),
        ("generate URL", 2),
        ("URL", 2),
        ("--URL", 2),
        ("generate -u worker:URL", 2),
        ("generate --layout URL", 2),
        ("generate --max-borrow URL", 2),
        ("generate --tag URL", 2),
        ("generate -u sqlite:?max-lag=URL", 2),
        ("worker URL", 2),
        ("plan --rate=URL", 2),
        ("parse URL", 1),
        ("check URL", 2),
        ("generate -o URL", 2),
        ("man URL", 2),
    ] {
        let home = Home::new();
        let run = home.run(&words.replace("URL", URL));
        assert_eq!((run.status, &*run.stdout), (Some(status), ""), "{words}: {run:?}");
        assert!(run.stderr.starts_with("error: "), "{words}: {}", run.stderr);
        assert!(!run.stderr.contains("s3cret"), "{words}: {}", run.stderr);
        let made = fs::read_dir(home.folder.path()).expect("is there").count();
        assert_eq!(made, 0, "{words}: nothing was made");
    }
    let home = Home::new();
    let text = wrong_usage(home.command("generate").env("UIDRING_MYSQL_URL", URL));
    assert!(text.contains("set UIDRING_URL to the same URL"), "{text}");
}

/// clap reports errors without a URL. Help is no error, although it shows the form of URLs.
#[test]
fn other_slips_are_told_as_ever() {
    let home = Home::new();
    let help = home.stdout("help urls");
    assert!(help.contains("mysql://USER:PASSWORD@HOST:PORT/DATABASE"), "{help}");
    let wrong = home.run("generate --layout 1/2");
    assert_eq!(wrong.status, Some(2));
    assert!(wrong.stderr.contains("1/2") && wrong.stderr.contains("--layout"), "{}", wrong.stderr);
    let none = home.run("worker");
    assert_eq!(none.status, Some(2));
    assert!(none.stderr.contains("Usage: uidring worker"), "{}", none.stderr);
}

#[test]
fn clocks_that_differ_are_refused_before_a_worker_id_is_spent() {
    let server = MariaDb::start();
    let database = database(&server);
    let home = Home::new();
    let assign = |seconds: &str| {
        let url = format!("{}?max-clock-difference={seconds}", database.url());
        command(&home, "worker assign", &url)
    };
    assert_eq!(Run::of(&mut assign("30")).stdout, "1\n");
    server.execute("SET GLOBAL init_connect = 'SET timestamp = UNIX_TIMESTAMP() + 3600'");
    let text = failure(&mut assign("30"));
    assert!(text.contains("apart, where 30s is allowed"), "{text}");
    assert_eq!(Run::of(&mut assign("7200.5")).stdout, "2\n", "the refusal cost no key");
}

#[test]
fn settings_that_may_lose_commits_warn_or_are_refused() {
    let server = MariaDb::start_with(&["--innodb-flush-log-at-trx-commit=2"]);
    let database = server.database();
    let home = Home::new();
    let url = database.url();
    let run = |words: &str, options: &str| {
        Run::of(&mut command(&home, words, &format!("{url}{options}")))
    };
    let made = run("worker init", "");
    assert_eq!(made.status, Some(0), "{made:?}");
    let warned = run("generate -n 1", "");
    assert_eq!(warned.status, Some(0), "{warned:?}");
    let warnings = warned.stderr.matches("set innodb_flush_log_at_trx_commit = 1").count();
    assert_eq!(warnings, 1, "{warned:?}");
    let refused = run("generate -n 1", "?durability=require");
    assert_eq!((refused.status, &*refused.stdout), (Some(1), ""), "{refused:?}");
    assert!(refused.stderr.contains("set innodb_flush_log_at_trx_commit = 1"), "{refused:?}");
    assert!(!refused.stderr.contains("p@ss"), "{refused:?}");
}

#[test]
fn certificates_come_from_the_url() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path());
    let arguments = authority.arguments(&authority.server());
    let server = MariaDb::start_with(&arguments.each_ref().map(String::as_str));
    let (database, home) = (server.database(), Home::new());
    server.execute(&format!("ALTER USER {}@'%' REQUIRE X509", database.user()));
    let init = |options: &[(&str, &Path)]| {
        let option = |(name, path): &(&str, &Path)| format!("{name}={}", path.display());
        let options: Vec<_> = options.iter().map(option).collect();
        command(&home, "worker init", &format!("{}?{}", database.url(), options.join("&")))
    };
    let (trusted, shown) = (authority.certificate(), authority.client("ids"));
    let trusted = ("ca", &*trusted);
    let text = failure(&mut init(&[trusted]));
    assert!(text.contains("a client's certificate"), "{text}");
    let own = [("cert", &*shown.certificate), ("key", &*shown.key)];
    let run = Run::of(&mut init(&[trusted, own[0], own[1]]));
    assert_eq!(run.status, Some(0), "{run:?}");
    let text = failure(&mut init(&own));
    assert!(text.contains("name the authority"), "{text}");
}
