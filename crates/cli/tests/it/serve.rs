//! `uidring serve`: its settings, sockets and end. No id may repeat, however it ends.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Home, Run};

pub const LIMIT: Duration = Duration::from_secs(60);

/// Only Redis, on any free port.
pub const REDIS: &str = "serve --redis 0 --http none --thrift none --batch none";

pub struct Server {
    pub child: Child,
    stderr: BufReader<ChildStderr>,
    /// What it printed before it served.
    pub said: String,
}

impl Server {
    /// Starts the server, and waits until it serves.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().expect("it starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        // With an ordinal there are no segments, and the worker id is the last line.
        let said = read_until(&mut stderr, &["tags of segments", "from the ordinal"]);
        Self { child, stderr, said }
    }

    /// Reads its messages up to this text, and returns them.
    #[cfg(feature = "mysql")]
    pub fn wait_for(&mut self, text: &str) -> String {
        read_until(&mut self.stderr, &[text])
    }

    fn port(&self) -> u16 {
        let line = self.said.lines().find_map(|line| line.strip_prefix("redis"));
        let port = line.and_then(|line| line.rsplit_once(':')).expect("it says where").1;
        port.parse().expect("a port")
    }

    pub fn client(&self) -> Option<BufReader<TcpStream>> {
        let stream = TcpStream::connect(("127.0.0.1", self.port())).ok()?;
        stream.set_read_timeout(Some(LIMIT)).ok()?;
        Some(BufReader::new(stream))
    }

    /// Returns the answers to a line, sent this many times at once.
    pub fn ask(&self, line: &str, times: usize) -> Vec<String> {
        ask(&mut self.client().expect("it listens"), line, times)
    }

    pub fn signal(&self, signal: i32) {
        let name = format!("-{signal}");
        let status = Command::new("kill").args([name, self.child.id().to_string()]).status();
        assert!(status.expect("kill").success());
    }

    /// Stops the server when it has no lock on the file. On another node, its locks would not matter, but here they do.
    #[cfg(target_os = "linux")]
    pub fn stand_still(&self) {
        let begin = Instant::now();
        let id = self.child.id().to_string();
        loop {
            self.signal(19);
            let locks = fs::read_to_string("/proc/locks").expect("Linux lists them");
            if !locks.split_whitespace().any(|word| word == id) {
                return;
            }
            assert!(begin.elapsed() < Duration::from_secs(30), "it always has a lock: {locks}");
            self.signal(18);
            thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).expect("UTF-8");
        (self.child.wait().expect("it ends").code(), rest)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_until(stderr: &mut impl BufRead, texts: &[&str]) -> String {
    let mut said = String::new();
    while !texts.iter().any(|text| said.contains(text)) {
        let length = stderr.read_line(&mut said).expect("UTF-8");
        assert!(length > 0, "it ended: {said}");
    }
    said
}

/// Returns the answers up to a break of the connection.
pub fn ask(client: &mut BufReader<TcpStream>, line: &str, times: usize) -> Vec<String> {
    let sent = client.get_mut().write_all(format!("{line}\r\n").repeat(times).as_bytes());
    let mut answers = Vec::new();
    while sent.is_ok() && answers.len() < times {
        let mut answer = String::new();
        match client.read_line(&mut answer) {
            // A line that is cut off is not an answer.
            Ok(_) if answer.ends_with('\n') => answers.push(answer.trim_end().to_owned()),
            _ => break,
        }
    }
    answers
}

pub fn ids(answers: &[String]) -> impl Iterator<Item = u64> {
    answers.iter().filter_map(|answer| answer.strip_prefix(':')?.parse().ok())
}

#[test]
fn it_says_where_and_what_it_serves() {
    let home = Home::new();
    home.run("segment create orders --step 100");
    let server = Server::start(&mut home.command(REDIS));
    assert!(server.said.contains("\nuid: layout 28/22/13 in s since"), "{}", server.said);
    assert!(server.said.contains("worker id 1 from"), "{}", server.said);
    assert!(server.said.ends_with("tags of segments: orders\n"), "{}", server.said);
    assert_eq!(ids(&server.ask("INCR uid", 1_000)).count(), 1_000);
    assert_eq!(ids(&server.ask("INCR orders", 3)).collect::<Vec<_>>(), [1, 2, 3]);
    server.signal(15);
    let (status, said) = server.end();
    assert_eq!(status, Some(0), "{said}");
    assert!(
        said.contains("uid: 1000 ids issued\n") && said.contains("orders: 3 ids issued\n"),
        "{said}"
    );
}

#[test]
fn a_tag_that_a_name_hides_is_told() {
    let home = Home::new();
    for tag in ["orders", "theirs", "browser"] {
        assert_eq!(home.run(&format!("segment create {tag} --step 100")).status, Some(0));
    }
    // As another program may do; ours creates no tag of this name.
    let file = home.folder.path().join("uidring/segments.db");
    let table = rusqlite::Connection::open(file).expect("opens");
    let rename = "UPDATE leaf_alloc SET biz_tag = 'uid' WHERE biz_tag = 'theirs'";
    assert_eq!(table.execute(rename, []).expect("renamed"), 1);
    drop(table);
    fs::write(home.folder.path().join("serve.toml"), "[names.browser]\n").expect("written");
    let words = format!("{REDIS} --config serve.toml");
    let check = home.run(&format!("{words} --check"));
    let server = Server::start(&mut home.command(&words));
    for said in [&check.stderr, &server.said] {
        for tag in ["uid", "browser"] {
            assert!(said.contains(&format!("warning: the tag `{tag}` is not served: ")), "{said}");
        }
        assert!(!said.contains("`orders` is not"), "{said}");
    }
    assert!(server.said.ends_with("tags of segments: orders\n"), "{}", server.said);
}

#[test]
fn what_it_advises_is_about_its_own_file() {
    let home = Home::new();
    let server = Server::start(&mut home.command(&format!("{REDIS} -u sqlite:ids.db?mode=rwc")));
    let create = "`uidring segment create TAG --step S -u 'sqlite:ids.db?mode=rwc'` creates one\n";
    assert!(server.said.ends_with(create), "{}", server.said);
    drop(server);
    let url = format!("sqlite:{}?mode=rwc", home.folder.path().join("ids.db").display());
    fs::write(home.folder.path().join("serve.toml"), format!("url = '{url}'\n")).expect("written");
    let server = Server::start(&mut home.command(&format!("{REDIS} --config serve.toml")));
    let create = format!("`uidring segment create TAG --step S -u '{url}'` creates one\n");
    assert!(server.said.ends_with(&create), "{}", server.said);
}

#[test]
fn of_many_tags_it_says_a_few() {
    let home = Home::new();
    for tag in 10..25 {
        home.run(&format!("segment create tag{tag} --step 100"));
    }
    let server = Server::start(&mut home.command(REDIS));
    let line = server.said.lines().last().expect("a line");
    assert!(line.starts_with("15 tags of segments: tag10, "), "{line}");
    assert!(line.ends_with("tag21, … (`uidring segment list` shows all)"), "{line}");
    for tag in 10..25 {
        assert_eq!(ids(&server.ask(&format!("INCR tag{tag}"), tag)).count(), tag);
    }
    server.signal(15);
    let (status, said) = server.end();
    assert_eq!(status, Some(0), "{said}");
    // Names with the most ids.
    assert!(said.contains("tag24: 24 ids issued\n") && said.contains("tag13: 13 ids issued\n"));
    assert!(!said.contains("tag12") && said.contains("33 ids of 3 more names issued\n"), "{said}");
}

#[test]
fn settings_are_checked_without_a_worker_id() {
    let home = Home::new();
    let check = |words: &str| home.run(&format!("serve --check {words}"));
    let run = check("");
    assert_eq!((run.status, &*run.stderr), (Some(0), "the settings are right\n"));
    for (words, message) in [
        (
            "--redis 0.0.0.0:6379",
            "--redis 0.0.0.0:6379 can be reached by other hosts; add --expose",
        ),
        ("--http [::]:80", "--http [::]:80 can be reached by other hosts"),
        ("--redis nowhere", "write ADDRESS:PORT"),
        ("--redis 99999", "write ADDRESS:PORT"),
        ("--threads 0", "write a whole number from 1 to 1024"),
        ("--idle 0", "write a time from 1s to"),
        ("-u sqlite:?order=upside-down", "the value of `order`: write ordered or per-thread"),
        ("--order per-thread", "it is an option of the URL: -u 'URL?order=VALUE'"),
        ("--tls-cert a.pem", "--tls-cert and --tls-key need each other"),
        ("--layout 60/2/2", "each field needs 1 bit or more and all three together at most 63"),
        ("--worker lease -u worker:5", "--worker is not for worker:N"),
        ("-u sqlite:?take=wait", "`take` is not for a server"),
        ("-u sqlite:?generator=clock", "a server has generator=cached"),
        (
            "-u sqlite:?layout=leaf --layout uid",
            "the URL's `layout` and --layout set the same option",
        ),
        ("--redis none --http none --thrift none --batch none", "there is nowhere to listen"),
        ("--redis 6380 --http 6380", "--http 127.0.0.1:6380 is where --redis listens"),
        ("--redis 6380 --http [::]:6380 --expose", "--http [::]:6380 is where --redis listens"),
    ] {
        let run = check(words);
        assert_eq!(run.status, Some(2), "{words}: {run:?}");
        assert!(run.stderr.contains(message), "{words}: {}", run.stderr);
    }
    let mut command = home.command("serve --check");
    let run = Run::of(command.env("UIDRING_SERVE_REDIS", "nowhere"));
    assert_eq!(run.status, Some(2), "{run:?}");
    let text = "error: invalid value 'nowhere' for 'UIDRING_SERVE_REDIS': ";
    assert!(run.stderr.starts_with(text), "{run:?}");
    let made = check("-u sqlite:new.db?mode=rwc");
    assert_eq!((made.status, home.folder.path().join("new.db").exists()), (Some(0), false));
    for (words, message) in [
        ("-u sqlite:new.db", "new.db could not be opened: there is no such file"),
        ("--worker lease -u sqlite:new.db", "new.db could not be opened: there is no such file"),
        ("--config nothing.toml", "reading nothing.toml: No such file"),
        ("--password-file nothing", "reading nothing: No such file"),
        ("--tls-cert a.pem --tls-key b.pem", "reading a.pem: No such file"),
    ] {
        let run = check(words);
        assert_eq!(run.status, Some(1), "{words}: {run:?}");
        assert!(run.stderr.contains(message), "{words}: {}", run.stderr);
    }
    for (name, text) in [("text.pem", "no PEM"), ("empty", "\n")] {
        let path = home.folder.path().join(name);
        fs::write(&path, text).expect("written");
        let own = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&path, own).expect("ours");
    }
    assert!(
        check("--tls-cert text.pem --tls-key text.pem").stderr.contains("there is no certificate")
    );
    assert!(check("--password-file empty").stderr.contains("the first line of empty is empty"));
    let exposed = check("--redis 0.0.0.0:6379 --expose");
    assert_eq!(exposed.status, Some(0));
    assert!(exposed.stderr.contains("without a password"), "{exposed:?}");
    assert!(!home.folder.path().join("uidring").exists(), "nothing was made");
}

/// A check finds what would fail a start.
#[test]
fn what_a_start_would_fail_on_is_found_by_a_check() {
    let home = Home::new();
    let path = |name: &str| home.folder.path().join(name);
    fs::write(path("file"), "print('no database')\n".repeat(50)).expect("written");
    fs::create_dir(path("folder")).expect("made");
    let foreign = rusqlite::Connection::open(path("theirs.db")).expect("opens");
    foreign.execute_batch("CREATE TABLE users (id INTEGER)").expect("made");
    drop(foreign);
    let words = "generate --worker lease --layout leaf -u sqlite:leases.db?mode=rwc";
    assert_eq!(home.run(words).status, Some(0));
    let two = format!(
        "[names.a]\nworker = 'lease'\nurl = 'sqlite:{0}?mode=rwc'\n\
         [names.b]\nworker = 'lease'\nurl = 'sqlite:{0}?mode=rwc'\nlayout = 'leaf'\n",
        path("new.db").display()
    );
    fs::write(path("two.toml"), two).expect("written");
    let same = "url = 'worker:3'\nnamespace = 'x'\n";
    let same = format!("url = 'worker:1'\n[names.a]\n{same}[names.b]\n{same}");
    fs::write(path("same.toml"), same).expect("written");
    let listed = || {
        let entries = fs::read_dir(home.folder.path()).expect("there");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("there").file_name()).collect();
        names.sort();
        names
    };
    let before = (listed(), fs::read(path("theirs.db")).expect("there"));
    for (data, words, text) in [
        ("file", "", "/file/uidring/workers.db could not be opened: Not a directory"),
        ("data", "--batch file/a.sock", "listening on --batch file/a.sock: "),
        ("data", "--batch file", "listening on --batch file: there is a file that is no socket"),
        ("data", "--redis 192.0.2.1:6380 --expose", "listening on --redis 192.0.2.1:6380: "),
        (
            "data",
            "-u sqlite:file/a.db?mode=rwc",
            "worker file file/a.db could not be opened: Not a",
        ),
        ("data", "-u sqlite:file", "name a file that is a database"),
        ("data", "-u sqlite:folder", "that is a folder; name a file"),
        ("data", "-u sqlite:theirs.db", "it is another program's database"),
        ("data", "--worker lease -u sqlite:leases.db", "41/10/12"),
        ("data", "--config two.toml", "names.b: its leases would come from "),
        ("data", "--config same.toml", "names.b: worker id 3 of layout "),
    ] {
        let mut command = home.command(&format!("serve --check {words}"));
        let run = Run::of(command.env("XDG_DATA_HOME", path(data)));
        assert!(matches!(run.status, Some(1 | 2)), "{words}: {run:?}");
        assert!(run.stderr.contains(text), "{words}: {run:?}");
    }
    let missing = home.run("serve --check -u sqlite:nofolder/a.db?mode=rwc");
    assert!(missing.stderr.contains("a start fails as things are, "), "{missing:?}");
    assert!(missing.stderr.contains("there is no folder "), "{missing:?}");
    let foreign = home.run("serve --check -u sqlite:theirs.db?foreign=true");
    assert_eq!(foreign.status, Some(0), "{foreign:?}");
    let after = (listed(), fs::read(path("theirs.db")).expect("there"));
    assert_eq!(before, after, "nothing was changed");
}

#[cfg(feature = "mysql")]
#[test]
fn a_file_of_settings() {
    let home = Home::new();
    let file = home.folder.path().join("serve.toml");
    let check = |text: &str| {
        fs::write(&file, text).expect("written");
        home.run("serve --config serve.toml --check")
    };
    for (text, message) in [
        ("redis = ", "serve.toml: line 1: "),
        ("\n\nnothing = 1", "`nothing` in serve.toml is no setting, and no option of SQLite"),
        ("check = true", "serve.toml: `check` is no setting"),
        (
            "url = 'sqlite:/a.db?mode=rwc'\nworker = 'lease'\nlease = '5s'\n[names.a]\nworker = 'disposable'",
            "the options above the tables apply here too, unless this table has a `url` of its own",
        ),
        ("threads = 0", "write a whole number from 1 to 1024"),
        ("threads = [1]", "serve.toml: the value of `threads` has to be a text or a number"),
        ("redis = false", "serve.toml: the value of `redis` has to be a text or a number"),
        ("expose = 'yes'", "the value of `expose` has to be true or false, without quotes"),
        ("max_batch = 5", "serve.toml: `max_batch` is written `max-batch`"),
        ("threads = 1\nthreads = 2", "serve.toml: line 2: "),
        ("http = '0.0.0.0:80'", "--http 0.0.0.0:80 can be reached by other hosts"),
        ("names = 1", "serve.toml: `names` is for tables"),
        ("tls-cert = 'a.pem'", "--tls-cert and --tls-key need each other"),
        ("url = 'sqlite:/a.db'\nurl-file = '/a'", "`url` and `url-file` both name the store"),
        ("url = 'sqlite:a.db'", "is relative, and would mean another file in another folder"),
        (
            "url = 'sqlite:/a.db?layout=leaf'\nlayout = 'uid'",
            "`layout` and `layout` in serve.toml set",
        ),
        ("sqlite = 'a.db'", "`sqlite` is no setting: write url = \"sqlite:PATH\""),
        ("[names.a]\npreset = 'leaf'", "`preset` is no setting: write layout = \"NAME\""),
        ("start-after = 5", "`start-after` is a flag alone"),
        ("[names.a]\nstart-after = 5", "`start-after` is a flag alone"),
        (
            "[names.a]\norder = 'any'",
            "the value of `order` in serve.toml: write ordered or per-thread",
        ),
        ("[names.a]\nredis = 1", "serve.toml: names.a: `redis` is no setting of a name"),
        ("[names.a]\nlayout = '99/1/1'", "names.a: "),
        ("[names.uid]", "the settings of `uid` stand above all tables"),
        ("url-file = 'mysql://u:p@ss@h/d'", "a URL, not a path"),
        ("url = 'mysql://u:p@ss@h/d'", "is not percent-encoded"),
    ] {
        let run = check(text);
        assert_ne!(run.status, Some(0), "{text}: {run:?}");
        assert!(
            run.stderr.contains(message) && !run.stderr.contains("p@ss"),
            "{text}: {}",
            run.stderr
        );
    }
    // A name inherits the URL and options above the tables, except its own. One with a URL has only its own.
    let text = format!(
        "redis = 0\nhttp = 'none'\nthrift = 'none'\nbatch = 'none'\nurl = 'sqlite:{}?mode=rwc&layout=uid'\n\
         max-batch = 10\nmax-lag = '2s'\n[names.browser]\nlayout = 'javascript-safe'\nworker = 'lease'\n\
         order = 'per-thread'\n[names.own]\nurl = 'worker:7'\n",
        home.folder.path().join("ids.db").display()
    );
    let run = check(&text);
    assert_eq!(run.status, Some(0), "{run:?}");
    assert!(run.stderr.ends_with("the settings are right\n"), "{run:?}");
    let server = Server::start(&mut home.command("serve --config serve.toml"));
    assert!(server.said.contains("\nbrowser: layout 31/10/12 in s since"), "{}", server.said);
    assert!(server.said.contains(" from a lease of "), "{}", server.said);
    assert!(server.said.contains("\nown: layout 28/22/13 in s since"), "{}", server.said);
    assert!(server.said.contains("worker id 7 from the URL"), "{}", server.said);
    assert!(home.folder.path().join("ids.db").exists());
    let browser: Vec<u64> = ids(&server.ask("INCR browser", 100)).collect();
    assert!(browser.len() == 100 && browser.iter().all(|id| id >> 53 == 0), "{browser:?}");
    assert!(server.ask("UID.NEXT COUNT 11", 1)[0].contains("from 1 to 10"));
    drop(server);
    // A flag beats a variable, which beats the file. A flag's store replaces the file's.
    let mut command =
        home.command("serve --config serve.toml -u sqlite:others.db?mode=rwc --max-batch 12");
    let server = Server::start(command.env("UIDRING_SERVE_MAX_BATCH", "11"));
    assert!(server.ask("UID.NEXT COUNT 13", 1)[0].contains("from 1 to 12"));
    assert!(home.folder.path().join("others.db").exists());
    drop(server);
    let server = Server::start(
        home.command("serve --config serve.toml").env("UIDRING_SERVE_MAX_BATCH", "11"),
    );
    assert!(server.ask("UID.NEXT COUNT 12", 1)[0].contains("from 1 to 11"));
}

/// A name inherits the URL and options above the tables, and overrides them. One with a URL has only its own.
#[test]
fn a_name_of_the_file_starts_from_what_stands_above_it() {
    let home = Home::new();
    let text = format!(
        "url = 'sqlite:{}?mode=rwc&layout=30/20/13/s/2025-01-01'\nmax-lag = '2s'\nmax-borrow = '20m'\n\
         [names.heir]\n[names.other]\nlayout = '29/21/13'\nmax-lag = 3\n[names.own]\nurl = 'worker:7'\n",
        home.folder.path().join("ids.db").display()
    );
    fs::write(home.folder.path().join("serve.toml"), text).expect("written");
    let words = format!("{REDIS} --config serve.toml");
    let said = |flags: &str, variable: Option<&str>| {
        let mut command = home.command(&format!("{words} {flags}"));
        Server::start(command.envs(variable.map(|url| ("UIDRING_URL", url)))).said.clone()
    };
    let is_from = |said: &str, name: &str, layout: &str, file: &str| {
        let begin = format!("{name}: layout {layout} in s since 202");
        let line = said.lines().find(|line| line.starts_with(&begin));
        assert!(line.is_some_and(|line| line.ends_with(file)), "{name}, {layout}, {file}: {said}");
    };
    let above = said("", None);
    for (name, layout) in [("uid", "30/20/13"), ("heir", "30/20/13"), ("other", "29/21/13")] {
        is_from(&above, name, layout, "ids.db");
    }
    is_from(&above, "own", "28/22/13", "worker id 7 from the URL");
    // Another URL gets none of the options of the file's URL.
    for (flags, variable, file) in [
        ("-u sqlite:flag.db?mode=rwc", Some("nonsense"), "flag.db"),
        ("", Some("sqlite:?mode=rwc"), "workers.db"),
    ] {
        let said = said(flags, variable);
        for (name, layout) in [("uid", "28/22/13"), ("heir", "28/22/13"), ("other", "29/21/13")] {
            is_from(&said, name, layout, file);
        }
        is_from(&said, "own", "28/22/13", "worker id 7 from the URL");
    }
    // A flag beats the file's key, but not a name's key.
    fs::write(
        home.folder.path().join("serve.toml"),
        "layout = '30/20/13'\n[names.other]\nlayout = '29/21/13'\n",
    )
    .expect("written");
    let flag = said("--layout 31/19/13", None);
    is_from(&flag, "uid", "31/19/13", "workers.db");
    is_from(&flag, "other", "29/21/13", "workers.db");
}

/// Requests wait for as long as --wait says.
#[test]
fn takes_of_a_server_have_no_policy_of_their_own() {
    let home = Home::new();
    let file = home.folder.path().join("serve.toml");
    let refused = |words: &str, begin: &str| {
        let run = home.run(&format!("serve --check {words}"));
        assert_eq!(run.status, Some(2), "{run:?}");
        let text = format!("error: {begin}`take` is not for a server: --wait says");
        assert!(run.stderr.starts_with(&text), "{run:?}");
    };
    refused("-u sqlite:?take=fail", "");
    for (text, begin) in [
        ("take = 'fail'\n", ""),
        ("url = 'worker:7?take=500ms'\n", ""),
        ("[names.a]\ntake = 'fail'\n", "names.a: "),
        ("[names.a]\nurl = 'worker:7?take=wait'\n", "names.a: "),
    ] {
        fs::write(&file, text).expect("written");
        refused("--config serve.toml", begin);
    }
}

#[test]
fn ports_that_are_taken() {
    let home = Home::new();
    // If this fails, the port is in use anyway.
    let _usual = TcpListener::bind("127.0.0.1:7609");
    let server = Server::start(&mut home.command("serve --redis 0 --http none"));
    assert!(
        server.said.contains("warning: thrift is not served: 127.0.0.1:7609: "),
        "{}",
        server.said
    );
    assert!(server.said.contains("uidring/uidring.sock"), "{}", server.said);
    let asked = format!("serve --redis {} --http none --thrift none --batch none", server.port());
    let run = home.run(&asked);
    assert_eq!(run.status, Some(1), "{run:?}");
    assert!(run.stderr.contains("listening on --redis 127.0.0.1:"), "{run:?}");
    // A socket in use is not replaced; one left by a crash is.
    let second = "serve --redis 0 --http none --thrift none";
    let other = Server::start(&mut home.command(second));
    assert!(other.said.contains("warning: no batch: "), "{}", other.said);
    server.signal(9);
    drop(server.end());
    let third = Server::start(&mut home.command(second));
    assert!(!third.said.contains("warning"), "{}", third.said);
    let socket = home.folder.path().join("uidring/uidring.sock");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(&socket).expect("there").permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    third.signal(2);
    assert_eq!(third.end().0, Some(0));
    assert!(!socket.exists());
}

/// As with systemd: a socket is handed over, and the server reports when it is ready, and when it ends.
#[test]
fn systemd() {
    const SCRIPT: &str = "
import os, socket, sys
listener = socket.socket()
listener.bind((os.environ.pop('HOST'), 0))
listener.listen()
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1', LISTEN_FDNAMES=sys.argv[1])
os.execv(sys.argv[2], sys.argv[2:])
";
    let home = Home::new();
    let path = home.folder.path().join("notify");
    let notices = UnixDatagram::bind(&path).expect("bound");
    notices.set_read_timeout(Some(LIMIT)).expect("set");
    let start = |name: &str, host: &str, flag: &str| {
        let words =
            format!("serve --http none --thrift none --batch none -u sqlite:w.db?mode=rwc {flag}");
        let program = home.command(&words);
        let mut command = Command::new("python3");
        command.args(["-c", SCRIPT, name]).arg(program.get_program()).args(program.get_args());
        command.current_dir(home.folder.path()).env("NOTIFY_SOCKET", &path);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("HOST", host);
        command
    };
    let server = Server::start(&mut start("redis", "127.0.0.1", ""));
    let notice = || {
        let mut buffer = [0; 100];
        let length = notices.recv(&mut buffer).expect("a notice");
        String::from_utf8_lossy(&buffer[..length]).trim().to_owned()
    };
    assert_eq!(notice(), "READY=1");
    assert_eq!(ids(&server.ask("INCR uid", 10)).count(), 10);
    server.signal(15);
    assert_eq!(notice(), "STOPPING=1");
    assert_eq!(server.end().0, Some(0));
    for (name, host, error) in [
        ("nothing", "127.0.0.1", "FileDescriptorName= names no protocol"),
        ("redis", "0.0.0.0", "can be reached by other hosts; add --expose if that is meant"),
    ] {
        let run = Run::of(&mut start(name, host, ""));
        assert_eq!(run.status, Some(1), "{run:?}");
        assert!(run.stderr.contains(error), "{run:?}");
    }
    let server = Server::start(&mut start("redis", "0.0.0.0", "--expose"));
    server.signal(15);
    assert!(server.said.contains("without a password"), "{}", server.said);
    assert_eq!(server.end().0, Some(0));
}

/// Its supervisor starts it again. With a tag, it goes on.
#[test]
fn a_server_that_has_lost_all_leases_ends() {
    let home = Home::new();
    let words = format!("{REDIS} --worker lease -u sqlite:leases.db?mode=rwc&lease=15s");
    let [server, other] = [(); 2].map(|()| Server::start(&mut home.command(&words)));
    assert_eq!(home.run("worker fence 1 -u sqlite:leases.db").status, Some(0));
    let (status, said) = server.end();
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("error: every name has lost the lease of its worker id"), "{said}");
    assert_eq!(home.run("segment create orders --step 9 -u sqlite:leases.db").status, Some(0));
    assert_eq!(ids(&other.ask("INCR orders", 1)).count(), 1, "the server knows the tag");
    assert_eq!(home.run("worker fence 2 -u sqlite:leases.db").status, Some(0));
    let begin = Instant::now();
    while !other.ask("INCR uid", 1)[0].ends_with("restart the server, which gets another one") {
        assert!(begin.elapsed() < LIMIT);
    }
    assert_eq!(ids(&other.ask("INCR orders", 1)).count(), 1);
    other.signal(15);
    assert_eq!(other.end().0, Some(0));
}

/// Checks all answers of servers that are killed, one after another and side by side.
fn torture(options: &str, starts: usize) {
    let home = Home::new();
    let words = format!("{REDIS} -u sqlite:workers.db?mode=rw{options}");
    assert_eq!(home.run("worker init --leases -u sqlite:workers.db").status, Some(0));
    let mut seen = HashSet::new();
    let mut beside = Server::start(&mut home.command(&words));
    for number in 0..starts {
        let server = Server::start(&mut home.command(&words));
        let is_over = AtomicBool::new(false);
        let answers = thread::scope(|scope| {
            let clients: Vec<_> = [&server, &server, &server, &beside]
                .map(|server| {
                    let client = server.client();
                    scope.spawn(|| {
                        let Some(mut client) = client else { return Vec::new() };
                        let mut all = Vec::new();
                        loop {
                            let answers = ask(&mut client, "INCR uid", 500);
                            let is_broken = answers.len() < 500;
                            all.extend(answers);
                            if is_broken || is_over.load(Ordering::Relaxed) {
                                return all;
                            }
                        }
                    })
                })
                .into();
            thread::sleep(Duration::from_millis(5 + 7 * (number as u64 % 5)));
            server.signal(if number % 4 == 3 { 15 } else { 9 });
            is_over.store(true, Ordering::Relaxed);
            clients
                .into_iter()
                .flat_map(|client| client.join().expect("no panic"))
                .collect::<Vec<_>>()
        });
        for answer in &answers {
            assert!(!answer.starts_with('-'), "{answer}");
        }
        let before = seen.len();
        seen.extend(ids(&answers));
        assert_eq!(seen.len(), before + answers.len(), "an id came twice");
        if number % 3 == 2 {
            beside = server;
            drop(std::mem::replace(&mut beside, Server::start(&mut home.command(&words))));
        }
    }
    assert!(seen.len() > starts * 100, "{}", seen.len());
}

/// Signals that end a program by default.
#[test]
fn signals_that_end_programs_drain_the_server() {
    let home = Home::new();
    assert_eq!(home.run("worker init --leases -u sqlite:workers.db").status, Some(0));
    let words = format!("{REDIS} -u sqlite:workers.db?lease=1h --worker lease");
    let mut workers = HashSet::new();
    for signal in [2, 3, 10, 12, 14, 15, 24, 26, 27] {
        let server = Server::start(&mut home.command(&words));
        let (_, worker) = server.said.split_once("worker id ").expect("it says which");
        workers.insert(worker.split_once(' ').expect("a word").0.to_owned());
        assert_eq!(workers.len(), 1, "{signal}: the lease was given back");
        server.signal(signal);
        assert_eq!(server.end().0, Some(0), "{signal}");
    }
    // With no files to read again, a hangup changes nothing.
    let server = Server::start(&mut home.command(&words));
    server.signal(1);
    assert_eq!(ids(&server.ask("INCR uid", 10)).count(), 10);
    server.signal(15);
    assert_eq!(server.end().0, Some(0));
}

/// By default, one client cannot use up everybody's time.
#[test]
fn a_client_that_takes_all() {
    let home = Home::new();
    for (worker, limit) in [("", 3_600), ("--worker lease", 600)] {
        let words = format!("{REDIS} -u sqlite:{limit}.db --wait 50ms --layout 31/22/2 {worker}");
        home.run(&format!("worker init --leases -u sqlite:{limit}.db"));
        let server = Server::start(&mut home.command(&words));
        let mut client = server.client().expect("it listens");
        let begin = Instant::now();
        let mut count = 0;
        // Send many at a time: a round trip takes milliseconds on a busy machine.
        let error = loop {
            let answers = ask(&mut client, "INCR uid", 64);
            count += answers.iter().filter(|answer| answer.starts_with(':')).count() as u64;
            // On such a machine, a uid may not be ready in time.
            let end = format!("ahead of the clock, and the limit is {limit}s");
            if let Some(answer) = answers.iter().find(|answer| answer.contains(&end)) {
                break answer.clone();
            }
            assert!(begin.elapsed() < LIMIT, "{count}: {answers:?}");
        };
        assert!(error.starts_with("-TRYAGAIN "), "{error}");
        assert!(count >= 4 * limit, "{count}");
    }
    // With a higher limit, more is possible.
    let words = format!("{REDIS} --wait 30s --layout 31/22/2 --max-borrow 2h");
    let server = Server::start(&mut home.command(&words));
    assert!(server.ask("UID.NEXT COUNT 20000", 1)[0].starts_with("*20000"));
}

/// How many servers to start and kill. The environment may ask for more.
fn starts() -> usize {
    std::env::var("UIDRING_SERVE_STARTS").map_or(12, |starts| starts.parse().expect("a number"))
}

#[test]
fn nothing_comes_twice_however_servers_end() {
    torture("", starts());
}

#[test]
fn nothing_comes_twice_with_leases_however_servers_end() {
    torture("&worker=lease&lease=5s&lease-wait=60s", starts());
}

/// A server stopped until its lease has expired issues nothing that the next holder may issue.
#[test]
fn a_server_that_stands_still() {
    let home = Home::new();
    assert_eq!(home.run("worker init --leases -u sqlite:workers.db").status, Some(0));
    // Both need the same worker id.
    let words = format!(
        "{REDIS} -u sqlite:workers.db?lease=1s&lease-wait=60s --worker lease --layout 31/1/20"
    );
    let first = Server::start(&mut home.command(&words));
    let mut client = first.client().expect("it listens");
    let mut all: Vec<u64> = ids(&ask(&mut client, "INCR uid", 1_000)).collect();
    first.stand_still();
    let second = Server::start(&mut home.command(&words));
    all.extend(ids(&second.ask("INCR uid", 1_000)));
    first.signal(18);
    // Until its threads have run, it may issue what is below the stored horizon.
    let begin = Instant::now();
    loop {
        let late = ask(&mut client, "INCR uid", 1_000);
        all.extend(ids(&late));
        let is_lost = |last: &String| last.starts_with("-ERR the lease of the worker id is lost");
        if late.len() < 1_000 || late.last().is_some_and(is_lost) {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "{late:?}");
    }
    all.extend(ids(&second.ask("INCR uid", 1_000)));
    let distinct: HashSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "an id came twice");
    assert!(all.len() >= 3_000);
}

/// The server gives the lease back at its end.
#[test]
fn a_lease_is_given_back() {
    let home = Home::new();
    assert_eq!(home.run("worker init --leases -u sqlite:workers.db").status, Some(0));
    let words = format!("{REDIS} -u sqlite:workers.db?lease=1h --worker lease");
    let mut workers = HashSet::new();
    for _ in 0..3 {
        let server = Server::start(&mut home.command(&words));
        let (_, worker) = server.said.split_once("worker id ").expect("it says which");
        workers.insert(worker.split_once(' ').expect("a word").0.to_owned());
        assert_eq!(ids(&server.ask("INCR uid", 10)).count(), 10);
        let begin = Instant::now();
        server.signal(15);
        assert_eq!(server.end().0, Some(0));
        assert!(begin.elapsed() < LIMIT);
    }
    assert_eq!(workers.len(), 1, "{workers:?}");
}

/// The examples of the docs: settings, a systemd unit, a container, and manifests of Kubernetes, whose schemas
/// `scripts/kubernetes` knows.
#[cfg(feature = "mysql")]
#[test]
fn deployments_of_the_docs() {
    let folder = uidring_testkit::docs::folder().join("deploy");
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("it is there");
    let settings = folder.join("serve.toml");
    let settings = settings.to_str().expect("UTF-8");
    let unit = read("uidring.service");
    let command =
        unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/uidring "));
    let command =
        command.expect("it starts the program").replace("/etc/uidring/serve.toml", settings);
    let home = Home::new();
    let run = home.run(&format!("{command} --check"));
    assert!(run.status == Some(0) && run.stderr.ends_with("the settings are right\n"), "{run:?}");
    let container = read("Containerfile");
    assert!(container.contains("\nENTRYPOINT [\"/uidring\"]\n"), "{container}");
    let words = container.lines().find_map(|line| line.strip_prefix("CMD ")).expect("one");
    let words: Vec<String> = serde_json::from_str(words).expect("an array of words");
    let words = words.join(" ").replace("/run/secrets/mysql-url", "url");
    fs::write(home.folder.path().join("url"), "mysql://u:p@h/d\n").expect("written");
    let run = home.run(&format!("{words} --check"));
    assert!(run.status == Some(2) && run.stderr.contains("nothing is said of TLS"), "{run:?}");
    fs::write(home.folder.path().join("url"), "mysql://u:p@h/d?tls=verify\n").expect("written");
    let run = home.run(&format!("{words} --check"));
    assert_eq!(run.status, Some(0), "{run:?}");
    let asks_server =
        "the settings are right; the store was not asked (`uidring doctor` asks it)\n";
    // A start refuses half of its name.
    let sets = |name: &str, variable: &str| read(name).contains(&format!("- name: {variable}\n"));
    for name in [
        "kustomize/statefulset/statefulset.yaml",
        "kustomize/deployment/deployment.yaml",
        "own-service.yaml",
    ] {
        assert_eq!(sets(name, "UIDRING_HOST"), sets(name, "UIDRING_PORT"), "{name}");
    }
    assert!(sets("own-service.yaml", "UIDRING_HOST"));
    for (name, source, said) in [
        ("kustomize/statefulset/statefulset.yaml", "ordinal", "the settings are right\n"),
        ("kustomize/deployment/deployment.yaml", "lease", asks_server),
    ] {
        let manifest = read(name);
        let one = |begin: &str| -> Vec<String> {
            let mut lines = manifest.lines().filter_map(|line| line.trim().strip_prefix(begin));
            let words = lines.next().expect(begin);
            assert_eq!(lines.next(), None, "{name}: {begin}");
            serde_json::from_str(words).expect("an array of words")
        };
        assert_eq!(one("command: "), ["/uidring"]);
        // Not /readyz: a tag with a bad row would restart the server with all its names.
        let (_, liveness) = manifest.split_once("livenessProbe:").expect("it has one");
        assert_eq!(liveness.lines().nth(2).map(str::trim), Some("path: /healthz"), "{name}");
        let words = one("args: ").join(" ").replace("/run/secrets/uidring/mysql-url", "url");
        let chosen = [format!("--worker {source}"), format!("worker={source}")];
        assert!(chosen.iter().any(|choice| words.contains(choice)), "{words}");
        let mut command = home.command(&format!("{words} --check"));
        let run = Run::of(command.env("UIDRING_ORDINAL", "3"));
        assert_eq!(run.status, Some(0), "{name}: {run:?}");
        assert!(run.stderr.ends_with(said), "{name}: {run:?}");
    }
    // The program reads this variable.
    let variable = format!("- name: {}\n", uidring::worker::Ordinal::VARIABLE);
    assert!(read("kustomize/statefulset/statefulset.yaml").contains(&variable));
}
