//! The program on SQLite files: the default one in a container, and files that it must not use.

use std::fs;
#[cfg(target_os = "linux")]
use std::process::Command;

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
        assert_eq!(
            run("1", &format!("{words} --sqlite named.db?mode=rwc")),
            "",
            "that is no default"
        );
    }
    let tag =
        Run::of(home.command("segment create a --step 5").env("UIDRING_CONTAINER", "1")).stderr;
    assert!(tag.contains("WARN") && tag.contains("segments.db"), "{tag}");
}

#[test]
fn a_file_that_is_damaged_or_of_a_later_version_is_an_error() {
    let home = Home::new();
    assert_eq!(home.stdout("worker assign --sqlite a.db?mode=rwc"), "1\n");
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

#[test]
fn a_file_with_two_hard_links_is_refused_by_either_name() {
    let home = Home::new();
    let path = |name: &str| home.folder.path().join(name);
    assert_eq!(home.stdout("worker assign --sqlite a.db?mode=rwc"), "1\n");
    fs::create_dir(path("d")).expect("made");
    fs::hard_link(path("a.db"), path("d/a.db")).expect("linked");
    for words in ["worker assign", "worker list", "generate --worker lease", "segment list"] {
        for name in ["a.db", "d/a.db"] {
            let run = home.run(&format!("{words} --sqlite {name}"));
            assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{run:?}");
            assert!(run.stderr.contains("2 names (hard links)"), "{run:?}");
            assert!(run.stderr.contains("remove the others"), "{run:?}");
        }
    }
    assert!(!path("d/a.db-commits").exists());
    fs::remove_file(path("d/a.db")).expect("removed");
    assert_eq!(home.stdout("worker assign --sqlite a.db"), "2\n");
}

/// A process that was killed while it created the file leaves one.
#[test]
fn a_temporary_name_is_no_second_name() {
    let home = Home::new();
    let path = |name: &str| home.folder.path().join(name);
    assert_eq!(home.stdout("worker assign --sqlite a.db?mode=rwc"), "1\n");
    fs::hard_link(path("a.db"), path(".a.db.77-0123abcd.new")).expect("linked");
    fs::write(path(".a.db.78-0123abcd.new"), "not the same file").expect("written");
    assert_eq!(home.stdout("worker assign --sqlite a.db"), "2\n");
    assert!(!path(".a.db.77-0123abcd.new").exists());
    assert!(path(".a.db.78-0123abcd.new").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_is_a_mount_point_is_refused() {
    let home = Home::new();
    assert_eq!(home.stdout("worker assign --sqlite a.db?mode=rwc"), "1\n");
    fs::create_dir(home.folder.path().join("d")).expect("made");
    fs::write(home.folder.path().join("d/b.db"), "").expect("made");
    let mounts = "mount --bind a.db d/b.db && mount --bind . d/c";
    fs::create_dir(home.folder.path().join("d/c")).expect("made");
    let script = format!(
        r#"{mounts} && {{ "$1" worker assign --sqlite d/b.db; "$1" worker assign --sqlite d/c/a.db; }}"#
    );
    // Mounts of its own, which end with it.
    let shell = home.under_sh(&script);
    let mut command = Command::new("unshare");
    command.args(["--mount", "--"]).arg(shell.get_program()).args(shell.get_args());
    command.current_dir(home.folder.path());
    for (name, value) in shell.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let run = Run::of(&mut command);
    if ["unshare:", "mount:"].iter().any(|word| run.stderr.starts_with(word)) {
        // Not for this user.
        return;
    }
    assert!(run.stderr.contains("is a mount point itself"), "{run:?}");
    assert!(run.stderr.contains("mount the folder"), "{run:?}");
    // In a mounted folder the log is beside it.
    assert_eq!((run.status, &*run.stdout), (Some(0), "2\n"), "{run:?}");
}

#[test]
fn a_default_file_needs_an_absolute_data_directory() {
    let home = Home::new();
    for (variable, value) in [("HOME", "relative"), ("XDG_DATA_HOME", "relative")] {
        for words in ["worker assign", "generate", "segment create a --step 5"] {
            let mut command = home.command(words);
            command.env_remove("XDG_DATA_HOME").env(variable, value);
            let run = Run::of(&mut command);
            assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{run:?}");
            assert!(run.stderr.contains(&format!("{variable} is not an absolute path")), "{run:?}");
        }
    }
    assert!(!home.folder.path().join("relative").exists());
}

#[test]
fn a_file_with_a_path_of_its_own_is_created_only_if_that_was_asked_for() {
    let home = Home::new();
    let exists = |name: &str| home.folder.path().join(name).exists();
    for words in
        ["generate", "generate --worker lease", "worker assign", "worker list", "segment list"]
    {
        let run = home.run(&format!("{words} --sqlite new/a.db"));
        assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{run:?}");
        let command = if words.starts_with("segment") { "segment create" } else { "worker init" };
        for part in ["new/a.db", "no such file", command, "?mode=rwc"] {
            assert!(run.stderr.contains(part), "{part}: {run:?}");
        }
        assert!(!exists("new"), "{words}");
    }
    assert_eq!(home.run("worker init --sqlite new/a.db").status, Some(0));
    assert_eq!(home.stdout("worker assign --sqlite new/a.db"), "1\n");
    assert_eq!(home.run("segment create a --step 5 --sqlite b.db").status, Some(0));
    assert_eq!(home.stdout("generate --generator segment --tag a --sqlite b.db"), "1\n");
    assert_eq!(home.stdout("worker assign --sqlite c.db?mode=rwc"), "1\n");
    assert_eq!(home.stdout("worker assign --sqlite c.db?mode=rw"), "2\n");
    assert_eq!(home.stdout("worker assign"), "1\n", "the default file");

    // One that has a question mark itself.
    assert_eq!(home.run("worker init --sqlite d?.db?").status, Some(0));
    assert!(exists("d?.db"));
    for (parameters, part) in
        [("mode=rwcc", "no parameter"), ("b.db", "no parameter"), ("mode=rw&mode=rwc", "twice")]
    {
        let run = home.run(&format!("worker assign --sqlite c.db?{parameters}"));
        assert_eq!((run.status, &*run.stdout), (Some(2), ""), "{run:?}");
        assert!(run.stderr.contains(part), "{run:?}");
    }
}
