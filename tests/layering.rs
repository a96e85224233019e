//! Holds the code to the map of docs/architecture.md: who may import whom, and which outside
//! parts may be named where.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A room (a file or folder right below `src`) and the rooms that it may import.
const ROOMS: &[(&str, &[&str])] = &[
    ("uid", &[]),
    ("sync", &[]),
    ("timestamp", &[]),
    ("error", &["sync", "timestamp"]),
    ("layout", &["error", "timestamp", "uid"]),
    ("clock", &["sync", "timestamp"]),
    ("policy", &["clock", "error", "sync"]),
    ("ring", &["error", "policy", "sync"]),
    ("padding", &["clock", "error", "ring", "sync"]),
    (
        "generator",
        &[
            "clock",
            "error",
            "layout",
            "padding",
            "policy",
            "ring",
            "sync",
            "timestamp",
            "uid",
            "worker",
        ],
    ),
    ("segment", &["clock", "error", "policy", "sync", "timestamp"]),
    ("metrics", &["generator", "segment"]),
    ("model", &["generator"]),
    ("worker", &["clock", "error", "layout", "sync", "uid"]),
    ("store", &["clock", "error", "layout", "segment", "sync", "timestamp", "uid", "worker"]),
    // The program uses the library as any other user does: through `uidring::`.
    ("cli", &["cli"]),
];

/// Words and the only rooms that may hold them.
const RESERVED: &[(&str, &[&str])] = &[
    ("std::sync::atomic", &["sync"]),
    // A lock is a `ForkGuarded`, or lies in an `Event`: a forked child does not touch it.
    ("Mutex", &["sync"]),
    ("Condvar", &["sync"]),
    ("RwLock", &["sync"]),
    ("Barrier", &["sync"]),
    ("LazyLock", &["sync"]),
    // So that a record is written with no lock held, and a clock is read so: `sync::log`, `clock::read`.
    ("tracing::", &["sync", "cli"]),
    // So that a panic of a caller's code goes no further, whatever it is with: `sync::contained`.
    ("catch_unwind", &["sync"]),
    ("clock.now()", &["clock"]),
    ("loom::", &["sync"]),
    ("SystemTime::now", &["clock"]),
    ("Instant::now", &["clock"]),
    (".elapsed()", &["clock"]),
    ("rusqlite", &["store"]),
    ("dirs::", &["store"]),
    ("mysql_async", &["store"]),
    ("zookeeper_client::", &["store"]),
    ("rustls::", &["store"]),
    ("tokio", &["store"]),
    ("clap", &["cli"]),
    ("indicatif", &["cli"]),
    ("metrics::", &["metrics"]),
    ("core_affinity", &["padding"]),
    // See also the lint `unsafe_code`.
    ("unsafe ", &["sync"]),
    ("libc::", &["sync"]),
    ("signal_hook", &["cli"]),
];

#[test]
fn rooms_import_only_what_the_map_allows() {
    let allowed: BTreeMap<_, _> = ROOMS.iter().copied().collect();
    // The model of leases, which is a test, has the stores' own code in it.
    let mut wrong = Vec::new();
    for (room, path, code) in source_lines() {
        let Some(allowed) = allowed.get(room.as_str()) else {
            panic!("{}: the room `{room}` is not on the map", path.display());
        };
        for import in code.split("crate::").skip(1) {
            let name = import.split(|c: char| !c.is_alphanumeric() && c != '_').next();
            let name = name.unwrap_or_default();
            let is_model = path.starts_with("generator/lease_model") && name == "store";
            if name != room && !allowed.contains(&name) && !is_model {
                wrong.push(format!("{}: {code}", path.display()));
            }
        }
        if code.contains("super::super") {
            wrong.push(format!("{}: climbs out of sight: {code}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "imports against the map:\n{}", wrong.join("\n"));
}

#[test]
fn outside_parts_stay_in_their_rooms() {
    let mut wrong = Vec::new();
    for (room, path, code) in source_lines() {
        for (word, rooms) in RESERVED {
            if code.contains(word) && !rooms.contains(&room.as_str()) {
                let known = EXCEPTIONS.iter().any(|(file, w)| path.ends_with(file) && w == word);
                if !known {
                    wrong.push(format!("{}: `{word}` in: {code}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "outside parts in the wrong room:\n{}", wrong.join("\n"));
}

/// Words that these files may hold in spite of the map.
const EXCEPTIONS: &[(&str, &str)] = &[
    // Tests.
    ("generator/simulation.rs", "catch_unwind"),
    ("generator/lease_model/histories.rs", "catch_unwind"),
    ("generator/lease_model/zookeeper.rs", "catch_unwind"),
    ("padding/thread.rs", "catch_unwind"),
    // Models of what is not public.
    ("ring/models.rs", "loom::"),
    ("segment/tag/models.rs", "loom::"),
    ("padding/models.rs", "loom::"),
    // A simulation in one thread, for tests alone.
    ("generator/lease_model.rs", "Mutex"),
    ("generator/lease_model/zookeeper.rs", "Mutex"),
    ("generator/simulation.rs", "clock.now()"),
    ("store/sqlite/virtual_time.rs", "clock.now()"),
    // Where those who measure wait for each other.
    ("cli/bench/threads.rs", "RwLock"),
    // What was printed, for the thread that is told to end the program.
    ("cli/output.rs", "Mutex"),
    // A stopwatch of the clock's.
    ("policy.rs", ".elapsed()"),
    ("store/zookeeper/original.rs", ".elapsed()"),
    ("store/mysql/session.rs", ".elapsed()"),
    // Measuring time is what `uidring bench` is for, and it must measure as the library's users
    // would: with the system's clock, and against a bare atomic, not against the library's own.
    ("cli/bench/contestant.rs", "Instant::now"),
    ("cli/bench/contestant.rs", ".elapsed()"),
    ("cli/bench/measure.rs", "Instant::now"),
    ("cli/bench/threads.rs", "Instant::now"),
    ("cli/bench/takers.rs", "std::sync::atomic"),
    ("cli/bench.rs", "std::sync::atomic"),
    // Its takers are threads of its own, which it pins where the user wants that.
    ("cli/bench/threads.rs", "core_affinity"),
    ("cli/bench.rs", "core_affinity"),
];

/// Every line of code below `src`, without comments, with its room and file.
fn source_lines() -> Vec<(String, PathBuf, String)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut lines = Vec::new();
    let mut folders = vec![source.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let inside = path.strip_prefix(&source).expect("below src").to_path_buf();
            let room = match inside.components().next().map(|c| c.as_os_str().to_string_lossy()) {
                Some(name) if name == "main.rs" => "cli".to_owned(),
                // The crate's root names every room.
                Some(name) if name == "lib.rs" => continue,
                Some(name) => name.trim_end_matches(".rs").to_owned(),
                None => continue,
            };
            let text = fs::read_to_string(&path).expect("a text");
            for line in text.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
                lines.push((room.clone(), inside.clone(), line.to_owned()));
            }
        }
    }
    assert!(lines.len() > 1_000, "the sources were found");
    lines
}
