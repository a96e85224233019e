//! A table of wrong inputs, with the status and parts of the message of each.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::support::{Home, Run};

/// Arguments, status, and parts of the message.
type Case = (&'static str, i32, &'static [&'static str]);

const COUNT: &str =
    "write a whole number from 0 to 18446744073709551615, such as 10, 1_000, 1e6, 1M or 2G";
const TIME: &str =
    "write a time from 0s to 36500d, such as 30s or 5m; a plain number is in seconds";
const LAYOUT: &str = "write `uid`, `uid-long`, `snowflake`, `leaf` or `javascript-safe`; the widths of time, worker \
                      and sequence in bits";
const SEGMENT: &str = "is not for generator=segment";
const STEP: &str = "write a whole number from 1 to 2147483647";

const CASES: &[Case] = &[
    ("", 2, &["Usage: uidring"]),
    ("nonsense", 2, &["unrecognized subcommand 'nonsense'"]),
    ("genrate", 2, &["similar subcommand", "generate"]),
    ("--nonsense", 2, &["unexpected argument '--nonsense'"]),
    ("worker", 2, &["Usage: uidring worker"]),
    ("segment", 2, &["Usage: uidring segment"]),
    ("worker nonsense", 2, &["unrecognized subcommand 'nonsense'"]),
    ("completions", 2, &["<SHELL>"]),
    ("completions nonsense", 2, &["invalid value 'nonsense' for '<SHELL>'", "bash"]),
    ("generate -q -v", 2, &["'--quiet' cannot be used with '--verbose"]),
    ("generate --log-format xml", 2, &["'xml' for '--log-format <FORMAT>'", "text, json"]),
    ("generate -n -1", 2, &["'-1' for '--count <N>'", COUNT]),
    ("generate -n x", 2, &["'x' for '--count <N>'", COUNT]),
    ("generate -n 1.5", 2, &["'1.5' for '--count <N>'", COUNT]),
    ("generate -n 1e20", 2, &["'1e20' for '--count <N>'", COUNT]),
    ("generate -n 18446744073709551616", 2, &["'18446744073709551616'", COUNT]),
    ("generate -n 5MM", 2, &["'5MM' for '--count <N>'", COUNT]),
    ("generate -n 1__0", 2, &["'1__0' for '--count <N>'", COUNT]),
    ("generate -n +5", 2, &["'+5' for '--count <N>'", COUNT]),
    ("generate -n 5 -n 6", 2, &["'--count <N>' cannot be used multiple times"]),
    ("generate -n", 2, &["a value is required for '--count <N>'"]),
    ("generate 5", 2, &["unexpected argument '5'"]),
    ("generate --nonsense", 2, &["unexpected argument '--nonsense'"]),
    ("generate --format xml", 2, &["'xml' for '--format <FORMAT>'", "base62"]),
    ("generate --generator fast", 2, &["'fast' for '--generator <GENERATOR>'", "leaf-snowflake"]),
    ("generate --worker new", 2, &["'new' for '--worker <WORKER>'", "disposable, lease"]),
    ("generate --layout nonsense", 2, &["'nonsense' for '--layout <LAYOUT>'", LAYOUT]),
    ("generate --layout -1/22/13", 2, &["'-1/22/13'", LAYOUT]),
    ("generate --layout 256/1/1", 2, &["'256/1/1'", LAYOUT]),
    ("generate --layout 1/2", 2, &["'1/2'", LAYOUT]),
    ("generate --layout 29/22/13", 2, &["layout 29/22/13", "at most 63"]),
    ("generate --layout 0/2/3", 2, &["layout 0/2/3", "1 bit or more"]),
    ("generate --layout 28/22/13/us/2026-01-01", 2, &[LAYOUT]),
    ("generate --layout 28/22/13/s/2026-13-01", 2, &[LAYOUT]),
    ("generate --layout 28/22/13/s/tomorrow", 2, &[LAYOUT]),
    ("generate --layout 41/10/12", 2, &["write 41/10/12/ms/2026-01-01 for milliseconds"]),
    ("parse --layout 41/10/12 5", 2, &["write 41/10/12/ms/2026-01-01 for milliseconds"]),
    ("plan --layout 41/10/12", 2, &["write 41/10/12/ms/2026-01-01 for milliseconds"]),
    ("worker assign --layout 41/10/12", 2, &["write 41/10/12/ms/2026-01-01 for milliseconds"]),
    ("generate --layout 20/10/20 -u sqlite:?boost-power=12", 2, &["2^32 uids", "boost power"]),
    (
        "generate --layout 28/22/13/ms/2010-11-04",
        1,
        &[
            "layout 28/22/13 in ms since 2010-11-04T00:00:00Z: the layout ended on 2010-11-07",
            "name another tick or epoch after the bits",
        ],
    ),
    (
        "generate --layout 28/22/13/s/2016-05-20",
        1,
        &["layout 28/22/13 in s since 2016-05-20T00:00:00Z", "ended on 2024-11-20"],
    ),
    (
        "generate --layout 28/22/13/s/2999-01-01",
        1,
        &["since 2999-01-01", "before the layout's epoch"],
    ),
    (
        "worker assign --layout 28/22/13/s/2016-05-20",
        1,
        &["layout 28/22/13 in s since 2016", "ended on"],
    ),
    ("worker assign --layout 0/1/1", 2, &["layout 0/1/1"]),
    ("generate -u sqlite:?boost-power=17", 2, &["the value of `boost-power`", "from 1 to 16"]),
    ("generate -u sqlite:?boost-power=0", 2, &["the value of `boost-power`", "from 1 to 16"]),
    ("generate --max-borrow -1", 2, &["'-1' for '--max-borrow <TIME>'", TIME]),
    ("generate --max-borrow 1e300", 2, &["'1e300' for '--max-borrow <TIME>'", TIME]),
    ("generate --max-borrow inf", 2, &["'inf' for '--max-borrow <TIME>'", TIME]),
    ("generate -u sqlite:?max-lag=5x", 2, &["the value of `max-lag`", TIME]),
    ("generate -u sqlite:?max-lag=-5s", 2, &["the value of `max-lag`", TIME]),
    ("generate --generator clock -u sqlite:?boost-power=3", 2, &["`boost-power` is not for"]),
    ("generate --generator clock --max-borrow 3", 2, &["--max-borrow is not for"]),
    ("generate --generator snowflake -u sqlite:?max-lag=3", 2, &["`max-lag` is not for"]),
    // Chosen worker ids.
    (
        "generate -u worker:4194304",
        2,
        &["worker id 4194304 is out of range", "0 to 4194303", "more worker bits"],
    ),
    ("generate -u worker:-1", 2, &["what follows is no whole number from 0"]),
    ("generate -u worker:x", 2, &["what follows is no whole number from 0"]),
    ("generate -u worker://5", 2, &["no `//` follows after worker:"]),
    ("generate -u worker:1 -u sqlite:x", 2, &["'--url <URL>' cannot be used multiple times"]),
    ("generate -u worker:1 --url-file x", 2, &["'--url <URL>' cannot be used with '--url-file"]),
    ("generate --start-after 5", 2, &["a store knows what was issued"]),
    ("generate --start-after x -u worker:5", 2, &["'x' for '--start-after <UID>'"]),
    ("generate --start-after -5 -u worker:5", 2, &["'-5' for '--start-after <UID>'"]),
    ("generate -u worker:6 --start-after 240518193154", 1, &["of worker 3", "worker 6"]),
    ("generate --layout snowflake -u worker:32/1", 2, &["32", "0 to 31"]),
    ("generate -u worker:3/1", 2, &["is for layouts with 10 worker bits", "write worker:N"]),
    ("generate --generator snowflake -u worker:3/32", 2, &["32", "0 to 31"]),
    ("generate -u worker:1?ca=ca.pem", 2, &["worker:N has no parameter `ca`"]),
    ("generate -u worker:1?deadline=5", 2, &["worker:N has no parameter `deadline`"]),
    ("generate -u sqlite:?lease=5", 2, &["`lease` is not for worker=disposable"]),
    ("generate -u sqlite:?lease-wait=5", 2, &["`lease-wait` is not for worker=disposable"]),
    ("generate -u sqlite:?worker=lease&lease=0.5", 2, &["the value of `lease`", "from 1s to 1h"]),
    ("generate -u sqlite:?worker=lease&lease=2h", 2, &["the value of `lease`", "from 1s to 1h"]),
    ("generate -u sqlite:?lease-wait=-1", 2, &["the value of `lease-wait`", TIME]),
    ("generate --worker lease -u worker:5", 2, &["--worker is not for worker:N"]),
    ("generate --worker lease --start-after 5", 2, &["a store knows what was issued"]),
    ("generate --worker lease -u sqlite:?worker=disposable", 2, &["set the same option"]),
    ("generate --generator clock --tag t", 2, &["--tag is not for generators on the clock"]),
    ("generate --generator segment", 2, &["generator=segment needs a `tag`"]),
    ("generate --tag t -u worker:1", 2, &["it names a worker id, and no store"]),
    ("generate --generator segment --tag t --layout 28/22/13", 2, &["--layout", SEGMENT]),
    ("generate --tag t -u sqlite:?max-lag=1", 2, &["`max-lag`", SEGMENT]),
    ("generate --generator segment --tag t --worker lease", 2, &["--worker", SEGMENT]),
    ("generate --generator segment --tag t --format json", 2, &["ids of segments have none"]),
    ("generate --generator segment --tag a://b", 2, &["a URL was given for a tag"]),
    ("generate --generator segment --tag t", 1, &["no such file", "uidring segment create"]),
    ("segment create", 2, &["--step <S>", "<TAG>"]),
    ("segment create t", 2, &["--step <S>"]),
    ("segment create t --step 0", 2, &["'0' for '--step <S>'", STEP]),
    ("segment create t --step -5", 2, &["'-5' for '--step <S>'", STEP]),
    ("segment create t --step 2147483648", 2, &["'2147483648' for '--step <S>'", STEP]),
    ("segment create t --step 5 --start 0", 2, &["'0' for '--start <N>'", "from 1 to"]),
    (
        "segment create t --step 5 --start 9223372036854775807",
        2,
        &["start 9223372036854775807 is out of range: 1 to 9223372036854775802"],
    ),
    ("segment create a://b --step 5", 2, &["a URL was given for a tag"]),
    ("segment set-step t 0", 2, &["'0' for '<STEP>'", STEP]),
    ("segment set-step t -1", 2, &["'-1' for '<STEP>'", STEP]),
    ("segment set-step t", 2, &["<STEP>"]),
    ("segment set-step t 5", 1, &["no such file", "uidring segment create"]),
    ("segment delete t", 2, &["--forget-ids is needed to delete a tag", "would repeat them"]),
    ("segment delete t --forget-ids", 1, &["no such file", "uidring segment create"]),
    ("segment list --json -u worker:1", 2, &["it names a worker id, and no store"]),
    ("segment list", 1, &["no such file", "create it: by `uidring segment create TAG --step S`\n"]),
    ("generate -u sqlite:http://x", 2, &["that is a URL, not a path"]),
    ("generate -o http://x", 2, &["the file of --output was to be named by its path"]),
    ("check http://x", 2, &["the file of ids was to be named by its path"]),
    ("man http://x", 2, &["the folder of man pages was to be named by its path"]),
    ("generate -u sqlite:.", 1, &["error: "]),
    ("generate -u sqlite:nowhere.db --url-file u", 2, &["cannot be used with"]),
    ("generate --url-file relative-url", 2, &["the path is relative"]),
    ("worker list -u sqlite:nowhere.db", 1, &["nowhere.db", "no such file"]),
    ("worker prune --keep-days -1", 2, &["'-1' for '--keep-days <DAYS>'", "from 0s to 36500d"]),
    ("worker prune --keep-days 36501", 2, &["36500d", "a plain number is in days"]),
    ("worker list", 1, &["workers.db", "no such file", "create it: by `uidring worker init`\n"]),
    ("worker list -u worker:7", 2, &["it names a worker id, and no store"]),
    ("worker release", 2, &["<WORKER_ID>"]),
    ("worker release -1", 2, &["'-1' for '<WORKER_ID>'", "from 0 to"]),
    ("worker fence x", 2, &["'x' for '<WORKER_ID>'"]),
    ("worker reuse 5 1 --used-until 2026-06-01", 2, &["worker id, 5, is above the last, 1"]),
    (
        "worker reuse 1 4194304 --used-until 2026-06-01",
        2,
        &["worker id 4194304 is out of range: layout 28/22/13 in s", "holds 0 to 4194303"],
    ),
    (
        "worker reuse 1 1 --used-until 2099-01-01",
        2,
        &[
            "--used-until 2099-01-01T00:00:00Z is not within the life of layout 28/22/13",
            "2034-07-04",
        ],
    ),
    ("worker reuse 1 1 --used-until 2000-01-01", 2, &["--used-until 2000-01-01", "the life of"]),
    ("worker reuse 1 1", 2, &["--used-until <TIME>"]),
    // Servers. Flags are checked before connecting.
    ("generate -u sqlite:f?deadline=5", 2, &["SQLite has no parameter `deadline`"]),
    ("generate -u sqlite:f?durability=require", 2, &["SQLite has no parameter `durability`"]),
    ("generate -u sqlite:f?max-clock-difference=5", 2, &["SQLite has no parameter"]),
    ("generate -u foo", 2, &["it begins with none of sqlite:"]),
    ("generate -u sqlite://foo", 2, &["write sqlite:PATH"]),
    ("plan -u sqlite:?mode=ro", 2, &["write rw or rwc"]),
    ("plan --rate 0", 2, &["'0' for '--rate <R>'", "from 1 to"]),
    ("plan --rate -5", 2, &["'-5' for '--rate <R>'", "from 1 to"]),
    ("plan --boost-power 17", 2, &["'17' for '--boost-power <P>'", "from 1 to 16"]),
    ("plan --layout 20/10/20 --boost-power 12", 2, &["2^32 uids"]),
    ("parse --layout 64/1/1 5", 2, &["64/1/1", "at most 63"]),
    ("parse --format binary 5", 2, &["--format binary is for ids on stdin"]),
    ("check --format xml", 2, &["'xml' for '--format <FORMAT>'"]),
    ("check --layout 64/1/1", 2, &["64/1/1", "at most 63"]),
    ("check nowhere", 1, &["reading nowhere: "]),
    ("check .", 1, &["reading .: "]),
    ("generate --output .", 1, &["writing .: "]),
    ("generate --output nowhere/ids", 1, &["writing nowhere/ids: "]),
    ("parse --format xml 5", 2, &["'xml' for '--format <FORMAT>'"]),
    ("parse x", 1, &["argument 1: `x`"]),
    ("parse -5", 1, &["argument 1: `-5`"]),
    ("parse 9223372036854775808", 1, &["argument 1: `9223372036854775808`"]),
    ("parse --layout javascript-safe 9223372036854775807", 1, &["is not of this layout"]),
];

#[cfg(feature = "mysql")]
const MYSQL_CASES: &[Case] = &[
    ("generate -u mysql:foo", 2, &["as given, is wrong: it does not begin with mysql://"]),
    ("generate -u mysql://u@h", 2, &["it names no database"]),
    ("generate -u mysql://u@/d", 2, &["it names no host"]),
    ("generate -u mysql://u@h:x/d", 2, &["a port is wrong"]),
    ("generate -u mysql://u@h/d?nonsense=1", 2, &["no parameter `nonsense`"]),
    ("generate -u mysql://u@h/d?deadline=0", 2, &["the value of `deadline`", "from 1s to 1h"]),
    ("generate -u mysql://u@h/d?deadline=2h", 2, &["from 1s to 1h"]),
    ("worker list -u mysql:foo", 2, &["does not begin with mysql://"]),
    ("segment list -u mysql:foo", 2, &["does not begin with mysql://"]),
    ("segment create t --step 5 -u mysql:foo", 2, &["does not begin with mysql://"]),
    ("plan -u mysql:foo", 2, &["does not begin with mysql://"]),
    ("plan --url-file wrong-url", 2, &["in the file wrong-url, is wrong: it begins with none"]),
    ("plan --url-file sqlite:a.db", 2, &["a URL, not a path"]),
    ("generate -u sqlite:?ca=/ca.pem", 2, &["SQLite has no parameter `ca`; it is an option of"]),
    ("worker list -u worker:7", 2, &["no store; write the URL of a store, such as sqlite:PATH"]),
    ("plan --url-file nowhere", 1, &["could not be read from nowhere"]),
    ("plan --url-file mysql://u@h/d", 2, &["a URL, not a path"]),
    ("plan -u mysql://u@h/d?ca=nowhere", 1, &["could not be read from nowhere"]),
    ("plan -u mysql://u@h/d?ca=mysql:%2F%2Fu%40h%2Fd", 2, &["a URL, not a path"]),
    ("plan -u mysql://u@h/d?ca=a&tls=off", 2, &["tls=off"]),
    ("plan -u mysql://u@h/d?cert=c.pem", 2, &["`key`"]),
    ("plan -u mysql://u@h/d?key=k.pem", 2, &["`cert`"]),
    ("plan -u mysql://u@h/d?cert=nowhere&key=k.pem", 1, &["from nowhere"]),
    ("generate -u mysql://u@127.0.0.1:1/d?deadline=1", 1, &["127.0.0.1:1/d"]),
];
#[cfg(not(feature = "mysql"))]
const MYSQL_CASES: &[Case] = &[];

#[cfg(feature = "postgres")]
const POSTGRES_CASES: &[Case] = &[
    ("generate -u postgres:foo", 2, &["as given, is wrong: it does not begin with postgres://"]),
    ("generate -u postgres://u@h", 2, &["it names no database"]),
    ("generate -u postgres://u@h:x/d", 2, &["a port is wrong"]),
    ("generate -u postgres://u@h/d?options=x", 2, &["`options` is refused"]),
    ("worker list -u postgres:foo", 2, &["does not begin with postgres://"]),
    ("segment list -u postgres:foo", 2, &["does not begin with postgres://"]),
    ("plan --url-file postgres://u@h/d", 2, &["a URL, not a path"]),
    ("plan -u postgres://u@h/d?ca=nowhere", 1, &["could not be read from nowhere"]),
    ("generate -u postgres://u@127.0.0.1:1/d?deadline=1", 1, &["127.0.0.1:1/d"]),
];
#[cfg(not(feature = "postgres"))]
const POSTGRES_CASES: &[Case] = &[];

#[cfg(feature = "zookeeper")]
const ZOOKEEPER_CASES: &[Case] = &[
    ("generate -u zookeeper://h:1", 2, &["it has no `name`"]),
    ("generate -u zookeeper://h:1?name=a", 2, &["UIDRING_INSTANCE is not set"]),
    (
        "generate -u zookeeper://h:1?name=a/b",
        2,
        &["`a/b` cannot be the name of the registry: it holds a slash"],
    ),
    ("generate -u zookeeper://a,b:?name=a", 2, &["a port is wrong"]),
    (
        "generate -u zookeeper://h:1?name=a&max-outage=500ms",
        2,
        &["the value of `max-outage`", "write a time from 1s to"],
    ),
    ("generate -u zookeeper://h:1?name=a --worker lease", 2, &["--worker is not for"]),
];
#[cfg(not(feature = "zookeeper"))]
const ZOOKEEPER_CASES: &[Case] = &[];

#[test]
fn wrong_input_says_what_is_wrong_and_touches_nothing() {
    let cases: Vec<&Case> =
        [CASES, MYSQL_CASES, POSTGRES_CASES, ZOOKEEPER_CASES].into_iter().flatten().collect();
    assert!(cases.len() >= 100, "{}", cases.len());
    let next = AtomicUsize::new(0);
    // Use threads, because processes are slow to start.
    let check_some = || {
        let mine = std::iter::from_fn(|| cases.get(next.fetch_add(1, Ordering::Relaxed)));
        mine.filter_map(|case| check(case)).collect::<Vec<_>>()
    };
    let wrong: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(check_some)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn wrong_usage_leaves_no_file() {
    let home = Home::new();
    for (words, ..) in CASES.iter().filter(|case| {
        case.0.starts_with("generate") && case.1 == 2 && !case.0.contains("relative-url")
    }) {
        let run = home.run(&format!("{words} --output ids"));
        assert_eq!(run.status, Some(2), "{words}: {run:?}");
        assert_eq!(files(&home), [""; 0], "{words}");
    }
}

fn check(&(words, status, parts): &Case) -> Option<String> {
    let home = Home::new();
    let file = [("wrong-url", "ids"), ("relative-url", "sqlite:ids.db")];
    let file = file.into_iter().find(|(name, _)| words.contains(name));
    if let Some((name, text)) = file {
        fs::write(home.folder.path().join(name), text).expect("writes");
    }
    let run = home.run(words);
    let says = |part: &str| run.stderr.contains(part);
    // Internal names of the library and the system.
    let inner = ["(ms)", "max_outage", "boost_power", "u64", "os error 22"];
    // Only an incomplete command gets help.
    let is_help = says("Usage: uidring") && !run.stderr.starts_with("error: ");
    let problem = match () {
        () if run.status != Some(status) => format!("status {:?}", run.status),
        () if !run.stdout.is_empty() => "something on stdout".into(),
        () if is_help != ["", "worker", "segment"].contains(&words) => "help, or no error".into(),
        () if inner.iter().any(|name| says(name)) => "an inner name".into(),
        () if files(&home).len() != usize::from(file.is_some()) => {
            format!("files {:?}", files(&home))
        }
        () => format!("not `{}`", parts.iter().find(|part| !says(part))?),
    };
    Some(format!("{words}: {problem}: {}", run.stderr))
}

fn files(home: &Home) -> Vec<String> {
    let entries = fs::read_dir(home.folder.path()).expect("is there");
    entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into()).collect()
}

/// A wrong variable is as wrong as a flag. Variables that URLs have replaced are refused.
#[test]
fn wrong_variables_are_wrong_usage() {
    for (variable, value, part) in [
        ("UIDRING_URL", "", "in UIDRING_URL, is wrong: it is empty"),
        ("UIDRING_URL", "ids", "in UIDRING_URL, is wrong: it begins with none of sqlite:"),
        (
            "UIDRING_URL",
            "sqlite:ids.db",
            "the path is relative, and would mean another file in another folder; write an absolute path (URL in UIDRING_URL)",
        ),
        ("UIDRING_URL", "worker:4194304", "worker id 4194304 is out of range"),
        ("UIDRING_HOST", "a", "UIDRING_PORT is not"),
        ("UIDRING_WORKER_ID", "7", "set UIDRING_URL to worker:N"),
        ("UIDRING_MYSQL_URL", "mysql://u:s3cret@h/d", "set UIDRING_URL to the same URL"),
        ("UIDRING_POSTGRES_URL", "", "set UIDRING_URL to the same URL"),
        ("UIDRING_ETCD", "h:1", "set UIDRING_URL to etcd://"),
        ("UIDRING_ETCD_AUTH", "u:s3cret", "into the URL: etcd://USER:PASSWORD@HOST"),
        ("UIDRING_ZOOKEEPER_AUTH", "u:s3cret", "into the URL: zookeeper://USER:PASSWORD@HOST"),
    ] {
        let home = Home::new();
        let run = Run::of(home.command("generate").env(variable, value));
        assert_eq!((run.status, &*run.stdout), (Some(2), ""), "{variable}={value}: {run:?}");
        assert!(run.stderr.contains(part), "{variable}={value}: {}", run.stderr);
        assert!(!run.stderr.contains("s3cret"), "{}", run.stderr);
        assert_eq!(files(&home), [""; 0], "{variable}={value}");
    }
}

/// The variable is right, but does not go with the flags.
#[test]
fn a_variable_and_a_flag_may_not_go_together() {
    let home = Home::new();
    for (words, part) in [
        ("generate --worker lease", "--worker is not for worker:N"),
        ("worker list", "it names a worker id, and no store"),
    ] {
        let run = Run::of(home.command(words).env("UIDRING_URL", "worker:7"));
        assert_eq!((run.status, &*run.stdout), (Some(2), ""), "{run:?}");
        assert!(run.stderr.contains("in UIDRING_URL") && run.stderr.contains(part), "{run:?}");
    }
    assert_eq!(files(&home), [""; 0]);
}

/// An error names what replaces a removed flag, or an option written as a flag.
#[test]
fn a_flag_that_is_gone_says_what_to_write_now() {
    let home = Home::new();
    for (words, part) in [
        ("generate --sqlite a.db", "--sqlite: write -u 'sqlite:PATH'"),
        ("generate --mysql=mysql://u:s3cret@h/d", "write -u 'mysql://USER@HOST/DATABASE'"),
        ("segment list --postgres postgres://u:s3cret@h/d", "write -u 'postgres://USER@HOST/"),
        ("plan --mysql-url-file f", "--url-file PATH"),
        ("worker list --etcd h:1", "write -u 'etcd://HOST:PORT,HOST:PORT/PREFIX'"),
        ("generate --zookeeper h:1", "write -u 'zookeeper://HOST:PORT,HOST:PORT?name=NAME'"),
        ("generate --instance a", "set the environment variable UIDRING_INSTANCE"),
        ("generate --worker-id 7", "write -u 'worker:N'"),
        ("generate --datacenter-id 7", "write -u 'worker:D/W'"),
        ("parse --preset leaf 5", "write --layout NAME"),
        ("bench --tick ms", "write --layout 41/10/12/ms/2020-01-01"),
        ("serve --mysql-ca f", "write ca=PATH after the URL: -u 'URL?ca=PATH'"),
        ("generate --lease 5s", "it is an option of the URL: -u 'URL?lease=VALUE'"),
        ("generate --deadline 5s", "it is an option of the URL: -u 'URL?deadline=VALUE'"),
        ("generate --no-leaf-cache", "write cache=none after the URL"),
    ] {
        let run = home.run(words);
        assert_eq!((run.status, &*run.stdout), (Some(2), ""), "{words}: {run:?}");
        assert!(run.stderr.contains(part), "{words}: {}", run.stderr);
        assert!(!run.stderr.contains("s3cret"), "{}", run.stderr);
    }
    assert_eq!(files(&home), [""; 0]);
}

/// Tags that a name of the server hides, or that are invisible.
#[test]
fn tags_that_are_no_names() {
    let home = Home::new();
    for tag in ["uid", " ", "\u{3000}", "a\nb", "a\u{1b}b"] {
        let mut command = home.command("segment create --step 10");
        let run = Run::of(command.arg(tag));
        assert_eq!(run.status, Some(2), "{tag:?}: {run:?}");
    }
    assert_eq!(home.run("segment create uids --step 10").status, Some(0));
}
