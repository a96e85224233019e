//! Creates a file without ever closing a descriptor of a database that may be in use.
//!
//! SQLite guards a file with POSIX locks (`fcntl`). These belong to the process: when it closes *any*
//! descriptor of the file, it loses *all* its locks on the file, including those of connections in other
//! threads, which do not notice. Another process then believes that nobody else has the file open and
//! deletes the write-ahead log. The first process continues to commit to the deleted log: its commits are
//! lost, and the numbers in them are handed out again.
//!
//! So nothing in this crate opens the file except SQLite. Paths are looked at with `stat` alone. A new
//! file gets a temporary name that no other process knows, SQLite fills it there, and it is linked to
//! its own name when it is complete. A link, not a rename: it fails if another process was faster, whose
//! file may already be in use.

use std::ffi::OsString;
use std::fs::{self, FileType, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process;

use uidring::adapter::log;

/// What a path leads to.
pub enum Found {
    Nothing,
    /// A file of length 0, which is never one that was created here.
    Empty,
    File,
    /// Something else, which is named.
    Other(&'static str),
}

/// Looks where a path leads. SQLite is not asked to open what is no file: it would write to a device, and wait
/// for a FIFO.
pub fn look(path: &Path) -> io::Result<Found> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() && found.len() == 0 => Ok(Found::Empty),
        Ok(found) if found.is_file() => Ok(Found::File),
        Ok(found) => Ok(Found::Other(kind(found.file_type()))),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Err(_) => match fs::symlink_metadata(path) {
            // No link can replace it.
            Ok(found) if found.is_symlink() => Ok(Found::Other("a symbolic link to nothing")),
            // Another start has made it meanwhile.
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

/// Returns the path of a file that belongs to the database at `path`, by the end of its name.
pub fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Tells a file from others, without opening it.
#[cfg(unix)]
pub fn identity(metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

/// An open file keeps its name here.
#[cfg(not(unix))]
pub fn identity(_: &Metadata) {}

/// A new file under a temporary name, which is removed on drop.
pub struct NewFile(PathBuf);

impl NewFile {
    /// Creates an empty file for its owner only, in the folder of `path`.
    pub fn for_path(path: &Path) -> io::Result<Self> {
        let new = Self(temporary_name(path));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&new.0)?;
        Ok(new)
    }

    /// Makes and removes a file in the folder of `path`, or in the first one above that exists.
    pub fn try_beside(path: &Path) -> io::Result<()> {
        let name = path.file_name().unwrap_or_default();
        match path.ancestors().skip(1).find(|folder| folder.exists()) {
            Some(folder) => Self::for_path(&folder.join(name)).map(drop),
            // The root of the file system exists.
            None => Ok(()),
        }
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Links the file to `path`, unless another file is there by now. SQLite makes the name durable:
    /// with the first commit to a new log it syncs the folder.
    pub fn link(self, path: &Path) -> io::Result<()> {
        match fs::hard_link(&self.0, path) {
            Ok(()) => {
                // Who meant another file should know before ids of this one are used.
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
        // If that fails, or the process is killed before, the next to open the file removes the name. Where the
        // disk is full, SQLite leaves the rest.
        for end in ["", "-wal", "-shm", "-journal"] {
            let _ = fs::remove_file(beside(&self.0, end));
        }
    }
}

/// How temporary names end.
const TEMPORARY: &str = ".new";

/// How the temporary names of a file begin.
fn temporary_start(path: &Path) -> OsString {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".");
    name
}

/// Returns a name in the same folder, so that a link is possible.
fn temporary_name(path: &Path) -> PathBuf {
    let mut name = temporary_start(path);
    name.push(format!("{}-{:08x}{TEMPORARY}", process::id(), fastrand::u32(..)));
    path.with_file_name(name)
}

/// Removes the names under which this file was created.
pub fn remove_temporary_names(path: &Path) {
    let Ok(path) = fs::canonicalize(path) else { return };
    let start = temporary_start(&path);
    let file = fs::metadata(&path).ok().as_ref().map(identity);
    let entries = path.parent().and_then(|folder| fs::read_dir(folder).ok());
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        let is_temporary =
            name.starts_with(start.as_encoded_bytes()) && name.ends_with(TEMPORARY.as_bytes());
        // Not through links.
        if is_temporary && entry.metadata().ok().as_ref().map(identity) == file {
            let _ = fs::remove_file(entry.path());
        }
    }
}
