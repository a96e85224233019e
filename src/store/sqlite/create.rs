//! How a file comes into being: as a whole, and without a descriptor of it ever being closed by
//! anybody but SQLite.
//!
//! SQLite guards a file with POSIX locks (`fcntl`). They belong to the process, and *any* `close` of
//! *any* descriptor of the file drops all of them, also those of connections of other threads, which
//! do not notice. Another process then takes itself for the only one that has the file open, and deletes
//! the write-ahead log in which the first one goes on committing: what it commits is gone, and its
//! numbers come again. So nothing here, or in the rest of the crate, opens the file: it is looked at by
//! its path alone (`stat`), and a new one is made under a name that nobody else knows, by SQLite
//! too, and linked to its own when it is complete.
//!
//! A link, not a rename: it fails where another process was faster, whose file may be in use.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process;

use crate::store::create_folder;

/// What is at a path.
pub enum Found {
    Nothing,
    /// A file of no length. Those that are made here never are.
    Empty,
    Something,
}

pub fn look(path: &Path) -> Found {
    match fs::metadata(path) {
        Ok(found) if found.is_file() && found.len() == 0 => Found::Empty,
        Ok(_) => Found::Something,
        // What else may be wrong with it, SQLite says.
        Err(error) if error.kind() != ErrorKind::NotFound => Found::Something,
        // A symbolic link to nothing is in the way of a link.
        Err(_) if fs::symlink_metadata(path).is_ok() => Found::Something,
        Err(_) => Found::Nothing,
    }
}

/// The file in which SQLite keeps what is not in the database file yet.
pub fn log_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// A file that is being made, under a name of its own, which goes whatever happens.
pub struct NewFile(PathBuf);

impl NewFile {
    /// An empty file for its owner only, beside the path that it is for; with the folder.
    pub fn for_path(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            create_folder(folder)?;
        }
        let new = Self(temporary_name(path));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&new.0)?;
        Ok(new)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Puts it in its place, unless there is a file by then. SQLite makes the name last: it syncs the
    /// folder with the first commit, for the sake of its log.
    pub fn link(self, path: &Path) -> io::Result<()> {
        match fs::hard_link(&self.0, path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // A name that is left over is in nobody's way, and has the database's in it.
        let _ = fs::remove_file(&self.0);
    }
}

/// In the same folder, which is where a link is possible.
fn temporary_name(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}-{:08x}.new", process::id(), fastrand::u32(..)));
    path.with_file_name(name)
}
