//! Worker ids from pods' ordinals, with a file on a volume: `--worker ordinal`.

use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use uidring::{Bits, Layout, Tick, Uid};

use crate::serve::{REDIS, Server, ask, ids};
use crate::support::{Home, Run};

/// With four uids a tick, generators borrow seconds, so a start at the clock would repeat uids.
const LAYOUT: &str = "--layout 41/16/2/ms/2026-01-01";

fn layout() -> Layout {
    let bits = Bits { time: 41, worker: 16, sequence: 2 };
    Layout::new(bits, Tick::Millisecond, "2026-01-01".parse().expect("a time")).expect("possible")
}

/// Returns a folder on a disk, unlike `/tmp`, which may be in memory.
fn volume() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

/// Returns the program as the pod with this ordinal and volume. `options` follow in the URL, each after a `&`.
fn pod(home: &Home, ordinal: &str, volume: &Path, words: &str, options: &str) -> Command {
    let mut command = home.command(words);
    let url = format!("sqlite:{}?mode=rwc{options}", volume.join("uidring.db").display());
    command.args(["--worker", "ordinal", "-u", &url]);
    command.env("UIDRING_ORDINAL", ordinal);
    command
}

fn uids(text: &str) -> Vec<Uid> {
    text.lines().map(|line| line.parse().expect("a uid")).collect()
}

fn worker_of(uid: &Uid) -> u64 {
    layout().decode(*uid).expect("ours").worker_id
}

fn refused(command: &mut Command, status: i32, words: &[&str]) {
    let run = Run::of(command);
    assert_eq!((run.status, &*run.stdout), (Some(status), ""), "{run:?}");
    for word in words {
        assert!(run.stderr.contains(word), "{word}: {}", run.stderr);
    }
}

fn kill(child: &Child, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
}

#[test]
fn a_pod_has_one_worker_id_over_all_starts() {
    let (home, volume) = (Home::new(), volume());
    let words = format!("generate {LAYOUT} -n 100");
    let mut all = Vec::new();
    for number in 0..20 {
        let mut command = pod(&home, "3", volume.path(), &words, "&ordinal-offset=40");
        // From the label, or from the host name.
        if number % 2 == 1 {
            command.env_remove("UIDRING_ORDINAL").env("HOSTNAME", "app-3.app.shop.svc");
        }
        let run = Run::of(&mut command);
        assert_eq!((run.status, &*run.stderr), (Some(0), ""));
        all.extend(uids(&run.stdout));
    }
    assert_eq!(all.len(), 2_000);
    assert!(all.iter().all(|uid| worker_of(uid) == 43));
    assert!(all.is_sorted_by(|a, b| a < b), "nothing twice, and in order over all starts");
    let list =
        format!("worker leases --json -u sqlite:{}", volume.path().join("uidring.db").display());
    let rows: serde_json::Value = serde_json::from_str(&home.stdout(&list)).expect("JSON");
    assert_eq!((rows.as_array().map(Vec::len), &rows[0]["worker_id"]), (Some(1), &43.into()));
    assert_eq!(rows[0]["state"], "free");
}

#[test]
fn the_file_is_for_one_worker_id_and_nothing_else() {
    let (home, volume) = (Home::new(), volume());
    let words = format!("generate {LAYOUT}");
    assert_eq!(Run::of(&mut pod(&home, "0", volume.path(), &words, "")).status, Some(0));
    refused(
        &mut pod(&home, "1", volume.path(), &words, ""),
        1,
        &["worker id 0 alone", "worker id 1"],
    );
    refused(&mut pod(&home, "0", volume.path(), "generate", ""), 1, &["41/16/2", "28/22/13"]);
    let file = volume.path().join("uidring.db");
    for (words, wanted) in [
        ("worker assign", "no other worker ids"),
        ("generate", "no other worker ids"),
        ("segment create orders --step 5", "no segments"),
    ] {
        let words = format!("{words} -u sqlite:{}?mode=rwc", file.display());
        refused(&mut home.command(&words), 1, &["worker id 0 alone", wanted]);
    }
    // A lease is allowed: it gets the same row by the same protocol.
    let words = format!("generate {LAYOUT} --worker lease -u sqlite:{}?mode=rwc", file.display());
    assert_eq!(uids(&home.stdout(&words)).iter().map(worker_of).collect::<Vec<_>>(), [0]);

    for words in ["worker assign", "segment create orders --step 5"] {
        let other = self::volume();
        let used =
            format!("{words} -u sqlite:{}?mode=rwc", other.path().join("uidring.db").display());
        assert_eq!(home.run(&used).status, Some(0));
        let mut command = pod(&home, "0", other.path(), "generate", "");
        refused(&mut command, 1, &["no file for an ordinal", "another file"]);
    }
    let examine = |ordinal: &str, options: &str| {
        let url = format!("sqlite:{}?worker=ordinal{options}", file.display());
        let mut command = home.command("doctor");
        Run::of(command.arg(url).env("UIDRING_ORDINAL", ordinal))
    };
    let layout = "&layout=41/16/2/ms/2026-01-01";
    for (ordinal, options, words) in [
        ("1", layout, "it is for worker id 0 alone"),
        ("0", "", "its leases are for layout 41/16/2"),
        ("x", layout, "UIDRING_ORDINAL"),
    ] {
        let run = examine(ordinal, options);
        assert!(run.status == Some(1) && run.stdout.contains(words), "{words}: {run:?}");
    }
    let run = examine("0", layout);
    assert_eq!(run.status, Some(0), "{run:?}");
    let both = format!(
        "doctor sqlite:{0}?worker=ordinal{layout} worker:0?{1}",
        file.display(),
        &layout[1..]
    );
    let run = Run::of(home.command(&both).env("UIDRING_ORDINAL", "0"));
    assert!(run.stdout.contains("both hand out worker id 0 of"), "{run:?}");
    let run = Run::of(home.command(&both).env("UIDRING_ORDINAL", "5").env("HOSTNAME", "x"));
    assert!(run.stdout.contains("fix"), "of another ordinal: {run:?}");

    let connection = rusqlite::Connection::open(&file).expect("opens");
    connection.execute("DELETE FROM UIDRING_LEASE", []).expect("deletes");
    drop(connection);
    let words = format!("generate {LAYOUT}");
    refused(&mut pod(&home, "0", volume.path(), &words, ""), 1, &["damaged", "0 rows"]);
}

#[test]
fn flags_and_variables_that_are_wrong() {
    let home = Home::new();
    let check = |ordinal: Option<&str>, host: &str, words: &str, expected: &[&str]| {
        for command in ["generate", "serve --check"] {
            let mut command = home.command(&format!("{command} {words}"));
            command.env("HOSTNAME", host);
            if let Some(ordinal) = ordinal {
                command.env("UIDRING_ORDINAL", ordinal);
            }
            refused(&mut command, 2, expected);
        }
    };
    let words = "--worker ordinal -u sqlite:a.db?mode=rwc";
    check(None, "app-7d4b9c-x2k4n", words, &["app-7d4b9c-x2k4n", "pod-index"]);
    check(None, "", words, &["neither UIDRING_ORDINAL nor HOSTNAME"]);
    check(Some("x"), "app-3", words, &["UIDRING_ORDINAL holds `x`"]);
    check(Some("0"), "", "--worker ordinal", &["name a file on the pod's volume"]);
    check(Some("0"), "", "--worker ordinal -u mysql://u@h/d", &["no worker ids of ordinals"]);
    check(Some("0"), "", "--worker ordinal -u worker:5", &["--worker is not for worker:N"]);
    check(
        Some("0"),
        "",
        &format!("{words} --start-after 5"),
        &["--start-after and start_after are for worker:N"],
    );
    check(Some("0"), "", &format!("{words}&cluster=no"), &["SQLite has no parameter `cluster`"]);
    for worker in ["disposable", "lease"] {
        let words = format!("-u sqlite:a.db?ordinal-offset=5&worker={worker}");
        let said = format!("`ordinal-offset` is not for worker={worker}");
        check(Some("0"), "", &words, &[&said]);
    }
    for (ordinal, offset) in [("65536", "0"), ("1", "65535"), ("5", "18446744073709551615")] {
        let words = format!("{words}&ordinal-offset={offset} {LAYOUT}");
        check(Some(ordinal), "", &words, &["ordinal-offset", "41/16/2", "0 to 65535"]);
    }
    let mut segments = home.command("generate --tag a --worker ordinal");
    refused(&mut segments, 2, &["--worker is not for generator=segment"]);
    assert!(!home.folder.path().join("a.db").exists());
}

/// A pod deleted by force may live on. The new one waits, and says for whom.
#[test]
fn a_twin_is_refused_while_the_other_lives() {
    let (home, volume) = (Home::new(), volume());
    let words = format!("generate {LAYOUT} -n 1000000000000");
    let mut first = pod(&home, "5", volume.path(), &words, "&lease=5s").spawn().expect("starts");
    let mut output = first.stdout.take().expect("piped");
    output.read_exact(&mut [0; 1_000]).expect("uids");
    let reader = thread::spawn(move || output.read_to_end(&mut Vec::new()));
    let begin = Instant::now();
    refused(
        &mut pod(&home, "5", volume.path(), &words, "&lease=5s"),
        1,
        &["waiting for a worker id until ", "worker id 5 is held by", "which is alive"],
    );
    assert!(begin.elapsed() >= Duration::from_secs(10), "a lease, and a bit more");
    assert!(first.try_wait().expect("ours").is_none(), "it is not disturbed");
    kill(&first, "KILL");
    first.wait().expect("ends");
    reader.join().expect("no panic").expect("reads");
}

#[test]
fn a_pod_that_was_killed_goes_on_above() {
    let (home, volume) = (Home::new(), volume());
    // The lease is longer than a process waits for a processor, so it is not lost.
    let words = format!("generate {LAYOUT} -n");
    let mut all: Vec<Uid> = Vec::new();
    for generator in ["clock", "cached", "cached"] {
        let forever = format!("{words} 1000000000000 --generator {generator}");
        let mut child =
            pod(&home, "0", volume.path(), &forever, "&lease=4s").spawn().expect("starts");
        let mut output = child.stdout.take().expect("piped");
        let mut bytes = vec![0; 100_000];
        if let Err(error) = output.read_exact(&mut bytes) {
            panic!("{error}: {:?}", child.wait_with_output());
        }
        kill(&child, "KILL");
        output.read_to_end(&mut bytes).expect("reads");
        child.wait().expect("ends");
        // The last line may be cut off.
        let end = bytes.iter().rposition(|byte| *byte == b'\n').expect("a line");
        let lot = uids(std::str::from_utf8(&bytes[..end]).expect("digits"));
        assert!(all.last() < lot.first(), "it begins above the last");
        all.extend(lot);
    }
    assert!(all.is_sorted_by(|a, b| a < b));
    assert!(all.iter().all(|uid| worker_of(uid) == 0));
}

/// Pods of one ordinal are stopped while the next takes over, as on a node that does not answer, and continue when it
/// has been issuing for long.
#[cfg(target_os = "linux")]
#[test]
fn pods_that_come_back_repeat_nothing() {
    let (home, volume) = (Home::new(), volume());
    let words = format!("{REDIS} --wait 30 {LAYOUT}");
    let options = "&lease=4s&lease-wait=60s";
    let start = || Server::start(&mut pod(&home, "3", volume.path(), &words, options));
    let mut all: Vec<u64> = Vec::new();
    let mut standing: Vec<(Server, _)> = Vec::new();
    for _ in 0..4 {
        let server = start();
        assert!(server.said.contains("worker id 3 from the ordinal"), "{}", server.said);
        let mut client = server.client().expect("it listens");
        let lot: Vec<u64> = ids(&ask(&mut client, "INCR uid", 8_000)).collect();
        assert_eq!(lot.len(), 8_000);
        assert!(all.iter().max() < lot.iter().min(), "it begins above all before");
        all.extend(lot);
        server.stand_still();
        standing.push((server, client));
    }
    let last = start();
    all.extend(ids(&last.ask("INCR uid", 2_000)));
    for (server, client) in &mut standing {
        server.signal(18);
        let late = ask(client, "INCR uid", 2_000);
        // Without a lease, the server ends.
        let is_lost = |last: &String| last.starts_with("-ERR the lease of the worker id is lost");
        assert!(late.len() < 2_000 || late.last().is_some_and(is_lost), "{:?}", late.last());
        all.extend(ids(&late));
        all.extend(ids(&last.ask("INCR uid", 2_000)));
    }
    let distinct: HashSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "an id came twice");
    assert!(all.len() >= 42_000, "{}", all.len());
}

/// Pods of one ordinal are killed, deleted, stopped and continued at random.
#[test]
fn a_storm_over_one_volume_repeats_nothing() {
    let (home, volume) = (Home::new(), volume());
    let seconds =
        std::env::var("UIDRING_TORTURE").map_or(12, |text| text.parse().expect("seconds"));
    let end = Instant::now() + Duration::from_secs(seconds);
    let words = format!("generate {LAYOUT} --max-borrow 5 -n 1000000000000");
    let options = "&lease=1s&lease-wait=30s";
    let live = || {
        let mut all = Vec::new();
        while Instant::now() < end {
            let mut child =
                pod(&home, "7", volume.path(), &words, options).spawn().expect("starts");
            let output = child.stdout.take().expect("piped");
            thread::scope(|scope| {
                let reader = scope.spawn(move || read(output));
                while child.try_wait().expect("ours").is_none() {
                    thread::sleep(Duration::from_millis(fastrand::u64(100..1_500)));
                    match fastrand::u8(..8) {
                        _ if Instant::now() >= end => kill(&child, "KILL"),
                        0 => kill(&child, "KILL"),
                        1 => kill(&child, "TERM"),
                        2..=4 => {
                            kill(&child, "STOP");
                            thread::sleep(Duration::from_millis(fastrand::u64(100..2_500)));
                            kill(&child, "CONT");
                        }
                        _ => {}
                    }
                }
                all.extend(reader.join().expect("no panic"));
            });
        }
        all
    };
    let mut all: Vec<u64> = thread::scope(|scope| {
        let slots: Vec<_> = (0..4).map(|_| scope.spawn(live)).collect();
        slots.into_iter().flat_map(|slot| slot.join().expect("no panic")).collect()
    });
    assert!(all.len() > 1_000, "{}", all.len());
    all.sort_unstable();
    let twice = all.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert_eq!(twice, 0, "uids that came twice, of {}", all.len());
}

/// Reads slowly what a process prints until it ends.
fn read(mut output: impl Read) -> Vec<u64> {
    let (mut uids, mut rest, mut buffer) = (Vec::new(), Vec::new(), vec![0; 1 << 14]);
    loop {
        let count = output.read(&mut buffer).expect("reads");
        if count == 0 {
            return uids;
        }
        rest.extend_from_slice(&buffer[..count]);
        let end = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let text = std::str::from_utf8(&rest[..end]).expect("digits");
        uids.extend(text.lines().map(|line| line.parse::<u64>().expect("a uid")));
        rest.drain(..end);
        thread::sleep(Duration::from_millis(10));
    }
}

/// The mounts of a container: an overlay root, a volume, an `emptyDir`, and a file system in memory.
#[cfg(target_os = "linux")]
const CONTAINER: &str = r#"
set -e
cd "$2"
mkdir -p lower upper work root disk 'pods/0a/volumes/kubernetes.io~empty-dir/x'
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work root
for folder in usr lib lib64 proc; do
    if [ -L /$folder ]; then
        ln -sfn "$(readlink /$folder)" root/$folder
    elif [ -d /$folder ]; then
        mkdir -p root/$folder
        mount --rbind /$folder root/$folder
    fi
done
cp "$1" root/uidring
mkdir -p root/data root/scratch root/memory root/home
mount --bind disk root/data
mount --bind 'pods/0a/volumes/kubernetes.io~empty-dir/x' root/scratch
mount -t tmpfs tmpfs root/memory
shift 2
exec chroot root /uidring "$@"
"#;

/// With the mounts of a real container, of which only the volume stays.
#[cfg(target_os = "linux")]
#[test]
fn a_container_keeps_files_on_volumes_alone() {
    let (home, folder) = (Home::new(), volume());
    let run = |words: &str| {
        let program = home.command("");
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "sh", "-c", CONTAINER, "sh"]);
        command.arg(program.get_program()).arg(folder.path()).args(words.split_whitespace());
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/home");
        command.env("KUBERNETES_SERVICE_HOST", "10.0.0.1").env("UIDRING_ORDINAL", "3");
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        Run::of(&mut command)
    };
    for words in
        ["worker assign", "generate", "generate --worker lease", "generate --worker ordinal"]
    {
        for (place, expected) in
            [("home", "overlay"), ("scratch", "emptyDir"), ("memory/a/b", "in memory (tmpfs)")]
        {
            let run = run(&format!("{words} -u sqlite:/{place}/a.db?mode=rwc"));
            assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{words} {place}: {run:?}");
            assert!(run.stderr.contains(expected), "{words} {place}: {run:?}");
            assert!(run.stderr.contains("volume"), "{words} {place}: {run:?}");
        }
        let name = words.replace(' ', "-");
        let run = run(&format!("{words} -u sqlite:/data/{name}.db?mode=rwc"));
        assert_eq!((run.status, &*run.stderr), (Some(0), ""), "{words}: {run:?}");
        assert!(folder.path().join(format!("disk/{name}.db")).exists());
    }
    // The default file, and segments.
    for words in ["generate", "worker assign", "segment create orders --step 5"] {
        let run = run(words);
        assert_eq!((run.status, &*run.stdout), (Some(1), ""), "{run:?}");
        for part in ["overlay", "KUBERNETES_SERVICE_HOST", "mount a volume", "UIDRING_CONTAINER=0"]
        {
            assert!(run.stderr.contains(part), "{part}: {run:?}");
        }
    }
    assert!(
        !fs::exists(folder.path().join("upper/home/.local")).expect("known"),
        "nothing is made"
    );
}
