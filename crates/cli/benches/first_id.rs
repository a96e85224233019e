//! Time from the start of a process to its first uid, by where the worker id comes from: interleaved
//! rounds, medians, as ratios to a process that does nothing. The servers are private ones.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use uidring_testkit::etcd::{Cluster, Etcd};
use uidring_testkit::mariadb::MariaDb;
use uidring_testkit::postgres::Postgres;
use uidring_testkit::zookeeper::ZooKeeper;

fn main() {
    // What `cargo bench` adds is of no interest here; `--quick` is.
    let rounds = if std::env::args().any(|word| word == "--quick") { 3 } else { 101 };
    let folder = tempfile::tempdir().expect("a folder");
    // Both stores have the row on the disk before they answer.
    let server = MariaDb::start_with(&["--innodb-flush-log-at-trx-commit=1"]);
    let database = server.database();
    let (alone, members) = (Etcd::start(), Cluster::start());
    let postgres = Postgres::start();
    let postgres_database = postgres.database();
    let zookeeper = ZooKeeper::start();
    let members: Vec<_> =
        members.servers().iter().map(|member| member.address().to_string()).collect();
    let (mysql, postgres) = (database.url(), postgres_database.url());
    let (etcd, three) = (alone.url("alone"), format!("etcd://{}/three", members.join(",")));
    let zookeeper = format!("zookeeper://{}?name=shop", zookeeper.hosts());
    let sqlite = |name: &str| format!("sqlite:{}?mode=rwc", folder.path().join(name).display());
    let disposable = ["generate"].as_slice();
    let lease = ["generate", "--worker", "lease"].as_slice();
    let contestants = [
        ("true (a process that does nothing)", [].as_slice(), String::new()),
        ("worker:N", disposable, "worker:5".into()),
        ("SQLite", disposable, sqlite("workers.db")),
        ("MySQL, over loopback", disposable, mysql.clone()),
        ("etcd, over loopback", disposable, etcd.clone()),
        ("a lease, SQLite", lease, sqlite("leases.db")),
        ("a lease, MySQL, over loopback", lease, mysql.clone()),
        ("a lease, etcd, over loopback", lease, etcd),
        ("a lease, etcd, three members on loopback", lease, three),
        ("PostgreSQL, over loopback", disposable, postgres.clone()),
        ("a lease, PostgreSQL, over loopback", lease, postgres.clone()),
        ("ZooKeeper, over loopback", disposable, zookeeper),
    ];
    let run = |words: &[&str], url: &str| {
        let mut command = match words {
            [] => Command::new("true"),
            words => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_uidring"));
                command.args(words);
                command
            }
        };
        command
            .current_dir(folder.path())
            .env("HOME", folder.path())
            .env_remove("XDG_DATA_HOME")
            .env("UIDRING_URL", url)
            .env("UIDRING_INSTANCE", "web-0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let start = Instant::now();
        let mut child = command.spawn().expect("starts");
        let mut first = [0];
        let read = child.stdout.take().expect("piped").read(&mut first).expect("reads");
        let time = start.elapsed();
        assert!(child.wait().expect("ends").success());
        assert_eq!(read, usize::from(!words.is_empty()), "{words:?}");
        time
    };
    // The table, the file, and the pages of the program.
    for url in [&mysql, &postgres] {
        Command::new(env!("CARGO_BIN_EXE_uidring"))
            .args(["worker", "init", "--leases"])
            .current_dir(folder.path())
            .env("UIDRING_URL", url)
            .status()
            .expect("runs");
    }
    let mut times = vec![Vec::new(); contestants.len()];
    for round in 0..=rounds {
        for ((_, words, url), times) in contestants.iter().zip(&mut times) {
            let time = run(words, url);
            if round > 0 {
                times.push(time);
            }
        }
    }
    let medians: Vec<Duration> = times
        .iter_mut()
        .map(|times| {
            times.sort_unstable();
            times[times.len() / 2]
        })
        .collect();
    println!("| worker id from | first uid after | ratio |\n|---|---|---|");
    for ((name, ..), median) in contestants.iter().zip(&medians) {
        let ratio = median.as_secs_f64() / medians[0].as_secs_f64();
        println!("| {name} | {:.2} ms | {ratio:.2} |", median.as_secs_f64() * 1e3);
    }
}
