//! The program on a real ZooKeeper server.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};
use std::thread;

use uidring::{Layout, Uid};
#[cfg(feature = "zookeeper-tls")]
use uidring_testkit::certificates::Authority;
use uidring_testkit::zookeeper::ZooKeeper;

use crate::support::{Home, Run};

const LAYOUT: Layout = Layout::SNOWFLAKE;

fn worker_of(run: &Run) -> u64 {
    assert_eq!(run.status, Some(0), "{run:?}");
    let uid: Uid = run.stdout.lines().next().expect("a line").parse().expect("a uid");
    LAYOUT.decode(uid).expect("of this layout").worker_id
}

/// Returns the command with a registry's URL and options, and Leaf's generator.
fn generate(hosts: &str, name: &str, options: &str) -> String {
    format!("generate --generator leaf-snowflake -u zookeeper://{hosts}?name={name}{options}")
}

/// Runs the program as this instance.
fn run_as(home: &Home, instance: &str, words: &str) -> Run {
    Run::of(home.command(words).env("UIDRING_INSTANCE", instance))
}

#[test]
fn instances_keep_their_numbers() {
    let server = ZooKeeper::shared();
    let name = server.name();
    let registry = format!("-u zookeeper://{}?name={name}", server.hosts());
    let generate = generate(&server.hosts(), &name, "");
    let home = Home::new();
    let other = Home::new();
    let web_0 = run_as(&home, "web-0", &format!("{generate} -n 3"));
    assert_eq!((worker_of(&web_0), &*web_0.stderr), (1, ""));
    assert_eq!(worker_of(&run_as(&other, "web-1", &generate)), 2);
    // The name decides, whatever the host.
    assert_eq!(worker_of(&run_as(&other, "web_0", &generate)), 1);
    let cache = home.folder.path().join("uidring/leaf").join(&name).join("web_0@bounded.json");
    assert!(fs::read_to_string(&cache).expect("a file").contains("\"worker_id\":1"));

    let compared = run_as(&home, "web-0", &format!("{generate}&max-clock-difference=60"));
    assert_eq!((worker_of(&compared), &*compared.stderr), (1, ""));
    for generator in ["snowflake", "cached --layout leaf", "clock --layout leaf"] {
        let words = format!("generate --generator {generator} {registry}");
        assert_eq!(worker_of(&run_as(&home, "web-0", &words)), 1, "{generator}");
    }
    let listed = home.stdout(&format!("worker list {registry}"));
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].contains("NUMBER") && lines.len() == 3, "{listed}");
    assert!(
        lines[0].contains("BOUNDED") && lines[1].contains("no") && lines[1].contains("web_0 ("),
        "{listed}"
    );
    let listed = home.stdout(&format!("worker list {registry} --json"));
    let nodes: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!((&nodes[1]["number"], &nodes[1]["instance"]), (&2.into(), &"web_1".into()));
    assert_eq!((&nodes[1]["live"], &nodes[1]["port"]), (&false.into(), &"0".into()));
    assert!(nodes[1]["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{nodes}");

    assert_eq!(nodes[1]["bounded"], true);

    // Without the server, no worker id is granted, unless the risk is accepted. That gives another number.
    let away = self::generate("127.0.0.1:1", &name, "");
    let run = run_as(&home, "web-0", &away);
    assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{run:?}");
    let risk = "&outages=risk-repeats";
    let run = run_as(&home, "web-0", &format!("{generate}{risk}"));
    assert_eq!((worker_of(&run), &*run.stderr), (3, ""));
    // The client's own log is not printed.
    let run = run_as(&home, "web-0", &format!("{away}{risk}"));
    assert_eq!(worker_of(&run), 3);
    assert!(run.stderr.contains("worker id 3 is taken from the cache file"), "{}", run.stderr);
    assert!(run.stderr.contains("may repeat uids"), "{}", run.stderr);
    // A second line says that the number was not given back, if the program learns that before it ends.
    let is_own = |line: &str| line.contains("cache file") || line.contains("given back");
    assert!(run.stderr.lines().all(is_own) && run.stderr.lines().count() <= 2, "{}", run.stderr);
    let run = run_as(&home, "web-0", &format!("{away}{risk}&cache=none"));
    assert_eq!((run.status, &*run.stdout), (Some(1), ""));
    assert!(run.stderr.contains("there is no cache file"), "{}", run.stderr);

    // One user cannot write another's node.
    let with_login = |login: &str, name: &str| {
        let url = format!("zookeeper://{login}@{}?name={name}", server.hosts());
        home.write_url("url", &url);
        "--url-file url"
    };
    let by_file = |words: &str, flags: &str| {
        run_as(&home, "auth-0", &format!("{words} --generator leaf-snowflake {flags}"))
    };
    for (login, status) in [("user:one", 0), ("user:two", 1), ("user:one", 0)] {
        let run = by_file("generate", with_login(login, &name));
        assert_eq!(run.status, Some(status), "{run:?}");
        assert!(!run.stderr.contains("user:"), "{}", run.stderr);
    }

    // A name of this user alone.
    let own = format!("{name}_own");
    let flags = with_login("user:one", &own);
    assert_eq!(worker_of(&by_file("generate", flags)), 1);
    assert!(home.stdout(&format!("worker list {flags}")).contains("auth_0"));
    let run = home.run(&format!("worker list -u zookeeper://{}?name={own}", server.hosts()));
    assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{run:?}");
    let missing = format!("lacks the right to read (r) on node /snowflake/{own}/forever");
    assert!(run.stderr.contains(&missing), "{}", run.stderr);

    let run = run_as(&home, "web-0", &format!("{generate}&max-outage=9.5s"));
    assert_eq!((run.status, &*run.stdout), (Some(1), ""));
    assert!(run.stderr.contains("grant sessions of 10s"), "{}", run.stderr);
}

#[cfg(feature = "zookeeper-tls")]
#[test]
fn servers_with_tls_need_the_right_certificates_on_both_sides() {
    use std::os::unix::fs::PermissionsExt;

    let home = Home::new();
    let authority = Authority::new(home.folder.path());
    let server = ZooKeeper::start_with_tls(&authority, &authority.server(), true, "");
    let client = authority.client("uidring");
    let hosts = format!("127.0.0.1:{}", server.tls_port());
    let (ca, pair) = ("&ca=ca.pem", "&cert=client-uidring.pem&key=client-uidring.key.pem");
    let generate = generate(&hosts, "tls", "&tls=verify");

    let complete = format!("{generate}{ca}{pair}");
    // The server's first handshake may take longer than a start waits.
    let mut runs = (0..10).map(|_| run_as(&home, "web-0", &complete));
    let run = runs.find(|run| run.status == Some(0)).expect("a start of ten");
    assert_eq!((worker_of(&run), &*run.stderr), (1, ""));
    let listed = home.stdout(&format!("worker list -u zookeeper://{hosts}?name=tls{ca}{pair}"));
    assert!(listed.contains("web_0"), "{listed}");
    let config = format!(
        "url = \"zookeeper://{hosts}?name=tls\"\nca = \"{0}/ca.pem\"\ncert = \"{0}/client-uidring.pem\"\n\
         key = \"{0}/client-uidring.key.pem\"\n",
        home.folder.path().display()
    );
    fs::write(home.folder.path().join("serve.toml"), config).expect("writes");
    let run = run_as(&home, "web-1", "serve --config serve.toml --check");
    assert_eq!(run.status, Some(0), "{run:?}");

    for (words, status, why) in [
        (format!("{generate}{ca}"), 1, "the server wants a client's certificate"),
        (generate.clone(), 1, "name the authority that signed the server's certificate"),
        (
            format!("{generate}{ca}&cert=client-uidring.pem&key=nowhere"),
            1,
            "could not be read from nowhere",
        ),
        (format!("{generate}{pair}").replace("tls=verify", "tls=off"), 2, "tls=off"),
        (format!("{generate}&cert=f"), 2, "`key`"),
        (
            generate.replace("127.0.0.1", "a..b"),
            2,
            "no name or address that a certificate can have",
        ),
    ] {
        let run = run_as(&home, "web-0", &words);
        assert_eq!((run.status, &*run.stdout), (Some(status), ""), "{words}: {run:?}");
        assert!(run.stderr.contains(why), "{words}: {}", run.stderr);
    }
    fs::set_permissions(&client.key, fs::Permissions::from_mode(0o644)).expect("ours");
    let run = run_as(&home, "web-0", &complete);
    assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{run:?}");
    assert!(run.stderr.contains("others may read or change it"), "{}", run.stderr);
}

#[cfg(not(feature = "zookeeper-tls"))]
#[test]
fn a_build_without_tls_says_which_one_has_it() {
    let home = Home::new();
    for words in ["&tls=verify", "&ca=f"] {
        let run = home.run(&format!("worker list -u zookeeper://h:1?name=a{words}"));
        assert_eq!((run.status, &*run.stdout), (Some(2), ""), "{words}: {run:?}");
        assert!(run.stderr.contains("--features zookeeper-tls"), "{words}: {}", run.stderr);
    }
}

#[test]
fn words_that_do_not_fit_are_refused_before_anything_is_done() {
    let home = Home::new();
    let zookeeper = "-u zookeeper://127.0.0.1:1?name=shop";
    let none = home.run(&format!("generate {zookeeper}"));
    assert!(
        none.status == Some(2) && none.stderr.contains("UIDRING_INSTANCE is not set"),
        "{none:?}"
    );
    for (words, why) in [
        ("generate -u zookeeper://127.0.0.1:1".to_owned(), "it has no `name`"),
        (format!("generate {zookeeper}&max-outage=9&outages=risk-repeats"), "`max-outage` is not"),
        ("worker list -u zookeeper://h".into(), "it has no `name`"),
        ("generate -u zookeeper://s3cret@h?name=shop".into(), "no password"),
        (format!("generate {zookeeper} -u worker:1"), "cannot be used multiple times"),
        (format!("generate {zookeeper} --start-after 5"), "a store knows what was issued"),
        (format!("generate {zookeeper}&durability=require"), "no parameter `durability`"),
        (format!("generate {zookeeper} --worker lease"), "--worker is not for"),
        (format!("generate {zookeeper}&cache=f"), "an absolute path, or `none`"),
        ("generate -u zookeeper://h:port?name=shop".into(), "a port is wrong"),
        (format!("generate --tag t {zookeeper}"), "and no segments"),
        ("generate -u zookeeper://h?name=a/b".into(), "it holds a slash"),
        ("generate -u zk://u:s3cret@h?name=shop".into(), "it begins with none of"),
    ] {
        let run = run_as(&home, "a", &words);
        assert_eq!((run.status, &*run.stdout), (Some(2), ""), "{words}: {run:?}");
        assert!(run.stderr.contains(why), "{words}: {}", run.stderr);
        assert!(!run.stderr.contains("s3cret"), "{}", run.stderr);
    }
    let slash = run_as(&home, "a/b", &format!("generate {zookeeper}"));
    assert!(slash.status == Some(2) && slash.stderr.contains("it holds a slash"), "{slash:?}");
    let mut empty = home.command(&format!("generate {zookeeper}"));
    let run = Run::of(empty.env("UIDRING_INSTANCE", ""));
    assert!(run.status == Some(2) && run.stderr.contains("it is empty"), "{run:?}");
    let mut lossy = home.command(&format!("generate {zookeeper}"));
    let run = Run::of(lossy.env("UIDRING_INSTANCE", OsStr::from_bytes(b"web-\xff")));
    assert!(run.status == Some(2) && run.stderr.contains("is not UTF-8"), "{run:?}");
    let mut auth = home.command("generate");
    let run = Run::of(auth.env("UIDRING_ZOOKEEPER_AUTH", "u:s3cret"));
    assert!(run.status == Some(2) && run.stderr.contains("zookeeper://USER:PASSWORD"), "{run:?}");
    assert!(!run.stderr.contains("s3cret"), "{}", run.stderr);
    assert_eq!(fs::read_dir(home.folder.path()).expect("a folder").count(), 0, "nothing was made");
}

/// Starts the program, reads some of its uids, and kills it. Returns the greatest uid read.
fn kill_at_work(command: &mut Command) -> Uid {
    let mut child: Child = command.stdin(Stdio::null()).spawn().expect("starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut last = Uid::default();
    for _ in 0..200_000 {
        last = last.max(lines.next().expect("a line").expect("reads").parse().expect("a uid"));
    }
    child.kill().expect("it is our child");
    child.wait().expect("it is over");
    // Uids in the pipe were issued, too. The last line may be incomplete.
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    let whole = rest.len().saturating_sub(1);
    let rest = rest.iter().take(whole).map(|line| line.parse().expect("a uid"));
    rest.fold(last, Uid::max)
}

#[test]
fn a_killed_process_can_start_again() {
    let server = ZooKeeper::shared();
    let name = server.name();
    let words = &generate(&server.hosts(), &name, "");
    thread::scope(|scope| {
        // On the same host, it is known to be dead. The next start waits only for what it had reserved.
        scope.spawn(|| {
            let home = Home::new();
            let mut command = home.command(&format!("{words} -n 1000000000"));
            let last = kill_at_work(command.env("UIDRING_INSTANCE", "here"));
            let run = run_as(&home, "here", words);
            let uid: Uid = run.stdout.trim().parse().expect("a uid");
            assert!(uid > last, "{run:?}");
            assert!(run.stderr.contains(" may have been used up to"), "{run:?}");
            assert!(run.stderr.contains(": the start waits "), "{run:?}");
            assert_eq!(run.stderr.lines().count(), 1, "{run:?}");
        });
        // On another host, its session has to end first.
        scope.spawn(|| {
            let home = Home::new();
            let mut command = home.command(&format!("{words} -n 1000000000"));
            let last = kill_at_work(command.env("UIDRING_INSTANCE", "there"));
            let run = run_as(&Home::new(), "there", words);
            let uid: Uid = run.stdout.trim().parse().expect("a uid");
            assert!(uid > last, "{run:?}");
            assert!(run.stderr.contains("instance there is in use"), "{}", run.stderr);
        });
    });
}

#[test]
fn a_second_process_is_refused_and_a_running_one_is_listed() {
    let server = ZooKeeper::shared();
    let name = server.name();
    let words = generate(&server.hosts(), &name, "");
    let home = Home::new();
    let mut first = home.command(&format!("{words} -n 1000000000"));
    let mut first = first.env("UIDRING_INSTANCE", "web-0").spawn().expect("the program starts");
    let mut lines = BufReader::new(first.stdout.take().expect("piped")).lines();
    lines.next().expect("a line").expect("reads");
    let second = run_as(&home, "web-0", &words);
    assert_eq!((second.status, &*second.stdout), (Some(1), ""));
    assert!(second.stderr.contains("instance web_0 is in use: another process"), "{second:?}");
    let elsewhere = run_as(&Home::new(), "web-0", &words);
    assert_eq!((elsewhere.status, &*elsewhere.stdout), (Some(1), ""));
    assert!(elsewhere.stderr.contains("instance web_0 is in use"), "{elsewhere:?}");
    let list = format!("worker list -u zookeeper://{}?name={name}", server.hosts());
    let listed = home.stdout(&list);
    assert!(listed.lines().any(|line| line.contains("yes") && line.contains("web_0")), "{listed}");
    // A program whose output nobody reads succeeds, and gives the name back.
    drop(lines);
    assert!(first.wait().expect("ends").success());
    let next = run_as(&Home::new(), "web-0", &words);
    assert_eq!((worker_of(&next), &*next.stderr), (1, ""), "nothing is waited for");
}
