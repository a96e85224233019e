//! Creates a file without closing a descriptor of a database that may be in use.
//!
//! SQLite guards a file with POSIX locks (`fcntl`), which belong to the process. A process that closes *any* descriptor
//! of the file loses *all* its locks on it, including those of connections in other threads, which do not notice.
//! Another process then believes that it alone has the file open, and deletes the write-ahead log. The first process
//! continues to commit to the deleted log: its commits are lost, and their numbers are handed out again.
//!
//! So only SQLite opens the file. Paths are examined with `stat` alone. SQLite fills a new file under a temporary name
//! that no other process knows, and the complete file is linked to its own name. A rename could replace a file that
//! another process has just created and uses. A link fails instead.

use std::ffi::OsString;
use std::fs::{self, FileType, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process;

use uidring::adapter::log;

/// What a path leads to.
pub enum Found {
    Nothing,
    /// A file of length 0. This module never creates one.
    Empty,
    File,
    /// Something else, by its kind.
    Other(&'static str),
}

/// Finds out what a path leads to. SQLite must only open files: it would write to a device, and block on a FIFO.
pub fn look(path: &Path) -> io::Result<Found> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() && found.len() == 0 => Ok(Found::Empty),
        Ok(found) if found.is_file() => Ok(Found::File),
        Ok(found) => Ok(Found::Other(kind(found.file_type()))),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Err(_) => match fs::symlink_metadata(path) {
            // A hard link cannot replace it.
            Ok(found) if found.is_symlink() => Ok(Found::Other("a symbolic link to nothing")),
            // Another process has just created it.
            Ok(_) => look(path),
            Err(_) => Ok(Found::Nothing),
        },
    }
}

fn kind(kind: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return "a named pipe (FIFO)";
        }
        if kind.is_socket() {
            return "a socket";
        }
    }
    if kind.is_dir() { "a folder" } else { "a device" }
}

/// Returns the path of the file beside the database at `path` whose name has this suffix.
pub fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Identifies a file, if there is one, without opening it.
#[cfg(unix)]
pub fn identity(found: io::Result<Metadata>) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    found.ok().map(|found| (found.dev(), found.ino()))
}

/// Nothing to compare: an open file keeps its name on this system.
#[cfg(not(unix))]
pub fn identity(found: io::Result<Metadata>) -> Option<()> {
    found.ok().map(drop)
}

/// A new file under a temporary name, removed on drop.
pub struct NewFile(pub PathBuf);

impl NewFile {
    /// Creates an empty file in the folder of `path`, for its owner only.
    pub fn for_path(path: &Path) -> io::Result<Self> {
        let new = Self(temporary_name(path));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&new.0)?;
        Ok(new)
    }

    /// Creates and removes a file in the folder of `path`, or in its first existing parent.
    pub fn try_beside(path: &Path) -> io::Result<()> {
        let name = path.file_name().unwrap_or_default();
        let folder = path.ancestors().skip(1).find(|folder| folder.exists());
        folder.map_or(Ok(()), |folder| Self::for_path(&folder.join(name)).map(drop))
    }

    /// Links the file to `path`, unless a file exists there. SQLite makes the name durable: it syncs the folder with
    /// the first commit to a new log.
    pub fn link(self, path: &Path) -> io::Result<()> {
        match fs::hard_link(&self.0, path) {
            Ok(()) => {
                // Users who meant another file should learn it before they use ids of this one.
                log!(info, "created {}: it begins with nothing handed out", path.display());
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // If this fails after the link, the next process to open the file removes the name. SQLite removes its own
        // files, except on a full disk.
        for end in ["", "-wal", "-shm", "-journal"] {
            let _ = fs::remove_file(beside(&self.0, end));
        }
    }
}

const TEMPORARY: &str = ".new";

fn temporary_start(path: &Path) -> OsString {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".");
    name
}

/// Returns a name in the same folder, because a link cannot cross file systems.
fn temporary_name(path: &Path) -> PathBuf {
    let mut name = temporary_start(path);
    name.push(format!("{}-{:08x}{TEMPORARY}", process::id(), fastrand::u32(..)));
    path.with_file_name(name)
}

/// Removes leftover temporary names of this file.
pub fn remove_temporary_names(path: &Path) {
    let Ok(path) = fs::canonicalize(path) else { return };
    let start = temporary_start(&path);
    let file = identity(fs::metadata(&path));
    let entries = path.parent().and_then(|folder| fs::read_dir(folder).ok());
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        let is_temporary =
            name.starts_with(start.as_encoded_bytes()) && name.ends_with(TEMPORARY.as_bytes());
        // `entry.metadata` does not follow links.
        if is_temporary && identity(entry.metadata()) == file {
            let _ = fs::remove_file(entry.path());
        }
    }
}
