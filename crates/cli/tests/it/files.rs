//! `uidring generate --output`, and its binary form.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Home, Run};

fn binary(bytes: &[u8]) -> Vec<u64> {
    let (ids, []) = bytes.as_chunks::<8>() else { panic!("{} bytes", bytes.len()) };
    ids.iter().map(|id| u64::from_le_bytes(*id)).collect()
}

fn wait_for(done: &dyn Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "it does not come");
        thread::sleep(Duration::from_millis(5));
    }
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
}

#[test]
fn a_file_holds_what_stdout_would() {
    let home = Home::new();
    let read = |name: &str| fs::read(home.folder.path().join(name)).expect("written");
    assert_eq!(home.stdout("generate --worker lease -n 70k --output dec"), "");
    let text = String::from_utf8(read("dec")).expect("digits");
    let ids: Vec<u64> = text.lines().map(|line| line.parse().expect("a number")).collect();
    assert_eq!(ids.len(), 70_000);
    assert!(ids.is_sorted_by(|a, b| a < b));

    assert_eq!(home.stdout("generate -n 70k --format binary -o binary"), "");
    let ids = binary(&read("binary"));
    assert_eq!(ids.len(), 70_000);
    assert!(ids.is_sorted_by(|a, b| a < b));
    let parsed = home
        .command("parse --format binary")
        .stdin(fs::File::open(home.folder.path().join("binary")).expect("is there"))
        .output()
        .expect("runs");
    assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
    assert_eq!(parsed.stdout.iter().filter(|byte| **byte == b'\n').count(), 70_000);

    let piped = home.command("generate -n 5 --format binary").output().expect("runs");
    assert_eq!(binary(&piped.stdout).len(), 5);
}

#[test]
fn a_file_that_holds_something_is_left_as_it_is_and_costs_nothing() {
    let home = Home::new();
    let path = home.folder.path().join("ids");
    fs::write(&path, "5\n").expect("writes");
    let run = home.run("generate --output ids");
    assert_eq!((run.status, &*run.stdout), (Some(1), ""));
    assert!(run.stderr.contains("ids holds something already, and is left as it is"), "{run:?}");
    assert_eq!(fs::read(&path).expect("reads"), b"5\n");
    assert!(!home.folder.path().join("uidring").exists(), "no worker id was spent");
    let run = home.run("generate --output nowhere/ids");
    assert_eq!((run.status, &*run.stdout), (Some(1), ""));
    assert!(run.stderr.starts_with("error: writing nowhere/ids: "), "{run:?}");
}

/// With a limit on its size, a file has whole ids, as many as reported.
#[test]
fn a_disk_that_becomes_full_has_whole_ids() {
    for (blocks, format) in [(1, "dec"), (3, "base62"), (100, "hex"), (7, "json"), (9, "binary")] {
        let home = Home::new();
        let words = format!("generate -u worker:5 -n 1M -q --format {format} --output ids");
        let run = Run::of(
            &mut home.under_sh(&format!(r#"trap '' XFSZ; ulimit -f {blocks}; exec "$1" {words}"#)),
        );
        assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{run:?}");
        let path = home.folder.path().join("ids");
        let bytes = fs::read(&path).expect("written");
        let (count, last) = if format == "binary" {
            let ids = binary(&bytes);
            (ids.len(), ids.last().copied().expect("some").to_string())
        } else {
            let text = String::from_utf8(bytes).expect("text");
            assert!(text.ends_with('\n'), "half a line: {format}");
            let parsed = Run::with_input(
                &mut home.command(&format!("parse --format {format}")),
                text.as_bytes(),
            );
            assert_eq!(parsed.status, Some(0), "{}", parsed.stderr);
            let last = parsed.stdout.lines().last().expect("some").to_owned();
            let last: serde_json::Value = serde_json::from_str(&last).expect("JSON");
            (text.lines().count(), last["uid"].as_str().expect("text").into())
        };
        assert!(run.stderr.starts_with("error: writing ids: File too large"), "{}", run.stderr);
        let expected = format!("; {count} ids are safe in ids, the last is {last}\n");
        assert!(run.stderr.ends_with(&expected), "{expected}: {}", run.stderr);
    }
}

/// So has the file that a shell made or appends to.
#[test]
fn a_redirect_onto_a_disk_that_becomes_full_has_whole_ids() {
    for (redirect, before) in [(">", 0), (">>", 1)] {
        let home = Home::new();
        fs::write(home.folder.path().join("ids"), "1\n").expect("written");
        let run = Run::of(&mut home.under_sh(&format!(
            r#"trap '' XFSZ; ulimit -f 1; "$1" generate -u worker:5 -n 1M -q {redirect} ids; echo done >> ids"#
        )));
        let text = fs::read_to_string(home.folder.path().join("ids")).expect("text");
        let ids = text.strip_suffix("done\n").expect("room for a line");
        let whole = ids.lines().filter(|line| line.len() == 18).count();
        assert_eq!(ids.lines().count(), before + whole, "{ids}");
        assert!(run.stderr.contains(&format!("; {whole} ids were printed, ")), "{whole}: {run:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_has_nothing() {
    let run = Home::new().run("generate -n 100 --output /dev/full");
    assert_eq!(run.status, Some(1));
    assert!(run.stderr.contains("No space left on device"), "{run:?}");
    assert!(run.stderr.ends_with("; no id is safe in /dev/full\n"), "{run:?}");
}

#[test]
fn a_run_that_gets_no_ids_leaves_no_file() {
    let home = Home::new();
    let ids = home.folder.path().join("ids");
    let words = "generate -u sqlite:nowhere.db --output ids";
    assert_eq!(home.run(words).status, Some(1));
    assert!(!ids.exists());
    fs::write(&ids, "").expect("writes");
    assert_eq!(home.run(words).status, Some(1));
    assert!(ids.exists());
}

#[test]
fn an_interrupted_run_leaves_whole_ids() {
    let home = Home::new();
    let words = "generate --format binary -n 1000000000 --max-borrow 0 --output ids";
    let child = home.command(words).spawn().expect("starts");
    let path = home.folder.path().join("ids");
    wait_for(&|| fs::metadata(&path).is_ok_and(|file| file.len() > 0));
    interrupt(&child);
    let said = child.wait_with_output().expect("ends").stderr;
    let said = String::from_utf8(said).expect("text");
    let ids = binary(&fs::read(&path).expect("written"));
    let last = ids.last().expect("some");
    let expected = format!("interrupted: {} ids are safe in ids, the last is {last}\n", ids.len());
    // A note about a run of hours comes first.
    assert!(said.ends_with(&expected), "{said}");
}

/// Replaces system calls: syncing a file first creates `syncing`, takes this many seconds, and then creates `synced`.
/// Syncing a folder creates `folder`.
#[cfg(target_os = "linux")]
const SLOW_DISK: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
static void note(const char *name) { close(open(name, O_CREAT | O_WRONLY, 0600)); }
int fsync(int fd) {
    struct stat about;
    if (fstat(fd, &about) == 0 && S_ISDIR(about.st_mode)) {
        note("folder");
        return syscall(SYS_fsync, fd);
    }
    note("syncing");
    for (unsigned left = atoi(getenv("SYNC_SECONDS")); left > 0; left = sleep(left)) {}
    note("synced");
    return syscall(SYS_fsync, fd);
}
"#;

/// Returns the program on a disk whose syncs take this many seconds.
#[cfg(target_os = "linux")]
fn slow_disk(home: &Home, seconds: u64, words: &str) -> Command {
    let folder = home.folder.path();
    fs::write(folder.join("disk.c"), SLOW_DISK).expect("writes");
    let mut compiler = Command::new("cc");
    compiler.current_dir(folder).args(["-shared", "-fPIC", "-o", "disk.so", "disk.c"]);
    assert!(compiler.status().expect("cc, which links Rust programs, too").success());
    let mut command = home.command(words);
    command.env("LD_PRELOAD", folder.join("disk.so")).env("SYNC_SECONDS", seconds.to_string());
    command
}

#[cfg(target_os = "linux")]
#[test]
fn the_disk_has_the_files_name_too() {
    let home = Home::new();
    let run = Run::of(&mut slow_disk(&home, 0, "generate -u worker:5 -q --output ids"));
    assert_eq!((run.status, &*run.stderr), (Some(0), ""));
    for note in ["folder", "synced"] {
        assert!(home.folder.path().join(note).exists(), "{note}");
    }
}

/// Ids are safe only when they are on the disk. Another signal ends the wait.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_run_waits_for_the_disk() {
    for (seconds, is_interrupted_again, verb) in
        [(3, false, "are safe in"), (60, true, "were written to")]
    {
        let home = Home::new();
        let exists = |name: &str| Path::exists(&home.folder.path().join(name));
        let words = "generate -n 1000000000 --max-borrow 0 -u worker:5 --output ids";
        let child = slow_disk(&home, seconds, words).spawn().expect("starts");
        wait_for(&|| fs::metadata(home.folder.path().join("ids")).is_ok_and(|ids| ids.len() > 0));
        interrupt(&child);
        if is_interrupted_again {
            wait_for(&|| exists("syncing"));
            interrupt(&child);
        }
        let output = child.wait_with_output().expect("ends");
        assert_eq!(exists("synced"), !is_interrupted_again);
        assert_eq!(output.status.code(), None, "as if the signal had not been caught");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(&format!(" ids {verb} ids, the last is ")), "{said}");
    }
}

/// Both programs find the file empty.
#[cfg(target_os = "linux")]
#[test]
fn a_file_is_written_by_one_program() {
    let home = Home::new();
    let words = "generate -u worker:5 -q --output ids";
    let first = slow_disk(&home, 5, &format!("{words} -n 0")).spawn().expect("starts");
    wait_for(&|| home.folder.path().join("syncing").exists());
    let second = home.run(words);
    assert_eq!(second.status, Some(1), "{second:?}");
    assert!(second.stderr.starts_with("error: another program is writing ids: "), "{second:?}");
    assert!(first.wait_with_output().expect("ends").status.success());
    home.stdout(words);
    assert_eq!(home.run(words).status, Some(1), "it holds something now");
}

#[test]
fn a_dash_is_stdout() {
    let home = Home::new();
    assert_eq!(home.stdout("generate -n 3 -o -").lines().count(), 3);
    assert!(!home.folder.path().join("-").exists());
}
