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
    let (etcd, three) = (alone.endpoints(), members.endpoints());
    let postgres = Postgres::start();
    let postgres_database = postgres.database();
    let url_file = folder.path().join("postgres-url");
    std::fs::write(&url_file, postgres_database.url()).expect("written");
    let postgres = ["--postgres-url-file", "postgres-url"];
    let zookeeper = ZooKeeper::start();
    let zookeeper_servers = zookeeper.hosts();
    let contestants = [
        ("true (a process that does nothing)", vec![]),
        ("--worker-id", vec!["generate", "--worker-id", "5"]),
        ("--sqlite", vec!["generate", "--sqlite", "workers.db?mode=rwc"]),
        ("--mysql, over loopback", vec!["generate"]),
        ("--etcd, over loopback", vec!["generate", "--etcd", &etcd]),
        (
            "--worker lease --sqlite",
            vec!["generate", "--worker", "lease", "--sqlite", "leases.db?mode=rwc"],
        ),
        ("--worker lease --mysql, over loopback", vec!["generate", "--worker", "lease"]),
        (
            "--worker lease --etcd, over loopback",
            vec!["generate", "--worker", "lease", "--etcd", &etcd],
        ),
        (
            "--worker lease --etcd, three members on loopback",
            vec!["generate", "--worker", "lease", "--etcd", &three],
        ),
        ("--postgres, over loopback", ["generate"].into_iter().chain(postgres).collect()),
        (
            "--worker lease --postgres, over loopback",
            ["generate", "--worker", "lease"].into_iter().chain(postgres).collect(),
        ),
        (
            "--zookeeper, over loopback",
            ["generate", "--name", "shop", "--instance", "web-0", "--zookeeper"]
                .into_iter()
                .chain([&*zookeeper_servers])
                .collect(),
        ),
    ];
    let run = |words: &[&str]| {
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
            .env_remove("UIDRING_WORKER_ID")
            .env("UIDRING_MYSQL_URL", database.url())
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
    for flags in [&[][..], &postgres] {
        Command::new(env!("CARGO_BIN_EXE_uidring"))
            .args(["worker", "init", "--leases"])
            .args(flags)
            .current_dir(folder.path())
            .env("UIDRING_MYSQL_URL", database.url())
            .status()
            .expect("runs");
    }
    let mut times = vec![Vec::new(); contestants.len()];
    for round in 0..=rounds {
        for ((_, words), times) in contestants.iter().zip(&mut times) {
            let time = run(words);
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
    for ((name, _), median) in contestants.iter().zip(&medians) {
        let ratio = median.as_secs_f64() / medians[0].as_secs_f64();
        println!("| {name} | {:.2} ms | {ratio:.2} |", median.as_secs_f64() * 1e3);
    }
}
