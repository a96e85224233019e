//! The local file of an instance. It holds the host's lock and the last holder here. An instance that risks repeats can
//! start from it while ZooKeeper is away.

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

/// Longer files are not ours.
const MAX_LENGTH: u64 = 1 << 16;

/// The contents of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    pub worker_id: u64,
    /// How far ids may have been issued. Its time is that of the write, or later.
    pub mark: Mark,
    /// The holder that the registry last knew.
    pub holder: String,
}

/// The file of a lease. Models of the protocol keep it in memory.
pub trait LocalFile: Send + 'static {
    /// Returns the contents; `None` if there is no file.
    fn read(&self) -> Result<Option<Cached>, Error>;

    /// Replaces the file. On return, the new one is on disk. On failure, the old file is left, or none.
    fn write(&self, cached: &Cached) -> Result<(), Error>;

    /// Removes an outdated file, from which a start could repeat ids.
    fn remove(&self) -> Result<(), Error>;

    /// Returns the file's name for errors.
    fn name(&self) -> String;
}

/// The file of one instance, locked against other processes.
#[derive(Debug)]
pub struct CacheFile {
    path: PathBuf,
    /// The registry's name.
    name: String,
    /// The instance, as its nodes name it.
    instance: String,
    /// Locked while open, so the lock ends with the process.
    _lock: File,
}

/// A program just forked from this process shares its open files until exec, and with them a lock already given up.
const LOCK_TRIES: usize = 25;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

impl CacheFile {
    /// Locks the file for this process. It need not exist yet.
    pub fn lock(path: &Path, registry: &Registry) -> Result<Self, Error> {
        check_path("the cache file", path)?;
        let path = std::path::absolute(path).map_err(|error| failed(path, "found", error))?;
        if let Some(folder) = path.parent() {
            create_folder(folder).map_err(|error| failed(&path, "made", error))?;
        }
        let lock_path = beside(&path, ".lock");
        let lock = open_or_create(&lock_path, 0o600);
        let (lock, _) = lock.map_err(|error| failed(&path, "locked", error))?;
        let mut again = 0..LOCK_TRIES;
        let locked = loop {
            match lock.try_lock() {
                Err(TryLockError::WouldBlock) if again.next().is_some() => {
                    thread::sleep(LOCK_PAUSE)
                }
                locked => break locked,
            }
        };
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
        let read = open_regular(&self.path, OpenOptions::new().read(true)).and_then(|file| {
            check_names(&file)?;
            file.take(MAX_LENGTH + 1).read_to_end(&mut text)
        });
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(&self.path, "read", error)),
        }
        let wrong = || {
            self.corrupt(
                "is corrupt, so that nobody knows which ids were issued; remove it while ZooKeeper \
                 can be reached, and the next start writes a new one",
            )
        };
        if text.len() as u64 > MAX_LENGTH {
            return Err(wrong());
        }
        let mut fields: Value = serde_json::from_slice(&text).map_err(|_| wrong())?;
        let sum = fields.as_object_mut().and_then(|fields| fields.remove("checksum"));
        let text = |name: &str| fields.get(name).and_then(Value::as_str).ok_or_else(wrong);
        let number = |name: &str| fields.get(name).and_then(Value::as_i64).ok_or_else(wrong);
        let version = number("version")?;
        if version != VERSION {
            return Err(self.corrupt(format!(
                "has version {version}, and this uidring uses version {VERSION}: use the uidring that wrote \
                 it, or remove it while ZooKeeper can be reached"
            )));
        }
        if sum != Some(checksum(&fields)) {
            return Err(wrong());
        }
        let time = |name: &str| number(name).map(Timestamp::from_millis);
        let cached = Cached {
            worker_id: number("worker_id")?.try_into().map_err(|_| wrong())?,
            mark: Mark { until: time("until")?, timestamp: time("timestamp")? },
            holder: text("holder")?.into(),
        };
        let (name, instance) = (text("name")?, text("instance")?);
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
        let mut fields = json!({
            "version": VERSION,
            "name": self.name,
            "instance": self.instance,
            "worker_id": cached.worker_id,
            "timestamp": cached.mark.timestamp.as_millis(),
            "until": cached.mark.until.as_millis(),
            "holder": cached.holder,
        });
        fields["checksum"] = checksum(&fields);
        let fresh = beside(&self.path, ".new");
        // Left by a process killed while writing. Never reused: another user may have replaced it.
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let (mut file, is_new) = open_or_create(&fresh, 0o600)?;
        if !is_new {
            return Err(ErrorKind::AlreadyExists.into());
        }
        file.write_all(format!("{fields}\n").as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, &self.path)?;
        self.sync_folder()
    }

    /// Before this, a power failure may bring the old file back.
    fn sync_folder(&self) -> io::Result<()> {
        #[cfg(unix)]
        if let Some(folder) = self.path.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }

    fn corrupt(&self, problem: impl Into<String>) -> Error {
        let (path, problem) = (self.path.clone(), problem.into());
        let kind = StoreErrorKind::Corrupt;
        ZooKeeperError::CacheFile { path, problem, kind, source: None }.into()
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Refuses a file with several names, because each would have its own lock.
fn check_names(file: &File) -> io::Result<()> {
    #[cfg(unix)]
    {
        let links = std::os::unix::fs::MetadataExt::nlink(&file.metadata()?);
        if links > 1 {
            let text = format!(
                "it has {links} names (hard links), by each of which a process could start as this instance; \
                 remove the others"
            );
            return Err(io::Error::new(ErrorKind::PermissionDenied, text));
        }
    }
    let _ = file;
    Ok(())
}

fn failed(path: &Path, what: &str, source: io::Error) -> Error {
    let (path, problem) = (path.to_owned(), format!("could not be {what}"));
    let (kind, source) = (StoreErrorKind::Denied, Some(source.into()));
    ZooKeeperError::CacheFile { path, problem, kind, source }.into()
}

/// Returns an FNV-1a hash of the other fields. It detects accidental changes, not forgeries.
fn checksum(fields: &Value) -> Value {
    let sum = fields.to_string().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{sum:016x}").into()
}

#[cfg(test)]
mod tests;
