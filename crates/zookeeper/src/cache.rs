//! The local file of an instance: its lock, who was the last holder here, and, for an instance that
//! risks repeats, what it starts from while ZooKeeper is away.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use uidring::{Error, StoreErrorKind};
use uidring_store::{check_path, create_folder};

use super::Registry;
use super::nodes::VERSION;
use crate::ZooKeeperError;

/// A longer file is not one of ours.
const MAX_LENGTH: u64 = 1 << 16;

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    pub worker_id: u64,
    pub ip: String,
    pub port: String,
    /// What the clock said when the file was written, or later.
    pub timestamp: i64,
    /// The last millisecond of which ids may have been issued.
    pub until: i64,
    /// The start that the registry last knew as the holder.
    pub holder: String,
    /// What the clock said at the last word from the registry, or earlier.
    pub word: i64,
}

/// What a keeper has of the file: the file itself, or one in memory where the protocol is modelled.
pub trait LocalFile: Send + 'static {
    /// What the file says; `None` if there is none.
    fn read(&self) -> Result<Option<Cached>, Error>;

    /// Replaces the file: when this returns, the new one is on the disk. If it fails, there is
    /// either the old file or none.
    fn write(&self, cached: &Cached) -> Result<(), Error>;

    /// Removes a file that could not be brought up to date: a start from it could repeat ids.
    fn remove(&self) -> Result<(), Error>;

    /// What errors call it.
    fn place(&self) -> String;
}

/// The file of one instance, which this process alone has.
#[derive(Debug)]
pub struct CacheFile {
    path: PathBuf,
    name: String,
    /// The instance, as its nodes name it.
    instance: String,
    /// Locked for as long as it is open, whatever ends the process.
    _lock: File,
}

impl CacheFile {
    /// Takes the file for this process; it need not be there yet.
    pub fn lock(path: &Path, registry: &Registry) -> Result<Self, Error> {
        check_path("the cache file", path)?;
        let failed = |what: &str, error: &dyn std::fmt::Display| -> Error {
            let problem = format!("could not be {what}: {error}");
            let kind = StoreErrorKind::Denied;
            ZooKeeperError::CacheFile { path: path.to_owned(), problem, kind }.into()
        };
        let path = std::path::absolute(path).map_err(|error| failed("found", &error))?;
        if let Some(folder) = path.parent() {
            create_folder(folder).map_err(|error| failed("made", &error))?;
        }
        let lock_path = with_ending(&path, "lock");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let lock = private(&mut options).open(&lock_path);
        let lock = lock.map_err(|error| failed("locked", &error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::from(ZooKeeperError::InstanceInUse {
                    instance: registry.instance.name().into(),
                    holder: format!("another process of this host has {}", lock_path.display()),
                }));
            }
            Err(TryLockError::Error(error)) => return Err(failed("locked", &error)),
        }
        let (name, instance) = (registry.name.clone(), registry.node_name());
        Ok(Self { path, name, instance, _lock: lock })
    }
}

impl LocalFile for CacheFile {
    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn read(&self) -> Result<Option<Cached>, Error> {
        let mut text = Vec::new();
        let read = File::open(&self.path)
            .and_then(|file| file.take(MAX_LENGTH + 1).read_to_end(&mut text));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(
                    self.error(StoreErrorKind::Denied, format!("could not be read: {error}"))
                );
            }
        }
        let corrupt = "is corrupt, so that it cannot be told which ids were issued; remove it while \
                       ZooKeeper can be reached, and it is made anew";
        let wrong = || self.error(StoreErrorKind::Corrupt, corrupt.into());
        if text.len() as u64 > MAX_LENGTH {
            return Err(wrong());
        }
        let fields: Value = serde_json::from_slice(&text).map_err(|_| wrong())?;
        let version = match fields.get("version") {
            // The first one did not say.
            None => 1,
            Some(version) => version.as_i64().ok_or_else(wrong)?,
        };
        if version > VERSION {
            return Err(self.error(StoreErrorKind::Corrupt, format!(
                "is of version {version}, and this program knows {VERSION}: start a newer one, or \
                 remove it while ZooKeeper can be reached"
            )));
        }
        let text = |name: &str| fields.get(name).and_then(Value::as_str).ok_or_else(wrong);
        let number = |name: &str| fields.get(name).and_then(Value::as_i64).ok_or_else(wrong);
        let cached = Cached {
            worker_id: number("worker_id")?.try_into().map_err(|_| wrong())?,
            ip: text("ip")?.into(),
            port: text("port")?.into(),
            timestamp: number("timestamp")?,
            until: number("until")?,
            holder: text("holder")?.into(),
            word: number("word")?,
        };
        let (name, instance) = (text("name")?, text("instance")?);
        if text("checksum")? != checksum(version, name, instance, &cached) {
            return Err(wrong());
        }
        if (name, instance) != (&*self.name, &*self.instance) {
            return Err(self.error(
                StoreErrorKind::Corrupt,
                format!(
                    "belongs to instance {instance} of {name}, not to {} of {}; name another file",
                    self.instance, self.name
                ),
            ));
        }
        Ok(Some(cached))
    }

    fn write(&self, cached: &Cached) -> Result<(), Error> {
        self.replace(cached).map_err(|error| {
            let problem = match error.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; free some space",
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                    "; file and folder must be writable for this user"
                }
                _ => "",
            };
            self.error(StoreErrorKind::Denied, format!("could not be written: {error}{problem}"))
        })
    }

    fn remove(&self) -> Result<(), Error> {
        match fs::remove_file(&self.path).and_then(|()| self.sync_folder()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(self.error(StoreErrorKind::Denied, format!("could not be removed: {error}")))
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
            "timestamp": cached.timestamp,
            "until": cached.until,
            "holder": cached.holder,
            "word": cached.word,
            "checksum": checksum(VERSION, &self.name, &self.instance, cached),
        });
        let fresh = with_ending(&self.path, "new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
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

    fn error(&self, kind: StoreErrorKind, problem: String) -> Error {
        Error::from(ZooKeeperError::CacheFile { path: self.path.clone(), problem, kind })
    }
}

/// The path of a sibling.
fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(ending);
    path.with_file_name(name)
}

fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// FNV-1a over all that the file says: it finds slips of editors and of disks, not forgers. Programs
/// of the first version, which leave the version out, find another one, and refuse the file.
fn checksum(version: i64, name: &str, instance: &str, cached: &Cached) -> String {
    let Cached { worker_id, ip, port, timestamp, until, holder, word } = cached;
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
    use crate::nodes::Paths;
    use crate::{Instance, Outages, ZooKeeperServers};

    const CACHED: Cached = Cached {
        worker_id: 7,
        ip: String::new(),
        port: String::new(),
        timestamp: 1_780_000_000_000,
        until: 1_780_000_003_000,
        holder: String::new(),
        word: 1_780_000_000_000,
    };

    fn registry(name: &str, instance: &str) -> Registry {
        let servers = ZooKeeperServers::new("h").expect("servers");
        Registry {
            servers,
            name: name.into(),
            paths: Paths::new(name),
            instance: Instance::new(instance).expect("a name"),
            outages: Outages::Unbounded,
        }
    }

    fn web(folder: &tempfile::TempDir) -> Result<CacheFile, Error> {
        CacheFile::lock(&folder.path().join("a/b/web_0.json"), &registry("orders", "web_0"))
    }

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = web(&folder).expect("locks");
        assert_eq!(file.read().expect("no file is fine"), None);
        for until in [CACHED.until, 0, -1] {
            let cached = Cached { ip: "10.0.0.7".into(), until, ..CACHED };
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

    #[cfg(unix)]
    #[test]
    fn file_and_folder_are_for_their_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let file = web(&folder).expect("locks");
        file.write(&CACHED).expect("writes");
        let mode = |path: &Path| fs::metadata(path).expect("exists").permissions().mode() & 0o777;
        assert_eq!(mode(&file.path), 0o600);
        assert_eq!(mode(&with_ending(&file.path, "lock")), 0o600);
        assert_eq!(mode(file.path.parent().expect("has one")), 0o700);
        assert!(!with_ending(&file.path, "new").exists());
    }
}
