//! The program with a real ZooKeeper server.

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

#[test]
fn instances_keep_their_numbers() {
    let server = ZooKeeper::shared();
    let name = server.name();
    let registry = format!("--zookeeper {} --name {name}", server.hosts());
    let generate = format!("generate --generator leaf-snowflake {registry}");
    let home = Home::new();
    let other = Home::new();
    let web_0 = home.run(&format!("{generate} --instance web-0 -n 3"));
    assert_eq!((worker_of(&web_0), &*web_0.stderr), (1, ""));
    assert_eq!(worker_of(&other.run(&format!("{generate} --instance web-1"))), 2);
    // The name decides, wherever it comes from and whatever host it runs on.
    let run = Run::of(other.command(&generate).env("UIDRING_INSTANCE", "web_0"));
    assert_eq!(worker_of(&run), 1);
    let run = Run::of(
        home.command(&format!("{generate} --instance web-1")).env("UIDRING_INSTANCE", "web-0"),
    );
    assert_eq!(worker_of(&run), 2);
    let cache = home.folder.path().join("uidring/leaf").join(&name).join("web_0@bounded.json");
    assert!(fs::read_to_string(&cache).expect("a file").contains("\"worker_id\":1"));

    let compared = home.run(&format!("{generate} --instance web-0 --max-clock-difference 60"));
    assert_eq!((worker_of(&compared), &*compared.stderr), (1, ""));
    for generator in ["snowflake", "cached --preset leaf", "clock --preset leaf"] {
        let words = format!("generate --generator {generator} {registry} --instance web-0");
        assert_eq!(worker_of(&home.run(&words)), 1, "{generator}");
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

    // Without the server no worker id is granted, unless the risk is accepted: then another number.
    let at = |hosts: &str| {
        format!("generate --generator leaf-snowflake --zookeeper {hosts} --name {name}")
    };
    let away = at("127.0.0.1:1");
    let run = home.run(&format!("{away} --instance web-0"));
    assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{run:?}");
    let risk = "--instance web-0 --risk-repeats-in-outages";
    let run = home.run(&format!("{} {risk}", at(&server.hosts())));
    assert_eq!((worker_of(&run), &*run.stderr), (3, ""));
    // What the client logs at every attempt is not printed.
    let run = home.run(&format!("{away} {risk}"));
    assert_eq!(worker_of(&run), 3);
    assert!(run.stderr.contains("worker id 3 is taken from the cache file"), "{}", run.stderr);
    assert!(run.stderr.contains("may repeat uids"), "{}", run.stderr);
    // The other line says that the number could not be given back, if the program has learned that
    // before it ended.
    let is_own = |line: &str| line.contains("cache file") || line.contains("given back");
    assert!(run.stderr.lines().all(is_own) && run.stderr.lines().count() <= 2, "{}", run.stderr);
    let run = home.run(&format!("{away} {risk} --no-leaf-cache"));
    assert_eq!((run.status, &*run.stdout), (Some(1), ""));
    assert!(run.stderr.contains("there is no cache file"), "{}", run.stderr);

    // The first line of a file, or a variable; one user cannot write the node of another.
    fs::write(home.folder.path().join("auth"), "user:one\n").expect("writes");
    let by_file = home.run(&format!("{generate} --instance auth-0 --zookeeper-auth-file auth"));
    assert_eq!(by_file.status, Some(0), "{by_file:?}");
    let mut empty = home.command(&format!("{generate} --instance auth-1"));
    let run = Run::of(empty.env("UIDRING_ZOOKEEPER_AUTH", ""));
    assert!(run.status == Some(2) && run.stderr.contains("UIDRING_ZOOKEEPER_AUTH"), "{run:?}");
    for (auth, status) in [("user:two", Some(1)), ("user:one", Some(0))] {
        let mut command = home.command(&format!("{generate} --instance auth-0"));
        let run = Run::of(command.env("UIDRING_ZOOKEEPER_AUTH", auth));
        assert_eq!(run.status, status, "{run:?}");
        assert!(!run.stderr.contains("user:"), "{}", run.stderr);
    }

    // A name of that user alone.
    let (own, at) = (format!("{name}_own"), server.hosts());
    let auth = "--zookeeper-auth-file auth";
    let words = format!("generate --generator leaf-snowflake --zookeeper {at} --name {own}");
    assert_eq!(worker_of(&home.run(&format!("{words} --instance web-0 {auth}"))), 1);
    let list = format!("worker list --zookeeper {at} --name {own}");
    assert!(home.stdout(&format!("{list} {auth}")).contains("web_0"));
    let run = home.run(&list);
    assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{run:?}");
    let missing = format!("lacks the right to read (r) on node /snowflake/{own}/forever");
    assert!(run.stderr.contains(&missing), "{}", run.stderr);

    // The program asks for sessions of 10 s.
    let run = home.run(&format!("{generate} --instance web-0 --max-outage 9.5"));
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
    let at = format!("--zookeeper tls://127.0.0.1:{} --name tls", server.tls_port());
    let (ca, pair) =
        ("--zookeeper-ca ca.pem", "--zookeeper-cert client-uidring.pem --zookeeper-key");
    let generate = format!("generate --generator leaf-snowflake --instance web-0 {at}");

    let complete = format!("{generate} {ca} {pair} client-uidring.key.pem");
    // The server's first handshake may take longer than a start waits.
    let run = (0..10).map(|_| home.run(&complete)).find(|run| run.status == Some(0));
    let run = run.expect("a start of ten");
    assert_eq!((worker_of(&run), &*run.stderr), (1, ""));
    let listed = home.stdout(&format!("worker list {at} {ca} {pair} client-uidring.key.pem"));
    assert!(listed.contains("web_0"), "{listed}");
    let config = format!(
        "zookeeper = \"tls://127.0.0.1:{}\"\nname = \"tls\"\ninstance = \"web-1\"\nzookeeper-ca = \"ca.pem\"\n\
         zookeeper-cert = \"client-uidring.pem\"\nzookeeper-key = \"client-uidring.key.pem\"\n",
        server.tls_port()
    );
    fs::write(home.folder.path().join("serve.toml"), config).expect("writes");
    let run = home.run("serve --config serve.toml --check");
    assert_eq!(run.status, Some(0), "{run:?}");

    for (words, status, why) in [
        (format!("{generate} {ca}"), 1, "the server wants a client's certificate"),
        (generate.clone(), 1, "name the authority that signed the server's certificate"),
        (format!("{generate} {ca} {pair} nowhere"), 1, "could not be read from nowhere"),
        (format!("{generate} {pair} f").replace("tls://", ""), 2, "they are without TLS"),
        (format!("{generate} --zookeeper-cert f"), 2, "--zookeeper-key"),
        (
            generate.replace("127.0.0.1", "a..b"),
            2,
            "no name or address that a certificate can have",
        ),
    ] {
        let run = home.run(&words);
        assert_eq!((run.status, &*run.stdout), (Some(status), ""), "{words}: {run:?}");
        assert!(run.stderr.contains(why), "{words}: {}", run.stderr);
    }
    fs::set_permissions(&client.key, fs::Permissions::from_mode(0o644)).expect("ours");
    let run = home.run(&complete);
    assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{run:?}");
    assert!(run.stderr.contains("others may read or change it"), "{}", run.stderr);
}

#[cfg(not(feature = "zookeeper-tls"))]
#[test]
fn a_build_without_tls_says_which_one_has_it() {
    let home = Home::new();
    for words in ["--zookeeper tls://h:1", "--zookeeper h:1 --zookeeper-ca f"] {
        let run = home.run(&format!("worker list --name a {words}"));
        assert_eq!((run.status, &*run.stdout), (Some(2), ""), "{words}: {run:?}");
        assert!(run.stderr.contains("--features zookeeper-tls"), "{words}: {}", run.stderr);
    }
}

#[test]
fn words_that_do_not_fit_are_refused_before_anything_is_done() {
    let home = Home::new();
    let zookeeper = "--zookeeper 127.0.0.1:1 --name shop";
    for (words, why) in [
        (format!("generate {zookeeper}"), "needs --instance"),
        ("generate --zookeeper 127.0.0.1:1 --instance a".into(), "--name"),
        ("generate --instance a".into(), "--zookeeper"),
        ("generate --leaf-cache f".into(), "--zookeeper"),
        ("generate --risk-repeats-in-outages".into(), "--zookeeper"),
        (
            format!("generate {zookeeper} --instance a --max-outage 9 --risk-repeats-in-outages"),
            "cannot be used with",
        ),
        ("worker list --zookeeper h".into(), "--name"),
        (format!("generate {zookeeper} --instance a --worker-id 1"), "cannot be used with"),
        (format!("generate {zookeeper} --instance a --sqlite f"), "cannot be used with"),
        (format!("generate {zookeeper} --instance a --start-after 5"), "cannot be used with"),
        (format!("generate {zookeeper} --instance a --mysql-ca f"), "--mysql-ca"),
        (format!("worker list {zookeeper} --max-clock-difference 1"), "--max-clock-difference"),
        (format!("generate {zookeeper} --instance a --leaf-cache f --no-leaf-cache"), "cannot be"),
        (format!("generate {zookeeper} --instance a/b"), "it holds a slash"),
        ("generate --zookeeper h:port --name shop --instance a".into(), "a port is wrong"),
        (format!("generate --generator segment --tag t {zookeeper}"), "--zookeeper is not for"),
        ("generate --zookeeper h --name a/b --instance a".into(), "it holds a slash"),
        ("generate --zookeeper zk://u:s3cret@h --name shop --instance a".into(), "it is a URL"),
        ("generate --zookeeper u:s3cret@h --name shop --instance a".into(), "a user has no place"),
    ] {
        let run = home.run(&words);
        assert_eq!((run.status, &*run.stdout), (Some(2), ""), "{words}: {run:?}");
        assert!(run.stderr.contains(why), "{words}: {}", run.stderr);
        assert!(!run.stderr.contains("s3cret"), "{}", run.stderr);
    }
    let mut empty = home.command(&format!("generate {zookeeper}"));
    let run = Run::of(empty.env("UIDRING_INSTANCE", ""));
    assert!(run.status == Some(2) && run.stderr.contains("it is empty"), "{run:?}");
    let mut lossy = home.command(&format!("generate {zookeeper}"));
    let run = Run::of(lossy.env("UIDRING_INSTANCE", OsStr::from_bytes(b"web-\xff")));
    assert!(run.status == Some(2) && run.stderr.contains("is not UTF-8"), "{run:?}");
    let mut auth = home.command(&format!("generate {zookeeper} --instance a"));
    let run = Run::of(auth.env("UIDRING_ZOOKEEPER_AUTH", "s3cret"));
    assert_eq!(run.status, Some(2), "{run:?}");
    assert!(run.stderr.contains("(UIDRING_ZOOKEEPER_AUTH) are wrong"), "{}", run.stderr);
    assert!(!run.stderr.contains("s3cret"), "{}", run.stderr);
    assert_eq!(fs::read_dir(home.folder.path()).expect("a folder").count(), 0, "nothing was made");
}

/// Starts the program, reads some of its uids, and kills it. Returns the greatest that was read.
fn kill_at_work(command: &mut Command) -> Uid {
    let mut child: Child = command.stdin(Stdio::null()).spawn().expect("starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut last = Uid::default();
    for _ in 0..200_000 {
        last = last.max(lines.next().expect("a line").expect("reads").parse().expect("a uid"));
    }
    child.kill().expect("it is our child");
    child.wait().expect("it is over");
    // What was in the pipe was issued, too; its last line may be incomplete.
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    let whole = rest.len().saturating_sub(1);
    let rest = rest.iter().take(whole).map(|line| line.parse().expect("a uid"));
    rest.fold(last, Uid::max)
}

#[test]
fn a_killed_process_can_start_again() {
    let server = ZooKeeper::shared();
    let name = server.name();
    let words = |instance: &str| {
        format!(
            "generate --generator leaf-snowflake --zookeeper {} --name {name} --instance {instance}",
            server.hosts()
        )
    };
    thread::scope(|scope| {
        // On the same host it is known to be dead; the next start waits only for what it had reserved.
        scope.spawn(|| {
            let home = Home::new();
            let words = words("here");
            let last = kill_at_work(&mut home.command(&format!("{words} -n 1000000000")));
            let run = home.run(&words);
            let uid: Uid = run.stdout.trim().parse().expect("a uid");
            assert!(uid > last, "{run:?}");
            assert!(run.stderr.contains(" may have been used up to"), "{run:?}");
            assert!(run.stderr.contains(": the start waits "), "{run:?}");
            assert_eq!(run.stderr.lines().count(), 1, "{run:?}");
        });
        // On another one its session has to end first.
        scope.spawn(|| {
            let words = words("there");
            let last = kill_at_work(&mut Home::new().command(&format!("{words} -n 1000000000")));
            let run = Home::new().run(&words);
            let uid: Uid = run.stdout.trim().parse().expect("a uid");
            assert!(uid > last, "{run:?}");
            assert!(run.stderr.contains("instance there is in use"), "{}", run.stderr);
        });
    });
}

#[test]
fn a_second_process_is_refused_and_a_running_one_is_listed() {
    let server = ZooKeeper::shared();
    let registry = format!("--zookeeper {} --name {}", server.hosts(), server.name());
    let words = format!("generate --generator leaf-snowflake {registry} --instance web-0");
    let home = Home::new();
    let mut first =
        home.command(&format!("{words} -n 1000000000")).spawn().expect("the program starts");
    let mut lines = BufReader::new(first.stdout.take().expect("piped")).lines();
    lines.next().expect("a line").expect("reads");
    let second = home.run(&words);
    assert_eq!((second.status, &*second.stdout), (Some(1), ""));
    assert!(second.stderr.contains("instance web_0 is in use: another process"), "{second:?}");
    let elsewhere = Home::new().run(&words);
    assert_eq!((elsewhere.status, &*elsewhere.stdout), (Some(1), ""));
    assert!(elsewhere.stderr.contains("instance web_0 is in use"), "{elsewhere:?}");
    let listed = home.stdout(&format!("worker list {registry}"));
    assert!(listed.lines().any(|line| line.contains("yes") && line.contains("web_0")), "{listed}");
    // A program whose output nobody reads any more succeeds, and gives the name back.
    drop(lines);
    assert!(first.wait().expect("ends").success());
    let next = Home::new().run(&words);
    assert_eq!((worker_of(&next), &*next.stderr), (1, ""), "nothing is waited for");
}
