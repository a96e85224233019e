//! A table of inputs that are wrong: the status, and what the message says, of each.

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
const BITS: &str = "is not a layout: write TIME/WORKER/SEQUENCE in bits, as in 28/22/13, with 1 bit or \
                    more for each field and at most 63 in all";
const SERVER: &str = "needs a MySQL server";
const SEGMENT: &str = "is not for --generator segment";
const STEP: &str = "write a whole number from 1 to 2147483647";

const CASES: &[Case] = &[
    // Commands.
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
    // Counts.
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
    // Choices.
    ("generate --format xml", 2, &["'xml' for '--format <FORMAT>'", "base62"]),
    ("generate --generator fast", 2, &["'fast' for '--generator <GENERATOR>'", "leaf-snowflake"]),
    ("generate --worker new", 2, &["'new' for '--worker <WORKER>'", "disposable, lease"]),
    ("generate --preset baidu", 2, &["'baidu' for '--preset <PRESET>'", "uid-long"]),
    // Layouts.
    ("generate --layout nonsense", 2, &["`nonsense`", BITS]),
    ("generate --layout -1/22/13", 2, &["`-1/22/13`", BITS]),
    ("generate --layout 256/1/1", 2, &["`256/1/1`", BITS]),
    ("generate --layout 1/2", 2, &["`1/2`", BITS]),
    ("generate --layout 29/22/13", 2, &["layout 29/22/13", "at most 63"]),
    ("generate --layout 0/2/3", 2, &["layout 0/2/3", "1 bit or more"]),
    ("generate --tick us", 2, &["`us` is not a tick: write s for seconds or ms"]),
    ("generate --tick -1", 2, &["`-1` is not a tick"]),
    ("generate --epoch 2026-13-01", 2, &["'2026-13-01' for '--epoch <TIME>'"]),
    ("generate --epoch tomorrow", 2, &["'tomorrow' for '--epoch <TIME>'"]),
    ("generate --layout 20/10/20 --boost-power 12", 2, &["2^32 uids", "boost power"]),
    (
        "generate --preset snowflake --layout 28/22/13",
        1,
        &[
            "layout 28/22/13 in ms since 2010-11-04T01:42:54.657Z: the layout ended on 2010-11-07",
            "--tick and --epoch replace those of the preset",
        ],
    ),
    (
        "generate --epoch 2016-05-20",
        1,
        &["layout 28/22/13 in s since 2016-05-20T00:00:00Z", "ended on 2024-11-20"],
    ),
    ("generate --epoch 2999-01-01", 1, &["since 2999-01-01", "before the layout's epoch"]),
    ("worker assign --epoch 2016-05-20", 1, &["layout 28/22/13 in s since 2016", "ended on"]),
    ("worker assign --layout 0/1/1", 2, &["layout 0/1/1"]),
    // The ring, and time.
    ("generate --boost-power 17", 2, &["'17' for '--boost-power <P>'", "from 1 to 16"]),
    ("generate --boost-power 0", 2, &["'0' for '--boost-power <P>'", "from 1 to 16"]),
    ("generate --max-borrow -1", 2, &["'-1' for '--max-borrow <SECONDS>'", TIME]),
    ("generate --max-borrow 1e300", 2, &["'1e300' for '--max-borrow <SECONDS>'", TIME]),
    ("generate --max-borrow inf", 2, &["'inf' for '--max-borrow <SECONDS>'", TIME]),
    ("generate --max-lag 5x", 2, &["'5x' for '--max-lag <SECONDS>'", TIME]),
    ("generate --max-lag -5s", 2, &["'-5s' for '--max-lag <SECONDS>'", TIME]),
    ("generate --generator clock --boost-power 3", 2, &["--boost-power is for --generator cached"]),
    ("generate --generator clock --max-borrow 3", 2, &["--max-borrow is for --generator cached"]),
    ("generate --generator snowflake --max-lag 3", 2, &["--max-lag is for --generator cached"]),
    // Worker ids of the caller's choice.
    (
        "generate --worker-id 4194304",
        2,
        &[
            "--worker-id 4194304 is out of range: layout 28/22/13 in s since 2026-01-01T00:00:00Z has \
             worker ids 0 to 4194303",
            "a --layout with more worker bits",
        ],
    ),
    ("generate --worker-id -1", 2, &["'-1' for '--worker-id <N>'", "from 0 to"]),
    ("generate --worker-id x", 2, &["'x' for '--worker-id <N>'"]),
    ("generate --worker-id 1 --sqlite x", 2, &["'--worker-id <N>' cannot be used with '--sqlite"]),
    ("generate --start-after 5", 2, &["--start-after needs a worker id of your choice"]),
    ("generate --start-after x --worker-id 5", 2, &["'x' for '--start-after <UID>'"]),
    ("generate --start-after -5 --worker-id 5", 2, &["'-5' for '--start-after <UID>'"]),
    ("generate --worker-id 6 --start-after 240518193154", 1, &["of worker 3", "worker 6"]),
    ("generate --datacenter-id 3", 2, &["--worker-id <N>"]),
    ("generate --datacenter-id 32 --worker-id 1", 2, &["'32'", "from 0 to 31"]),
    ("generate --datacenter-id 3 --worker-id 1", 2, &["is for --generator snowflake"]),
    ("generate --generator snowflake --datacenter-id 3 --worker-id 32", 2, &["32", "out of range"]),
    ("generate --worker-id 1 --mysql-ca ca.pem", 2, &["--mysql-ca", SERVER]),
    ("generate --worker-id 1 --mysql-cert c.pem --mysql-key k.pem", 2, &["--mysql-cert", SERVER]),
    ("generate --worker-id 1 --mysql-deadline 5", 2, &["--mysql-deadline", SERVER]),
    // Leases.
    ("generate --lease 5", 2, &["--lease needs --worker lease"]),
    ("generate --lease-wait 5", 2, &["--lease-wait needs --worker lease"]),
    ("generate --worker lease --lease 0.5", 2, &["'0.5' for '--lease <SECONDS>'", "from 1s to 1h"]),
    ("generate --worker lease --lease 2h", 2, &["'2h' for '--lease <SECONDS>'", "from 1s to 1h"]),
    ("generate --worker lease --lease-wait -1", 2, &["'-1' for '--lease-wait <SECONDS>'", TIME]),
    ("generate --worker lease --worker-id 5", 2, &["--worker-id is a worker id of your choice"]),
    ("generate --worker lease --start-after 5", 2, &["--start-after is not for --worker lease"]),
    ("generate --worker lease --max-clock-difference 5", 2, &["is for --worker disposable"]),
    // Segments.
    ("generate --tag t", 2, &["--tag is for --generator segment"]),
    ("generate --generator segment", 2, &["--generator segment needs --tag"]),
    ("generate --generator segment --tag t --worker-id 1", 2, &["--worker-id", SEGMENT]),
    ("generate --generator segment --tag t --layout 28/22/13", 2, &["--layout", SEGMENT]),
    ("generate --generator segment --tag t --max-lag 1", 2, &["--max-lag", SEGMENT]),
    ("generate --generator segment --tag t --worker lease", 2, &["--worker lease", SEGMENT]),
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
        &["--start 9223372036854775807 is out of range: 1 to 9223372036854775802"],
    ),
    ("segment create a://b --step 5", 2, &["a URL was given for a tag"]),
    ("segment set-step t 0", 2, &["'0' for '<STEP>'", STEP]),
    ("segment set-step t -1", 2, &["'-1' for '<STEP>'", STEP]),
    ("segment set-step t", 2, &["<STEP>"]),
    ("segment set-step t 5", 1, &["no such file", "uidring segment create"]),
    ("segment delete t", 2, &["--forget-ids is needed to delete a tag", "would repeat them"]),
    ("segment delete t --forget-ids", 1, &["no such file", "uidring segment create"]),
    ("segment list --json --mysql-cluster", 2, &["--mysql-cluster", SERVER]),
    ("segment list", 1, &["no such file", "create it: by `uidring segment create TAG --step S`\n"]),
    // Files.
    ("generate --sqlite http://x", 2, &["the file of --sqlite was to be named by its path"]),
    ("generate -o http://x", 2, &["the file of --output was to be named by its path"]),
    ("check http://x", 2, &["the file of ids was to be named by its path"]),
    ("man http://x", 2, &["the folder of man pages was to be named by its path"]),
    ("generate --sqlite .", 1, &["error: "]),
    ("generate --sqlite nowhere.db --mysql-url-file u", 2, &["cannot be used with"]),
    ("worker list --sqlite nowhere.db", 1, &["nowhere.db", "no such file"]),
    ("worker prune --keep-days -1", 2, &["'-1' for '--keep-days <DAYS>'", "from 0s to 36500d"]),
    ("worker prune --keep-days 36501", 2, &["36500d", "a plain number is in days"]),
    ("worker list", 1, &["workers.db", "no such file", "create it: by `uidring worker init`\n"]),
    ("worker list --name x", 2, &["--zookeeper <HOSTS>"]),
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
    // Servers: nothing is connected to before the flags are right.
    ("generate --mysql-deadline 5", 2, &["--mysql-deadline needs a MySQL server"]),
    ("generate --postgres-cluster", 2, &["--postgres-cluster needs a PostgreSQL server"]),
    (
        "generate --mysql mysql://u@h/d --postgres-ca ca.pem",
        2,
        &["--postgres-ca needs a PostgreSQL server"],
    ),
    (
        "generate --postgres postgres://u@h/d --mysql-deadline 5",
        2,
        &["--mysql-deadline needs a MySQL server"],
    ),
    ("generate --sqlite f --mysql-deadline 5", 2, &["--mysql-deadline", SERVER]),
    ("generate --mysql-deadline 0", 2, &["'0' for '--mysql-deadline <SECONDS>'", "from 1s to 1h"]),
    ("generate --mysql-deadline 2h", 2, &["from 1s to 1h"]),
    (
        "generate --max-clock-difference 5",
        2,
        &["--max-clock-difference needs a MySQL or PostgreSQL server"],
    ),
    ("generate --sqlite f --mysql-require-durability", 2, &["--mysql-require-durability", SERVER]),
    ("plan --mysql-ca ca.pem", 2, &["--mysql-ca", SERVER]),
    ("plan --mysql-deadline 5", 2, &["--mysql-deadline", SERVER]),
    // Planning, parsing.
    ("plan --rate 0", 2, &["'0' for '--rate <R>'", "from 1 to"]),
    ("plan --rate -5", 2, &["'-5' for '--rate <R>'", "from 1 to"]),
    ("plan --boost-power 17", 2, &["'17' for '--boost-power <P>'", "from 1 to 16"]),
    ("plan --layout 20/10/20 --boost-power 12", 2, &["2^32 uids"]),
    ("parse --layout 64/1/1 5", 2, &["layout 64/1/1", "at most 63"]),
    ("parse --format binary 5", 2, &["--format binary is for ids on stdin"]),
    ("check --format xml", 2, &["'xml' for '--format <FORMAT>'"]),
    ("check --layout 64/1/1", 2, &["layout 64/1/1", "at most 63"]),
    ("check nowhere", 1, &["reading nowhere: "]),
    ("check .", 1, &["reading .: "]),
    ("generate --output .", 1, &["writing .: "]),
    ("generate --output nowhere/ids", 1, &["writing nowhere/ids: "]),
    ("parse --format xml 5", 2, &["'xml' for '--format <FORMAT>'"]),
    ("parse x", 1, &["argument 1: `x`"]),
    ("parse -5", 1, &["argument 1: `-5`"]),
    ("parse 9223372036854775808", 1, &["argument 1: `9223372036854775808`"]),
    ("parse --preset javascript-safe 9223372036854775807", 1, &["is not of this layout"]),
];

#[cfg(feature = "mysql")]
const MYSQL_CASES: &[Case] = &[
    ("generate --mysql foo", 2, &["as given, is wrong: it does not begin with mysql://"]),
    ("generate --mysql mysql://u@h", 2, &["it names no database"]),
    ("generate --mysql mysql://u@/d", 2, &["it names no host"]),
    ("generate --mysql mysql://u@h:x/d", 2, &["a port is wrong"]),
    ("generate --mysql mysql://u@h/d?nonsense=1", 2, &["no parameter `nonsense`"]),
    ("worker list --mysql foo", 2, &["does not begin with mysql://"]),
    ("segment list --mysql foo", 2, &["does not begin with mysql://"]),
    ("segment create t --step 5 --mysql foo", 2, &["does not begin with mysql://"]),
    ("plan --mysql foo", 2, &["does not begin with mysql://"]),
    (
        "plan --mysql-url-file wrong-url",
        2,
        &["in the file wrong-url, is wrong: it does not begin with"],
    ),
    ("plan --mysql-url-file nowhere", 1, &["could not be read from nowhere"]),
    ("plan --mysql-url-file mysql://u@h/d", 2, &["a URL, not a path"]),
    ("plan --mysql mysql://u@h/d --mysql-ca nowhere", 1, &["could not be read from nowhere"]),
    ("plan --mysql mysql://u@h/d --mysql-ca mysql://u@h/d", 2, &["a URL, not a path"]),
    ("plan --mysql mysql://u@h/d --mysql-cert c.pem", 2, &["--mysql-key"]),
    ("plan --mysql mysql://u@h/d --mysql-key k.pem", 2, &["--mysql-cert"]),
    ("plan --mysql mysql://u@h/d --mysql-cert nowhere --mysql-key k.pem", 1, &["from nowhere"]),
    ("generate --mysql mysql://u@127.0.0.1:1/d --mysql-deadline 1", 1, &["127.0.0.1:1/d"]),
];
#[cfg(not(feature = "mysql"))]
const MYSQL_CASES: &[Case] = &[];

#[cfg(feature = "postgres")]
const POSTGRES_CASES: &[Case] = &[
    ("generate --postgres foo", 2, &["as given, is wrong: it does not begin with postgres://"]),
    ("generate --postgres postgres://u@h", 2, &["it names no database"]),
    ("generate --postgres postgres://u@h:x/d", 2, &["a port is wrong"]),
    ("generate --postgres postgres://u@h/d?options=x", 2, &["`options` is refused"]),
    ("worker list --postgres foo", 2, &["does not begin with postgres://"]),
    ("segment list --postgres foo", 2, &["does not begin with postgres://"]),
    ("plan --postgres-url-file nowhere", 1, &["could not be read from nowhere"]),
    ("plan --postgres-url-file postgres://u@h/d", 2, &["a URL, not a path"]),
    (
        "plan --postgres postgres://u@h/d --postgres-ca nowhere",
        1,
        &["could not be read from nowhere"],
    ),
    ("generate --postgres postgres://u@h/d --mysql mysql://u@h/d", 2, &["cannot be used with"]),
    ("generate --postgres postgres://u@127.0.0.1:1/d --postgres-deadline 1", 1, &["127.0.0.1:1/d"]),
];
#[cfg(not(feature = "postgres"))]
const POSTGRES_CASES: &[Case] = &[];

#[cfg(feature = "zookeeper")]
const ZOOKEEPER_CASES: &[Case] = &[
    ("generate --zookeeper h:1", 2, &["--name <NAME>"]),
    ("generate --zookeeper h:1 --name a", 2, &["--zookeeper needs --instance"]),
    ("generate --instance a", 2, &["--zookeeper <HOSTS>"]),
    (
        "generate --zookeeper h:1 --name a --instance a/b",
        2,
        &["`a/b` cannot be the name of the instance: it holds a slash"],
    ),
    (
        "generate --zookeeper h:1 --name a/b --instance a",
        2,
        &["`a/b` cannot be the name of the registry: it holds a slash"],
    ),
    ("generate --zookeeper a,b: --name a --instance a", 2, &["write HOST:PORT,HOST:PORT"]),
    (
        "generate --zookeeper h:1 --name a --instance a --max-outage 500ms",
        2,
        &["'500ms' for '--max-outage <SECONDS>'", "write a time from 1s to 36500d"],
    ),
    (
        "generate --zookeeper h:1 --name a --instance a --max-outage 5 --risk-repeats-in-outages",
        2,
        &["cannot be used with"],
    ),
    (
        "generate --zookeeper h:1 --name a --instance a --mysql-deadline 5",
        2,
        &["--mysql-deadline", SERVER],
    ),
    (
        "generate --zookeeper h:1 --name a --instance a --worker lease",
        2,
        &["is not for --worker lease"],
    ),
    ("generate --zookeeper h:1 --name a --sqlite f", 2, &["cannot be used with"]),
];
#[cfg(not(feature = "zookeeper"))]
const ZOOKEEPER_CASES: &[Case] = &[];

#[test]
fn wrong_input_says_what_is_wrong_and_touches_nothing() {
    let cases: Vec<&Case> =
        [CASES, MYSQL_CASES, POSTGRES_CASES, ZOOKEEPER_CASES].into_iter().flatten().collect();
    assert!(cases.len() >= 100, "{}", cases.len());
    let next = AtomicUsize::new(0);
    // Processes are slow to start.
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
    for (words, ..) in CASES.iter().filter(|case| case.0.starts_with("generate") && case.1 == 2) {
        let run = home.run(&format!("{words} --output ids"));
        assert_eq!(run.status, Some(2), "{words}: {run:?}");
        assert_eq!(files(&home), [""; 0], "{words}");
    }
}

/// What is wrong with the answer to a case.
fn check(&(words, status, parts): &Case) -> Option<String> {
    let home = Home::new();
    let needs_file = words.contains("wrong-url");
    if needs_file {
        fs::write(home.folder.path().join("wrong-url"), "ids").expect("writes");
    }
    let run = home.run(words);
    let says = |part: &str| run.stderr.contains(part);
    // Names of the library's options, and of the system's.
    let inner = ["(ms)", "max_outage", "boost_power", "u64", "os error 22"];
    // Only a command that is not complete is answered with help.
    let is_help = says("Usage: uidring") && !run.stderr.starts_with("error: ");
    let problem = match () {
        () if run.status != Some(status) => format!("status {:?}", run.status),
        () if !run.stdout.is_empty() => "something on stdout".into(),
        () if is_help != ["", "worker", "segment"].contains(&words) => "help, or no error".into(),
        () if inner.iter().any(|name| says(name)) => "an inner name".into(),
        () if files(&home).len() != usize::from(needs_file) => format!("files {:?}", files(&home)),
        () => format!("not `{}`", parts.iter().find(|part| !says(part))?),
    };
    Some(format!("{words}: {problem}: {}", run.stderr))
}

fn files(home: &Home) -> Vec<String> {
    let entries = fs::read_dir(home.folder.path()).expect("is there");
    entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into()).collect()
}

/// What the environment says is as wrong as a flag would be.
#[test]
fn wrong_variables_are_wrong_usage() {
    for (variable, value, part) in [
        ("UIDRING_WORKER_ID", "4194304", "UIDRING_WORKER_ID 4194304 is out of range"),
        ("UIDRING_WORKER_ID", "-1", "UIDRING_WORKER_ID holds `-1`"),
        ("UIDRING_WORKER_ID", "1e3", "UIDRING_WORKER_ID holds `1e3`"),
        ("UIDRING_WORKER_ID", "", "UIDRING_WORKER_ID is empty"),
        ("UIDRING_WORKER_ID", " 5", "UIDRING_WORKER_ID holds ` 5`"),
        ("UIDRING_WORKER_ID", "5.0", "UIDRING_WORKER_ID holds `5.0`"),
        ("UIDRING_WORKER_ID", "18446744073709551616", "holds `18446744073709551616`"),
        ("UIDRING_HOST", "a", "UIDRING_PORT is not"),
        #[cfg(feature = "mysql")]
        ("UIDRING_MYSQL_URL", "", "in UIDRING_MYSQL_URL, is wrong: it is empty"),
        #[cfg(feature = "postgres")]
        ("UIDRING_POSTGRES_URL", "", "in UIDRING_POSTGRES_URL, is wrong: it is empty"),
        #[cfg(feature = "mysql")]
        ("UIDRING_MYSQL_URL", "ids", "in UIDRING_MYSQL_URL, is wrong: it does not begin"),
    ] {
        let home = Home::new();
        let run = Run::of(home.command("generate").env(variable, value));
        assert_eq!((run.status, &*run.stdout), (Some(2), ""), "{variable}={value}: {run:?}");
        assert!(run.stderr.contains(part), "{variable}={value}: {}", run.stderr);
        assert_eq!(files(&home), [""; 0], "{variable}={value}");
    }
}

/// One that is right, but is not meant for what the flags ask for.
#[test]
fn a_variable_and_a_flag_may_not_go_together() {
    let home = Home::new();
    let run = Run::of(home.command("generate --worker lease").env("UIDRING_WORKER_ID", "7"));
    assert_eq!((run.status, &*run.stdout), (Some(2), ""));
    assert!(run.stderr.contains("UIDRING_WORKER_ID is a worker id of your choice"), "{run:?}");
    assert_eq!(files(&home), [""; 0]);
}

/// A tag that a name of the server hides, or that cannot be seen.
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
