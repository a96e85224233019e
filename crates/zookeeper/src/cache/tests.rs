//! Tests of the local file.

use super::*;
use crate::registry::Outages;
use crate::{Instance, ZooKeeperServers};

const CACHED: Cached = Cached {
    worker_id: 7,
    mark: Mark {
        until: Timestamp::from_millis(1_780_000_003_000),
        timestamp: Timestamp::from_millis(1_780_000_000_000),
    },
    holder: String::new(),
};

fn registry(name: &str, instance: &str) -> Registry {
    let servers = ZooKeeperServers::new("h").expect("servers");
    let instance = Instance::new(instance).expect("a name");
    let registry = Registry::new(servers, name, instance).expect("a name");
    Registry { outages: Outages::Unbounded, ..registry }
}

fn web(folder: &tempfile::TempDir) -> Result<CacheFile, Error> {
    CacheFile::lock(&folder.path().join("a/b/web_0.json"), &registry("orders", "web_0"))
}

#[test]
fn what_was_written_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = web(&folder).expect("locks");
    assert_eq!(file.read().expect("no file is fine"), None);
    for until in [CACHED.mark.until, Timestamp::default(), Timestamp::from_millis(-1)] {
        let mark = Mark { until, ..CACHED.mark };
        let cached = Cached { holder: "1f".into(), mark, ..CACHED };
        file.write(&cached).expect("writes");
        assert_eq!(file.read().expect("reads"), Some(cached));
    }
    file.remove().expect("removes");
    file.remove().expect("none is fine");
    assert_eq!(file.read().expect("gone"), None);
}

#[test]
fn every_flipped_bit_and_every_cut_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = web(&folder).expect("locks");
    file.write(&CACHED).expect("writes");
    let good = fs::read(&file.path).expect("reads");
    let mut wrong = vec![Vec::new(), b"{}".to_vec(), vec![b' '; 70_000]];
    // Without the final newline, the text is still whole.
    wrong.extend((1..good.len() - 1).map(|length| good[..length].to_vec()));
    for bit in 0..good.len() * 8 {
        let mut text = good.clone();
        text[bit / 8] ^= 1 << (bit % 8);
        wrong.push(text);
    }
    let mut same = 0;
    for text in wrong {
        fs::write(&file.path, &text).expect("writes");
        match file.read() {
            Err(error) => {
                assert!(
                    matches!(error.store(), Some(ZooKeeperError::CacheFile { .. })),
                    "{error:?}"
                );
                assert!(error.to_string().contains("remove it"), "{error}");
            }
            // A flipped bit can turn the final newline into a blank.
            Ok(read) => {
                assert_eq!(read, Some(CACHED), "{}", String::from_utf8_lossy(&text));
                same += 1;
            }
        }
    }
    assert!(same < 8, "{same}");
}

#[test]
fn the_file_of_another_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    web(&folder).and_then(|file| file.write(&CACHED)).expect("writes");
    let path = folder.path().join("a/b/web_0.json");
    for (name, instance) in [("orders", "web_1"), ("users", "web_0")] {
        let file = CacheFile::lock(&path, &registry(name, instance)).expect("locks");
        let error = file.read().expect_err("of another").to_string();
        assert!(error.contains("belongs to instance web_0 of orders"), "{error}");
    }
}

#[test]
fn a_file_of_another_version_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = web(&folder).expect("locks");
    file.write(&CACHED).expect("writes");
    let text = fs::read_to_string(&file.path).expect("reads");
    let other = text.replace("\"version\":1", "\"version\":2");
    assert_ne!(other, text);
    fs::write(&file.path, other).expect("writes");
    let error = file.read().expect_err("unknown").to_string();
    assert!(error.contains("has version 2, and this uidring uses version 1"), "{error}");
}

#[test]
fn a_file_has_one_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = web(&folder).expect("locks");
    let error = web(&folder).expect_err("it is locked");
    assert!(
        matches!(error.store(), Some(ZooKeeperError::InstanceInUse { instance, .. }) if instance == "web_0")
    );
    assert!(error.to_string().contains("web_0.json.lock"), "{error}");
    drop(first);
    web(&folder).expect("locks");
}

/// Links and other special files are neither followed nor waited for.
#[cfg(unix)]
#[test]
fn no_link_is_followed() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().expect("a folder");
    let file = web(&folder).expect("locks");
    let other = folder.path().join("other");
    fs::write(&other, "of another").expect("writes");
    symlink(&other, beside(&file.path, ".new")).expect("linked");
    file.write(&CACHED).expect("replaces the link");
    assert_eq!(file.read().expect("reads"), Some(CACHED));
    assert_eq!(fs::read(&other).expect("reads"), b"of another");

    let path = file.path.clone();
    fs::remove_file(&path).expect("removed");
    symlink(&other, &path).expect("linked");
    let error = uidring_testkit::chain(&file.read().expect_err("refused"));
    assert!(error.contains("symbolic link"), "{error}");
    drop(file);
    fs::remove_file(beside(&path, ".lock")).expect("removed");
    symlink(folder.path().join("nothing"), beside(&path, ".lock")).expect("linked");
    let error = uidring_testkit::chain(&web(&folder).expect_err("refused"));
    assert!(error.contains("symbolic link"), "{error}");
    assert!(!folder.path().join("nothing").exists());
}

/// Another process could hold the lock of the other name.
#[cfg(unix)]
#[test]
fn a_file_of_two_names_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = web(&folder).expect("locks");
    file.write(&CACHED).expect("writes");
    let other = file.path.with_extension("copy");
    fs::hard_link(&file.path, &other).expect("linked");
    let error = uidring_testkit::chain(&file.read().expect_err("refused"));
    assert!(error.contains("2 names"), "{error}");
    fs::remove_file(other).expect("removed");
    assert_eq!(file.read().expect("reads"), Some(CACHED));
}

/// Opening one would wait for a writer.
#[cfg(unix)]
#[test]
fn a_fifo_is_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = web(&folder).expect("locks").path.clone();
    let make = |path: &Path| {
        let made = std::process::Command::new("mkfifo").arg(path).status();
        assert!(made.is_ok_and(|status| status.success()));
    };
    make(&path);
    let error = web(&folder).expect("locks").read().expect_err("refused");
    assert!(uidring_testkit::chain(&error).contains("not a regular file"), "{error}");
    fs::remove_file(beside(&path, ".lock")).expect("removed");
    make(&beside(&path, ".lock"));
    let error = web(&folder).expect_err("refused");
    assert!(uidring_testkit::chain(&error).contains("not a regular file"), "{error}");
}

#[cfg(unix)]
#[test]
fn file_and_folder_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let file = web(&folder).expect("locks");
    file.write(&CACHED).expect("writes");
    let mode = |path: &Path| fs::metadata(path).expect("exists").permissions().mode() & 0o777;
    assert_eq!(mode(&file.path), 0o600);
    assert_eq!(mode(&beside(&file.path, ".lock")), 0o600);
    assert_eq!(mode(file.path.parent().expect("has one")), 0o700);
    assert!(!beside(&file.path, ".new").exists());
}
