//! The program on SQLite files: the default one in a container, and files that it must not use.

use std::fs;

use crate::support::{Home, Run};

/// `ordinals.rs` has what else is done in containers.
#[test]
fn the_default_file_in_a_container_is_warned_of_or_refused() {
    let home = Home::new();
    // As in a virtual machine, and not as in a container.
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let is_disk = |line: &str| line.contains(" / / ") && line.contains(" /dev/");
    if !mounts.lines().any(is_disk) {
        let run = Run::of(home.command("worker assign").env("UIDRING_CONTAINER", "1"));
        assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{run:?}");
        assert!(run.stderr.contains("mount a volume"), "{run:?}");
        return;
    }
    for words in ["worker assign", "generate -n 1", "generate -n 1 --worker lease"] {
        let run = |sign: &str, words: &str| {
            let run = Run::of(home.command(words).env("UIDRING_CONTAINER", sign));
            assert_eq!(run.status, Some(0), "{run:?}");
            run.stderr
        };
        let warning = run("1", words);
        for part in ["WARN", "container", "workers.db", "volume"] {
            assert!(warning.contains(part), "{part}: {warning}");
        }
        assert_eq!(warning.lines().count(), 1, "once: {warning}");
        assert_eq!(run("0", words), "");
        assert_eq!(run("1", &format!("{words} --sqlite named.db")), "", "that is no default");
    }
    let tag =
        Run::of(home.command("segment create a --step 5").env("UIDRING_CONTAINER", "1")).stderr;
    assert!(tag.contains("WARN") && tag.contains("segments.db"), "{tag}");
}

#[test]
fn a_file_that_is_damaged_or_of_a_later_version_is_an_error() {
    let home = Home::new();
    assert_eq!(home.stdout("worker assign --sqlite a.db"), "1\n");
    let path = home.folder.path().join("a.db");
    let sound = fs::read(&path).expect("reads");

    fs::write(&path, &sound[..sound.len() / 2]).expect("writes");
    for words in ["worker assign", "worker list", "worker prune", "generate -n 1"] {
        let run = home.run(&format!("{words} --sqlite a.db"));
        assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{run:?}");
        assert!(run.stderr.contains("malformed") && run.stderr.contains("older copy"), "{run:?}");
    }

    fs::write(&path, &sound).expect("writes");
    let connection = rusqlite::Connection::open(&path).expect("opens");
    connection.execute("UPDATE UIDRING_FILE SET VERSION = 7", []).expect("updates");
    drop(connection);
    let run = home.run("worker assign --sqlite a.db");
    assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{run:?}");
    assert!(run.stderr.contains("version 7") && run.stderr.contains("a later one"), "{run:?}");
}
