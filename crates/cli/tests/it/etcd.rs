//! The program with a real etcd server.

use uidring::{Layout, Uid};
use uidring_testkit::etcd::Etcd;

use crate::support::{Home, Run};

fn worker_of(run: &Run) -> u64 {
    assert_eq!((run.status, &*run.stderr), (Some(0), ""), "{run:?}");
    let uid: Uid = run.stdout.lines().next().expect("a line").parse().expect("a uid");
    Layout::UID_GENERATOR.decode(uid).expect("of this layout").worker_id
}

#[test]
fn starts_and_leases_have_worker_ids_of_one_counter() {
    let server = Etcd::shared();
    let (home, etcd) = (Home::new(), format!("--etcd {} --etcd-prefix /cli", server.endpoints()));
    assert_eq!(worker_of(&home.run(&format!("generate {etcd} -n 3"))), 1);
    let lease = format!("generate {etcd} --worker lease");
    assert_eq!(worker_of(&home.run(&lease)), 2);
    assert_eq!(worker_of(&home.run(&lease)), 2);
    assert_eq!(home.stdout(&format!("worker assign {etcd}")), "3\n");
    let by_variable = Run::of(
        home.command("generate --etcd-prefix /cli").env("UIDRING_ETCD", server.endpoints()),
    );
    assert_eq!(worker_of(&by_variable), 4);
    assert!(!home.folder.path().join("uidring").exists(), "the default file was made");

    let listed = home.stdout(&format!("worker list {etcd} --json"));
    let rows: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(rows.as_array().map(Vec::len), Some(4), "{listed}");
    let leases = home.stdout(&format!("worker leases {etcd}"));
    assert!(leases.contains("free") && leases.lines().count() == 2, "{leases}");
    for words in ["worker fence 2", "worker release 2", "worker prune --keep-days 1", "plan"] {
        let run = home.run(&format!("{words} {etcd}"));
        assert_eq!(run.status, Some(0), "{words}: {run:?}");
    }
}

#[test]
fn wrong_usage_says_what_is_right_and_repeats_no_password() {
    let home = Home::new();
    for (words, said) in [
        ("generate --etcd u:s3cret@h", "a user has no place in them"),
        ("generate --etcd h --etcd-prefix ids", "does not begin with a slash"),
        ("generate --etcd h --sqlite f", "cannot be used with"),
        ("generate --etcd h --mysql-deadline 5", "needs a MySQL server"),
        ("generate --etcd h --max-clock-difference 5", "needs a MySQL or PostgreSQL server"),
        ("generate --etcd h --etcd-cert f", "--etcd-key"),
        ("generate --etcd-ca f", "needs --etcd"),
        ("segment list --etcd h", "segments are in a SQLite file, or on MySQL or PostgreSQL"),
        ("generate --etcd h --etcd-ca f", "an endpoint is without TLS"),
    ] {
        let run = home.run(words);
        assert_eq!((run.status, &*run.stdout), (Some(2), ""), "{words}: {run:?}");
        assert!(run.stderr.contains(said) && !run.stderr.contains("s3cret"), "{words}: {run:?}");
    }
    let run = Run::of(home.command("generate").env("UIDRING_ETCD", ""));
    assert!(run.status == Some(2) && run.stderr.contains("a host is empty"), "{run:?}");
    let run = Run::of(home.command("generate --etcd h").env("UIDRING_ETCD_AUTH", "s3cret"));
    assert!(run.status == Some(2) && run.stderr.contains("USER:PASSWORD"), "{run:?}");
    assert!(!run.stderr.contains("s3cret"), "{run:?}");
}
