//! How `uidring generate` ends early: it prints all ids that it has taken, reports them, and fails if nobody can read
//! them.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use uidring::Timestamp;
use uidring::clock::{Clock, SystemClock};

use crate::support::{Home, Run};

/// The time limit on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

fn told(lines: &[&str]) -> String {
    match lines {
        [] => "no id was printed".into(),
        [only] => format!("one id was printed, {only}"),
        [.., last] => format!("{} ids were printed, the last is {last}", lines.len()),
    }
}

fn kill(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
}

fn wait(child: &mut Child) -> std::process::ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            return status;
        }
        if start.elapsed() > LIMIT {
            child.kill().expect("killed");
            panic!("it does not end");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn stderr(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut text).expect("UTF-8");
    text
}

#[test]
fn a_closed_stdout_is_a_failure_and_spends_nothing() {
    for words in [
        "generate",
        "generate -n 5 --generator snowflake",
        "generate --generator segment --tag orders",
        "parse 5",
        "plan",
        "plan --json",
        "worker assign -u sqlite:workers.db?mode=rwc",
        "completions bash",
    ] {
        let home = Home::new();
        let run = Run::of(&mut home.under_sh(&format!(r#"exec "$1" {words} >&-"#)));
        assert_eq!(run.status, Some(1), "{words}: {run:?}");
        assert!(run.stderr.starts_with("error: stdout is closed"), "{words}: {run:?}");
        let left: Vec<_> = fs::read_dir(home.folder.path()).expect("is there").collect();
        assert!(left.is_empty(), "{words}: {left:?}");
    }
    let home = Home::new();
    for words in ["worker list", "worker leases", "segment list"] {
        home.run("segment create orders --step 10");
        home.run("generate --worker lease");
        let run = Run::of(&mut home.under_sh(&format!(r#"exec "$1" {words} >&-"#)));
        assert_eq!(run.status, Some(1), "{words}: {run:?}");
    }
}

#[test]
fn what_is_thrown_away_was_printed() {
    for redirection in [">/dev/null", "1<>/dev/null", "<&- >/dev/null", "2>&- >/dev/null"] {
        let home = Home::new();
        let script = format!(r#"exec "$1" generate -n 5000 {redirection}"#);
        let run = Run::of(&mut home.under_sh(&script));
        assert_eq!((run.status, &*run.stderr), (Some(0), ""), "{redirection}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_takes_nothing() {
    let home = Home::new();
    for words in ["--help", "help generate", "serve --help", "--version"] {
        let run = Run::of(&mut home.under_sh(&format!(r#"exec "$1" {words} >/dev/full"#)));
        assert_eq!(run.status, Some(1), "{run:?}");
        assert!(run.stderr.starts_with("error: writing the output: "), "{run:?}");
    }
    for words in ["generate", "generate -n 100000", "generate --generator leaf-snowflake -n 3"] {
        let run = Run::of(&mut home.under_sh(&format!(r#"exec "$1" {words} >/dev/full"#)));
        assert_eq!(run.status, Some(1), "{run:?}");
        assert!(run.stderr.starts_with("error: writing the output: "), "{run:?}");
        assert!(run.stderr.ends_with("; no id was printed\n"), "{run:?}");
    }
}

/// With a limit on its size, a file has exactly the ids reported as printed.
#[test]
fn a_disk_that_becomes_full_has_what_is_told() {
    for (blocks, format) in [(1, "dec"), (3, "base62"), (100, "dec"), (7, "json")] {
        let home = Home::new();
        let script = format!(
            r#"trap '' XFSZ; ulimit -f {blocks}; exec "$1" generate -u worker:5 -n 100000 --format {format} >ids"#
        );
        let run = Run::of(&mut home.under_sh(&script));
        assert_eq!(run.status, Some(1), "{run:?}");
        let text = fs::read_to_string(home.folder.path().join("ids")).expect("written");
        let whole = text.rfind('\n').expect("a line") + 1;
        let count = text[..whole].lines().count();
        let expected = format!("; {count} ids were printed, the last is ");
        assert!(run.stderr.contains(&expected), "{count} ids: {}", run.stderr);
        if format == "dec" {
            let lines: Vec<_> = text[..whole].lines().collect();
            assert!(run.stderr.ends_with(&format!("; {}\n", told(&lines))), "{}", run.stderr);
        }
    }
}

/// The layout ends after some ticks, before all ids are printed.
#[test]
fn ids_that_run_out_are_counted() {
    let now = SystemClock.now();
    let epoch = Timestamp::from_millis(now.as_millis() / 1_000 * 1_000 - 200_000);
    for sequence in [3, 10, 13] {
        let home = Home::new();
        let words = format!("generate -n 100000000 --layout 8/10/{sequence}/s/{epoch}");
        let run = home.run(&words);
        assert_eq!(run.status, Some(1), "{}", run.stderr);
        let lines: Vec<_> = run.stdout.lines().collect();
        assert!(run.stdout.ends_with('\n') && lines.len() > 50, "{}", lines.len());
        assert!(run.stderr.contains("the layout's time is over"), "{}", run.stderr);
        assert!(run.stderr.ends_with(&format!("; {}\n", told(&lines))), "{}", run.stderr);
    }
}

/// At four ids a second, each is printed at once instead of waiting for a large write.
#[test]
fn slow_ids_are_printed_when_they_are_there() {
    for generator in ["cached --max-borrow 0", "clock"] {
        for (name, number) in [("INT", 2), ("TERM", 15)] {
            let home = Home::new();
            let words =
                format!("generate -n 100000 --layout 40/10/2/s/2026-01-01 --generator {generator}");
            let mut child = home.command(&words).spawn().expect("starts");
            let mut output = BufReader::new(child.stdout.take().expect("piped"));
            let mut text = String::new();
            let start = Instant::now();
            // Use a thread, so that the test fails instead of hanging if no ids come.
            let text = thread::scope(|scope| {
                let reader = scope.spawn(|| {
                    for _ in 0..6 {
                        assert!(output.read_line(&mut text).expect("reads") > 0, "an end");
                    }
                    kill(&child, name);
                    output.read_to_string(&mut text).expect("reads");
                    text
                });
                while !reader.is_finished() {
                    if start.elapsed() > LIMIT {
                        kill(&child, "KILL");
                        panic!("no ids have come");
                    }
                    thread::sleep(Duration::from_millis(5));
                }
                reader.join().expect("no panic")
            });
            let status = wait(&mut child);
            assert_eq!(status.signal(), Some(number), "as if it had not been caught");
            let lines: Vec<_> = text.lines().collect();
            assert!(text.ends_with('\n') && lines.len() < 1_000, "{generator}: {}", lines.len());
            // Before that, the padder may have warned that it waits.
            let message = stderr(&mut child);
            assert!(message.ends_with(&format!("interrupted: {}\n", told(&lines))), "{message}");
        }
    }
}

/// All taken ids are printed and reported, even at full speed.
#[test]
fn who_is_told_to_end_prints_what_was_taken() {
    for words in [
        "generate -n 1000000000000",
        "generate -n 1000000000000 --generator snowflake",
        "generate -n 1000000000000 --worker lease",
        "generate -n 1000000000 --generator segment --tag orders",
    ] {
        let home = Home::new();
        home.run("segment create orders --step 1000");
        let mut child = home.command(words).spawn().expect("starts");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut text = String::new();
        for _ in 0..5_000 {
            output.read_line(&mut text).expect("reads");
        }
        kill(&child, "TERM");
        output.read_to_string(&mut text).expect("reads");
        assert_eq!(wait(&mut child).signal(), Some(15), "{words}");
        let lines: Vec<_> = text.lines().collect();
        assert!(text.ends_with('\n'), "{words}");
        // A note about a run of years comes first.
        let said = stderr(&mut child);
        assert!(said.ends_with(&format!("interrupted: {}\n", told(&lines))), "{words}: {said}");
    }
}

/// It waits for the clock, and holds a lease that would keep others out until it expires.
#[test]
fn a_start_that_waits_gives_its_worker_id_back() {
    let home = Home::new();
    // This borrows some minutes.
    home.run("generate --worker lease -n 2000000 -o ids");
    let serve = "serve --redis 0 --http none --thrift none --batch none";
    let serve = cfg!(feature = "server").then_some(serve);
    for command in ["generate -n 2"].into_iter().chain(serve) {
        for (name, number) in [("TERM", 15), ("INT", 2)] {
            let words = "--worker lease --max-borrow 0 -u sqlite:?lease=5m&max-start-wait=1h";
            let mut child = home.command(&format!("{command} {words}")).spawn().expect("starts");
            let mut said = BufReader::new(child.stderr.take().expect("piped"));
            let mut line = String::new();
            said.read_line(&mut line).expect("reads");
            assert!(line.contains("the start waits"), "{line}");
            assert!(home.stdout("worker leases").contains(" held "), "{command}");
            kill(&child, name);
            assert_eq!(wait(&mut child).signal(), Some(number), "{command}");
            assert!(home.stdout("worker leases").contains(" free "), "{command} {name}");
        }
    }
}

/// Covers every signal that ends a program.
#[cfg(target_os = "linux")]
#[test]
fn each_signal_leaves_whole_lines() {
    // The tests may run with some signals ignored, as under nohup.
    let script = r#"exec env --default-signal "$1" generate -n 1000000000000"#;
    for signal in [1, 2, 3, 10, 12, 14, 15, 24, 26, 27] {
        let home = Home::new();
        let mut child = home.under_sh(script).spawn().expect("starts");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut text = String::new();
        output.read_line(&mut text).expect("reads");
        kill(&child, &signal.to_string());
        output.read_to_string(&mut text).expect("reads");
        assert_eq!(wait(&mut child).signal(), Some(signal));
        assert!(text.ends_with('\n'), "{signal}");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(stderr(&mut child), format!("interrupted: {}\n", told(&lines)), "{signal}");
    }
}

/// Exceeding the size limit is a write error, and does not kill the program.
#[test]
fn a_file_that_may_not_grow_has_what_is_told() {
    let home = Home::new();
    let script = r#"ulimit -f 8; exec "$1" generate -u worker:5 -n 100000 -o ids"#;
    let run = Run::of(&mut home.under_sh(script));
    assert_eq!(run.status, Some(1), "{run:?}");
    let text = fs::read_to_string(home.folder.path().join("ids")).expect("written");
    let count = text.lines().count();
    assert!(text.ends_with('\n') && count > 100, "{count}");
    assert!(run.stderr.contains(&format!("; {count} ids are safe in ids")), "{}", run.stderr);
}

#[test]
fn a_reader_that_does_not_read_holds_up_no_end() {
    let home = Home::new();
    for name in ["TERM", "INT"] {
        let mut child = home.command("generate -n 1000000000").spawn().expect("starts");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut text = String::new();
        output.read_line(&mut text).expect("reads");
        // Time to fill the pipe. The test is right even if it is not full yet.
        thread::sleep(Duration::from_millis(200));
        kill(&child, name);
        assert!(wait(&mut child).signal().is_some());
        output.read_to_string(&mut text).expect("reads");
        let message = stderr(&mut child);
        let count: usize = message
            .strip_prefix("interrupted: ")
            .and_then(|rest| rest.split(' ').next())
            .and_then(|count| count.parse().ok())
            .unwrap_or_else(|| panic!("{message}"));
        let whole = text.matches('\n').count();
        assert!(count > 0 && count <= whole, "{count} told, {whole} there");
    }
}

/// A shell starts background jobs with signals ignored.
#[cfg(target_os = "linux")]
#[test]
fn an_ignored_signal_stays_ignored() {
    let home = Home::new();
    let script = r#"trap '' INT HUP; exec "$1" generate -n 1000000000000"#;
    let mut child = home.under_sh(script).spawn().expect("starts");
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    output.read_line(&mut line).expect("reads");
    kill(&child, "INT");
    kill(&child, "HUP");
    let mut chunk = vec![0; 1 << 20];
    for _ in 0..5 {
        output.read_exact(&mut chunk).expect("it goes on");
    }
    kill(&child, "TERM");
    output.read_to_end(&mut chunk).expect("reads");
    assert_eq!(wait(&mut child).signal(), Some(15));
}

/// The kernel delivers only handled signals to the first process of a container.
#[cfg(all(feature = "server", feature = "postgres", target_os = "linux"))]
#[test]
fn the_first_process_of_a_container_ends_at_a_signal_while_it_waits() {
    use std::net::TcpListener;

    let home = Home::new();
    let lease = "--layout 31/1/21 --worker lease -u sqlite:a.db?mode=rwc";
    let mut holder =
        home.command(&format!("generate {lease} -n 1000000000")).spawn().expect("starts");
    let mut first = [0];
    holder.stdout.as_mut().expect("piped").read_exact(&mut first).expect("an id");
    // A permanently locked file, and a database that accepts connections and says nothing.
    home.run("worker init -u sqlite:locked.db");
    let lock = rusqlite::Connection::open(home.folder.path().join("locked.db")).expect("opens");
    lock.execute_batch("BEGIN IMMEDIATE").expect("locks");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = silent.local_addr().expect("bound");
    let database = format!("-u postgres://u:p@{silent}/d?deadline=1h");
    for command in ["generate", "serve --redis 0 --http none --thrift none --batch none"] {
        for waits in [&format!("{lease}&lease-wait=1h"), "-u sqlite:locked.db", &database] {
            for (name, number) in [("TERM", 15), ("INT", 2), ("USR2", 12)] {
                let program = home.command(&format!("{command} {waits}"));
                let mut waits = as_first_process(&home, &program).spawn().expect("starts");
                let pid = caught_by(&waits);
                let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status();
                assert!(sent.is_ok_and(|status| status.success()));
                assert_eq!(wait(&mut waits).code(), Some(128 + number), "{command} {name}");
            }
        }
    }
    kill(&holder, "KILL");
    holder.wait().expect("ends");
}

#[cfg(all(feature = "server", feature = "postgres", target_os = "linux"))]
fn as_first_process(home: &Home, program: &Command) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"]);
    command.arg(program.get_program()).args(program.get_args());
    command.current_dir(home.folder.path()).env("HOME", home.folder.path());
    command.env("XDG_DATA_HOME", home.folder.path()).stderr(std::process::Stdio::null());
    command
}

/// Returns the process id of the child's child, once it handles signals to end.
#[cfg(all(feature = "server", feature = "postgres", target_os = "linux"))]
fn caught_by(child: &Child) -> String {
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let begin = Instant::now();
    loop {
        let pid = fs::read_to_string(&children).expect("Linux").trim().to_owned();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.map_or(0, |mask| u64::from_str_radix(mask.trim(), 16).expect("hex"));
        if [15, 2, 12].into_iter().all(|signal| caught >> (signal - 1) & 1 == 1) {
            return pid;
        }
        assert!(begin.elapsed() < LIMIT, "it does not catch the signal: {status}");
        thread::sleep(Duration::from_millis(5));
    }
}
