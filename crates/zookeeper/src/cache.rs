//! The local file of an instance: its lock, the last holder here, and, for an instance that risks
//! repeats, what it starts from while ZooKeeper is away.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use uidring::{Error, StoreErrorKind, Timestamp};
use uidring_store::check_path;
use uidring_store::files::{create_folder, open_or_create, open_regular};

use super::entry::Mark;
use super::error::ZooKeeperError;
use super::nodes::VERSION;
use super::registry::Registry;

/// A longer file is not one of ours.
const MAX_LENGTH: u64 = 1 << 16;

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    pub worker_id: u64,
    pub ip: String,
    pub port: String,
    /// How far ids may have been issued, and the time when the file was written, or later.
    pub mark: Mark,
    /// The start that the registry last knew as the holder.
    pub holder: String,
    /// When the registry last answered, or earlier.
    pub last_answer: Timestamp,
}

/// The file of a lease: a real one, or one in memory where the protocol is modelled.
pub trait LocalFile: Send + 'static {
    /// Returns what the file says; `None` if there is none.
    fn read(&self) -> Result<Option<Cached>, Error>;

    /// Replaces the file: when this returns, the new one is on the disk. If it fails, the old file is
    /// there, or none.
    fn write(&self, cached: &Cached) -> Result<(), Error>;

    /// Removes a file that could not be brought up to date: a start from it could repeat ids.
    fn remove(&self) -> Result<(), Error>;

    /// Returns its name in errors.
    fn name(&self) -> String;
}

/// The file of one instance, which no other process may use.
#[derive(Debug)]
pub struct CacheFile {
    path: PathBuf,
    /// The registry's name.
    name: String,
    /// The instance, as its nodes name it.
    instance: String,
    /// Locked for as long as it is open, whatever ends the process.
    _lock: File,
}

/// A program that this process has just forked has its open files until it begins, and so a lock that was given
/// up meanwhile.
const LOCK_TRIES: usize = 25;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

impl CacheFile {
    /// Locks the file for this process; it need not exist yet.
    pub fn lock(path: &Path, registry: &Registry) -> Result<Self, Error> {
        check_path("the cache file", path)?;
        let path = std::path::absolute(path).map_err(|error| failed(path, "found", error))?;
        if let Some(folder) = path.parent() {
            create_folder(folder).map_err(|error| failed(&path, "made", error))?;
        }
        let lock_path = beside(&path, ".lock");
        let lock = open_or_create(&lock_path, 0o600);
        let (lock, _) = lock.map_err(|error| failed(&path, "locked", error))?;
        let mut locked = lock.try_lock();
        for _ in 0..LOCK_TRIES {
            if !matches!(locked, Err(TryLockError::WouldBlock)) {
                break;
            }
            thread::sleep(LOCK_PAUSE);
            locked = lock.try_lock();
        }
        locked.map_err(|error| match error {
            TryLockError::WouldBlock => {
                let holder = format!("another process on this host has {}", lock_path.display());
                registry.in_use(holder).into()
            }
            TryLockError::Error(error) => failed(&path, "locked", error),
        })?;
        let (name, instance) = (registry.name.clone(), registry.node_name());
        Ok(Self { path, name, instance, _lock: lock })
    }
}

impl LocalFile for CacheFile {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn read(&self) -> Result<Option<Cached>, Error> {
        let mut text = Vec::new();
        let read = open_regular(&self.path, OpenOptions::new().read(true))
            .and_then(|file| file.take(MAX_LENGTH + 1).read_to_end(&mut text));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(&self.path, "read", error)),
        }
        let wrong = || {
            self.corrupt(
                "is corrupt, so that nobody knows which ids were issued; remove it while ZooKeeper \
                 can be reached, and the next start writes a new one"
                    .into(),
            )
        };
        if text.len() as u64 > MAX_LENGTH {
            return Err(wrong());
        }
        let fields: Value = serde_json::from_slice(&text).map_err(|_| wrong())?;
        let version = match fields.get("version") {
            // Version 1 did not say.
            None => 1,
            Some(version) => version.as_i64().ok_or_else(wrong)?,
        };
        if version > VERSION {
            return Err(self.corrupt(format!(
                "is of version {version}, and this program knows {VERSION}: use a newer program, or \
                 remove it while ZooKeeper can be reached"
            )));
        }
        let text = |name: &str| fields.get(name).and_then(Value::as_str).ok_or_else(wrong);
        let number = |name: &str| fields.get(name).and_then(Value::as_i64).ok_or_else(wrong);
        let time = |name: &str| number(name).map(Timestamp::from_millis);
        let cached = Cached {
            worker_id: number("worker_id")?.try_into().map_err(|_| wrong())?,
            ip: text("ip")?.into(),
            port: text("port")?.into(),
            mark: Mark { until: time("until")?, timestamp: time("timestamp")? },
            holder: text("holder")?.into(),
            last_answer: time("word")?,
        };
        let (name, instance) = (text("name")?, text("instance")?);
        if text("checksum")? != checksum(version, name, instance, &cached) {
            return Err(wrong());
        }
        if (name, instance) != (&*self.name, &*self.instance) {
            return Err(self.corrupt(format!(
                "belongs to instance {instance} of {name}, not to {} of {}; name another file",
                self.instance, self.name
            )));
        }
        Ok(Some(cached))
    }

    fn write(&self, cached: &Cached) -> Result<(), Error> {
        self.replace(cached).map_err(|error| {
            let what = match error.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "written; free some space",
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                    "written; file and folder must be writable for this user"
                }
                _ => "written",
            };
            failed(&self.path, what, error)
        })
    }

    fn remove(&self) -> Result<(), Error> {
        match fs::remove_file(&self.path).and_then(|()| self.sync_folder()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(failed(&self.path, "removed", error))
            }
            _ => Ok(()),
        }
    }
}

impl CacheFile {
    fn replace(&self, cached: &Cached) -> io::Result<()> {
        let fields = json!({
            "version": VERSION,
            "name": self.name,
            "instance": self.instance,
            "worker_id": cached.worker_id,
            "ip": cached.ip,
            "port": cached.port,
            "timestamp": cached.mark.timestamp.as_millis(),
            "until": cached.mark.until.as_millis(),
            "holder": cached.holder,
            "word": cached.last_answer.as_millis(),
            "checksum": checksum(VERSION, &self.name, &self.instance, cached),
        });
        let fresh = beside(&self.path, ".new");
        // Left by a process that was killed here. Never opened: it may be a link by now.
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        let mut file = private(&mut options).open(&fresh)?;
        file.write_all(format!("{fields}\n").as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, &self.path)?;
        self.sync_folder()
    }

    /// Until then the file's name may still lead to the old one after a power failure.
    fn sync_folder(&self) -> io::Result<()> {
        #[cfg(unix)]
        if let Some(folder) = self.path.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }

    fn corrupt(&self, problem: String) -> Error {
        let (path, kind) = (self.path.clone(), StoreErrorKind::Corrupt);
        ZooKeeperError::CacheFile { path, problem, kind, source: None }.into()
    }
}

/// Returns the path of a file beside this one.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Returns the error for something that the system refuses.
fn failed(path: &Path, what: &str, source: io::Error) -> Error {
    let (path, problem) = (path.to_owned(), format!("could not be {what}"));
    let (kind, source) = (StoreErrorKind::Denied, Some(source.into()));
    ZooKeeperError::CacheFile { path, problem, kind, source }.into()
}

fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Returns FNV-1a over all that the file says: it finds slips of editors and of disks, not forgeries.
/// Programs of version 1, which leave the version out, find another checksum, and refuse the file.
fn checksum(version: i64, name: &str, instance: &str, cached: &Cached) -> String {
    let Cached { worker_id, ip, port, mark, holder, last_answer } = cached;
    let [timestamp, until, word] =
        [mark.timestamp, mark.until, *last_answer].map(Timestamp::as_millis);
    let numbers = format!("{worker_id}\n{timestamp}\n{until}\n{word}");
    let text = [name, instance, ip, port, holder, &numbers].join("\n");
    let text = if version == 1 { text } else { format!("{version}\n{text}") };
    let sum = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{sum:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Outages;
    use crate::{Instance, ZooKeeperServers};

    const CACHED: Cached = Cached {
        worker_id: 7,
        ip: String::new(),
        port: String::new(),
        mark: Mark {
            until: Timestamp::from_millis(1_780_000_003_000),
            timestamp: Timestamp::from_millis(1_780_000_000_000),
        },
        holder: String::new(),
        last_answer: Timestamp::from_millis(1_780_000_000_000),
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
            let cached = Cached { ip: "10.0.0.7".into(), mark, ..CACHED };
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
        // Without the line's end the text is still whole.
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
                // Blanks between the parts, which a flipped bit makes of the line's end.
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

    /// What the previous program wrote, and what it makes of what this one writes.
    #[test]
    fn the_first_version_is_read_and_refuses_the_second() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = web(&folder).expect("locks");
        let first = r#"{"name":"orders","instance":"web_0","worker_id":7,"ip":"10.0.0.7","port":"80","timestamp":1780000000000,"until":1780000003000,"holder":"1f","word":1780000000000,"checksum":"CHECKSUM"}"#;
        let sum = |text: &str| {
            let sum = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
                (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
            format!("{sum:016x}")
        };
        let text =
            "orders\nweb_0\n10.0.0.7\n80\n1f\n7\n1780000000000\n1780000003000\n1780000000000";
        fs::write(&file.path, first.replace("CHECKSUM", &sum(text))).expect("writes");
        let read = file.read().expect("reads").expect("a file");
        let (ip, port, holder) = ("10.0.0.7".into(), "80".into(), "1f".into());
        assert_eq!(read, Cached { ip, port, holder, ..CACHED });

        file.write(&read).expect("writes");
        let fields: Value = serde_json::from_slice(&fs::read(&file.path).expect("reads"))
            .expect("JSON, which the first version reads too");
        assert_eq!(fields["version"], VERSION);
        assert_ne!(fields["checksum"], sum(text), "what the first version expects");
        assert_eq!(fields["checksum"], sum(&format!("2\n{text}")));

        let newer = fields.to_string().replace("\"version\":2", "\"version\":3");
        fs::write(&file.path, newer).expect("writes");
        let error = file.read().expect_err("unknown").to_string();
        assert!(error.contains("is of version 3, and this program knows 2"), "{error}");
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

    /// A link, or anything else that is no file, is neither followed nor waited for.
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

        fs::remove_file(&path).expect("removed");
        fs::remove_file(beside(&path, ".lock")).expect("removed");
        let fifo = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(fifo.is_ok_and(|status| status.success()));
        let error = web(&folder).expect("locks").read().expect_err("refused");
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
}
