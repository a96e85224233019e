//! The local file that an instance starts from while ZooKeeper is away.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Instance;
use crate::error::Error;
use crate::store::{check_path, create_folder};

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

/// The file of one instance, which this process alone has.
#[derive(Debug)]
pub struct CacheFile {
    path: PathBuf,
    name: String,
    instance: String,
    /// Locked for as long as it is open, whatever ends the process.
    _lock: File,
}

impl CacheFile {
    /// Takes the file for this process; it need not be there yet.
    pub fn lock(path: &Path, name: &str, instance: &Instance) -> Result<Self, Error> {
        check_path("the cache file", path)?;
        let failed = |what: &str, error: &dyn std::fmt::Display| Error::CacheFile {
            path: path.to_owned(),
            problem: format!("could not be {what}: {error}"),
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
                return Err(Error::InstanceInUse {
                    instance: instance.name().into(),
                    holder: format!("another process of this host has {}", lock_path.display()),
                });
            }
            Err(TryLockError::Error(error)) => return Err(failed("locked", &error)),
        }
        Ok(Self { path, name: name.into(), instance: instance.name().into(), _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the file says; `None` if there is none.
    pub fn read(&self) -> Result<Option<Cached>, Error> {
        let mut text = Vec::new();
        let read = File::open(&self.path)
            .and_then(|file| file.take(MAX_LENGTH + 1).read_to_end(&mut text));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.error(format!("could not be read: {error}"))),
        }
        let corrupt = "is corrupt, so that it cannot be told which ids were issued; remove it while \
                       ZooKeeper can be reached, and it is made anew";
        let wrong = || self.error(corrupt.into());
        if text.len() as u64 > MAX_LENGTH {
            return Err(wrong());
        }
        let fields: Value = serde_json::from_slice(&text).map_err(|_| wrong())?;
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
        if text("checksum")? != checksum(name, instance, &cached) {
            return Err(wrong());
        }
        if (name, instance) != (&*self.name, &*self.instance) {
            return Err(self.error(format!(
                "belongs to instance {instance} of {name}, not to {} of {}; name another file",
                self.instance, self.name
            )));
        }
        Ok(Some(cached))
    }

    /// Replaces the file: when this returns, the new one is on the disk. If it fails, there is
    /// either the old file or none.
    pub fn write(&self, cached: &Cached) -> Result<(), Error> {
        self.replace(cached).map_err(|error| {
            let problem = match error.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; free some space",
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                    "; file and folder must be writable for this user"
                }
                _ => "",
            };
            self.error(format!("could not be written: {error}{problem}"))
        })
    }

    /// Removes a file that could not be brought up to date: a start from it could repeat ids.
    pub fn remove(&self) -> Result<(), Error> {
        match fs::remove_file(&self.path).and_then(|()| self.sync_folder()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(self.error(format!("could not be removed: {error}")))
            }
            _ => Ok(()),
        }
    }

    fn replace(&self, cached: &Cached) -> io::Result<()> {
        let fields = json!({
            "name": self.name,
            "instance": self.instance,
            "worker_id": cached.worker_id,
            "ip": cached.ip,
            "port": cached.port,
            "timestamp": cached.timestamp,
            "until": cached.until,
            "holder": cached.holder,
            "word": cached.word,
            "checksum": checksum(&self.name, &self.instance, cached),
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

    fn error(&self, problem: String) -> Error {
        Error::CacheFile { path: self.path.clone(), problem }
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

/// FNV-1a over all that the file says: it finds slips of editors and of disks, not forgers.
fn checksum(name: &str, instance: &str, cached: &Cached) -> String {
    let Cached { worker_id, ip, port, timestamp, until, holder, word } = cached;
    let numbers = format!("{worker_id}\n{timestamp}\n{until}\n{word}");
    let text = [name, instance, ip, port, holder, &numbers].join("\n");
    let sum = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{sum:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHED: Cached = Cached {
        worker_id: 7,
        ip: String::new(),
        port: String::new(),
        timestamp: 1_780_000_000_000,
        until: 1_780_000_003_000,
        holder: String::new(),
        word: 1_780_000_000_000,
    };

    fn web(folder: &tempfile::TempDir) -> Result<CacheFile, Error> {
        let instance = Instance::new("web_0").expect("a name");
        CacheFile::lock(&folder.path().join("a/b/web_0.json"), "orders", &instance)
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
        let good = fs::read(file.path()).expect("reads");
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
            fs::write(file.path(), &text).expect("writes");
            match file.read() {
                Err(error) => {
                    assert!(matches!(error, Error::CacheFile { .. }), "{error:?}");
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
            let instance = Instance::new(instance).expect("a name");
            let file = CacheFile::lock(&path, name, &instance).expect("locks");
            let error = file.read().expect_err("of another").to_string();
            assert!(error.contains("belongs to instance web_0 of orders"), "{error}");
        }
    }

    #[test]
    fn a_file_has_one_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = web(&folder).expect("locks");
        let error = web(&folder).expect_err("it is locked");
        assert!(matches!(&error, Error::InstanceInUse { instance, .. } if instance == "web_0"));
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
        assert_eq!(mode(file.path()), 0o600);
        assert_eq!(mode(&with_ending(file.path(), "lock")), 0o600);
        assert_eq!(mode(file.path().parent().expect("has one")), 0o700);
        assert!(!with_ending(file.path(), "new").exists());
    }
}
