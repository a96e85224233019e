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
    let (home, etcd) = (Home::new(), format!("-u {}", server.url("cli")));
    assert_eq!(worker_of(&home.run(&format!("generate {etcd} -n 3"))), 1);
    let lease = format!("generate {etcd} --worker lease");
    assert_eq!(worker_of(&home.run(&lease)), 2);
    assert_eq!(worker_of(&home.run(&lease)), 2);
    assert_eq!(home.stdout(&format!("worker assign {etcd}")), "3\n");
    let url = server.url("cli");
    let by_variable = Run::of(home.command("generate").env("UIDRING_URL", url));
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
        ("generate -u etcd://s3cret@h", "no password"),
        ("generate -u etcd://h/ids -u sqlite:f", "cannot be used multiple times"),
        ("generate -u etcd://h?durability=require", "etcd has no parameter `durability`"),
        ("generate -u etcd://h?max-clock-difference=5", "etcd has no parameter"),
        ("generate -u etcd://h?cert=f", "`key`"),
        ("generate -u etcd://h?ca=f&tls=off", "tls=off"),
        ("segment list -u etcd://h", "worker ids and leases, and no segments"),
        ("generate -u etcd://h --tag t", "worker ids and leases, and no segments"),
        ("generate -u etcd://h --worker ordinal", "no worker ids of ordinals"),
    ] {
        let run = home.run(words);
        assert_eq!((run.status, &*run.stdout), (Some(2), ""), "{words}: {run:?}");
        assert!(run.stderr.contains(said) && !run.stderr.contains("s3cret"), "{words}: {run:?}");
    }
    for (variable, value) in [("UIDRING_ETCD", "h:1"), ("UIDRING_ETCD_AUTH", "u:s3cret")] {
        let run = Run::of(home.command("generate").env(variable, value));
        assert!(run.status == Some(2) && run.stderr.contains(variable), "{run:?}");
        assert!(run.stderr.contains("etcd://") && !run.stderr.contains("s3cret"), "{run:?}");
    }
}
