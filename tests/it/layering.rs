//! Holds the code to the map in docs/architecture.md: which parts may import which, and where outside names may appear.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Each room (a file or folder directly below `src`), with the rooms that it may import.
const ROOMS: &[(&str, &[&str])] = &[
    ("text", &[]),
    ("chain", &["text"]),
    ("uid", &["chain"]),
    ("sync", &[]),
    ("serde_forms", &["uid"]),
    ("timestamp", &["chain", "serde_forms"]),
    ("error", &["chain", "sync", "timestamp", "uid"]),
    ("layout", &["error", "serde_forms", "timestamp", "uid"]),
    ("clock", &["sync", "timestamp"]),
    ("policy", &["clock", "error", "sync"]),
    ("future", &["clock", "error", "policy", "sync"]),
    ("waiting", &["error", "future", "policy", "sync"]),
    ("ring", &["error", "policy", "sync"]),
    ("padding", &["clock", "error", "ring", "sync"]),
    (
        "generator",
        &[
            "clock",
            "error",
            "future",
            "layout",
            "padding",
            "policy",
            "ring",
            "serde_forms",
            "sync",
            "timestamp",
            "uid",
            "waiting",
            "worker",
        ],
    ),
    ("segment", &["clock", "error", "future", "policy", "sync", "timestamp", "waiting"]),
    ("unwind_safe", &["clock", "generator", "padding", "ring", "segment"]),
    ("metrics_facade", &["generator", "segment", "worker"]),
    ("adapter", &["clock", "error", "future", "sync", "text"]),
    (
        "worker",
        &["clock", "error", "future", "layout", "serde_forms", "sync", "text", "timestamp", "uid"],
    ),
];

/// Words, and the only rooms that may contain them.
const RESERVED: &[(&str, &[&str])] = &[
    ("std::sync::atomic", &["sync"]),
    // Locks must be in a `ForkGuarded` or an `Event`, which a forked child does not touch.
    ("Mutex", &["sync"]),
    ("Condvar", &["sync"]),
    ("RwLock", &["sync"]),
    ("Barrier", &["sync"]),
    ("LazyLock", &["sync"]),
    // `sync::log` and `clock::read` write records and read clocks without a lock held.
    ("tracing::", &["adapter", "sync"]),
    // `sync::contained` stops all panics of the caller's code.
    ("catch_unwind", &["sync"]),
    ("clock.now()", &["clock"]),
    ("loom::", &["sync"]),
    ("SystemTime::now", &["clock"]),
    ("Instant::now", &["clock"]),
    (".elapsed()", &["clock"]),
    ("metrics::", &["metrics_facade"]),
    ("core_affinity", &["padding"]),
    // See also the lint `unsafe_code`.
    ("unsafe ", &["sync"]),
    ("libc::", &["sync"]),
];

#[test]
fn rooms_import_only_what_the_map_allows() {
    let allowed: BTreeMap<_, _> = ROOMS.iter().copied().collect();
    let mut wrong = Vec::new();
    for (room, path, code) in source_lines() {
        let Some(allowed) = allowed.get(room.as_str()) else {
            panic!("{}: the room `{room}` is not on the map", path.display());
        };
        for import in code.split("crate::").skip(1) {
            let name = import.split(|c: char| !c.is_alphanumeric() && c != '_').next();
            let name = name.unwrap_or_default();
            if name != room && !allowed.contains(&name) {
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

/// Words that these files may contain despite the map.
const EXCEPTIONS: &[(&str, &str)] = &[
    // Tests.
    ("padding/thread.rs", "catch_unwind"),
    ("ring/tests.rs", "Instant::now"),
    // Models of internals.
    ("ring/models.rs", "loom::"),
    ("ring/death_models.rs", "loom::"),
    ("ring/death_models.rs", "std::sync::atomic"),
    ("ring/hostile_models.rs", "loom::"),
    ("generator/task_models.rs", "loom::"),
    ("generator/shared_ring/caller_models.rs", "loom::"),
    ("future/models.rs", "loom::"),
    ("future/models.rs", "Mutex"),
    ("future/models.rs", "Condvar"),
    ("segment/tag/models.rs", "loom::"),
    ("padding/models.rs", "loom::"),
    // The clock's stopwatch.
    ("policy.rs", ".elapsed()"),
    ("padding/pad_state.rs", ".elapsed()"),
];

/// Returns each line of code below `src` without comments, with its room and file.
fn source_lines() -> Vec<(String, PathBuf, String)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut lines = Vec::new();
    for (path, line) in lines_below(&source) {
        let inside = path.strip_prefix(&source).expect("below src").to_path_buf();
        let room = match inside.components().next().map(|c| c.as_os_str().to_string_lossy()) {
            // The crate's root names every room.
            Some(name) if name == "lib.rs" => continue,
            Some(name) => name.trim_end_matches(".rs").to_owned(),
            None => continue,
        };
        lines.push((room, inside, line));
    }
    lines
}

/// Returns each line of code in a folder, without comments.
fn lines_below(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut lines = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).expect("a text");
            for line in text.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
                lines.push((path.clone(), line.to_owned()));
            }
        }
    }
    assert!(lines.len() > 100, "the sources were found");
    lines
}

/// Returns the folder of sources of each crate.
pub(crate) fn crate_sources() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = fs::read_dir(root.join("crates")).expect("a folder of crates");
    let crates = crates.map(|entry| entry.expect("an entry").path().join("src"));
    crates.chain([root.join("src")]).collect()
}

/// What the store crates leave to the core, with exceptions by file. They run on the core's threads and across forks,
/// too.
const LEFT_TO_THE_CORE: &[(&str, &[&str])] = &[
    ("std::sync::atomic", &["sqlite/src/forked.rs", "sqlite/src/names.rs"]),
    // Warnings that were told.
    ("Mutex", &["store/src/warn_once.rs"]),
    ("Condvar", &[]),
    ("RwLock", &[]),
    ("tracing::", &[]),
    ("catch_unwind", &[]),
    ("clock.now()", &[]),
    ("SystemTime::now", &[]),
    ("Instant::now", &[]),
    // The clock's stopwatch.
    (".elapsed()", &["store/src/server/connection.rs"]),
    ("unsafe ", &[]),
    // A flag for open.
    ("libc::", &["store/src/files.rs"]),
];

#[test]
fn stores_leave_locks_time_and_the_log_to_the_core() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    let mut wrong = Vec::new();
    let any = fs::read_to_string(crates.join("any/Cargo.toml")).expect("a manifest");
    let engines = any.split("[\"dep:uidring-").skip(1).filter_map(|rest| rest.split('"').next());
    let stores: Vec<_> =
        engines.chain(["store"]).map(|name| crates.join(name).join("src")).collect();
    assert!(stores.len() > 3, "the engines were found");
    for source in stores {
        for (path, code) in lines_below(&source) {
            let path = path.strip_prefix(&crates).expect("below crates");
            for (word, files) in LEFT_TO_THE_CORE {
                if code.contains(word) && !files.iter().any(|file| path == Path::new(file)) {
                    wrong.push(format!("{}: `{word}` in: {code}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "to be left to the core:\n{}", wrong.join("\n"));
}

/// A `main` that returns an error prints its `Debug`, so errors do not derive it.
#[test]
fn errors_print_their_text_as_debug() {
    let mut errors = 0;
    for folder in crate_sources() {
        let lines = lines_below(&folder);
        for (index, (path, derive)) in lines.iter().enumerate() {
            if !derive.starts_with("#[derive(") || !derive.contains("thiserror::Error") {
                continue;
            }
            let items = ["pub ", "pub(", "struct ", "enum "];
            let item =
                lines[index..].iter().find(|(_, line)| items.iter().any(|i| line.starts_with(i)));
            // Tests have private errors.
            if item.is_some_and(|(_, item)| item.starts_with("pub ")) {
                assert!(!derive.contains("Debug"), "{}: {derive}", path.display());
                errors += 1;
            }
        }
    }
    assert!(errors > 15, "{errors} errors were found");
}
