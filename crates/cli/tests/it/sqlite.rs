//! The program on SQLite files: the default file in a container, and files that it must not use.

use std::fs;
use std::process::Command;

use crate::support::{Home, Run};

/// `ordinals.rs` has more tests of containers.
#[test]
fn the_default_file_in_a_container_is_warned_of_or_refused() {
    let home = Home::new();
    // In a virtual machine, the root is a disk.
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
        let named = run("1", &format!("{words} -u sqlite:named.db?mode=rwc"));
        assert!(named.contains("WARN named.db is in the file system of a container"), "{named}");
        // These hand out nothing, so they do not warn.
        assert_eq!(run("1", "worker list").lines().count() + run("1", "plan").lines().count(), 0);
    }
    let wrong = Run::of(home.command("worker assign").env("UIDRING_CONTAINER", "yes"));
    assert_eq!((wrong.status, &*wrong.stdout), (Some(1), ""), "{wrong:?}");
    assert!(wrong.stderr.contains("UIDRING_CONTAINER is `yes`: set it to 1 in"), "{wrong:?}");
    fs::write(home.folder.path().join("names.toml"), "[names.a]\n[names.b]\n").expect("writes");
    #[cfg(feature = "server")]
    {
        let serve = "serve --config names.toml --check --batch none";
        let run = Run::of(home.command(serve).env("UIDRING_CONTAINER", "1"));
        assert!(run.status == Some(0) && run.stderr.matches(" WARN ").count() <= 2, "{run:?}");
    }
    let tag =
        Run::of(home.command("segment create a --step 5").env("UIDRING_CONTAINER", "1")).stderr;
    assert!(tag.contains("WARN") && tag.contains("segments.db"), "{tag}");
}

#[test]
fn a_file_that_is_damaged_or_of_a_later_version_is_an_error() {
    let home = Home::new();
    assert_eq!(home.stdout("worker assign -u sqlite:a.db?mode=rwc"), "1\n");
    let path = home.folder.path().join("a.db");
    let sound = fs::read(&path).expect("reads");

    fs::write(&path, &sound[..sound.len() / 2]).expect("writes");
    for words in ["worker assign", "worker list", "worker prune", "generate -n 1"] {
        let run = home.run(&format!("{words} -u sqlite:a.db"));
        assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{run:?}");
        assert!(
            run.stderr.contains("it is damaged: ") && run.stderr.contains("older copy"),
            "{run:?}"
        );
    }

    fs::write(&path, &sound).expect("writes");
    let connection = rusqlite::Connection::open(&path).expect("opens");
    connection.execute("UPDATE UIDRING_FILE SET VERSION = 7", []).expect("updates");
    drop(connection);
    let run = home.run("worker assign -u sqlite:a.db");
    assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{run:?}");
    assert!(run.stderr.contains("version 7") && run.stderr.contains("version 1"), "{run:?}");
}

#[test]
fn a_file_with_two_hard_links_is_refused_by_either_name() {
    let home = Home::new();
    let path = |name: &str| home.folder.path().join(name);
    assert_eq!(home.stdout("worker assign -u sqlite:a.db?mode=rwc"), "1\n");
    fs::create_dir(path("d")).expect("made");
    fs::hard_link(path("a.db"), path("d/a.db")).expect("linked");
    for words in ["worker assign", "worker list", "generate --worker lease", "segment list"] {
        for name in ["a.db", "d/a.db"] {
            let run = home.run(&format!("{words} -u sqlite:{name}"));
            assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{run:?}");
            assert!(run.stderr.contains("2 names (hard links)"), "{run:?}");
            assert!(run.stderr.contains("remove the others"), "{run:?}");
        }
    }
    assert!(!path("d/a.db-commits").exists());
    fs::remove_file(path("d/a.db")).expect("removed");
    assert_eq!(home.stdout("worker assign -u sqlite:a.db"), "2\n");
}

/// A process killed while it creates the file leaves this second name.
#[test]
fn a_temporary_name_is_no_second_name() {
    let home = Home::new();
    let path = |name: &str| home.folder.path().join(name);
    assert_eq!(home.stdout("worker assign -u sqlite:a.db?mode=rwc"), "1\n");
    fs::hard_link(path("a.db"), path(".a.db.77-0123abcd.new")).expect("linked");
    fs::write(path(".a.db.78-0123abcd.new"), "not the same file").expect("written");
    assert_eq!(home.stdout("worker assign -u sqlite:a.db"), "2\n");
    assert!(!path(".a.db.77-0123abcd.new").exists());
    assert!(path(".a.db.78-0123abcd.new").exists());
}

/// Runs a script with its own mounts, which end with it. `None` if this user may not mount.
#[cfg(target_os = "linux")]
fn with_own_mounts(home: &Home, script: &str) -> Option<Run> {
    let shell = home.under_sh(script);
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
    let is_allowed = ["unshare:", "mount:"].iter().all(|word| !run.stderr.starts_with(word));
    is_allowed.then_some(run)
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_is_a_mount_point_is_refused() {
    let home = Home::new();
    assert_eq!(home.stdout("worker assign -u sqlite:a.db?mode=rwc"), "1\n");
    fs::create_dir(home.folder.path().join("d")).expect("made");
    fs::write(home.folder.path().join("d/b.db"), "").expect("made");
    let mounts = "mount --bind a.db d/b.db && mount --bind . d/c";
    fs::create_dir(home.folder.path().join("d/c")).expect("made");
    let script = format!(
        r#"{mounts} && {{ "$1" worker assign -u sqlite:d/b.db; "$1" worker assign -u sqlite:d/c/a.db; }}"#
    );
    let Some(run) = with_own_mounts(&home, &script) else { return };
    assert!(run.stderr.contains("is a mount point itself"), "{run:?}");
    assert!(run.stderr.contains("mount the folder"), "{run:?}");
    // If the folder is mounted, the log is beside the file.
    assert_eq!((run.status, &*run.stdout), (Some(0), "2\n"), "{run:?}");
    // Without a list of mounts, as in a separate root.
    let script = r#"mount --bind a.db d/b.db && mount -t tmpfs none /proc && "$1" worker assign -u sqlite:d/b.db"#;
    let Some(run) = with_own_mounts(&home, script) else { return };
    assert!(run.stderr.contains("is a mount point itself"), "{run:?}");
}

/// SQLite reads `/proc/PID/root` as a link to this process's own `/`.
#[cfg(target_os = "linux")]
#[test]
fn a_file_of_another_mount_namespace_is_refused() {
    let home = Home::new();
    let folder = home.folder.path().join("d");
    fs::create_dir(&folder).expect("made");
    assert_eq!(home.stdout("worker assign -u sqlite:d/a.db?mode=rwc"), "1\n");
    // The child has another file at the same path.
    let script = r#"mkfifo f && { unshare --mount sh -c 'mount -t tmpfs none d && "$1" worker assign \
        -u sqlite:d/a.db?mode=rwc >f && exec sleep 100' sh "$1" & } && read id <f && test "$id" = 1 &&
        { "$1" worker assign -u "sqlite:/proc/$!/root$PWD/d/a.db"; code=$?; kill $!; exit $code; }"#;
    let Some(run) = with_own_mounts(&home, script) else { return };
    assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{run:?}");
    assert!(run.stderr.contains("SQLite has opened another file"), "{run:?}");
    assert_eq!(home.stdout("worker assign -u sqlite:d/a.db"), "2\n");
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
        let run = home.run(&format!("{words} -u sqlite:new/a.db"));
        assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{run:?}");
        let advice = match words.starts_with("segment") {
            true => "by `uidring segment create TAG --step S -u sqlite:new/a.db`",
            false => "by `uidring worker init -u sqlite:new/a.db`, or `?mode=rwc`",
        };
        for part in ["new/a.db", "no such file", advice] {
            assert!(run.stderr.contains(part), "{part}: {run:?}");
        }
        assert!(!exists("new"), "{words}");
    }
    // Folders are not created either, because their names may be mistyped.
    for words in ["worker init -u sqlite:new/a.db", "worker assign -u sqlite:new/a.db?mode=rwc"] {
        let run = home.run(words);
        assert_eq!(run.status, Some(1), "{run:?}");
        assert!(run.stderr.contains("could not be created: there is no folder "), "{run:?}");
        assert!(!exists("new"), "{words}");
    }
    fs::create_dir(home.folder.path().join("new")).expect("made");
    for _ in 0..2 {
        let said = home.run("worker init -u sqlite:new/a.db").stderr;
        assert_eq!(said, "new/a.db is set up for worker ids; starts so far: 0\n");
    }
    assert_eq!(home.stdout("worker assign -u sqlite:new/a.db"), "1\n");
    assert_eq!(home.run("segment create a --step 5 -u sqlite:b.db").status, Some(0));
    assert_eq!(home.stdout("generate --generator segment --tag a -u sqlite:b.db"), "1\n");
    assert_eq!(home.stdout("worker assign -u sqlite:c.db?mode=rwc"), "1\n");
    assert_eq!(home.stdout("worker assign -u sqlite:c.db?mode=rw"), "2\n");
    assert_eq!(home.stdout("worker assign"), "1\n", "the default file");

    // A file name with a question mark.
    assert_eq!(home.run("worker init -u sqlite:d%3F.db").status, Some(0));
    assert!(exists("d?.db"));
    for (parameters, part) in
        [("mode=rwcc", "write rw or rwc"), ("b.db", "no parameter"), ("mode=rw&mode=rwc", "twice")]
    {
        let run = home.run(&format!("worker assign -u sqlite:c.db?{parameters}"));
        assert_eq!((run.status, &*run.stdout), (Some(2), ""), "{run:?}");
        assert!(run.stderr.contains(part), "{run:?}");
    }
}

fn contents(home: &Home) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(home.folder.path()).expect("a folder");
    let mut all: Vec<_> = entries
        .map(|entry| {
            let entry = entry.expect("an entry");
            let is_file = entry.metadata().expect("there").is_file();
            let bytes = if is_file { fs::read(entry.path()).expect("reads") } else { Vec::new() };
            (entry.file_name().into_string().expect("UTF-8"), bytes)
        })
        .collect();
    all.sort();
    all
}

const USES: [&str; 6] = [
    "worker init",
    "worker assign",
    "worker list",
    "generate --worker lease",
    "segment create a --step 5",
    "segment list",
];

#[test]
fn what_is_no_file_is_named_and_nothing_is_made_beside_it() {
    let home = Home::new();
    let path = |name: &str| home.folder.path().join(name);
    fs::create_dir(path("folder")).expect("made");
    fs::write(path("file"), "text, which is longer than the head of a database".repeat(3))
        .expect("written");
    std::os::unix::fs::symlink("loop", path("loop")).expect("linked");
    std::os::unix::fs::symlink("nothing", path("dangling")).expect("linked");
    std::os::unix::net::UnixListener::bind(path("socket")).expect("bound");
    assert!(Command::new("mkfifo").arg(path("fifo")).status().expect("runs").success());
    let before = contents(&home);
    for (name, part) in [
        ("folder", "that is a folder"),
        ("fifo", "that is a named pipe (FIFO)"),
        ("socket", "that is a socket"),
        ("dangling", "that is a symbolic link to nothing"),
        ("loop", "symbolic links"),
        ("file", "file is not a database"),
        ("file/a.db", "Not a directory"),
        ("/dev/null", "that is a device"),
    ] {
        for words in USES {
            let run = home.run(&format!("{words} -u sqlite:{name}"));
            assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{run:?}");
            assert_eq!(run.stderr.matches(part).count(), 1, "{part}: {run:?}");
        }
    }
    assert_eq!(contents(&home), before);
    assert!(!fs::exists("/dev/null-commits").expect("known"));
}

#[test]
fn the_database_of_another_program_is_used_only_where_it_is_meant() {
    for prepare in [
        "PRAGMA application_id = 77; CREATE TABLE orders (id)",
        "PRAGMA application_id = 77",
        "PRAGMA journal_mode = WAL; CREATE TABLE orders (id)",
        "CREATE TABLE worker_node (id INTEGER PRIMARY KEY)",
    ] {
        let home = Home::new();
        let connection = rusqlite::Connection::open(home.folder.path().join("a.db"));
        connection.and_then(|connection| connection.execute_batch(prepare)).expect("made");
        let before = contents(&home);
        for words in USES {
            let run = home.run(&format!("{words} -u sqlite:a.db"));
            assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{run:?}");
            let is_foreign = run.stderr.contains("another program's database");
            assert!(is_foreign || run.stderr.contains("no table UIDRING_FILE"), "{run:?}");
            assert!(!is_foreign || run.stderr.contains("?foreign=true"), "{run:?}");
            assert_eq!(contents(&home), before, "{words}");
        }
        if prepare.contains("worker_node") {
            continue;
        }
        assert_eq!(home.stdout("worker assign -u sqlite:a.db?foreign=true"), "1\n");
        assert_eq!(home.stdout("worker assign -u sqlite:a.db"), "2\n", "it is ours, too");
    }
}

/// Closing the database would move the log into the file.
#[test]
fn the_log_that_a_crash_has_left_of_another_program_stays() {
    let (home, elsewhere) = (Home::new(), Home::new());
    let folder = elsewhere.folder.path();
    let connection = rusqlite::Connection::open(folder.join("a.db")).expect("opens");
    connection.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE orders (id)").expect("made");
    for name in ["a.db", "a.db-wal"] {
        fs::copy(folder.join(name), home.folder.path().join(name)).expect("copied");
    }
    drop(connection);
    let read = || ["a.db", "a.db-wal"].map(|name| fs::read(home.folder.path().join(name)).ok());
    let before = read();
    assert!(before[1].as_ref().is_some_and(|log| !log.is_empty()));
    for words in USES {
        let run = home.run(&format!("{words} -u sqlite:a.db"));
        assert!(run.stderr.contains("another program's database"), "{run:?}");
        assert_eq!(read(), before, "{words}");
    }
    assert_eq!(home.stdout("worker assign -u sqlite:a.db?foreign=true"), "1\n");
}

#[test]
fn a_database_without_tables_may_become_ours() {
    let home = Home::new();
    let connection = rusqlite::Connection::open(home.folder.path().join("a.db")).expect("opens");
    connection.execute_batch("CREATE TABLE t (id); DROP TABLE t").expect("made");
    drop(connection);
    assert_eq!(home.stdout("worker assign -u sqlite:a.db"), "1\n");
}

/// Uses a small disk of its own.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named_and_keeps_nothing() {
    let home = Home::new();
    let script = r#"mount -t tmpfs -o size=256k none . && cd "$PWD" || exit
        dd if=/dev/zero of=fill bs=1k count=999 2>/dev/null
        "$1" worker init -u sqlite:a.db; echo "status $?"; ls -A
        truncate -s 100k fill; "$1" worker init -q -u sqlite:a.db; echo "status $?"
        dd if=/dev/zero of=fill bs=1k count=999 2>/dev/null
        "$1" worker assign -u sqlite:a.db; echo "status $?""#;
    let Some(run) = with_own_mounts(&home, script) else { return };
    let lines: Vec<_> = run.stdout.lines().collect();
    assert_eq!(lines, ["status 1", "fill", "status 0", "status 1"], "{run:?}");
    assert_eq!(run.stderr.matches("full").count(), 2, "{run:?}");
    assert_eq!(run.stderr.matches("free some space").count(), 2, "{run:?}");
}

/// The disk becomes full at each point of the creation.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_becomes_full_has_a_whole_file_or_none() {
    let home = Home::new();
    let script = r#"mkdir disk; for size in $(seq 64 4 112); do
        mount -t tmpfs -o size=${size}k none disk || exit
        "$1" worker init -q -u sqlite:disk/a.db; echo $? $(ls -A disk)
        umount disk; done"#;
    let Some(run) = with_own_mounts(&home, script) else { return };
    let lines: Vec<_> = run.stdout.lines().collect();
    assert_eq!(lines.len(), 13, "{run:?}");
    for line in lines {
        assert!(matches!(line, "1" | "0 a.db a.db-commits"), "{line}: {run:?}");
    }
    assert_eq!(
        run.stderr.lines().count(),
        run.stderr.matches("free some space").count(),
        "{run:?}"
    );
}
